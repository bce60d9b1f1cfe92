"""Labelled pairs: entailment, similarity and paraphrase of statements, and causes of events.

As in `judgements`, the label is derived from the meaning, and right and wrong items share their templates and their
probabilities.
"""

import random
from typing import NamedTuple

from ptmbench.tasks.microworld import speech
from ptmbench.tasks.microworld.grammar import english
from ptmbench.tasks.microworld.judgements import Judged
from ptmbench.tasks.microworld.lexicon import CLASSES, Lexicon
from ptmbench.tasks.microworld.meaning import Clause, Form, Kind, Name, Noun, Phrase, Sentence, swapped
from ptmbench.tasks.microworld.world import found_to_be, is_so


def _noun(rng: random.Random, lexicon: Lexicon, *kinds: Kind) -> Noun:
    return rng.choice(lexicon.of(*kinds))


# --- entailment ---------------------------------------------------------------------------------------------------


def _verdict(rng: random.Random) -> int:
    """+1 in three of four cases, otherwise -1, because most real reviews are positive. It also breaks a symmetry: if
    both verdicts were equally frequent, one sentence of a pair would carry no information, and a small model would not
    start to learn. A bag of words gains nothing from it, because the words of dev and test are new to it."""
    return 1 if rng.random() < 0.75 else -1


def inference(rng: random.Random, lexicon: Lexicon, *, negate: bool) -> tuple[Sentence, Sentence, str]:
    """A premise, a hypothesis and a label: "entailment", "contradiction" or "neutral".

    A third of the hypotheses are negated, which exchanges the first two labels. ``negate=False`` never negates the
    hypotheses of templates without contradictions: with two labels, negation could only remove an entailment, and "not"
    would reveal the label.
    """
    maker = rng.choices((_feeling, _quality, _hypernym, _roles, _reference), (8, 4, 5, 2, 1))[0]
    premise, hypothesis, label = maker(rng, lexicon)
    if rng.random() < 0.33 and (negate or maker in (_feeling, _quality)):
        hypothesis, label = hypothesis._replace(negated=True), _NEGATED[label]
    return Sentence(*premise), Sentence(hypothesis), label


_NEGATED = {"entailment": "contradiction", "contradiction": "entailment", "neutral": "neutral"}
Claim = tuple[tuple, Clause, str]
"""(parts of the premise, hypothesis, label)."""


def entailment(rng: random.Random, lexicon: Lexicon) -> Judged:
    """Two labels: does the second sentence follow from the first?"""
    premise, hypothesis, label = inference(rng, lexicon, negate=False)
    return Judged((english(premise), english(hypothesis)), "entailment" if label == "entailment" else "not_entailment")


def three_way(rng: random.Random, lexicon: Lexicon) -> Judged:
    premise, hypothesis, label = inference(rng, lexicon, negate=True)
    return Judged((english(premise), english(hypothesis)), label)


def _feeling(rng: random.Random, lexicon: Lexicon) -> Claim:
    """Someone who finds a thing dull does not love it. The feelings of another person are unknown."""
    who, what = Phrase(speech.person(rng, lexicon)), speech.topic(rng, lexicon)
    valence, feels = _verdict(rng), _verdict(rng)
    premise = found_to_be(who, what, *rng.sample(lexicon.judged(valence), rng.choice((1, 2))))
    other = Phrase(speech.person(rng, lexicon)) if rng.random() < 0.15 else who
    label = "neutral" if other != who else "entailment" if valence == feels else "contradiction"
    return (premise,), Clause(rng.choice(lexicon.feelings(feels)), other, what), label


def _quality(rng: random.Random, lexicon: Lexicon) -> Claim:
    """A thing that is judged has one of two opposite qualities."""
    what, valence, claimed = speech.topic(rng, lexicon), _verdict(rng), _verdict(rng)
    negated = rng.random() < 0.4
    first, second = rng.choice(lexicon.judged(valence)), rng.choice(lexicon.judged(claimed))
    while first == second:
        second = rng.choice(lexicon.judged(claimed))
    premise, hypothesis = is_so(what, first, negated=negated), is_so(what, second)
    return (premise,), hypothesis, "entailment" if (valence == claimed) != negated else "contradiction"


def _hypernym(rng: random.Random, lexicon: Lexicon) -> Claim:
    """Someone who greets a wolf greets an animal. Whether they also greeted a person is unknown."""
    kinds = (Kind.PERSON, Kind.PERSON, Kind.ANIMAL, Kind.BUILDING)
    true = rng.choice(kinds)
    claimed = rng.choice((true, rng.choice([kind for kind in kinds if kind is not true])))
    seen = Clause(
        rng.choice(lexicon.neutral),
        Phrase(speech.person(rng, lexicon)),
        Phrase(_noun(rng, lexicon, true), determiner="a"),
    )
    hypothesis = seen._replace(object=Phrase(CLASSES[claimed], determiner="a"))
    return (seen,), hypothesis, "entailment" if claimed is true else "neutral"


def _roles(rng: random.Random, lexicon: Lexicon) -> Claim:
    """Active and passive have the same meaning. A sentence with exchanged roles does not follow."""
    a, b = speech.person(rng, lexicon), speech.person(rng, lexicon)
    while a == b:
        b = speech.person(rng, lexicon)
    act = Clause(
        rng.choice(lexicon.neutral + lexicon.likes + lexicon.hates), Phrase(a), Phrase(b), passive=rng.random() < 0.5
    )
    hypothesis = act._replace(passive=rng.random() < 0.5)
    follows = rng.random() < 0.5
    return (act,), hypothesis if follows else swapped(hypothesis), "entailment" if follows else "neutral"


