"""Words without case and punctuation, and hashes of runs of words, for the comparison of texts.

`models.text.duplicates` uses them to find documents that repeat each other, and `bench.data.overlap` to find test
examples in training data. A word is a case-folded run of letters, digits and the marks on letters (vowels in Hindi,
tones in Thai). Chinese and Japanese are written without spaces, so each of their characters is a word.
"""

import re
from functools import cache
from unicodedata import category

import numpy as np

from ptmbench.models.text.mixing import hash_integers

_BASE = np.uint64(0x9E3779B97F4A7C15)  # odd, so that its powers have inverses modulo 2^64
_INVERSE = np.uint64(pow(int(_BASE), -1, 2**64))
_HAN = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_ASCII = bytes(ord(chr(i).lower()) if chr(i).isalnum() or chr(i) == "_" else 0 for i in range(128)) + bytes(128)
_PUNCTUATION = "\u2013\u2014\u2018\u2019\u201c\u201d\u2026"
"""The characters of most English prose that are not ASCII: dashes, quotes, the ellipsis."""
_SPACES = re.compile(rb"\0+")


def fold_words(text: str) -> bytes:
    r"""Returns the words of ``text`` as UTF-8, each followed by ``\0``.

    A text without a word counts as one word: itself, without white space at its ends.
    """
    given = text
    for mark in _PUNCTUATION if not text.isascii() else "":
        text = text.replace(mark, " ")
    if text.isascii():  # ten times as fast as a regular expression
        words = _SPACES.sub(b"\0", text.encode().translate(_ASCII)).lstrip(b"\0")
        if words:
            return words if words.endswith(b"\0") else words + b"\0"
    else:
        marked, plain, marks, beyond = _patterns()
        text = text.casefold()
        # \w splits words at marks. The pattern without marks is used if there are none: four times as fast.
        pattern = marked if marks.search(text) or beyond.search(text) else plain
        if found := pattern.findall(text):
            return "\0".join([*found, ""]).encode()
    rest = given.strip().replace("\0", " ").encode()
    return rest + b"\0" if rest else b""


class WordRuns:
    """The words of a text that `fold_words` returned, and a hash of each run of words.

    This is a rolling hash over the bytes of the text (Karp & Rabin, 1987). The hash of a run is the difference of two
    cumulative sums, divided by the power of the base at the start of the run.
    """

    def __init__(self, text: bytes) -> None:
        characters = np.frombuffer(text, np.uint8)
        powers = np.cumprod(np.full(len(characters), _BASE))
        terms = (characters.astype(np.uint64) + np.uint64(1)) * powers
        self._sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms)])
        self._ends = np.flatnonzero(characters == 0) + 1
        self._begins = np.concatenate([[0], self._ends[:-1]])[: len(self._ends)]
        self._inverses = np.cumprod(np.full(len(characters), _INVERSE))[self._begins]

    def __len__(self) -> int:
        """W, the number of words."""
        return len(self._ends)

    def of(self, length: int) -> np.ndarray:
        """Hashes each run of ``length`` words, in text order: uint64 [W - length + 1], or [0] if W is less."""
        count = max(0, len(self) - length + 1)
        begins, ends = self._begins[:count], self._ends[length - 1 :]
        return hash_integers((self._sums[ends] - self._sums[begins]) * self._inverses[:count])


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    """Returns patterns for a word with marks, a word without, a mark, and a character above U+FFFF.

    `re` has no table for characters above U+FFFF.
    """
    marks = "".join(character for character in map(chr, range(0x300, 0x10000)) if category(character)[0] == "M")
    beyond = "".join(character for character in map(chr, range(0x10000, 0x1F000)) if category(character)[0] == "M")
    letters, mark = rf"[^\W{_HAN}]", f"(?:[{marks}]|[{beyond}])"  # above U+1F000 there are no marks on letters
    plain = rf"[{_HAN}]|{letters}+"
    marked = rf"[{_HAN}]{mark}*|{letters}+(?:{mark}+{letters}*)*"
    return re.compile(marked), re.compile(plain), re.compile(f"[{marks}]"), re.compile("[\U00010000-\U0001efff]")
