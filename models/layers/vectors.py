"""Encoders that are tables of vectors, of words or of whole texts."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptmbench.models.layers.core import Layer, built, made_from
from ptmbench.models.layers.encoding import EncodingLayer, mean
from ptmbench.models.layers.operations import check_length, dropout, shape
from ptmbench.models.layers.spelling import marker_of
from ptmbench.models.layers.vectors_config import (
    NOISE,
    STEPS,
    ParagraphsConfig,
    ParagraphsInContextConfig,
    SubwordVectorsConfig,
    SummedVectorsConfig,
    WordVectorsConfig,
)
from ptmbench.models.pretrainable import Encoding

__all__ = ["Paragraphs", "ParagraphsInContext", "SubwordVectors", "SummedVectors", "WordVectors", "built"]

SHORTEST, LONGEST = 3, 6
"""Lengths of the shortest and of the longest n-gram, in characters."""
WINDOW, NEGATIVES = 5, 5
"""The most words on either side of a predicted one (in training the number is drawn from 1 on), and the weight of
noise."""
REACH = 3
"""Words on either side if nothing is drawn: the mean of the numbers that training draws."""
RATE = 1.0
"""Learning rate for the vector of a new text. Measured by the accuracy of a logistic regression that tells which of 10
novels 80 words are from (1000 pieces to learn from, 500 to test, width 64), with 10 steps and 64 noise words: DBOW 84.2
% with this rate, 77.2 % with the rate 4; DM 68.4 %, and 71.2 % with 30 steps at 4."""


@made_from(WordVectorsConfig)
class WordVectors(EncodingLayer):
    """Batch to `Encoding` of depth 0. ``pooled`` is the mean over the tokens, as no token of a bag of words is
    special."""

    depth = 0

    def __init__(self, config: WordVectorsConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.width, self.length = config.tokens.width, config.length

    @property
    def table(self) -> keras.Variable:
        """[V, D]."""
        return self.tokens.table

    def vectors(self, tokens: tf.Tensor) -> tf.Tensor:
        """The vectors [B, T, D] of ``tokens`` [B, T]."""
        return self.tokens(tokens)

    def call(self, batch: dict[str, Any], seed: Any = None) -> Encoding:
        tokens = batch["tokens"]
        check_length(shape(tokens)[1], self.length, "encoder")
        vectors = dropout(self.vectors(tokens), self.dropout, seed, 0)  # [B, T, D]
        return Encoding(tokens=vectors, pooled=mean(vectors, tokens), layers=(vectors,))


@made_from(SummedVectorsConfig)
class SummedVectors(WordVectors):
    """`WordVectors` that are the sums of two tables."""

    def vectors(self, tokens: tf.Tensor) -> tf.Tensor:
        return self.tokens(tokens) + self.contexts(tokens)


@made_from(SubwordVectorsConfig)
class SubwordVectors(WordVectors):
    """`WordVectors` that are computed from the words' own vectors and those of their n-grams.

    Bojanowski et al. (2017), section 3.2: a word is written between < and >, and its n-grams are all substrings of 3 to
    6 characters of that. The 32-bit FNV-1a hash of an n-gram's UTF-8 bytes selects one of K vectors. As in the authors'
    program, the hash reads bytes as signed numbers, and a word's vector is the mean of all. A vocabulary of pieces is
    spelled in the same way; a piece that continues a word has no < in front.

    The vectors of all words are computed at once, because a vocabulary has fewer words than a batch has tokens times
    n-grams. A product with a sparse matrix takes nine tenths of the time of the segment sums, but XLA has none.
    Compiled, the sums take a third (8,000 words, 20,000 n-grams, width 128, with the gradient).
    """

    def __init__(self, config: SubwordVectorsConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        words, buckets = config.tokens.rows, config.ngrams.rows
        self._rows, self._columns, self._shares = _composition(config.pieces, words, config.first, buckets)

    def vectors(self, tokens: tf.Tensor) -> tf.Tensor:
        return tf.gather(self.composed(), tokens)

    def composed(self) -> tf.Tensor:
        """The vectors of all words, [V, D]."""
        whole = tf.concat([self.tokens.whole(), self.ngrams.whole()], axis=0)
        # The reshape makes the gradient of the lookup dense. A sparse one has no static shape after a concatenation.
        parts = tf.gather(tf.reshape(whole, whole.shape), self._columns)  # [N, D]
        shares = tf.cast(self._shares[:, None], parts.dtype)  # [N, 1]
        return tf.math.unsorted_segment_sum(shares * parts, self._rows, self.config.tokens.rows)


def ngrams(word: str) -> list[str]:
    """The n-grams of ``word``, including its marks, in the order of their first characters and then of their
    lengths."""
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
    marker, result = marker_of(pieces), []
    for piece in pieces:
        body = piece.removeprefix(marker or "##") or piece
        begins = (body != piece) == bool(marker)
        result.append(f"{'<' if begins else ''}{body}>")
    return result


def _composition(
    pieces: Sequence[str], count: int, first: int, buckets: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Words, their components (words, then buckets) and the shares of these: int32, int32 and float32 [N]."""
    words = spelled((pieces or [str(number) for number in range(count)])[first:])
    parts = [[number] for number in range(first)]
    for number, word in enumerate(words, first):
        parts.append([number, *(count + hashed(ngram) % buckets for ngram in ngrams(word))])
    sizes = np.array([len(part) for part in parts])
    rows = np.repeat(np.arange(count, dtype=np.int32), sizes)
    return rows, np.concatenate(parts).astype(np.int32), np.repeat(1 / sizes, sizes).astype(np.float32)


