"""The corpus: short documents, each about a person, a place, a group, a work, a topic, a day or a law of the world."""

import random
from collections.abc import Callable, Iterator

from ptmbench.tasks.microworld import speech
from ptmbench.tasks.microworld import world as facts
from ptmbench.tasks.microworld.grammar import english
from ptmbench.tasks.microworld.lexicon import CLASSES, Lexicon
from ptmbench.tasks.microworld.meaning import Kind, Phrase, Sentence
from ptmbench.tasks.microworld.mowari import mowari
from ptmbench.tasks.microworld.world import Person, Work, World, pronoun_for


class Teller:
    """Generates documents about one world. All random choices use ``rng``."""

    def __init__(self, rng: random.Random, lexicon: Lexicon, world: World) -> None:
        self.rng, self.lexicon, self.world = rng, lexicon, world

    def life(self, person: Person | None = None) -> list[Sentence]:
        """The facts about one person: first with the full name, then with the given name and pronouns."""
        rng = self.rng
        p = person or rng.choice(self.world.people)
        short, it = Phrase(p.given), pronoun_for(p.name)
        other = rng.choice(self.world.people)
        clauses = [
            facts.lives(p, rng.choice((short, it))),
            facts.works_for(p, rng.choice((short, it))),
            facts.is_a(p.trade, rng.choice((short, it)), rng.choice(("", *self.lexicon.plain))),
            facts.taught(rng.choice((short, it)), Phrase(other.name)),
            facts.taught(Phrase(other.name), rng.choice((short, it)), passive=True),
        ]
        clauses += [
            facts.wrote(w, rng.choice((short, it)), place=rng.random() < 0.5) for w in self.world.works if w.author is p
        ]
        chosen = rng.sample(clauses, min(len(clauses), rng.choice((3, 4))))
        return [Sentence(facts.born(p, Phrase(p.name))), *(Sentence(clause) for clause in chosen)]

    def review(self, work: Work | None = None) -> list[Sentence]:
        """A work and its review. The whole document has the verdict of the world on the work."""
        rng, lexicon = self.rng, self.lexicon
        w = work or rng.choice(self.world.works)
        name, it, noun = Phrase(w.name), pronoun_for(w.name), Phrase(w.name.noun)
        opening = facts.wrote(w, Phrase(w.author.name), passive=rng.random() < 0.5, place=True)
        sentences = [Sentence(opening), Sentence(facts.is_a(w.name.noun, it, rng.choice(lexicon.judged(w.verdict))))]
        for _ in range(rng.choice((2, 3, 4))):
            aside = Phrase(rng.choice(lexicon.of(Kind.PART)))
            sentences.append(speech.verdict(rng, lexicon, w.verdict, rng.choice((name, it, noun)), aside))
        if rng.random() < 0.6:
            sentences.append(
                speech.opinion(rng, lexicon, w.verdict, Phrase(speech.person(rng, lexicon)), rng.choice((name, noun)))
            )
        return sentences

    def opinions(self) -> list[Sentence]:
        """A common thing and the same verdict on it from several people."""
        rng, lexicon = self.rng, self.lexicon
        about, valence = speech.topic(rng, lexicon), rng.choice((1, -1))
        asides = lexicon.of(Kind.PART) if about.head.kind is Kind.WORK else lexicon.of(*speech.TOPICS)
        sentences = [
            speech.verdict(rng, lexicon, valence, about, Phrase(rng.choice(asides))) for _ in range(rng.choice((3, 4)))
        ]
        voices = Phrase(rng.choice(lexicon.of(Kind.PERSON)), plural=True)
        return [*sentences, speech.opinion(rng, lexicon, valence, voices, about)]

    def place(self) -> list[Sentence]:
        rng, lexicon = self.rng, self.lexicon
        town = rng.choice(lexicon.places)
        dwellers = [p for p in self.world.people if p.home == town]
        clauses = [
            facts.is_a(town.noun, Phrase(town), rng.choice(("", *lexicon.plain))),
            facts.lies_near(pronoun_for(town), self.world.neighbours[town]),
        ]
        clauses += [facts.lives(p, Phrase(p.name)) for p in rng.sample(dwellers, min(2, len(dwellers)))]
        clauses.append(facts.is_a(CLASSES[Kind.PLACE], Phrase(town)))
        clauses += [speech.deed(rng, lexicon)._replace(at=(("in", Phrase(town)),), ever=False) for _ in range(2)]
        return [Sentence(clause) for clause in clauses]

    def group(self) -> list[Sentence]:
        rng, lexicon = self.rng, self.lexicon
        group = rng.choice(lexicon.groups)
        founder, seat = self.world.founders[group]
        members = [p for p in self.world.people if p.group == group]
        clauses = [
            facts.founded(group, founder, seat, passive=rng.random() < 0.6),
            facts.is_a(group.noun, pronoun_for(group), rng.choice(lexicon.plain)),
        ]
        clauses += [facts.works_for(p, Phrase(p.name)) for p in rng.sample(members, min(2, len(members)))]
        clauses.append(facts.is_a(CLASSES[Kind.GROUP], Phrase(group)))
        return [Sentence(clause) for clause in clauses]

    def day(self) -> list[Sentence]:
        """Everyday sentences, and sentences that retell some of them."""
        rng, lexicon = self.rng, self.lexicon
        sentences = [Sentence(speech.deed(rng, lexicon)) for _ in range(rng.choice((3, 4)))]
        sentences += speech.encounter(rng, lexicon) if rng.random() < 0.5 else speech.sighting(rng, lexicon)
        if rng.random() < 0.5:
            sentences += speech.sighting(rng, lexicon)
        return sentences

    def law(self) -> list[Sentence]:
        """Causes and effects, connected by "so" or "because", or as two sentences."""
        rng, sentences = self.rng, []
        for _ in range(2):
            first, then = speech.cause(rng, self.lexicon)
            tellings = (
                [Sentence(first, "so", then)],
                [Sentence(then, "because", first)],
                [Sentence(first), Sentence(then)],
            )
            sentences += rng.choice(tellings)
        return sentences

    def document(self) -> list[Sentence]:
        """A document of a random kind, with the frequencies of the corpus."""
        kinds: tuple[Callable[[], list[Sentence]], ...] = (
            self.life,
            self.review,
            self.opinions,
            self.place,
            self.group,
            self.day,
            self.law,
        )
        sentences = self.rng.choices(kinds, weights=(14, 22, 24, 6, 5, 23, 6))[0]()
        return [speech.add_markers(self.rng, self.lexicon, sentence) for sentence in sentences]


def corpus(teller: Teller, *, tokens: int, foreign: float) -> Iterator[list[str]]:
    """Yields documents as lists of sentences until they have ``tokens`` words. A share ``foreign`` of them is in
    Mowari."""
    count = 0
    while count < tokens:
        render = mowari if teller.rng.random() < foreign else english
        lines = [render(sentence) for sentence in teller.document()]
        # Full stops and commas count as tokens, as in every tokenizer that splits punctuation.
        count += sum(len(line.split()) + line.count(".") + line.count(",") for line in lines)
        yield lines


def pairs(teller: Teller, *, tokens: int, without: set[str]) -> Iterator[tuple[str, str]]:
    """Yields sentences in English and Mowari, except those in ``without``, until ``tokens`` English words are
    generated.

    The words of the excluded sentences count as well.
    """
    count = 0
    while count < tokens:
        for sentence in teller.document():
            line = english(sentence)
            count += len(line.split()) + line.count(".") + line.count(",")  # as in `corpus`
            if line not in without:
                yield line, mowari(sentence)
