"""Tokenising by looking up words that were met before: text repeats itself, and a look costs less. No TensorFlow.

On one core 17 MB of English take 3.2 s with a table that knows their words, sentences and all, and 5.7 s with an empty
one; the `tokenizers` package alone takes 9.
"""

from collections.abc import Sequence
from itertools import chain, repeat

import numpy as np

from ptmbench.models.text.tokenizers import Tokenizer

_MOST = 1 << 19  # words that are remembered: about 100 MB


class Words:
    """The ids of texts by ``tokenizer``, each word's taken from a table.

    Every kind of tokenizer cuts at spaces first and looks at one word at a time, so that a text's ids are those of its
    words. Exceptions are encoded as a whole: texts with "▁", which stands for a space inside some kinds, and all texts
    where the tokenizer is not ``separable``.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._forget()

    def encode(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """The ids of all ``texts`` in a row, int32 [N], and how many each has, int64 [texts].

        Words of a text stand apart by single spaces, with none at its ends.
        """
        whole = not self._tokenizer.separable
        words = [[text] if whole or "▁" in text else text.split(" ") for text in texts]
        flat = list(chain.from_iterable(words))
        if len(self._numbers) > _MOST:
            self._forget()
        places = np.fromiter(map(self._numbers.get, flat, repeat(-1)), np.int64, len(flat))  # [words]
        missing = np.flatnonzero(places < 0)
        if len(missing):
            new = [flat[place] for place in missing]
            self._learn(list(dict.fromkeys(new)))
            places[missing] = [self._numbers[word] for word in new]
        starts, sizes = self._starts[places], self._starts[places + 1] - self._starts[places]
        ends = np.cumsum(sizes)
        ids = self._ids[np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - ends + sizes, sizes)]
        last = np.cumsum(np.fromiter(map(len, words), np.int64, len(words)))  # [texts] words up to the end of each
        return ids, np.diff(np.concatenate([[0], ends])[last], prepend=0)

    def _learn(self, words: Sequence[str]) -> None:
        """Put ``words`` into the table; each is new and there once."""
        encoded = self._tokenizer.encode(words)
        self._numbers.update(zip(words, range(len(self._numbers), len(self._numbers) + len(words)), strict=True))
        sizes = np.fromiter(map(len, encoded), np.int64, len(encoded))
        self._ids = np.concatenate([self._ids, np.fromiter(chain.from_iterable(encoded), np.int32)])
        self._starts = np.concatenate([self._starts, self._starts[-1] + np.cumsum(sizes)])

    def _forget(self) -> None:
        self._numbers: dict[str, int] = {}
        self._ids, self._starts = np.zeros(0, np.int32), np.zeros(1, np.int64)
