"""Labelled sentences. Every label is derived from the meaning, before the words are chosen.

Positive and negative items come from the same templates with the same probabilities, so neither a majority baseline nor
a bag of words can distinguish them.
"""

import random
from typing import NamedTuple

from ptmbench.tasks.microworld import speech
from ptmbench.tasks.microworld.documents import Teller
from ptmbench.tasks.microworld.grammar import Word, capital, clause, english, text
from ptmbench.tasks.microworld.lexicon import BE, Lexicon
from ptmbench.tasks.microworld.meaning import Clause, Form, Kind, Noun, Phrase, Sentence


class Judged(NamedTuple):
    texts: tuple[str, ...]
    label: str | float


def _noun(rng: random.Random, lexicon: Lexicon, *kinds: Kind) -> Noun:
    return rng.choice(lexicon.of(*kinds))


# --- acceptability ------------------------------------------------------------------------------------------------

_DISAGREEING_FORMS = {
    "is": "are",
    "was": "were",
    "does": "do",
    "himself": "herself",
    "this": "these",
    "a": "some",
    "every": "all",
}
_DISAGREEING_FORMS |= {other: one for one, other in _DISAGREEING_FORMS.items()}


def acceptability(rng: random.Random, lexicon: Lexicon) -> tuple[Judged, Judged]:
    """A minimal pair: a sentence (label "1") and a version of it that breaks one rule of `grammar` ("0")."""
    good, bad = rng.choice((_agreement, _agreement, _reflexive_agreement, _frame, _frame, _order, _polarity))(
        rng, lexicon
    )
    return Judged((_line(good),), "1"), Judged((_line(bad),), "0")


def contrast(name: str, rng: random.Random, lexicon: Lexicon) -> tuple[str, str]:
    """An acceptable sentence, and an unacceptable version of it with an error of the kind ``name``, a key of
    `CONTRASTS`."""
    good, bad = CONTRASTS[name](rng, lexicon)
    return _line(good), _line(bad)


def _line(words: list[Word]) -> str:
    return text([capital(words[0]), *words[1:], Word(".", ".")])


def _agreement(rng: random.Random, lexicon: Lexicon) -> tuple[list[Word], list[Word]]:
    """Agreement of subject and verb. In half of the pairs a noun of the other number stands between them."""
    plural = rng.random() < 0.5
    at = (
        ("near", Phrase(_noun(rng, lexicon, Kind.BUILDING, Kind.ANIMAL), plural=not plural))
        if rng.random() < 0.5
        else None
    )
    who = Phrase(_noun(rng, lexicon, Kind.PERSON, Kind.ANIMAL), plural, at=at)
    verb = rng.choice(lexicon.alone + lexicon.neutral)
    # The verb is finite and in the present tense, so only its number can be wrong.
    good = Clause(
        verb, who, speech.thing(rng, lexicon, Kind.PERSON, Kind.BUILDING) if verb.transitive else None, past=False
    )
    good = good if verb.transitive else good._replace(at=(speech.spot(rng, lexicon),))
    words = clause(good)
    other = Word(verb.third, "VBZ") if plural else Word(verb.lemma, "VBP")
    return words, [other if word.pos in ("VBZ", "VBP") else word for word in words]


def _reflexive_agreement(rng: random.Random, lexicon: Lexicon) -> tuple[list[Word], list[Word]]:
    """A reflexive pronoun agrees in gender with a name."""
    who = Phrase(speech.person(rng, lexicon))
    good = Clause(
        rng.choice(lexicon.likes + lexicon.hates), who, who._replace(form=Form.REFLEXIVE), past=rng.random() < 0.5
    )
    words = clause(good)
    return words, [*words[:-1], Word(_DISAGREEING_FORMS[words[-1].text], "PRP")]


def _frame(rng: random.Random, lexicon: Lexicon) -> tuple[list[Word], list[Word]]:
    """A transitive verb needs an object, and an intransitive verb takes none."""
    who, past = Phrase(_noun(rng, lexicon, Kind.PERSON), rng.random() < 0.5), rng.random() < 0.5
    building = Phrase(_noun(rng, lexicon, Kind.BUILDING))
    takes = Clause(rng.choice(lexicon.neutral), who, building, past=past)
    alone = Clause(rng.choice(lexicon.alone), who, at=(("near", building),), past=past)
    if rng.random() < 0.5:
        return clause(takes), clause(takes._replace(verb=alone.verb))
    return clause(alone), clause(alone._replace(verb=takes.verb))


