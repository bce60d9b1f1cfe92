"""Runs of words that come back in a large text: which paragraphs say again what stood earlier.

`bench.data.making` looks here for novels that two sources have, for paragraphs that a corpus has twice, and for
training text that held-out text has too. A run is a sequence of `RUN` words without case and punctuation
(`models.text.runs`); a word is repeated where it lies in a run that began in an earlier paragraph for the first time.
Unlike MinHash signatures of documents (`models.text.duplicates`) this does not depend on where documents are cut, which
two editions of a novel do differently.

The text is read three times and never held: first runs are counted in a table of fixed size, then the few that may
come back are collected, then each paragraph is told how much of it stood earlier. Memory is `2 ** _BITS` bytes and 12
bytes for each run that may come back (more while they are sorted): those that do, and of the others about a fifth at 17
million words and two fifths at 34 million.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ptmbench.models.text.runs import Runs, folded

VERSION = 1
"""Raised whenever the same text would give other repeats."""
RUN = 13
"""Words of a run: the most that Brown et al. (2020, appendix C) look for."""

_BITS = 26


@dataclass(frozen=True)
class Words:
    """The words of a document: those of each paragraph, and hashes of the runs that lie within the document."""

    sizes: np.ndarray
    """int64 [P]: words of each paragraph."""
    runs: np.ndarray
    """uint64 [W - RUN + 1], by their first word; [0] for a shorter document."""

    @classmethod
    def of(cls, paragraphs: Sequence[str]) -> "Words":
        """The words of a document's ``paragraphs``."""
        texts = [folded(paragraph) for paragraph in paragraphs]
        sizes = np.array([text.count(b"\0") for text in texts], np.int64)
        return cls(sizes, Runs(b"".join(texts)).of(RUN))

    def owners(self) -> np.ndarray:
        """int64 [R]: the paragraph in which each run begins."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)[: len(self.runs)]


class Counts:
    """How often runs occur: never, once or more often. Some that occur once are told to occur more often."""

    def __init__(self) -> None:
        self._table = np.zeros(1 << _BITS, np.uint8)

    def add(self, words: Words) -> None:
        """Count the runs of a document."""
        places, counts = np.unique(words.runs >> np.uint64(64 - _BITS), return_counts=True)
        self._table[places] = np.minimum(self._table[places] + counts, 2)

    def several(self, words: Words) -> np.ndarray:
        """Which runs of a document may occur more than once: bool [R]."""
        return self._table[words.runs >> np.uint64(64 - _BITS)] > 1


class Repeats:
    """Where each run that comes back occurs first. Paragraphs are numbered in the order in which they are read."""

    def __init__(self, counts: Counts, documents: Iterable[Words]) -> None:
        self._counts = counts
        hashes, owners, first = [], [], 0
        for words in documents:
            chosen = counts.several(words)
            hashes.append(words.runs[chosen])
            owners.append((first + words.owners()[chosen]).astype(np.int32))
            first += len(words.sizes)
        found = np.concatenate([*hashes, np.zeros(0, np.uint64)])
        order = np.argsort(found, kind="stable")
        ranked = found[order]
        opens = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]])[: len(ranked)])
        back = np.diff(np.append(opens, len(ranked))) > 1  # occurs more than once indeed
        self._keys = ranked[opens[back]]
        self._first = np.concatenate([*owners, np.zeros(0, np.int32)])[order[opens[back]]]

    def earlier(self, words: Words, first: int) -> np.ndarray:
        """For each word of a document whose first paragraph has the number ``first``: the paragraph before its own in
        which a run over it stood first, or -1. int64 [W]."""
        runs = np.flatnonzero(self._counts.several(words))
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
