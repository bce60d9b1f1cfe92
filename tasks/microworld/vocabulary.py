"""Questions about single words whose answers follow from the lexicon: similarity, analogies and a dictionary.

The similarity of two words is the number of properties that they share: the part of speech, the field (nouns of one
kind, evaluative adjectives, verbs of feeling), and, within a field, the side (praise or blame; fields without sides
count as the same side). Forms of one word have similarity 5. Analogies relate two forms of a word, or a place and its
kind. The dictionary of the invented language has the word forms that occur in sentences.
"""

import itertools
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet

from ptmbench.tasks.microworld.lexicon import Lexicon
from ptmbench.tasks.microworld.meaning import Verb
from ptmbench.tasks.microworld.mowari import stem

_MOST = 200
"""The largest number of questions in a section."""
_LEAST = 5
"""The smallest number of occurrences in the corpus of a word that is used in a question."""


def learnable_words(documents: Iterable[Sequence[str]]) -> set[str]:
    """The words that can be learnt from ``documents``, which are lists of sentences."""
    counts = Counter(word for document in documents for sentence in document for word in sentence.split())
    return {word for word, count in counts.items() if count >= _LEAST}


def similar_pairs(
    rng: random.Random, words: Lexicon, known: AbstractSet[str], pairs: int
) -> list[tuple[str, str, float]]:
    """``pairs`` pairs of ``known`` words with their similarity, in random order. The values are equally frequent as far
    as there are enough pairs."""
    by_degree: dict[float, list[tuple[str, str, float]]] = {}
    for (one, first), (other, second) in itertools.combinations(_facets(words).items(), 2):
        if {one, other} <= known:
            degree = _degree(first, second)
            by_degree.setdefault(degree, []).append((one, other, degree))
    found = []
    for left, (_, kind) in enumerate(sorted(by_degree.items(), key=lambda item: len(item[1]))):
        share = -(-(pairs - len(found)) // (len(by_degree) - left))
        found += rng.sample(kind, min(share, len(kind)))
    rng.shuffle(found)
    return found


def _facets(words: Lexicon) -> dict[str, tuple[str, str, str, str]]:
    """Maps each word to (part of speech, field, side, lemma)."""
    found = {}
    for noun in words.nouns:
        for form in (noun.lemma, noun.plural):
            found[form] = ("noun", str(noun.kind), "", noun.lemma)
    for lemma in (*words.good, *words.bad, *words.plain):
        side = words.valence.get(lemma, 0)
        found[lemma] = ("adjective", "judging" if side else "plain", str(side), lemma)
    for verb in _verbs(words):
        for form in (verb.lemma, verb.third, verb.past):
            field = "feeling" if verb.valence else "doing" if verb.transitive else "alone"
            found[form] = ("verb", field, str(verb.valence), verb.lemma)
    return found


def _degree(one: tuple[str, str, str, str], other: tuple[str, str, str, str]) -> float:
    if one[0] != other[0]:
        return 0.0
    if one[3] == other[3]:
        return 5.0
    if one[1] != other[1]:
        return 1.0
    return 2.0 + (one[2] == other[2])


def _verbs(words: Lexicon) -> tuple[Verb, ...]:
    return (*words.likes, *words.hates, *words.neutral, *words.alone)


def analogies(rng: random.Random, words: Lexicon, known: AbstractSet[str]) -> Iterator[str]:
    """Yields the lines of a file of questions: section headings, and four ``known`` words per line."""
    sections = {
        "plural": [(noun.lemma, noun.plural) for noun in words.nouns],
        "third-person": [(verb.lemma, verb.third) for verb in _verbs(words)],
        "past-tense": [(verb.lemma, verb.past) for verb in _verbs(words)],
        "kind-of-place": [(place.words[0], place.noun.lemma) for place in words.places],
    }
    for name, pairs in sections.items():
        pairs = [pair for pair in pairs if known.issuperset(pair)]
        questions = [(a, b, c, d) for (a, b), (c, d) in itertools.permutations(pairs, 2) if len({a, b, c, d}) == 4]
        yield f": {name}"
        yield from (" ".join(four) for four in rng.sample(questions, min(_MOST, len(questions))))


def dictionary(rng: random.Random, words: Lexicon, known: AbstractSet[str]) -> dict[str, list[str]]:
    """The lines of two files: "0-5000" for training and "5000-6500" for testing. A line has a ``known`` word of Mowari
    and its ``known`` English translation. All forms of a word are in the same file, and two thirds of the words in the
    first."""
    causes = [part for cause in words.causes for part in cause]
    entries: dict[str, list[tuple[str, str]]] = {}
    for noun in (*words.nouns, *causes[0::2]):
        entries[noun.lemma] = [(stem(noun.lemma), noun.lemma), (stem(noun.lemma) + "ik", noun.plural)]
    for lemma in (*words.good, *words.bad, *words.plain):
        entries[lemma] = [(stem(lemma), lemma)]
    for verb in (*_verbs(words), *causes[1::2]):
        endings = (("o", verb.past), ("a", verb.third), ("am", verb.lemma))
        entries[verb.lemma] = [(stem(verb.lemma) + ending, form) for ending, form in endings]
    word_entries = [[pair for pair in pairs if known.issuperset(pair)] for pairs in entries.values()]
    word_entries = [pairs for pairs in word_entries if pairs]
    rng.shuffle(word_entries)
    cut = -(-2 * len(word_entries) // 3)
    parts = {"0-5000": word_entries[:cut], "5000-6500": word_entries[cut:]}
    return {name: [" ".join(pair) for pairs in part for pair in pairs] for name, part in parts.items()}
