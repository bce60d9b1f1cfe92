"""A lookup table of words and of the character n-grams that they are spelled with.

Bojanowski, Grave, Joulin and Mikolov (2017), section 3.2: a word is written between < and >, and its n-grams are all
runs of 3 to 6 characters of that. They are counted off into K vectors by the 32-bit FNV-1a hash of their UTF-8 bytes,
whose bytes the authors' program reads as signed numbers, and so does this. As there, a word's vector is the mean of
all.

A vocabulary of pieces is spelled in the same way; a piece that goes on with a word has no < in front.
"""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptmbench.models.architectures.parts import check_length, dropout, shape
from ptmbench.models.architectures.word_vectors import initializer
from ptmbench.models.card import Size
from ptmbench.models.pretrainable import Encoding
from ptmbench.models.tokenizers import Vocabulary

SHORTEST, LONGEST = 3, 6


def ngrams(word: str) -> list[str]:
    """The n-grams of ``word``, marks included, by where they begin and then by length."""
    ends = range(SHORTEST, LONGEST + 1)
    return [word[at : at + size] for at in range(len(word)) for size in ends if at + size <= len(word)]


def hashed(ngram: str) -> int:
    """The authors' hash of ``ngram``, 32 bits."""
    value = 2166136261
    for byte in ngram.encode():
        signed = byte | 0xFFFFFF00 if byte > 127 else byte
        value = (value ^ signed) * 16777619 % 2**32
    return value


def spelled(pieces: Sequence[str]) -> list[str]:
    """``pieces`` of a vocabulary between marks: "##ing" is "ing>", and "▁a" or "Ġa" is "<a>"."""
    marker = next((mark for mark in "▁Ġ" if sum(piece.startswith(mark) for piece in pieces) > len(pieces) / 10), None)
    result = []
    for piece in pieces:
        body = piece.removeprefix(marker or "##") or piece
        begins = (body != piece) == bool(marker)
        result.append(f"{'<' if begins else ''}{body}>")
    return result


class SubwordVectors(keras.layers.Layer):
    """Batch to `Encoding` of depth 0, as `models.architectures.word_vectors.WordVectors`.

    ``table`` [V, D] holds what is the words' own, ``ngrams`` [K, D] what they share, with K the ``inner`` of the size.
    Special tokens have no n-grams. Where only the number of words is known, they are spelled by their ids.

    The vectors of all words are composed at once: there are fewer words in a vocabulary than tokens times n-grams in a
    batch. A product with a sparse matrix would say the same as the segments' sums, in nine tenths of the time, but XLA
    has none; compiled, the sums take a third (8,000 words, 20,000 n-grams, width 128, with the gradient).
    """

    causal = False
    recurrent = False
    depth = 0

    def __init__(self, size: Size, vocabulary: Vocabulary, name: str = "encoder"):
        super().__init__(name=name)
        self.width, self.length, self.dropout = size.width, size.length, 0.1
        self.table = self.add_weight((vocabulary.size, size.width), initializer(size.width), name="vectors")
        self.ngrams = self.add_weight((size.inner, size.width), initializer(size.width), name="ngrams")
        self._rows, self._columns, self._shares = _composition(vocabulary, size.inner)
        self.built = True

    def call(self, batch: dict[str, Any], seed: Any = None) -> Encoding:
        tokens = batch["tokens"]
        check_length(shape(tokens)[1], self.length, "encoder")
        vectors = dropout(tf.gather(self.composed(), tokens), self.dropout, seed, 0)  # [B, T, D]
        present = tf.cast(tf.not_equal(tokens, 0), vectors.dtype)[:, :, None]  # [B, T, 1]
        pooled = tf.reduce_sum(vectors * present, axis=1) / tf.maximum(tf.reduce_sum(present, axis=1), 1.0)  # [B, D]
        return Encoding(tokens=vectors, pooled=pooled, layers=(vectors,))

    def composed(self) -> tf.Tensor:
        """The vectors of all words, [V, D]."""
        parts = tf.gather(tf.concat([self.table.value, self.ngrams.value], axis=0), self._columns)  # [N, D]
        shares = tf.cast(self._shares[:, None], parts.dtype)  # [N, 1]
        return tf.math.unsorted_segment_sum(shares * parts, self._rows, self.table.shape[0])


def _composition(vocabulary: Vocabulary, buckets: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Words, what they are composed of (words, then buckets) and its shares: int32, int32 and float32 [N]."""
    pieces = vocabulary.pieces or [str(number) for number in range(vocabulary.size)]
    words = spelled(pieces[vocabulary.first :])
    parts = [[number] for number in range(vocabulary.first)]
    for number, word in enumerate(words, vocabulary.first):
        parts.append([number, *(vocabulary.size + hashed(ngram) % buckets for ngram in ngrams(word))])
    sizes = np.array([len(part) for part in parts])
    rows = np.repeat(np.arange(vocabulary.size, dtype=np.int32), sizes)
    return rows, np.concatenate(parts).astype(np.int32), np.repeat(1 / sizes, sizes).astype(np.float32)
