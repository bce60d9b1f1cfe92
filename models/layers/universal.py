"""The Universal Transformer's network: Dehghani et al. (2019), sections 2.1 and 2.2."""

from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.models.architectures.universal_encoder import UniversalConfig
from ptmbench.models.layers.core import Drop, Rows, made_from, recomputed
from ptmbench.models.layers.embeddings import padding_bias
from ptmbench.models.layers.operations import check_length, shape
from ptmbench.models.layers.transformers import Network, built
from ptmbench.models.pretrainable import Encoding

__all__ = ["UniversalEncoder", "built"]

EPSILON_HALT = 0.01
"""A token halts when its probabilities add up to more than 1 - EPSILON_HALT."""


def waves(count: int, width: int) -> np.ndarray:
    """Sines and cosines of 1 ... ``count`` in alternating columns: float32 [count, D]. A row of P^t is the sum of two
    rows."""
    angle = np.arange(1, count + 1)[:, None] / 10_000 ** (np.arange(0, width, 2) / width)  # [count, D / 2]
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(count, width).astype(np.float32)


@made_from(UniversalConfig)
class UniversalEncoder(Network):
    """Batch to `Encoding`. `pondered` also returns the cost of each token's computation.

    ``Encoding.layers`` are the embeddings, the states H after each of the steps, and their weighted mean, so ``depth``
    is L + 1. The pooled vector is that of the first token. Extensions at "between" get the states after each step,
    [B * T, D], and its ``index``.
    """

    SEAMS = ("between",)
    causal = False

    @staticmethod
    def dims(config: UniversalConfig) -> tuple[int, int, int]:
        return config.block.norm.width, config.steps + 1, config.block.attention.heads

    def build(self, input_shape: Any = None) -> None:
        super().build(input_shape)
        self.halt.bias.assign([1.0])  # as in the authors' code: at first, p is about 0.7

    def pondered(self, batch: dict[str, Any], seed: Any = None) -> tuple[Encoding, tf.Tensor]:
        """The encoding, and the cost N + R of each token, float32 [B, T]."""
        tokens, steps = batch["tokens"], self.config.steps
        rows, length = shape(tokens)
        check_length(length, self.length, "encoder")
        drop, bias = Drop(self.dropout, seed, 0), padding_bias(tokens)  # [B, 1, 1, T]
        x = self.embeddings(tokens, drop=drop, batch=batch)  # [B * T, D]
        layers = [x]
        running = tf.ones_like(x[:, :1], tf.float32)  # [B * T, 1]
        spent = cost = tf.zeros_like(running)
        mean = tf.zeros_like(x, tf.float32)  # [B * T, D]

        def apply(z: tf.Tensor, drop: Drop) -> tf.Tensor:
            return self.block(z, bias, rows=Rows(rows, length), drop=drop)[0]

        signals = tf.constant(waves(max(self.length, steps), self.width), x.dtype)
        for step in range(steps):
            signal = signals[:length] + signals[step]  # [T, D]
            z = tf.reshape(tf.reshape(x, [rows, length, self.width]) + signal, [-1, self.width])  # [B * T, D]
            p = tf.sigmoid(tf.cast(self.halt(z), tf.float32))  # [B * T, 1]
            new = recomputed(partial(apply, drop=drop.at(10 * (step + 1))), z)
            new = self.through("between", new, index=step)
            full = tf.cast(spent + p > 1 - EPSILON_HALT, tf.float32)
            halting = running * full if step + 1 < steps else running
            going = running - halting
            mean += (going * p + halting * (1 - spent)) * tf.cast(new, tf.float32)
            cost += running + halting * (1 - spent)
            spent += going * p
            x = tf.where(running > 0, new, x)
            layers.append(x)
            running = going
        layers.append(tf.cast(mean, x.dtype))
        layers = tuple(tf.reshape(x, [rows, length, self.width]) for x in layers)
        return Encoding(tokens=layers[-1], pooled=layers[-1][:, 0], layers=layers), tf.reshape(cost, [rows, length])

    def call(self, batch: dict[str, Any], seed: Any = None) -> Encoding:
        return self.pondered(batch, seed)[0]
