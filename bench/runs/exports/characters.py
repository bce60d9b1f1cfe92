"""Maps of characters inside a graph of TensorFlow, filled from what a tokenizer does with each character of Unicode.

`bench.runs.exports.tokenizing` builds the normalisers of exported tokenizers from these maps. Libraries know different
versions of Unicode, so nothing here asks TensorFlow what a letter, a space or a lower-case form is. A map holds what
the `tokenizers` package answers for every single code point. `Composed` is the exception: NFC and NFKC look at
several characters, so tensorflow-text's operator computes them.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text
from tokenizers import normalizers

CODES = 0x110000
"""Number of code points."""
PAGE = 256
SPARE = 0x10F000
"""First code point of a private plane that stands for characters which ICU knows and the `tokenizers` package does
not."""
OTHER = 0x10FFFD
"""A private code point that no vocabulary has."""
_SAME = -1
_CONTEXTS = ("{}", "a{}\u0301", "a\u0316{}")
"""Where a character is normalised: alone, before an accent above, and behind an accent below."""


def decoded(texts: tf.Tensor) -> tf.RaggedTensor:
    """Strings [B] in UTF-8 to code points int32 [B, (C)]; U+FFFD for bytes that are none."""
    return tf.strings.unicode_decode(texts, "UTF-8")


def encoded(codes: tf.RaggedTensor) -> tf.Tensor:
    """Code points [B, (C)] to strings [B]."""
    return tf.strings.unicode_encode(codes, "UTF-8")


def changes(function: Callable[[str], str]) -> dict[int, str]:
    """What ``function`` makes of each character that it changes. It has to look at characters one by one."""
    found = {}
    for page in pages():
        text = "".join(map(chr, page))
        if function(text) != text:
            found |= {code: after for code in page if (after := function(chr(code))) != chr(code)}
    return found


class Replace(tf.Module):
    """Replaces characters by none, one or several others: code points int32 [B, (C)] to [B, (C')]."""

    def __init__(self, replacements: Mapping[int, str]):
        super().__init__()
        numbers: dict[tuple[int, ...], int] = {(_SAME,): 0}
        entries = np.zeros(CODES, np.int32)
        for code, text in replacements.items():
            sequence = tuple(_SAME if ord(one) == code else ord(one) for one in text)
            entries[code] = numbers.setdefault(sequence, len(numbers))
        self.entries = Lookup(entries)
        sizes = [len(sequence) for sequence in numbers]
        self.sizes = tf.constant(sizes, tf.int64)
        flat = [code for sequence in numbers for code in sequence]
        self.sequences = tf.RaggedTensor.from_row_lengths(tf.constant(flat, tf.int32), self.sizes)

    def __call__(self, codes: tf.RaggedTensor) -> tf.RaggedTensor:
        entries = self.entries(codes.flat_values)
        sizes = tf.gather(self.sizes, entries)
        new = tf.gather(self.sequences, entries).flat_values
        new = tf.where(new == _SAME, tf.repeat(codes.flat_values, sizes), new)
        ends = tf.concat([[0], tf.cumsum(sizes)], 0)
        return tf.RaggedTensor.from_row_splits(new, tf.gather(ends, codes.row_splits), validate=False)


class Lookup(tf.Module):
    """A number for every code point. Pages of 256 that are alike are stored once."""

    def __init__(self, numbers: np.ndarray):
        super().__init__()
        pages, index = np.unique(numbers.reshape(-1, PAGE), axis=0, return_inverse=True)
        self.pages = tf.constant(pages.ravel(), tf.int32)
        self.index = tf.constant(index.ravel(), tf.int32)

    def __call__(self, codes: tf.Tensor) -> tf.Tensor:
        """Code points int32 [N] to numbers int32 [N]."""
        return tf.gather(self.pages, tf.gather(self.index, codes // PAGE) * PAGE + codes % PAGE)


class Composed(tf.Module):
    """NFC or NFKC of the Unicode version that the `tokenizers` package knows: strings [B] to strings [B].

    tensorflow-text's ICU is newer and normalises more characters. Those stand aside under private code points, which
    are as inert as unknown characters are for the package; `shown` has the way back.
    """

    def __init__(self, form: str):
        super().__init__()
        self.form, later = form, _later(form)
        spare = {code: chr(SPARE + number) for number, code in enumerate(later)}
        self.shown = {ord(one): chr(code) for code, one in spare.items()}
        self.hide = Replace(dict.fromkeys(self.shown, chr(OTHER)) | spare)

    def __call__(self, texts: tf.Tensor) -> tf.Tensor:
        return tensorflow_text.normalize_utf8(encoded(self.hide(decoded(texts))), self.form)


@cache
def _later(form: str) -> tuple[int, ...]:
    """The code points that tensorflow-text normalises to ``form`` otherwise than the `tokenizers` package does."""
    ours = getattr(normalizers, form)().normalize_str
    found = set()
    for context in _CONTEXTS:
        for page in _differing(ours, form, [[context.format(chr(code)) for code in page] for page in pages()]):
            texts = [context.format(chr(code)) for code in page]
            theirs = tensorflow_text.normalize_utf8(texts, form).numpy()
            found |= {c for c, text, other in zip(page, texts, theirs, strict=True) if ours(text).encode() != other}
    known = set(found)
    for code in sorted(known):  # what a later composed character is made of
        parts = tensorflow_text.normalize_utf8([chr(code)], "NFD").numpy()[0].decode()
        if len(parts) > 1 and ours(parts).encode() != tensorflow_text.normalize_utf8([parts], form).numpy()[0]:
            found |= {ord(part) for part in parts if ours(f"a{part}\u0301") == f"a{part}\u0301"}
    return tuple(sorted(found))


def _differing(ours: Callable[[str], str], form: str, laid: list[list[str]]) -> list[list[int]]:
    """The code points of those of `pages`, laid out as ``laid``, that are normalised in two ways."""
    joined = ["".join(page) for page in laid]
    theirs = tensorflow_text.normalize_utf8(joined, form).numpy()
    return [page for page, text, other in zip(pages(), joined, theirs, strict=True) if ours(text).encode() != other]


@cache
def pages() -> list[list[int]]:
    """All code points that are characters, in pages."""
    return [list(range(begin, begin + PAGE)) for begin in range(0, CODES, PAGE) if not 0xD800 <= begin < 0xE000]


def first_of(codes: tf.RaggedTensor) -> tf.Tensor:
    """bool [N]: which of all code points begin a row."""
    rows = codes.value_rowids()
    return tf.concat([tf.ones_like(rows[:1], tf.bool), rows[1:] != rows[:-1]], 0)


def words_of(codes: tf.RaggedTensor, begins: tf.Tensor) -> tf.RaggedTensor:
    """Code points [B, (C)] to words, strings [B, (W)]; ``begins`` bool [N] says which code points begin one. The first
    of each row does."""
    inner = tf.RaggedTensor.from_row_starts(codes.flat_values, tf.where(begins)[:, 0], validate=False)
    ends = tf.concat([[0], tf.cumsum(tf.cast(begins, tf.int64))], 0)
    return tf.RaggedTensor.from_row_splits(encoded(inner), tf.gather(ends, codes.row_splits), validate=False)


def shifted(values: tf.Tensor, by: int, edge: Any) -> tf.Tensor:
    """``values`` [N] moved right by ``by`` places (left where it is negative); ``edge`` fills what becomes free."""
    fill = tf.fill([tf.minimum(abs(by), tf.size(values))], tf.constant(edge, values.dtype))
    return tf.concat([fill, values[:-by]], 0) if by > 0 else tf.concat([values[-by:], fill], 0)
