"""The encoder of the Universal Transformer: one layer, applied again and again, as often as each token needs.

Source: Dehghani et al. (2019), sections 2.1 and 2.2; what these leave open follows the authors' code (Tensor2Tensor).
In step t, of at most L,

    Z = H^{t-1} + P^t        A = norm(Z + attention(Z))        H^t = norm(A + transition(A))
    P^t at position i, in dimensions 2j and 2j + 1:   sin(i r_j) + sin(t r_j)  and  cos(i r_j) + cos(t r_j),
    with r_j = 10000^(-2j / D)

Adaptive computation time (Graves, 2016) decides for each token how many steps it takes: with p_t = sigmoid(w . Z + b),
a token halts in the step N where p_1 + ... + p_N first exceeds 1 - `EPSILON_HALT`, or in the last one. Its encoding is
the mean of H^1 ... H^N with weights p_1 ... p_{N-1} and the remainder R = 1 - p_1 - ... - p_{N-1}; the price for it is
N + R. A token that has halted keeps its state, and the others go on seeing that (section 2.2). Shapes do not depend on
who has halted: its further steps are computed and not used.

The listing in the paper's appendix mixes the states one after the other instead of by these weights, which then do not
add up to one; the authors' code has both ways.
"""

from functools import partial
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptmbench.models.architectures.parts import (
    HIDDEN,
    attention,
    block,
    check_length,
    dense,
    dropout,
    layer_norm,
    shape,
    split_heads,
)
from ptmbench.models.card import Size
from ptmbench.models.pretrainable import Encoding

EPSILON = 1e-6
EPSILON_HALT = 0.01


def waves(count: int, width: int) -> np.ndarray:
    """sin and cos of 1 ... ``count``, taking turns: float32 [count, D]. A P^t is the sum of two of its rows."""
    angle = np.arange(1, count + 1)[:, None] / 10_000 ** (np.arange(0, width, 2) / width)  # [count, D / 2]
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(count, width).astype(np.float32)


class UniversalEncoder(keras.layers.Layer):
    """Batch to `Encoding`, and with `pondered` also what each token's computation cost.

    ``Encoding.layers`` are the embeddings, the states H after each of ``size.layers`` steps, and their weighted mean,
    so ``depth`` is L + 1. The pooled vector is that of the first token. ``dropout`` is read when a graph is traced.
    """

    causal = False
    recurrent = False

    def __init__(self, size: Size, vocabulary: int, name: str = "encoder"):
        super().__init__(name=name)
        if size.width % 2:
            raise ValueError(f"Positions made of sines and cosines need an even width, not {size.width}.")
        D, F = size.width, size.inner
        self.width, self.depth, self.length, self.heads, self.dropout = D, size.layers + 1, size.length, size.heads, 0.1
        self.steps, self.waves = size.layers, waves(max(size.length, size.layers), D)
        self.token_embedding = self.add_weight(
            (vocabulary, D), keras.initializers.RandomNormal(stddev=D**-0.5), name="tokens"
        )

        def weight(name: str, *dims: int, start: Any = "zeros") -> keras.Variable:
            return self.add_weight(dims, start, name=name)

        self.weights_of_all = SimpleNamespace(
            qkv_kernel=weight("qkv_kernel", D, 3 * D, start="glorot_uniform"),
            qkv_bias=weight("qkv_bias", 3 * D),
            output_kernel=weight("output_kernel", D, D, start="glorot_uniform"),
            output_bias=weight("output_bias", D),
            attention_norm_scale=weight("attention_norm_scale", D, start="ones"),
            attention_norm_bias=weight("attention_norm_bias", D),
            inner_kernel=weight("inner_kernel", D, F, start="glorot_uniform"),
            inner_bias=weight("inner_bias", F),
            outer_kernel=weight("outer_kernel", F, D, start="glorot_uniform"),
            outer_bias=weight("outer_bias", D),
            norm_scale=weight("norm_scale", D, start="ones"),
            norm_bias=weight("norm_bias", D),
        )
        self.halt_kernel = weight("halt_kernel", D, 1, start="glorot_uniform")
        self.halt_bias = weight("halt_bias", 1, start="ones")  # as the authors': at first, p is about 0.7
        self.built = True

    def pondered(self, batch: dict[str, Any], seed: Any = None) -> tuple[Encoding, tf.Tensor]:
        """The encoding, and N + R of each token, float32 [B, T]."""
        tokens = batch["tokens"]
        rows, length = shape(tokens)
        check_length(length, self.length, "encoder")
        hidden = tf.where(tf.equal(tokens, 0), HIDDEN, 0.0)[:, None, None, :]  # [B, 1, 1, T]
        x = tf.reshape(tf.gather(self.token_embedding.value, tokens), [-1, self.width]) * self.width**0.5
        x = dropout(x, self.dropout, seed, 0)  # [B * T, D]
        layers = [x]
        running = tf.ones_like(x[:, :1], tf.float32)  # [B * T, 1]
        spent = cost = tf.zeros_like(running)
        mean = tf.zeros_like(x, tf.float32)  # [B * T, D]

        def layer(z: tf.Tensor, w: SimpleNamespace, salt: int) -> tf.Tensor:
            q, k, v = split_heads(dense(z, w.qkv_kernel, w.qkv_bias), rows, length, self.heads, 3)  # [B, H, T, K]
            context = attention(q * q.shape[-1] ** -0.5, k, v, hidden, self.dropout, seed, salt)  # [B * T, D]
            update = dropout(dense(context, w.output_kernel, w.output_bias), self.dropout, seed, salt + 1)
            a = layer_norm(z + update, w.attention_norm_scale, w.attention_norm_bias, EPSILON)
            inner = dropout(tf.nn.relu(dense(a, w.inner_kernel, w.inner_bias)), self.dropout, seed, salt + 2)
            update = dropout(dense(inner, w.outer_kernel, w.outer_bias), self.dropout, seed, salt + 3)
            return layer_norm(a + update, w.norm_scale, w.norm_bias, EPSILON)

        places = tf.constant(self.waves, x.dtype)[:length]  # [T, D]
        for step in range(self.steps):
            signal = places + tf.constant(self.waves[step], x.dtype)  # [T, D]
            z = tf.reshape(tf.reshape(x, [rows, length, self.width]) + signal, [-1, self.width])  # [B * T, D]
            p = tf.sigmoid(tf.cast(dense(z, self.halt_kernel, self.halt_bias), tf.float32))  # [B * T, 1]
            new = block(partial(layer, salt=10 * (step + 1)), z, self.weights_of_all)
            full = tf.cast(spent + p > 1 - EPSILON_HALT, tf.float32)
            halting = running * full if step + 1 < self.steps else running
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
