"""Character maps in a TensorFlow graph, filled from a tokenizer's output for each Unicode character.

`bench.runs.exports.tokenizing` builds the normalisers of exported tokenizers from these maps. Libraries implement
different versions of Unicode. So TensorFlow does not decide what a letter, a space or a lower-case form is: a map holds
the output of the `tokenizers` package for every single code point. `Composed` is the exception. NFC and NFKC look at
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
"""First of the private code points that stand for characters which ICU normalises and the `tokenizers` package does
not."""
OTHER = 0x10FFFD
"""A private code point that no vocabulary has."""
_SAME = -1
_CONTEXTS = ("{}", "a{}\u0301", "a\u0316{}")
"""Contexts of a character to normalise: alone, before an accent above, and after an accent below."""


def decoded(texts: tf.Tensor) -> tf.RaggedTensor:
    """Decodes UTF-8 strings [B] to code points int32 [B, (C)]. Invalid bytes become U+FFFD."""
    return tf.strings.unicode_decode(texts, "UTF-8")


def encoded(codes: tf.RaggedTensor) -> tf.Tensor:
    """Encodes code points [B, (C)] as UTF-8 strings [B]."""
    return tf.strings.unicode_encode(codes, "UTF-8")


def changes(function: Callable[[str], str]) -> dict[int, str]:
    """Returns the output of ``function`` for each character that it changes, by code point.

    ``function`` must map each character independently of its neighbours.
    """
    found = {}
    for page in pages():
        text = "".join(map(chr, page))
        if function(text) != text:
            found |= {code: after for code in page if (after := function(chr(code))) != chr(code)}
    return found


class Replace(tf.Module):
    """Replaces each character by zero, one or several characters: code points int32 [B, (C)] to [B, (C')]."""

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
    """A table with a number for every code point. Equal pages of 256 code points are stored once."""

    def __init__(self, numbers: np.ndarray):
        super().__init__()
        pages, index = np.unique(numbers.reshape(-1, PAGE), axis=0, return_inverse=True)
        self.pages = tf.constant(pages.ravel(), tf.int32)
        self.index = tf.constant(index.ravel(), tf.int32)

    def __call__(self, codes: tf.Tensor) -> tf.Tensor:
        """Maps code points int32 [N] to numbers int32 [N]."""
        return tf.gather(self.pages, tf.gather(self.index, codes // PAGE) * PAGE + codes % PAGE)


class Composed(tf.Module):
    """Normalises strings [B] to NFC or NFKC of the Unicode version that the `tokenizers` package has.

    tensorflow-text's ICU is newer and normalises more characters. These are first replaced by private code points,
    which ICU leaves unchanged, as the package leaves characters that it does not know. The caller maps them back by
    `shown`.
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
    """Returns the code points that tensorflow-text and the `tokenizers` package normalise differently to ``form``."""
    ours = getattr(normalizers, form)().normalize_str
    found = set()
    for context in _CONTEXTS:
        for page in _differing(ours, form, [[context.format(chr(code)) for code in page] for page in pages()]):
            texts = [context.format(chr(code)) for code in page]
            theirs = tensorflow_text.normalize_utf8(texts, form).numpy()
            found |= {c for c, text, other in zip(page, texts, theirs, strict=True) if ours(text).encode() != other}
    known = set(found)
    for code in sorted(known):  # the parts of composed characters that only ICU knows
        parts = tensorflow_text.normalize_utf8([chr(code)], "NFD").numpy()[0].decode()
        if len(parts) > 1 and ours(parts).encode() != tensorflow_text.normalize_utf8([parts], form).numpy()[0]:
            found |= {ord(part) for part in parts if ours(f"a{part}\u0301") == f"a{part}\u0301"}
    return tuple(sorted(found))


def _differing(ours: Callable[[str], str], form: str, laid: list[list[str]]) -> list[list[int]]:
    """Returns those of `pages` whose texts, ``laid``, the two libraries normalise differently."""
    joined = ["".join(page) for page in laid]
    theirs = tensorflow_text.normalize_utf8(joined, form).numpy()
    return [page for page, text, other in zip(pages(), joined, theirs, strict=True) if ours(text).encode() != other]


@cache
def pages() -> list[list[int]]:
    """Returns all code points except surrogates, in pages of `PAGE`."""
    return [list(range(begin, begin + PAGE)) for begin in range(0, CODES, PAGE) if not 0xD800 <= begin < 0xE000]


def first_of(codes: tf.RaggedTensor) -> tf.Tensor:
    """Returns bool [N]: whether each of the code points begins a row."""
    rows = codes.value_rowids()
    return tf.concat([tf.ones_like(rows[:1], tf.bool), rows[1:] != rows[:-1]], 0)


def words_of(codes: tf.RaggedTensor, begins: tf.Tensor) -> tf.RaggedTensor:
    """Splits code points [B, (C)] into words, strings [B, (W)]. ``begins``, bool [N], is true where a word begins, and
    for the first code point of each row."""
    inner = tf.RaggedTensor.from_row_starts(codes.flat_values, tf.where(begins)[:, 0], validate=False)
    ends = tf.concat([[0], tf.cumsum(tf.cast(begins, tf.int64))], 0)
    return tf.RaggedTensor.from_row_splits(encoded(inner), tf.gather(ends, codes.row_splits), validate=False)


def shifted(values: tf.Tensor, by: int, edge: Any) -> tf.Tensor:
    """Shifts ``values`` [N] right by ``by`` places, or left if it is negative. ``edge`` fills the free places."""
    fill = tf.fill([tf.minimum(abs(by), tf.size(values))], tf.constant(edge, values.dtype))
    return tf.concat([fill, values[:-by]], 0) if by > 0 else tf.concat([values[-by:], fill], 0)
