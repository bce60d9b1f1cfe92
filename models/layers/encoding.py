"""The base class of all encoders, which has the rate of dropout and saves it, and pooling over tokens."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from ptmbench.models.layers.config import Config
from ptmbench.models.layers.core import Layer
from ptmbench.models.layers.operations import HIDDEN

DROPOUT = 0.1
"""The default rate of dropout."""


class EncodingLayer(Layer):
    """Batch to `Encoding`. ``dropout`` is read when a graph is traced, and saved with the layer."""

    causal = False
    recurrent = False

    def __init__(self, config: Config, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.dropout = DROPOUT

    def changes(self) -> dict[str, Any]:
        return super().changes() | ({"dropout": self.dropout} if self.dropout != DROPOUT else {})

    def restore(self, changes: Mapping[str, Any], path: str) -> None:
        super().restore(changes, path)
        self.dropout = changes.get("dropout", DROPOUT)


def mean(x: tf.Tensor, tokens: tf.Tensor) -> tf.Tensor:
    """The mean [B, D] of x [B, T, D] over the tokens [B, T] that are not padding."""
    present = tf.cast(tf.not_equal(tokens, 0), x.dtype)[:, :, None]  # [B, T, 1]
    return tf.reduce_sum(x * present, 1) / tf.maximum(tf.reduce_sum(present, 1), 1.0)


def largest(x: tf.Tensor, tokens: tf.Tensor) -> tf.Tensor:
    """The maximum [B, D] of x [B, T, D] over the tokens [B, T] that are not padding."""
    hidden = tf.cast(tf.where(tf.equal(tokens, 0), HIDDEN, 0.0), x.dtype)[:, :, None]  # [B, T, 1]
    return tf.reduce_max(x + hidden, axis=1)
