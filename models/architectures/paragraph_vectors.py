"""Tables of words and of whole texts, and a new text's vector by descent. Le and Mikolov (2014), sections 2.2 and 2.3.

A text's vector d is there to predict its words: by itself (DBOW), or averaged with the vectors of the words around each
(DM, where the paper offers the mean or the concatenation; this is the mean). A text that was not trained on gets its d
from gradient steps on d alone, everything else staying as it is. The paper does so before a classifier sees it; here it
is a part of the network, `STEPS` steps from d = 0 of a fixed rate, so that the same text always gets the same vector.

    L(d) = mean over words w of  ln(1 + exp(- u_w . h_w)) + k E_{n ~ p} ln(1 + exp(u_n . h_w)),
    h_w = d  (DBOW)        h_w = (d + sum of v_c over the words c around w) / (1 + number of these)  (DM)

Noise words are needed there, too, and a network does not know how often words are: it learns the distribution p of the
noise along (`models.objectives.paragraph_vectors`), and a new text gets the K words that cut p into equal shares.

Texts that are trained on have a row of a table each; from the ``inner`` of the size on, rows are shared.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptmbench.models.architectures.parts import check_length, dropout, shape
from ptmbench.models.architectures.word_vectors import initializer
from ptmbench.models.card import Size
from ptmbench.models.pretrainable import Encoding
from ptmbench.models.tokenizers import Vocabulary

WINDOW, NEGATIVES = 5, 5
"""Words on either side at most, in training drawn from 1 on, and k."""
REACH = 3
"""Words on either side when nothing is drawn: the mean of what training draws."""
STEPS, RATE, NOISE = 10, 1.0, 64
"""Of the descent for a new text; K. Which of 10 novels 80 words are from (1000 pieces to learn from, 500 asked, width
64, logistic regression): DBOW 84.2 % with these, 77.2 % with the rate 4; DM 68.4 %, and 71.2 % with 30 steps at 4."""


class DbowVectors(keras.layers.Layer):
    """Batch to `Encoding` of depth 1: the words' vectors, and in the place of each the text's, which ``pooled``
    is.

    A pair of texts is one text. Of special tokens only [UNK] is a word of it, as in training. ``length`` bounds memory
    only.
    """

    causal = False
    recurrent = False
    depth = 1

    def __init__(self, size: Size, vocabulary: Vocabulary, name: str = "encoder"):
        super().__init__(name=name)
        self.width, self.length, self.dropout = size.width, size.length, 0.1
        self.first, self.unknown, start = vocabulary.first, vocabulary.unk, initializer(size.width)
        self.documents = self.add_weight((size.inner, size.width), start, name="documents")
        self.answers = self.add_weight((vocabulary.size, size.width), start, name="answers")
        self.noise = self.add_weight((vocabulary.size,), "zeros", name="noise")
        self.table = self._words(vocabulary.size)
        self.built = True

    def _words(self, vocabulary: int) -> Any:
        """Without neighbours words have no vectors but those that are predicted."""
        return self.answers

    def context(self, tokens: tf.Tensor, windows: tf.Tensor, documents: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The sum of the vectors that predict each of ``tokens`` [B, T] beside the text's, [B, T, D], and how many they
        are, float [B, T]. ``windows`` [B, T] are how far each looks, 0 for what is not there; texts ``documents``
        [B, T] are apart."""
        return tf.zeros([*shape(tokens), self.width], self.compute_dtype), tf.zeros_like(windows, self.compute_dtype)

    def call(self, batch: dict[str, Any], seed: Any = None) -> Encoding:
        tokens = tf.convert_to_tensor(batch["tokens"])
        check_length(shape(tokens)[1], self.length, "encoder")
        words = dropout(tf.gather(self.table.value, tokens), self.dropout, seed, 0)  # [B, T, D]
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
        there = (tokens >= self.first) | (tokens == self.unknown)  # [B, T]
        present = tf.cast(there, tf.float32)  # [B, T]
        beside, number = self.context(tokens, REACH * tf.cast(there, tf.int32), tf.zeros_like(tokens))
        share = 1.0 / (1.0 + tf.cast(number, tf.float32))  # of the text's vector in h, [B, T]
        weight = present * share / tf.maximum(tf.reduce_sum(present, axis=1, keepdims=True), 1.0)
        own = tf.cast(tf.gather(self.answers.value, tokens), tf.float32)  # [B, T, D]
        noise = tf.cast(tf.gather(self.answers.value, self.quantiles()), tf.float32)  # [K, D]
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


class DmVectors(DbowVectors):
    """As `DbowVectors`, with vectors of their own for the words around the one that is predicted."""

    def _words(self, vocabulary: int) -> Any:
        return self.add_weight((vocabulary, self.width), initializer(self.width), name="vectors")

    def context(self, tokens: tf.Tensor, windows: tf.Tensor, documents: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        there = windows > 0
        vectors = tf.gather(self.table.value, tokens)  # [B, T, D]
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
