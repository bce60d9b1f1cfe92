"""Finds text that repeats earlier text of a large corpus, word by word.

`bench.data.making` uses it to find novels that two sources have, paragraphs that a corpus has twice, and training text
that is also held-out text.

A run is a sequence of `RUN` words without case and punctuation (`models.text.runs`). A word is repeated if it lies in a
run whose first occurrence began in an earlier paragraph. MinHash signatures of documents (`models.text.duplicates`)
depend on where documents are cut, and two editions of a novel differ in that. Runs do not depend on it.

The text is read three times and never held in memory:

1. All runs are counted in a table of fixed size (`Counts`).
2. The runs that may occur more than once are collected (`Repeats`).
3. For each document, the repeated words are looked up (`Repeats.earlier_paragraphs`).

Memory is ``2 ** _BITS`` bytes, and 12 bytes for each run that the table counts more than once (more while they are
sorted). These are all repeated runs, and by collisions in the table some others: about a fifth of them at 17 million
words, two fifths at 34 million.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ptmbench.models.text.runs import WordRuns, fold_words

VERSION = 1
"""Raised whenever the same text would give different repeats."""
RUN = 13
"""Words of a run: the largest N of Brown et al. (2020, appendix C)."""

_BITS = 26


@dataclass(frozen=True)
class Words:
    """The number of words of each paragraph of a document, and the hashes of the document's runs."""

    sizes: np.ndarray
    """int64 [P]: number of words of each paragraph."""
    runs: np.ndarray
    """uint64 [W - RUN + 1]: hash of the run that begins at each word; empty for a document shorter than a run."""

    @classmethod
    def of(cls, paragraphs: Sequence[str]) -> "Words":
        """Counts and hashes the words of a document's ``paragraphs``."""
        texts = [fold_words(paragraph) for paragraph in paragraphs]
        sizes = np.array([text.count(b"\0") for text in texts], np.int64)
        return cls(sizes, WordRuns(b"".join(texts)).of(RUN))

    def owners(self) -> np.ndarray:
        """int64 [R]: the paragraph in which each run begins."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)[: len(self.runs)]


class Counts:
    """Counts runs as never, once or more often. Because of collisions, some that occur once count as more often."""

    def __init__(self) -> None:
        self._table = np.zeros(1 << _BITS, np.uint8)

    def add(self, words: Words) -> None:
        """Counts the runs of a document."""
        places, counts = np.unique(words.runs >> np.uint64(64 - _BITS), return_counts=True)
        self._table[places] = np.minimum(self._table[places] + counts, 2)

    def may_repeat(self, words: Words) -> np.ndarray:
        """Which runs of a document may occur more than once: bool [R]."""
        return self._table[words.runs >> np.uint64(64 - _BITS)] > 1


class Repeats:
    """The first occurrence of each repeated run. Paragraphs are numbered in the order in which they are read."""

    def __init__(self, counts: Counts, documents: Iterable[Words]) -> None:
        self._counts = counts
        hashes, owners, first = [], [], 0
        for words in documents:
            chosen = counts.may_repeat(words)
            hashes.append(words.runs[chosen])
            owners.append((first + words.owners()[chosen]).astype(np.int32))
            first += len(words.sizes)
        found = np.concatenate([*hashes, np.zeros(0, np.uint64)])
        order = np.argsort(found, kind="stable")
        ranked = found[order]
        opens = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]])[: len(ranked)])
        back = np.diff(np.append(opens, len(ranked))) > 1  # leaves out those with only a collision in the table
        self._keys = ranked[opens[back]]
        self._first = np.concatenate([*owners, np.zeros(0, np.int32)])[order[opens[back]]]

    def earlier_paragraphs(self, words: Words, first: int) -> np.ndarray:
        """The earlier paragraph that each word of a document repeats, or -1: int64 [W].

        That is the paragraph in which a run over the word occurs first. ``first`` is the number of the document's first
        paragraph.
        """
        runs = np.flatnonzero(self._counts.may_repeat(words))
        owners = words.owners()
        found = np.full(int(words.sizes.sum()), -1)
        if not len(self._keys):
            return found
        places = np.minimum(np.searchsorted(self._keys, words.runs[runs]), len(self._keys) - 1)
        sources = self._first[places].astype(np.int64)
        repeated = (self._keys[places] == words.runs[runs]) & (sources < first + owners[runs])
        runs, sources = runs[repeated], sources[repeated]
        for shift in range(RUN):
            found[runs + shift] = sources
        return found
