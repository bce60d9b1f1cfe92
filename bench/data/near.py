"""Texts that are nearly the same: pairs at a word-level edit similarity of `NEAR` or more, all of them.

The similarity of two texts is 1 - d / max(n, m): d is the Levenshtein distance in words, n and m are their numbers of
words. `bench.data.overlap` asks here which training texts are nearly a given test text. The search is exact: an index
of short runs of words proposes candidates, and their distance is computed.

Why not the rule of ``data tokenise --deduplicate near`` (Jaccard index 0.8 of five-word runs)? It is made for
documents. One changed word removes five runs, so it recognises a text with one changed word only from 49 words on, and
most test examples are sentences. The words and the hashes of runs are the same (`models.text.runs`).
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from ptmbench.models.text.runs import Runs

NEAR = 0.8
"""Edit similarity decides after the runs have proposed, as in NearDup (Lee et al., 2022, "Deduplicating Training Data
Makes Language Models Better"); the threshold is that of `models.text.duplicates` for runs."""

_TRIES = 200
"""Candidates of one text whose distance is computed, those with most runs in common first: bounds the time on texts
written from templates."""
_LOOKED_UP = 1 << 17  # occurrences of a text's runs that are read at most, those of rare runs first


def distance(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    """The Levenshtein distance of two sequences, by Myers' (1999) bit vectors in the form of Hyyro (2003)."""
    if not one or not other:
        return len(one) + len(other)
    places: dict[bytes, int] = {}
    for place, word in enumerate(one):
        places[word] = places.get(word, 0) | 1 << place
    all_, last = (1 << len(one)) - 1, 1 << (len(one) - 1)
    up, down, found = all_, 0, len(one)
    for word in other:
        equal = places.get(word, 0)
        diagonal = (((equal & up) + up) ^ up) | equal | down
        right, left = down | (all_ & ~(diagonal | up)), diagonal & up
        found += bool(right & last) - bool(left & last)
        right, left = (right << 1) | 1, left << 1
        up, down = (left | ~(diagonal | right)) & all_, right & diagonal & all_
    return found


def similar(one: bytes, other: bytes) -> bool:
    """Whether two texts that `models.text.runs.folded` made are nearly the same, or the same."""
    if one == other:
        return True
    words, others = one.split(b"\0")[:-1], other.split(b"\0")[:-1]
    most = _edits(max(len(words), len(others)))
    return abs(len(words) - len(others)) <= most and distance(words, others) <= most


class Texts:
    """Distinct folded texts, prepared for `near`."""

    def __init__(self, texts: Sequence[bytes]) -> None:
        self.texts = texts
        self.runs = Runs(b"".join(texts))
        self.sizes = np.array([text.count(b"\0") for text in texts], np.int64)  # [D] in words
        self.owners = np.repeat(np.arange(len(texts)), self.sizes)  # [W] which text a word belongs to
        self._indices: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    @cached_property
    def begins(self) -> np.ndarray:
        """int64 [D + 1]: where the words of each text begin."""
        return np.concatenate([[0], np.cumsum(self.sizes)])

    def index(self, length: int) -> tuple[np.ndarray, np.ndarray]:
        """The hashes of all runs of ``length`` words within a text, sorted, and the text of each."""
        if length not in self._indices:
            hashes = self.runs.of(length)
            owners = self.owners[: len(hashes)]
            inside = owners == self.owners[length - 1 :][: len(hashes)]
            hashes, owners = hashes[inside], owners[inside]
            order = np.argsort(hashes, kind="stable")
            self._indices[length] = hashes[order], owners[order]
        return self._indices[length]

    def near(self, text: bytes) -> list[int]:
        """The places of the texts that are nearly ``text``, but for exact copies; at most `_TRIES`.

        An edit destroys at most q of a text's n - q + 1 runs of q words, so texts at distance d share all but q d of
        them (the q-gram lemma; Ukkonen, 1992). A text at a similarity of 0.8 has at most 1.25 n words and is at most
        n / 4 edits away.
        """
        size = text.count(b"\0")
        most = size // 4
        if not most:
            return []  # of three words none may change
        length = 3 if size >= 12 else 2  # the longest for which n - q + 1 > q n / 4
        hashes, owners = self.index(length)
        sought = Runs(text).of(length)
        begins, ends = np.searchsorted(hashes, sought), np.searchsorted(hashes, sought, side="right")
        counts = ends - begins
        order = np.argsort(counts, kind="stable")  # rare runs first
        enough = max(length * most + 1, int(np.searchsorted(np.cumsum(counts[order]), _LOOKED_UP)))
        chosen = order[:enough]
        seen = [owners[begin:end] for begin, end in zip(begins[chosen], ends[chosen], strict=True) if begin < end]
        if not seen:
            return []
        found, shared = np.unique(np.concatenate(seen), return_counts=True)
        longest = np.maximum(self.sizes[found], size)
        edits = (longest * 2 + 1e-9) // 10  # as `_edits`
        fits = (np.abs(self.sizes[found] - size) <= edits) & (shared >= len(chosen) - length * edits)
        found, shared = found[fits], shared[fits]
        first = found[np.argsort(-shared, kind="stable")[:_TRIES]]
        return [int(i) for i in first if self.texts[i] != text and similar(text, self.texts[i])]


def _edits(size: int) -> int:
    """The most edits that leave two texts near, the longer of which has ``size`` words: floor((1 - NEAR) size)."""
    return size * 2 // 10
