"""A lookup table: one vector per token, whatever stands around it. Mikolov et al. (2013), section 3.

The one representation of the survey's first axis that knows no context, in the same clothes as the others, so that
every head and adaptation serves it too.
"""

from typing import Any

import keras
import tensorflow as tf

from ptmbench.models.architectures.parts import check_length, dropout, shape
from ptmbench.models.card import Size
from ptmbench.models.pretrainable import Encoding


def initializer(width: int) -> keras.initializers.Initializer:
    """Uniform, with products of two vectors near 0.

    The authors' program starts far smaller, and with zeros for contexts: neither table then has a gradient to speak of
    until the other has grown, and a small budget cannot wait for that.
    """
    return keras.initializers.RandomUniform(-(width**-0.5), width**-0.5)


class WordVectors(keras.layers.Layer):
    """Batch to `Encoding` of depth 0. ``pooled`` is the mean over the tokens (a bag of words has no better place).

    ``length`` bounds memory only. ``dropout`` is read when a graph is traced.
    """

    causal = False
    recurrent = False
    depth = 0

    def __init__(self, size: Size, vocabulary: int, name: str = "encoder"):
        super().__init__(name=name)
        self.width, self.length, self.dropout = size.width, size.length, 0.1
        self.table = self.add_weight((vocabulary, size.width), initializer(size.width), name="vectors")
        self.built = True

    def call(self, batch: dict[str, Any], seed: Any = None) -> Encoding:
        tokens = batch["tokens"]
        check_length(shape(tokens)[1], self.length, "encoder")
        vectors = dropout(tf.gather(self.table.value, tokens), self.dropout, seed, 0)  # [B, T, D]
        present = tf.cast(tf.not_equal(tokens, 0), vectors.dtype)[:, :, None]  # [B, T, 1]
        pooled = tf.reduce_sum(vectors * present, axis=1) / tf.maximum(tf.reduce_sum(present, axis=1), 1.0)  # [B, D]
        return Encoding(tokens=vectors, pooled=pooled, layers=(vectors,))