def _order(rng: random.Random, lexicon: Lexicon) -> tuple[list[Word], list[Word]]:
    """Two neighbouring words are swapped: adjective and noun, noun and verb, or verb and determiner."""
    who = Phrase(_noun(rng, lexicon, Kind.PERSON), rng.random() < 0.5, "the", rng.choice(lexicon.plain))
    words = clause(Clause(rng.choice(lexicon.neutral), who, Phrase(_noun(rng, lexicon, Kind.BUILDING)), past=True))
    at = rng.choice((1, 2, 3))
    return words, [*words[:at], words[at + 1], words[at], *words[at + 2 :]]


def _polarity(rng: random.Random, lexicon: Lexicon) -> tuple[list[Word], list[Word]]:
    """ "Ever" is allowed after "no", but not after "the".

    Half of the pairs have no "ever": the acceptable sentence has "the", and the other one has "no" and a wrong word
    order.
    """
    negative = _negative_clause(rng, lexicon)
    if rng.random() < 0.5:
        return clause(negative), clause(_without_negation(negative))
    plain = clause(negative._replace(ever=False))
    positive = clause(_without_negation(negative)._replace(ever=False))
    return positive, [plain[0], plain[1], *plain[3:], plain[2]]


def _negative_clause(rng: random.Random, lexicon: Lexicon) -> Clause:
    """A clause with "no" and "ever", such as "no poet ever slept near the mill"."""
    who = Phrase(_noun(rng, lexicon, Kind.PERSON), determiner="no")
    return Clause(rng.choice(lexicon.alone), who, at=(speech.spot(rng, lexicon),), past=True, ever=True)


def _without_negation(negative: Clause) -> Clause:
    """Replaces the determiner of the subject ("no") by "the"."""
    return negative._replace(subject=negative.subject._replace(determiner="the"))


def _ever_licensing(rng: random.Random, lexicon: Lexicon) -> tuple[list[Word], list[Word]]:
    """ "Ever" after "no" (acceptable) and after "the" (unacceptable)."""
    negative = _negative_clause(rng, lexicon)
    return clause(negative), clause(_without_negation(negative))


CONTRASTS = {
    "subject_verb_agreement": _agreement,
    "anaphor_agreement": _reflexive_agreement,
    "argument_structure": _frame,
    "word_order": _order,
    "npi_licensing": _ever_licensing,
}
"""The contrasts of minimal pairs, with BLiMP's names of phenomena where they exist."""


# --- sentiment ----------------------------------------------------------------------------------------------------


def sentiment(rng: random.Random, lexicon: Lexicon) -> Judged:
    """A verdict in lower case, tokenised as in the official file. The label is "1" if it is positive."""
    valence = rng.choice((1, -1))
    about = speech.topic(rng, lexicon)
    aside = Phrase(
        _noun(rng, lexicon, Kind.PART) if about.head.kind is Kind.WORK else _noun(rng, lexicon, *speech.TOPICS)
    )
    line = english(speech.verdict(rng, lexicon, valence, about, aside))
    return Judged((line.lower().replace(",", " ,").replace(".", " ."),), "1" if valence > 0 else "0")


# --- names in context ---------------------------------------------------------------------------------------------


def sentence_with_names(teller: Teller) -> Sentence:
    """A sentence with names. In half of the sentences a name of any type fits, so its type can be told only from the
    name."""
    rng = teller.rng
    if rng.random() < 0.5:
        return _sentence_with_any_names(rng, teller.lexicon)
    return rng.choice(rng.choice((teller.life, teller.review, teller.place, teller.group))())


def _sentence_with_any_names(rng: random.Random, lexicon: Lexicon) -> Sentence:
    who = Phrase(_noun(rng, lexicon, Kind.PERSON), rng.random() < 0.5)
    makers = (
        lambda: speech.person(rng, lexicon),
        lambda: rng.choice(lexicon.places),
        lambda: rng.choice(lexicon.titles),
    )
    one, other = (Phrase(rng.choice(makers)()) for _ in range(2))
    if one == other or rng.random() < 0.4:
        return Sentence(Clause(rng.choice(lexicon.neutral + lexicon.likes + lexicon.hates), who, one))
    if rng.random() < 0.5:
        return Sentence(
            Clause(BE, one._replace(also=other), adjectives=(rng.choice(lexicon.good + lexicon.bad),), past=False)
        )
    return Sentence(Clause(rng.choice(lexicon.neutral), who, one._replace(also=other)))
