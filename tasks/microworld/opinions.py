"""Sentences with opinions on people, places, buildings and works, with the position of aspects and opinion words."""

import random
from typing import NamedTuple

from ptmbench.tasks.microworld import speech
from ptmbench.tasks.microworld.grammar import Word, capital, clause
from ptmbench.tasks.microworld.lexicon import BE, Lexicon
from ptmbench.tasks.microworld.meaning import Clause


class Opinion(NamedTuple):
    """The first and last word of the aspect (``aspect``) and of the opinion (``expression``), and the polarity."""

    aspect: tuple[int, int]
    expression: tuple[int, int]
    polarity: str


class Review(NamedTuple):
    words: tuple[str, ...]
    opinions: tuple[Opinion, ...]


def review(rng: random.Random, lexicon: Lexicon) -> Review:
    """A sentence of one to three clauses with one or two adjectives each.

    Half of the clauses have a "not", which reverses their polarity, so no adjective determines the polarity on its own.
    Adjectives that are neither positive nor negative are neutral with and without "not".
    """
    words: list[Word] = []
    opinions: list[Opinion] = []
    for number in range(rng.choice((1, 2, 2, 3))):
        if number:
            words += [Word(",", ","), Word(rng.choice(("and", "but")), "CC")]
        valence, negated = rng.choice((1, 1, -1, -1, 0)), rng.random() < 0.5
        stock = {1: lexicon.good, -1: lexicon.bad, 0: lexicon.plain}[valence]
        adjectives = tuple(rng.sample(stock, 1 if negated else rng.choice((1, 1, 2))))
        opinion = Clause(
            BE, speech.topic(rng, lexicon), adjectives=adjectives, past=rng.random() < 0.5, negated=negated
        )
        spoken, first = clause(opinion), len(words)
        verb = next(i for i, word in enumerate(spoken) if word.pos.startswith("VB"))
        start = first + (spoken[0].pos == "DT")
        polarity = ("NEG", "NEU", "POS")[1 + (-valence if negated else valence)]
        for place, word in enumerate(spoken[verb + 1 :], start=first + verb + 1):
            if word.pos == "JJ":
                opinions.append(Opinion((start, first + verb - 1), (place - negated, place), polarity))
        words += spoken
    words[0] = capital(words[0])
    return Review(tuple(word.text for word in [*words, Word(".", ".")]), tuple(opinions))
