"""Longer texts that contain an answer or a topic: paragraphs with questions, and letters with a subject line."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ptmbench.tasks.microworld import world as facts
from ptmbench.tasks.microworld.documents import Teller
from ptmbench.tasks.microworld.grammar import english, phrase, text
from ptmbench.tasks.microworld.judgements import Judged
from ptmbench.tasks.microworld.meaning import Phrase, Sentence
from ptmbench.tasks.microworld.world import Person


class Question(NamedTuple):
    about: str
    """The name of the person or place that the question is about."""
    text: str
    answer: str
    start: int
    """The index of the answer's first character in the paragraph."""
    sentence: int
    """The index of the sentence that holds the answer."""


class Paragraph(NamedTuple):
    title: str
    sentences: tuple[str, ...]
    questions: tuple[Question, ...]

    @property
    def text(self) -> str:
        return " ".join(self.sentences)


def paragraph(teller: Teller) -> Paragraph:
    """Facts about two people in random order, and questions whose answers are names or nouns in the paragraph.

    Every question about a person has a distractor: the same fact about the other person is also in the paragraph. A
    question about a place has none.
    """
    rng, world = teller.rng, teller.world
    a, b = rng.sample(world.people, 2)
    while a.given == b.given:
        b = rng.choice(world.people)
    relations = rng.sample((_born, _lives, _works, _trade), 2)
    items = [(p.given.words[0], *relation(p)) for relation in relations for p in rng.sample((a, b), 2)]
    neighbour = world.neighbours[a.home]
    if rng.random() < 0.5 and neighbour != a.home:
        place = a.home.words[0]
        nearby = facts.lies_near(Phrase(a.home), neighbour)
        items.append((place, nearby, f"What does {place} lie near?", neighbour.words[0]))
    rng.shuffle(items)
    sentences = tuple(english(Sentence(clause)) for _, clause, _, _ in items)
    questions, start = [], 0
    for index, (line, (about, _, question, answer)) in enumerate(zip(sentences, items, strict=True)):
        # The answer is at the end of its sentence. The same name may also occur earlier.
        questions.append(Question(about, question, answer, start + line.rindex(answer), index))
        start += len(line) + 1
    return Paragraph(" ".join(a.name.words), sentences, tuple(questions))


def _born(p: Person) -> tuple:
    return facts.born(p, Phrase(p.name)), f"Where was {p.given.words[0]} born?", p.birthplace.words[0]


def _lives(p: Person) -> tuple:
    return facts.lives(p, Phrase(p.given)), f"Where does {p.given.words[0]} live?", p.home.words[0]


def _works(p: Person) -> tuple:
    return facts.works_for(p, Phrase(p.given)), f"Who does {p.given.words[0]} work for?", text(phrase(Phrase(p.group)))


def _trade(p: Person) -> tuple:
    return (
        facts.is_a(p.trade, Phrase(p.given)),
        f"What is {p.given.words[0]}?",
        text(phrase(Phrase(p.trade, determiner="a"))),
    )


def paragraphs(drawn: Sequence[Paragraph], questions: int) -> list[Paragraph]:
    """The first paragraphs with ``questions`` questions in total. The questions of the last one are cut to fit."""
    kept: list[Paragraph] = []
    for p in drawn:
        if questions <= 0:
            break
        kept.append(p._replace(questions=p.questions[:questions]))
        questions -= len(kept[-1].questions)
    return kept


def answers(teller: Teller) -> Judged:
    """A question and one sentence of its paragraph: does the sentence hold the answer?

    Sentences of wrong pairs answer another question of the paragraph. In 70 % of them it is another fact about the same
    person, if there is one. Otherwise it is about someone or something else.
    """
    p = paragraph(teller)
    q = teller.rng.choice(p.questions)
    if teller.rng.random() < 0.5:
        return Judged((q.text, p.sentences[q.sentence]), "entailment")
    others = [r for r in p.questions if r is not q]
    same_person = teller.rng.random() < 0.7
    rivals = [r for r in others if (r.about == q.about) == same_person]
    return Judged((q.text, p.sentences[teller.rng.choice(rivals or others).sentence]), "not_entailment")


def articles(teller: Teller, tokens: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields titled documents until they have ``tokens`` words."""
    while tokens > 0:
        work = teller.rng.choice(teller.world.works)
        sentences = [*teller.life(work.author), *teller.review(work), *teller.document()]
        lines = tuple(english(s) for s in sentences)
        tokens -= sum(len(line.split()) + 1 for line in lines)
        yield " ".join(work.author.name.words), lines


class Letter(NamedTuple):
    body: tuple[str, ...]
    subject: str
    annotations: tuple[str, ...]


def letter(teller: Teller) -> Letter:
    """A letter about a work or a person. The subject line names its topic. A second subject line says the same in other
    words."""
    rng = teller.rng
    if rng.random() < 0.5:
        work = rng.choice(teller.world.works)
        title, kind, author = work.name.words[0], work.name.noun.lemma, work.author.name.words[0]
        good = work.verdict > 0
        body = teller.review(work)
        subject = f"{'Praise' if good else 'Blame'} for the {kind} {title}"
        second = f"{'Good' if good else 'Bad'} {kind} {title} by {author}"
    else:
        person = rng.choice(teller.world.people)
        body = teller.life(person)
        name = " ".join(person.name.words)
        subject = f"The life of {name}"
        second = f"{name} from {person.birthplace.words[0]}"
    return Letter(tuple(english(s) for s in body), subject, (second,))
