"""Finds runs of words of a few texts in many other texts, which are read once.

`bench.data.overlap` uses it to find the texts of a report split in a training set, or in a corpus of any size. Memory
holds an index of the runs, about 20 bytes for each, and one block of the text that is read.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from ptmbench.models.text.runs import WordRuns

BLOCK = 1 << 20
"""Bytes of text that are searched at once."""

_BETWEEN = b"\x01\0"  # a word that no text has, so that no run crosses into the next text
_BITS = 22


class Passages:
    """The runs of ``length`` words of distinct folded texts. A shorter text of at least ``least`` words is one run."""

    def __init__(self, texts: Sequence[bytes], length: int, least: int) -> None:
        runs = WordRuns(b"".join(texts))
        self.sizes = np.array([text.count(b"\0") for text in texts], np.int64)  # [D] in words
        owners = np.repeat(np.arange(len(texts)), self.sizes)  # [W] which text a word belongs to
        self.checked = self.sizes >= least  # [D]
        self._owners = owners
        self.sought: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        """By the number of words of a run: where the runs begin, and their hashes."""
        for words in range(least, length + 1):
            hashes = runs.of(words)
            begins = np.flatnonzero(owners[: len(hashes)] == owners[words - 1 :][: len(hashes)])
            if words < length:
                begins = begins[self.sizes[owners[begins]] == words]
            if len(begins):
                self.sought[words] = begins, hashes[begins]

    def covered(self, seen: "Seen") -> tuple[np.ndarray, np.ndarray]:
        """Returns whether a run of each text was seen, bool [D], and how many words of each text lie in such runs,
        int64 [D]."""
        steps = np.zeros(len(self._owners) + 1, np.int64)
        for words, (begins, hashes) in self.sought.items():
            found = begins[seen.has(words, hashes)]
            np.add.at(steps, found, 1)
            np.add.at(steps, found + words, -1)
        inside = self._owners[np.cumsum(steps)[:-1] > 0]
        count = np.bincount(inside, minlength=len(self.sizes))
        return count > 0, count


class Seen:
    """Which runs of ``passages`` occur in the texts given to `search`."""

    def __init__(self, passages: Iterable[Passages]) -> None:
        hashes: dict[int, list[np.ndarray]] = {}
        for one in passages:
            for words, (_, found) in one.sought.items():
                hashes.setdefault(words, []).append(found)
        self._keys = {words: np.unique(np.concatenate(parts)) for words, parts in sorted(hashes.items())}
        self._seen = {words: np.zeros(len(keys), bool) for words, keys in self._keys.items()}
        self._tables = {words: _table(keys) for words, keys in self._keys.items()}

    def search(self, texts: Iterable[bytes]) -> None:
        """Searches folded ``texts``. No run crosses from one text into the next."""
        held: list[bytes] = []
        size = 0
        for text in texts:
            held += (text, _BETWEEN)
            size += len(text)
            if size >= BLOCK:
                self._mark(WordRuns(b"".join(held)))
                held, size = [], 0
        if held:
            self._mark(WordRuns(b"".join(held)))

    def has(self, words: int, hashes: np.ndarray) -> np.ndarray:
        """Whether each run of ``words`` words from ``passages`` was seen, by its hash: bool, as ``hashes``."""
        return self._seen[words][np.searchsorted(self._keys[words], hashes)]

    def _mark(self, runs: WordRuns) -> None:
        for words, keys in self._keys.items():
            hashes = runs.of(words)
            hashes = hashes[self._tables[words][hashes >> np.uint64(64 - _BITS)]]  # removes most runs
            places = np.minimum(np.searchsorted(keys, hashes), len(keys) - 1)
            self._seen[words][places[keys[places] == hashes]] = True


def _table(keys: np.ndarray) -> np.ndarray:
    """bool [2 ^ _BITS]: whether a key begins with these bits."""
    table = np.zeros(1 << _BITS, bool)
    table[keys >> np.uint64(64 - _BITS)] = True
    return table