@made_from(ParagraphsConfig)
class Paragraphs(EncodingLayer):
    """Batch to `Encoding` of depth 1: the words' vectors, then the text's vector at each of them, which ``pooled`` is
    too.

    A text's vector d predicts its words (Le and Mikolov, 2014, sections 2.2 and 2.3). A text that was not trained on
    gets its d from gradient steps on d alone, while all weights stay fixed. In the paper this happens before a
    classifier reads d; here it is a part of the network. It takes `STEPS` steps of a fixed rate from d = 0, so the same
    text always gets the same vector:

        L(d) = mean over words w of  ln(1 + exp(- u_w . d)) + k E_{n ~ p} ln(1 + exp(u_n . d))

    This needs noise words too, but a network does not know the frequencies of words. It therefore learns the
    distribution p of the noise during training (`models.objectives.paragraph_vectors`). A new text gets the words in
    the middle of K equal shares of p. A pair of texts is one text. [UNK] is the only special token that counts as a
    word, as in training.
    """

    depth = 1

    def __init__(self, config: ParagraphsConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.width, self.length = config.answers.width, config.length

    def words(self) -> Layer:
        """The table of the words' vectors. Without context words there are only the vectors of predicted words."""
        return self.answers

    @property
    def table(self) -> keras.Variable:
        """[V, D]."""
        return self.words().table

    def context(self, tokens: tf.Tensor, windows: tf.Tensor, documents: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """For each of ``tokens`` [B, T], the sum [B, T, D] of the context vectors that predict it together with the
        text's vector, and their number, float [B, T]. ``windows`` [B, T] are the window sizes, 0 for tokens that are
        not words. Contexts do not cross ``documents`` [B, T]."""
        return tf.zeros([*shape(tokens), self.width], self.compute_dtype), tf.zeros_like(windows, self.compute_dtype)

    def call(self, batch: dict[str, Any], seed: Any = None) -> Encoding:
        tokens = tf.convert_to_tensor(batch["tokens"])
        check_length(shape(tokens)[1], self.length, "encoder")
        words = dropout(self.words()(tokens), self.dropout, seed, 0)  # [B, T, D]
        text = self.inferred(tokens)  # [B, D]
        top = tf.broadcast_to(text[:, None], tf.shape(words))
        return Encoding(tokens=top, pooled=text, layers=(words, top))

    def quantiles(self) -> tf.Tensor:
        """The words in the middle of K equal shares of the noise, int [K]."""
        edges = tf.cumsum(tf.nn.softmax(tf.cast(self.noise.value, tf.float32)))
        places = (np.arange(NOISE, dtype=np.float32) + 0.5) / NOISE
        return tf.minimum(tf.searchsorted(edges, tf.constant(places)), self.noise.shape[0] - 1)

    def inferred(self, tokens: tf.Tensor) -> tf.Tensor:
        """The vectors [B, D] of the texts ``tokens`` [B, T]."""
        there = (tokens >= self.config.first) | (tokens == self.config.unknown)  # [B, T]
        present = tf.cast(there, tf.float32)  # [B, T]
        beside, number = self.context(tokens, REACH * tf.cast(there, tf.int32), tf.zeros_like(tokens))
        share = 1.0 / (1.0 + tf.cast(number, tf.float32))  # of the text's vector in h, [B, T]
        weight = present * share / tf.maximum(tf.reduce_sum(present, axis=1, keepdims=True), 1.0)
        own = tf.cast(self.answers(tokens), tf.float32)  # [B, T, D]
        noise = tf.cast(self.answers(self.quantiles()), tf.float32)  # [K, D]
        beside = tf.cast(beside, tf.float32)
        near = tf.reduce_sum(own * beside, axis=2)  # the scores without d, [B, T]
        far = tf.einsum("btd,kd->btk", beside, noise)  # [B, T, K]
        text = tf.zeros_like(own[:, 0])
        for _ in range(STEPS):
            missed = tf.sigmoid(-share * (near + tf.einsum("btd,bd->bt", own, text)))  # [B, T]
            fooled = tf.sigmoid(share[:, :, None] * (far + tf.matmul(text, noise, transpose_b=True)[:, None]))
            pulled = tf.einsum("bt,btd->bd", weight * missed, own)
            pushed = tf.matmul(tf.reduce_sum(weight[:, :, None] * fooled, axis=1), noise) / NOISE
            text += RATE * (pulled - NEGATIVES * pushed)
        return tf.cast(text, self.compute_dtype)


@made_from(ParagraphsInContextConfig)
class ParagraphsInContext(Paragraphs):
    """`Paragraphs` with separate vectors for the words around the predicted word. In L(d), d is replaced by

        h_w = (d + sum of v_c over the words c around w) / (1 + number of these)

    The paper offers the mean or the concatenation; this is the mean.
    """

    def words(self) -> Layer:
        return self.tokens

    def context(self, tokens: tf.Tensor, windows: tf.Tensor, documents: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        there = windows > 0
        vectors = self.tokens(tokens)  # [B, T, D]
        total, number = tf.zeros_like(vectors), tf.zeros_like(windows, vectors.dtype)
        for distance in range(1, WINDOW + 1):
            for sign in (-1, 1):
                other = shift_columns(documents, sign * distance, -1)
                seen = (windows >= distance) & (other == documents) & shift_columns(there, sign * distance, False)
                seen = tf.cast(seen, vectors.dtype)
                total += seen[:, :, None] * shift_columns(vectors, sign * distance, 0)
                number += seen
        return total, number


def shift_columns(values: tf.Tensor, distance: int, filler: Any) -> tf.Tensor:
    """``values`` [B, T, ...] with each column replaced by the one ``distance`` columns further, and ``filler`` beyond
    the ends."""
    length = shape(values)[1]
    pads = [[0, 0], [abs(distance), abs(distance)], *([[0, 0]] * (len(values.shape) - 2))]
    start = abs(distance) + distance
    return tf.pad(values, pads, constant_values=filler)[:, start : start + length]
