"""Convolutions over the tokens of a row, and the encoder made of them.

`models.architectures.convolutional` has the equations. A convolution is one product with the concatenated vectors of a
window. Its kernel [W D, D] therefore belongs to a `Linear`, which is quantised, pruned and adapted like any other.
"""

from functools import partial
from typing import Any

import tensorflow as tf

from ptmbench.models.layers.convolution_config import ConvolutionalConfig, ConvolutionConfig
from ptmbench.models.layers.core import NO_DROP, Drop, Layer, made_from, recomputed
from ptmbench.models.layers.encoding import largest
from ptmbench.models.layers.operations import check_length, shape
from ptmbench.models.layers.transformers import Network, built
from ptmbench.models.pretrainable import Encoding

__all__ = ["ConvolutionalEncoder", "built"]


@made_from(ConvolutionConfig)
class Convolution(Layer):
    """ReLU of filters over windows, [B, T, D] to [B, T, D]. Tokens that are not ``present`` count as zeros, like places
    beyond the ends of a row. Extensions get the vectors that go into the windows, or the layer's output, [B * T, D]."""

    SEAMS = ("before_convolution", "after_convolution")

    def call(self, x: tf.Tensor, present: tf.Tensor, drop: Drop = NO_DROP) -> tf.Tensor:
        """``present`` [B, T, 1] is 1 for tokens and 0 for padding."""
        rows, length, width = shape(x)
        x = self.through("before_convolution", tf.reshape(x, [rows * length, width]))
        x = tf.reshape(x, [rows, length, width]) * tf.cast(present, x.dtype)
        window = self.config.window
        padded = tf.pad(x, [[0, 0], [window // 2, window // 2], [0, 0]])
        windows = tf.concat([padded[:, first : first + length] for first in range(window)], axis=-1)  # [B, T, W D]
        found = tf.nn.relu(self.filters(tf.reshape(windows, [rows * length, window * width])))
        found = self.through("after_convolution", found)  # [B * T, D]
        return tf.reshape(drop(found), [rows, length, width])


@made_from(ConvolutionalConfig)
class ConvolutionalEncoder(Network):
    """Batch to `Encoding`. Extensions at "between" get the output of each layer, [B, T, D], and its ``index``."""

    SEAMS = ("between",)
    causal = False

    @staticmethod
    def dims(config: ConvolutionalConfig) -> tuple[int, int, int]:
        return config.convolution.width, config.layers, 1

    def call(self, batch: dict[str, Any], seed: Any = None) -> Encoding:
        tokens, drop = batch["tokens"], Drop(self.dropout, seed, 0)
        rows, length = shape(tokens)
        check_length(length, self.length, "encoder")
        present = tf.cast(tf.not_equal(tokens, 0), tf.float32)[:, :, None]  # [B, T, 1]
        x = self.embeddings(tokens, drop=drop, batch=batch)  # [B * T, D]
        layers = [tf.reshape(x, [rows, length, self.width])]
        for index in range(self.depth):
            layer = partial(getattr(self, f"layer_{index}"), drop=drop.at(index + 1))
            layers.append(self.through("between", recomputed(layer, layers[-1], present), index=index))
        highest = tf.concat([largest(one, tokens) for one in layers[1:]], axis=-1)  # [B, L D]
        return Encoding(tokens=layers[-1], pooled=tf.nn.relu(self.pooler(highest)), layers=tuple(layers))
