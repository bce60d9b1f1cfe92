"""Tables of word vectors and of whole texts: encoders that know no order of words."""

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
"""Characters of an n-gram."""
WINDOW, NEGATIVES = 5, 5
"""Words on either side of a predicted one at most, in training drawn from 1 on, and how often noise counts."""
REACH = 3
"""Words on either side when nothing is drawn: the mean of what training draws."""
RATE = 1.0
"""Of the descent for a new text. Which of 10 novels 80 words are from (1000 pieces to learn from, 500 asked, width 64,
logistic regression), with 10 steps and 64 noise words: DBOW 84.2 % with this rate, 77.2 % with the rate 4; DM 68.4 %,
and 71.2 % with 30 steps at 4."""


@made_from(WordVectorsConfig)
class WordVectors(EncodingLayer):
    """Batch to `Encoding` of depth 0. ``pooled`` is the mean over the tokens (a bag of words has no better place)."""

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
    """`WordVectors` that are made from the words' own and those of their n-grams.

    Bojanowski et al. (2017), section 3.2: a word is written between < and >, and its n-grams are all runs of 3 to 6
    characters of that. They are counted off into K vectors by the 32-bit FNV-1a hash of their UTF-8 bytes, whose bytes
    the authors' program reads as signed numbers, and so does this. As there, a word's vector is the mean of all. A
    vocabulary of pieces is spelled in the same way; a piece that goes on with a word has no < in front.

    The vectors of all words are composed at once: there are fewer words in a vocabulary than tokens times n-grams in a
    batch. A product with a sparse matrix would say the same as the segments' sums, in nine tenths of the time, but XLA
    has none; compiled, the sums take a third (8,000 words, 20,000 n-grams, width 128, with the gradient).
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
        # Reshaped, the gradient of the lookup is dense; that of rows has no static shape behind a concatenation.
        parts = tf.gather(tf.reshape(whole, whole.shape), self._columns)  # [N, D]
        shares = tf.cast(self._shares[:, None], parts.dtype)  # [N, 1]
        return tf.math.unsorted_segment_sum(shares * parts, self._rows, self.config.tokens.rows)


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
    marker, result = marker_of(pieces), []
    for piece in pieces:
        body = piece.removeprefix(marker or "##") or piece
        begins = (body != piece) == bool(marker)
        result.append(f"{'<' if begins else ''}{body}>")
    return result


def _composition(
    pieces: Sequence[str], count: int, first: int, buckets: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Words, what they are composed of (words, then buckets) and its shares: int32, int32 and float32 [N]."""
    words = spelled((pieces or [str(number) for number in range(count)])[first:])
    parts = [[number] for number in range(first)]
    for number, word in enumerate(words, first):
        parts.append([number, *(count + hashed(ngram) % buckets for ngram in ngrams(word))])
    sizes = np.array([len(part) for part in parts])
    rows = np.repeat(np.arange(count, dtype=np.int32), sizes)
    return rows, np.concatenate(parts).astype(np.int32), np.repeat(1 / sizes, sizes).astype(np.float32)


@made_from(ParagraphsConfig)
class Paragraphs(EncodingLayer):
    """Batch to `Encoding` of depth 1: the words' vectors, and in the place of each the text's, which ``pooled`` is.

    A text's vector d is there to predict its words (Le and Mikolov, 2014, sections 2.2 and 2.3). A text that was not
    trained on gets its d from gradient steps on d alone, everything else staying as it is. The paper does so before a
    classifier sees it; here it is a part of the network, `STEPS` steps from d = 0 of a fixed rate, so that the same
    text always gets the same vector:

        L(d) = mean over words w of  ln(1 + exp(- u_w . d)) + k E_{n ~ p} ln(1 + exp(u_n . d))

    Noise words are needed there, too, and a network does not know how often words are: it learns the distribution p of
    the noise along (`models.objectives.paragraph_vectors`), and a new text gets the K words that cut p into equal
    shares. A pair of texts is one text. Of special tokens only [UNK] is a word of it, as in training.
    """

    depth = 1

    def __init__(self, config: ParagraphsConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.width, self.length = config.answers.width, config.length

    def words(self) -> Layer:
        """The table of the words' vectors. Without neighbours words have no other vectors than the predicted ones."""
        return self.answers

    @property
    def table(self) -> keras.Variable:
        """[V, D]."""
        return self.words().table

    def context(self, tokens: tf.Tensor, windows: tf.Tensor, documents: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The sum of the vectors that predict each of ``tokens`` [B, T] beside the text's, [B, T, D], and how many they
        are, float [B, T]. ``windows`` [B, T] are how far each looks, 0 for what is not there; texts ``documents``
        [B, T] are apart."""
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
        """The vectors of the texts ``tokens`` [B, T], [B, D]."""
        there = (tokens >= self.config.first) | (tokens == self.config.unknown)  # [B, T]
        present = tf.cast(there, tf.float32)  # [B, T]
        beside, number = self.context(tokens, REACH * tf.cast(there, tf.int32), tf.zeros_like(tokens))
        share = 1.0 / (1.0 + tf.cast(number, tf.float32))  # of the text's vector in h, [B, T]
        weight = present * share / tf.maximum(tf.reduce_sum(present, axis=1, keepdims=True), 1.0)
        own = tf.cast(self.answers(tokens), tf.float32)  # [B, T, D]
        noise = tf.cast(self.answers(self.quantiles()), tf.float32)  # [K, D]
        beside = tf.cast(beside, tf.float32)
        near = tf.reduce_sum(own * beside, axis=2)  # what d adds to, [B, T]
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
    """`Paragraphs` with vectors of their own for the words around the one that is predicted: in L(d) stands for d

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
                other = moved(documents, sign * distance, -1)
                seen = (windows >= distance) & (other == documents) & moved(there, sign * distance, False)
                seen = tf.cast(seen, vectors.dtype)
                total += seen[:, :, None] * moved(vectors, sign * distance, 0)
                number += seen
        return total, number


def moved(values: tf.Tensor, distance: int, filler: Any) -> tf.Tensor:
    """What stands ``distance`` columns further in ``values`` [B, T, ...], and ``filler`` beyond the ends."""
    length = shape(values)[1]
    pads = [[0, 0], [abs(distance), abs(distance)], *([[0, 0]] * (len(values.shape) - 2))]
    start = abs(distance) + distance
    return tf.pad(values, pads, constant_values=filler)[:, start : start + length]
