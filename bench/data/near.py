"""Finds texts that are nearly the same: those with a word-level edit similarity of `NEAR` or more.

The similarity of two texts is 1 - d / max(n, m), where d is their Levenshtein distance in words, and n and m are their
lengths in words. `bench.data.overlap` looks up the training texts that are near a test text. An index of short runs of
words proposes candidates, and then their distance is computed. No near text is missed unless there are more than
`_TRIES` candidates.

``data tokenise --deduplicate near`` has another rule: a Jaccard index of 0.8 over five-word runs. That rule is for
documents. One changed word removes five runs, so it recognises a text with one changed word only if the text has at
least 49 words, and most test examples are single sentences. Both rules use the words and hashes of `models.text.runs`.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from ptmbench.models.text.runs import WordRuns

NEAR = 0.8
"""Smallest edit similarity of near texts. NearDup (Lee et al., 2022, "Deduplicating Training Data Makes Language Models
Better") compares candidates by the same measure; `models.text.duplicates` has the same threshold for runs."""

_TRIES = 200
"""Most candidates of one text whose distance is computed; those that share most runs come first. This bounds the time
for texts that are written from templates."""
_LOOKED_UP = 1 << 17
"""Occurrences of a text's runs that are read, rare runs first. More are read only if the search needs them."""


def distance(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    """The Levenshtein distance of two sequences, by Myers' (1999) bit vectors as Hyyrö (2003) writes them."""
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
    """Whether two texts, as `models.text.runs.fold_words` returns them, are the same or nearly the same."""
    if one == other:
        return True
    words, others = one.split(b"\0")[:-1], other.split(b"\0")[:-1]
    most = _edits(max(len(words), len(others)))
    return abs(len(words) - len(others)) <= most and distance(words, others) <= most


class Texts:
    """Distinct folded texts with an index for `near`."""

    def __init__(self, texts: Sequence[bytes]) -> None:
        self.texts = texts
        self.runs = WordRuns(b"".join(texts))
        self.sizes = np.array([text.count(b"\0") for text in texts], np.int64)  # [D] in words
        self.owners = np.repeat(np.arange(len(texts)), self.sizes)  # [W] the text of each word
        self._indices: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    @cached_property
    def begins(self) -> np.ndarray:
        """int64 [D + 1]: the first word of each text."""
        return np.concatenate([[0], np.cumsum(self.sizes)])

    def index(self, length: int) -> tuple[np.ndarray, np.ndarray]:
        """The sorted hashes of all runs of ``length`` words that lie within one text, and the text of each run."""
        if length not in self._indices:
            hashes = self.runs.of(length)
            owners = self.owners[: len(hashes)]
            inside = owners == self.owners[length - 1 :][: len(hashes)]
            hashes, owners = hashes[inside], owners[inside]
            order = np.argsort(hashes, kind="stable")
            self._indices[length] = hashes[order], owners[order]
        return self._indices[length]

    def near(self, text: bytes) -> list[int]:
        """Indices of the texts that are near ``text`` and not equal to it, at most `_TRIES`.

        An edit changes at most q of a text's n - q + 1 runs of q words, so texts at distance d share all
        but q d of them (the q-gram lemma; Ukkonen, 1992). A text at a similarity of 0.8 has at most 1.25 n words, and
        its distance is at most n / 4.
        """
        size = text.count(b"\0")
        most = size // 4
        if not most:
            return []  # an edit in three words is too much
        length = 3 if size >= 12 else 2  # the longest for which n - q + 1 > q n / 4
        hashes, owners = self.index(length)
        sought = WordRuns(text).of(length)
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
    """The largest distance of two near texts of which the longer has ``size`` words: floor((1 - NEAR) size)."""
    return size * 2 // 10
