"""More training texts for a student: words of the training examples are replaced by similar ones, in NumPy.

Jiao et al. (2020), "TinyBERT: Distilling BERT for Natural Language Understanding", section "Data Augmentation" and
algorithm 1. Each example gives N_a new ones (``augment``). In each, every word is replaced with the probability p_t
(``augment_share``) by one of at most K candidates (``augment_choices``), drawn evenly:

    a word that is one piece: the K pieces that the pre-trained teacher finds most probable in its place
    a word of several pieces: the K words whose vectors have the largest cosine with its own (``augment_vectors``)

These details follow the authors' code (huawei-noah/Pretrained-Language-Model, `TinyBERT/data_augmentation.py` at
170f475): only words of the letters a to z are replaced, and no function words. Candidates are found in the original
text, once for all of its copies. Pieces inside of words are no candidates, so there may be fewer than K. p_t is 0.4 and
K is 15. N_a is 10 to 30 there, depending on the task.

Differences from that code: it gives the model the original text as a second segment; the paper does not, and neither do
we. All N_a copies are kept, even equal ones, as in the paper. Candidates are words of letters. In a pair of texts, one
text is changed at a time, in turns. The list of function words is our own.

Controls (``augment_by``): "copies" makes N_a copies without any change, so the number of steps is the same. "random"
draws from all words of the training texts. "vectors" takes words with similar vectors for all words, without the
teacher.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ptmbench.tasks.task import Example

WORD = re.compile(r"(?<![^\W_])[A-Za-z]+(?![^\W_])")
"""A word that may be replaced. A part of a word with digits or other letters does not match."""
_FUNCTION_WORDS = """
    a an the this that these those some any each every no all both few more most much many other another such same own
    i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers
    herself it its itself they them their theirs themselves who whom whose which what
    am is are was were be been being have has had having do does did doing done can could may might must shall should
    will would ain aren couldn didn doesn don hadn hasn haven isn mightn mustn needn shan shouldn wasn weren won wouldn
    and or but nor so yet if because as until while although though unless than whether
    of at by for with about against between into through during before after above below to from up down in out on off
    over under again further upon within without
    not only too very just then once here there when where why how now also
    s t d m o re ve ll y
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())


class Spot(NamedTuple):
    """A word of a text, its characters ``begin`` to ``end``, and the words that may replace it."""

    begin: int
    end: int
    words: Sequence[str]


def words_of(text: str) -> list[tuple[int, int]]:
    """First and past-the-last character of each word of ``text`` that may be replaced."""
    found = (match.span() for match in WORD.finditer(text))
    return [(begin, end) for begin, end in found if text[begin:end].lower() not in FUNCTION_WORDS]


def enlarged(
    examples: Sequence[Example], spots: Mapping[str, Sequence[Spot]], copies: int, share: float, seed: int
) -> list[Example]:
    """Returns ``examples``, each followed by ``copies`` of it with other words. ``spots`` has the replaceable words of
    each text."""
    found = []
    for number, example in enumerate(examples):
        rng, texts = np.random.default_rng([seed, 8, number]), example.inputs
        found.append(example)
        for copy in range(copies):
            place = copy % len(texts)
            changed = _changed(texts[place], spots[texts[place]], share, rng)
            inputs = (*texts[:place], changed, *texts[place + 1 :])
            found.append(replace(example, id=f"{example.id}+{copy + 1}", inputs=inputs))
    return found


def _changed(text: str, spots: Sequence[Spot], share: float, rng: np.random.Generator) -> str:
    """``text`` with some words replaced. Words with a capital first letter keep it."""
    parts, end = [], 0
    for spot in spots:
        if spot.words and rng.random() < share:
            word, old = spot.words[int(rng.integers(len(spot.words)))], text[spot.begin : spot.end]
            parts += [text[end : spot.begin], word.capitalize() if old.istitle() else word]
            end = spot.end
    return "".join([*parts, text[end:]])


def similar(
    words: Sequence[str], row: Callable[[str], int | None], table: np.ndarray, names: Sequence[str], most: int
) -> list[tuple[str, ...]]:
    """The ``most`` words with the largest cosine for each of ``words``, the nearest first; () for unknown words.

    ``row`` gives the row of a word in ``table`` [V, D], ``names`` has the spelling of each row.
    """
    norms = np.linalg.norm(table, axis=1)
    usable = np.flatnonzero((norms > 0) & np.array([WORD.fullmatch(name) is not None for name in names]))
    unit = table[usable] / norms[usable, None]
    row_of = {number: place for place, number in enumerate(usable.tolist())}
    found = {}
    for word in dict.fromkeys(words):
        place = row_of.get(row(word))
        if place is None:
            found[word] = ()
            continue
        cosines = unit @ unit[place]
        cosines[place] = -np.inf
        best = np.argsort(-cosines, kind="stable")[:most]
        found[word] = tuple(names[usable[one]] for one in best if np.isfinite(cosines[one]))
    return [found[word] for word in words]


def by_chance(texts: Sequence[str]) -> dict[str, list[Spot]]:
    """The control "random": each word of ``texts`` may be replaced by any word of them."""
    words = sorted({text[begin:end].lower() for text in texts for begin, end in words_of(text)})
    return {text: [Spot(begin, end, words) for begin, end in words_of(text)] for text in texts}


def texts_of(examples: Sequence[Example]) -> Iterator[str]:
    """All texts of ``examples``, each once."""
    return iter(dict.fromkeys(text for example in examples for text in example.inputs))
