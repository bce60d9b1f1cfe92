"""Tokenises text with a table of the words that were tokenised before. Text repeats its words, and a look-up is cheap.

17 MB of English take 3.2 s on one core if the table has all their words, including the time for sentence splitting, and
5.7 s with an empty table. The `tokenizers` package alone takes 9 s.
"""

from collections.abc import Sequence
from itertools import chain, repeat

import numpy as np

from ptmbench.models.text.tokenizers import Tokenizer

_MOST = 1 << 19  # words in the table: about 100 MB


class Words:
    """Encodes texts with ``tokenizer`` and takes the ids of known words from a table.

    Every kind of tokenizer splits at spaces first and then encodes one word at a time. The ids of a text are therefore
    the ids of its words. Two exceptions are encoded as a whole: texts with "▁", which stands for a space in some kinds
    of tokenizer, and all texts if the tokenizer is not ``separable``.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._forget()

    def encode(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Returns the ids of all ``texts``, concatenated, int32 [N], and their number for each text, int64 [texts].

        The words of a text are separated by single spaces, and it has no space at its ends.
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
        last = np.cumsum(np.fromiter(map(len, words), np.int64, len(words)))  # [texts] words before each text's end
        return ids, np.diff(np.concatenate([[0], ends])[last], prepend=0)

    def _learn(self, words: Sequence[str]) -> None:
        """Puts ``words`` into the table. They are new and have no duplicates."""
        encoded = self._tokenizer.encode(words)
        self._numbers.update(zip(words, range(len(self._numbers), len(self._numbers) + len(words)), strict=True))
        sizes = np.fromiter(map(len, encoded), np.int64, len(encoded))
        self._ids = np.concatenate([self._ids, np.fromiter(chain.from_iterable(encoded), np.int32)])
        self._starts = np.concatenate([self._starts, self._starts[-1] + np.cumsum(sizes)])

    def _forget(self) -> None:
        self._numbers: dict[str, int] = {}
        self._ids, self._starts = np.zeros(0, np.int32), np.zeros(1, np.int64)
