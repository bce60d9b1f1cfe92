"""Words without case and punctuation, and hashes of runs of words: how texts are compared here. No TensorFlow.

`models.text.duplicates` looks with them for documents that repeat each other, `bench.data.overlap` for test examples
in training data. Words are case-folded runs of letters, the marks on them (vowels in Hindi, tones in Thai) and digits.
Chinese and Japanese are written without spaces: there each character is a word.
"""

import re
from functools import cache
from unicodedata import category

import numpy as np

from ptmbench.models.text.mixing import mixed

_BASE = np.uint64(0x9E3779B97F4A7C15)  # odd, so that powers of it can be divided out modulo 2^64
_INVERSE = np.uint64(pow(int(_BASE), -1, 2**64))
_HAN = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_ASCII = bytes(ord(chr(i).lower()) if chr(i).isalnum() or chr(i) == "_" else 0 for i in range(128)) + bytes(128)
_PUNCTUATION = "\u2013\u2014\u2018\u2019\u201c\u201d\u2026"
"""What keeps most English prose from being ASCII: dashes, quotes, the ellipsis."""
_SPACES = re.compile(rb"\0+")


def folded(text: str) -> bytes:
    r"""The words of ``text`` as UTF-8, each followed by ``\0``; text without a word as it stands."""
    given = text
    for mark in _PUNCTUATION if not text.isascii() else "":
        text = text.replace(mark, " ")
    if text.isascii():  # ten times as fast
        words = _SPACES.sub(b"\0", text.encode().translate(_ASCII)).lstrip(b"\0")
        if words:
            return words if words.endswith(b"\0") else words + b"\0"
    else:
        marked, plain, marks, beyond = _patterns()
        text = text.casefold()
        # What \w takes, and the marks at which it would cut: looking for these first is four times as fast.
        pattern = marked if marks.search(text) or beyond.search(text) else plain
        if found := pattern.findall(text):
            return "\0".join([*found, ""]).encode()
    rest = given.strip().replace("\0", " ").encode()
    return rest + b"\0" if rest else b""


class Runs:
    """The words of a text that `folded` made, and a hash of each run of them.

    Rolled over the bytes of the text (Karp & Rabin, 1987): a run's hash is the difference of two sums, divided by the
    power of the base at its begin.
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
        """A hash of each run of ``length`` words, by its first word: uint64 [W - length + 1], [0] where W is less."""
        count = max(0, len(self) - length + 1)
        begins, ends = self._begins[:count], self._ends[length - 1 :]
        return mixed((self._sums[ends] - self._sums[begins]) * self._inverses[:count])


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    """A word with marks, one without, a mark, and a character beyond those that `re` looks up in a table."""
    marks = "".join(character for character in map(chr, range(0x300, 0x10000)) if category(character)[0] == "M")
    beyond = "".join(character for character in map(chr, range(0x10000, 0x1F000)) if category(character)[0] == "M")
    letters, mark = rf"[^\W{_HAN}]", f"(?:[{marks}]|[{beyond}])"  # above U+1F000 there are no marks on letters
    plain = rf"[{_HAN}]|{letters}+"
    marked = rf"[{_HAN}]{mark}*|{letters}+(?:{mark}+{letters}*)*"
    return re.compile(marked), re.compile(plain), re.compile(f"[{marks}]"), re.compile("[\U00010000-\U0001efff]")