def _reference(rng: random.Random, lexicon: Lexicon) -> Claim:
    """A pronoun refers to the person of its gender."""
    genders = rng.choice(("fm", "mf"))
    a, b = speech.person(rng, lexicon, genders[0]), speech.person(rng, lexicon, genders[1])
    act = Clause(rng.choice(lexicon.neutral), Phrase(a), Phrase(b))
    who, other = rng.sample((a, b), 2)
    later = Clause(rng.choice(lexicon.alone), Phrase(who, form=Form.PRONOUN))
    follows = rng.random() < 0.5
    hypothesis = later._replace(subject=Phrase(who if follows else other))
    return (act, "and", later), hypothesis, "entailment" if follows else "neutral"


# --- similarity and paraphrase ------------------------------------------------------------------------------------

SHARES = {"verdict": 2.0, "topic": 2.0, "who": 0.75, "where": 0.25}
"""The points for each shared fact: the verdict, the kind of the topic, the person and the place. The maximum is 5."""


class Statement(NamedTuple):
    who: Name
    verdict: int
    topic: Kind
    where: Name

    def say(self, rng: random.Random, lexicon: Lexicon) -> Sentence:
        feeling, noun = rng.choice(lexicon.feelings(self.verdict)), _noun(rng, lexicon, self.topic)
        judged = Phrase(
            noun, determiner=rng.choice(("the", "a", "this")), adjective=rng.choice(lexicon.judged(self.verdict))
        )
        return Sentence(
            Clause(feeling, Phrase(self.who), judged, at=(("in", Phrase(self.where)),), passive=rng.random() < 0.3)
        )


def statement(rng: random.Random, lexicon: Lexicon) -> Statement:
    topic = rng.choice((Kind.WORK, Kind.WORK, Kind.WORK, Kind.BUILDING, Kind.ANIMAL))
    return Statement(speech.person(rng, lexicon), _verdict(rng), topic, rng.choice(lexicon.places))


def similarity(rng: random.Random, lexicon: Lexicon) -> Judged:
    """Two statements and their similarity, 0 to 5: the points of the facts that they share (`SHARES`). Their words for
    the same fact usually differ."""
    one, other = statement(rng, lexicon), statement(rng, lexicon)
    topic = one.topic if rng.random() < 0.2 else other.topic
    other = other._replace(
        topic=topic,
        who=one.who if rng.random() < 0.5 else other.who,
        where=one.where if rng.random() < 0.5 else other.where,
    )
    shared = (one.verdict == other.verdict, one.topic == other.topic, one.who == other.who, one.where == other.where)
    score = sum(worth for worth, same in zip(SHARES.values(), shared, strict=True) if same)
    return Judged((english(one.say(rng, lexicon)), english(other.say(rng, lexicon))), score)


def paraphrase(rng: random.Random, lexicon: Lexicon) -> Judged:
    """ "1" if both sentences describe the same event or opinion, "0" if the roles are exchanged or the opinion is the
    opposite."""
    same = rng.random() < 0.5
    if rng.random() < 0.7:
        one = statement(rng, lexicon)
        other = one if same else one._replace(verdict=-one.verdict)
        pair = one.say(rng, lexicon), other.say(rng, lexicon)
    else:
        a, b = rng.sample([Phrase(speech.person(rng, lexicon, gender)) for gender in "fm"], 2)
        act = Clause(rng.choice(lexicon.neutral), a, b, passive=rng.random() < 0.5)
        again = act._replace(passive=not act.passive)
        pair = Sentence(act), Sentence(again if same else swapped(again))
    lines = (english(s).replace(",", " ,").replace(".", " .") for s in pair)
    return Judged(tuple(lines), "1" if same else "0")


# --- choice -------------------------------------------------------------------------------------------------------


class Choice(NamedTuple):
    premise: str
    choices: tuple[str, str]
    question: str
    label: int


def choice(rng: random.Random, lexicon: Lexicon) -> Choice:
    """Which of two events is the cause (or the effect) of the premise? The answer follows from the laws of the world,
    or from how people feel about good and bad things."""
    asks, label = rng.choice(("cause", "effect")), rng.randrange(2)
    if rng.random() < 0.4:
        rules = rng.sample(range(len(lexicon.causes)), 2)
        (cause, effect), other = speech.cause(rng, lexicon, rules[0]), speech.cause(rng, lexicon, rules[1])
        premise, right = (cause, effect) if asks == "effect" else (effect, cause)
        wrong = other[asks == "effect"]
    else:
        valence, what = _verdict(rng), speech.topic(rng, lexicon)
        cause, wrong_cause = (is_so(what, rng.choice(lexicon.judged(v)), past=True) for v in (valence, -valence))
        crowd = Phrase(_noun(rng, lexicon, Kind.PERSON), plural=True)
        effect, wrong_effect = (Clause(rng.choice(lexicon.feelings(v)), crowd, what) for v in (valence, -valence))
        premise, right, wrong = (cause, effect, wrong_effect) if asks == "effect" else (effect, cause, wrong_cause)
    pair = [english(Sentence(right)), english(Sentence(wrong))]
    return Choice(english(Sentence(premise)), (pair[label], pair[1 - label]), asks, label)
