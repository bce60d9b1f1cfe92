"""Two lookup tables whose sum is the word's vector. Pennington et al. (2014), section 4.2."""

from typing import Any

import keras
import tensorflow as tf

from ptmbench.models.architectures.parts import check_length, dropout, shape
from ptmbench.models.architectures.word_vectors import initializer
from ptmbench.models.card import Size
from ptmbench.models.pretrainable import Encoding


class SummedVectors(keras.layers.Layer):
    """Batch to `Encoding` of depth 0, as `models.architectures.word_vectors.WordVectors`; ``table`` holds the vectors
    of words in the middle, ``contexts`` those of words around it, [V, D] each."""

    causal = False
    recurrent = False
    depth = 0

    def __init__(self, size: Size, vocabulary: int, name: str = "encoder"):
        super().__init__(name=name)
        self.width, self.length, self.dropout = size.width, size.length, 0.1
        self.table = self.add_weight((vocabulary, size.width), initializer(size.width), name="vectors")
        self.contexts = self.add_weight((vocabulary, size.width), initializer(size.width), name="contexts")
        self.built = True

    def call(self, batch: dict[str, Any], seed: Any = None) -> Encoding:
        tokens = batch["tokens"]
        check_length(shape(tokens)[1], self.length, "encoder")
        vectors = tf.gather(self.table.value, tokens) + tf.gather(self.contexts.value, tokens)
        vectors = dropout(vectors, self.dropout, seed, 0)  # [B, T, D]
        present = tf.cast(tf.not_equal(tokens, 0), vectors.dtype)[:, :, None]  # [B, T, 1]
        pooled = tf.reduce_sum(vectors * present, axis=1) / tf.maximum(tf.reduce_sum(present, axis=1), 1.0)  # [B, D]
        return Encoding(tokens=vectors, pooled=pooled, layers=(vectors,))
