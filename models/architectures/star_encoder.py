"""The Star-Transformer: each token looks at its two neighbours and at one relay, which looks at all tokens.

Source: Guo et al. (2019), section 3 and algorithm 1. A row's tokens are satellites h_i, placed on a ring, around one
relay s; e_i is the vector of token i at its position, h_i^0 = e_i, and s^0 the mean of all e_i. Layer t updates them in
turn,

    h_i^t = norm(ReLU(attention(h_i^{t-1}, [h_{i-1}^{t-1}; h_i^{t-1}; h_{i+1}^{t-1}; e_i; s^{t-1}])))
    s^t   = norm(ReLU(attention(s^{t-1},   [s^{t-1}; h_1^t; ...; h_n^t])))

without residual connections or feed-forward layers, with weights of its own (the paper leaves that open; the authors'
code has it so). A row costs T, not T^2. The ring closes over the tokens that a row has: the last one before the padding
and the first are neighbours, so that padding changes nothing.

Two things differ from the paper. The relay of the last layer is left out: nothing that tokens are predicted from would
depend on it, so that pre-training could not teach it anything. And token and position vectors are scaled by sqrt(D), as
Vaswani et al. (2017) do with tokens, to be as large as the states that they meet.

The attention over five keys is element-wise: products of 1 x K by K x 5 are too small to be worth a call each. No
package that could be installed holds this network: the tests work the equations out node by node.
"""

from functools import partial
from types import SimpleNamespace
from typing import Any

import keras
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
from ptmbench.models.layers.core import sinusoids
from ptmbench.models.pretrainable import Encoding

EPSILON = 1e-6


class StarEncoder(keras.layers.Layer):
    """Batch to `Encoding`: L updates of the tokens, and one of the relay between each two of them.

    The pooled vector is the mean of the relay and of the tokens' maximum, as in the authors' classifier (section 3.3).
    ``dropout`` is read when a graph is traced; ``size.inner`` is not used.
    """

    causal = False
    recurrent = False

    def __init__(self, size: Size, vocabulary: int, name: str = "encoder"):
        super().__init__(name=name)
        self.width, self.depth, self.length = size.width, size.layers, size.length
        self.heads, self.dropout = size.heads, 0.1
        self.token_embedding = self.add_weight(
            (vocabulary, size.width), keras.initializers.RandomNormal(stddev=size.width**-0.5), name="tokens"
        )
        self.positions = self.add_weight((size.length, size.width), sinusoids, name="positions")
        self.satellites = [self._block(f"satellite_{index}", size.width) for index in range(size.layers)]
        self.relays = [self._block(f"relay_{index}", size.width) for index in range(size.layers - 1)]
        self.built = True

    def _block(self, name: str, width: int) -> SimpleNamespace:
        def weight(part: str, *dims: int, start: str = "zeros") -> keras.Variable:
            return self.add_weight(dims, start, name=f"{name}_{part}")

        return SimpleNamespace(
            q_kernel=weight("q_kernel", width, width, start="glorot_uniform"),
            q_bias=weight("q_bias", width),
            kv_kernel=weight("kv_kernel", width, 2 * width, start="glorot_uniform"),
            kv_bias=weight("kv_bias", 2 * width),
            output_kernel=weight("output_kernel", width, width, start="glorot_uniform"),
            output_bias=weight("output_bias", width),
            norm_scale=weight("norm_scale", width, start="ones"),
            norm_bias=weight("norm_bias", width),
        )

    def call(self, batch: dict[str, Any], seed: Any = None) -> Encoding:
        tokens = batch["tokens"]
        rows, length = shape(tokens)
        check_length(length, self.length, "encoder")
        width, heads, nodes = self.width, self.heads, rows * length
        present = tf.not_equal(tokens, 0)
        count = tf.reduce_sum(tf.cast(present, tf.int32), axis=1)  # [B]
        last = tf.maximum(count - 1, 0)
        closes = tf.equal(tf.range(length), last[:, None])[:, :, None]  # [B, T, 1]
        last += tf.range(rows) * length  # [B], among B * T
        hidden = tf.where(tf.pad(present, [[0, 0], [1, 0]], constant_values=True), 0.0, HIDDEN)  # [B, 1 + T]

        e = (tf.gather(self.token_embedding.value, tokens) + self.positions[:length]) * width**0.5  # [B, T, D]
        e = dropout(tf.reshape(e, [nodes, width]), self.dropout, seed, 0)  # [B * T, D]
        inside = tf.cast(present, tf.float32)[:, :, None]  # [B, T, 1]
        relay = tf.reduce_sum(tf.cast(tf.reshape(e, [rows, length, width]), tf.float32) * inside, axis=1)
        relay = tf.cast(relay / tf.maximum(tf.reduce_sum(inside, axis=1), 1.0), e.dtype)  # [B, D]

        def around(x: tf.Tensor) -> list[tf.Tensor]:
            """Of x [B * T, C] the left neighbours, the nodes themselves and the right neighbours, each [B, T, C]."""
            grid = tf.reshape(x, [rows, length, x.shape[-1]])
            left = tf.concat([tf.gather(x, last)[:, None], grid[:, :-1]], axis=1)
            right = tf.where(closes, grid[:, :1], tf.concat([grid[:, 1:], grid[:, :1]], axis=1))
            return [left, grid, right]

        def finish(context: tf.Tensor, w: SimpleNamespace, salt: int) -> tf.Tensor:
            x = dropout(dense(context, w.output_kernel, w.output_bias), self.dropout, seed, salt)
            return layer_norm(tf.nn.relu(x), w.norm_scale, w.norm_bias, EPSILON)

        def satellite(h: tf.Tensor, w: SimpleNamespace, e: tf.Tensor, relay: tf.Tensor, salt: int) -> tf.Tensor:
            q = dense(h, w.q_kernel, w.q_bias) * (width // heads) ** -0.5  # [B * T, D]
            kv = dense(tf.concat([h, e, relay], axis=0), w.kv_kernel, w.kv_bias)  # [2 B * T + B, 2 D]
            own = tf.reshape(kv[nodes : 2 * nodes], [rows, length, 2 * width])
            centre = tf.broadcast_to(kv[2 * nodes :, None], [rows, length, 2 * width])
            context = tf.stack([*around(kv[:nodes]), own, centre], axis=2)  # [B, T, 5, 2 D]
            k, v = tf.split(tf.reshape(context, [nodes, 5, 2 * heads, width // heads]), 2, axis=2)  # [B * T, 5, H, K]
            q = tf.reshape(q, [nodes, 1, heads, width // heads])
            scores = tf.reduce_sum(tf.cast(q * k, tf.float32), axis=3, keepdims=True)  # [B * T, 5, H, 1]
            weights = dropout(tf.cast(tf.nn.softmax(scores, axis=1), v.dtype), self.dropout, seed, salt)
            return finish(tf.reshape(tf.reduce_sum(weights * v, axis=1), [nodes, width]), w, salt + 1)

        def turn(relay: tf.Tensor, w: SimpleNamespace, h: tf.Tensor, salt: int) -> tf.Tensor:
            (q,) = split_heads(dense(relay, w.q_kernel, w.q_bias), rows, 1, heads)  # [B, H, 1, K]
            seen = tf.concat([relay[:, None], tf.reshape(h, [rows, length, width])], axis=1)  # [B, 1 + T, D]
            kv = dense(tf.reshape(seen, [-1, width]), w.kv_kernel, w.kv_bias)
            k, v = split_heads(kv, rows, 1 + length, heads, 2)  # [B, H, 1 + T, K]
            bias = hidden[:, None, None]  # [B, 1, 1, 1 + T]
            return finish(attention(q * q.shape[-1] ** -0.5, k, v, bias, self.dropout, seed, salt), w, salt + 1)

        layers = [e]
        for index, weights in enumerate(self.satellites):
            if index:
                weights_of_relay = self.relays[index - 1]
                relay = block(partial(turn, salt=10 * index + 5), relay, weights_of_relay, layers[-1])
            layers.append(block(partial(satellite, salt=10 * (index + 1)), layers[-1], weights, e, relay))
        layers = tuple(tf.reshape(x, [rows, length, width]) for x in layers)
        highest = tf.reduce_max(tf.where(present[:, :, None], layers[-1], layers[-1].dtype.min), axis=1)  # [B, D]
        return Encoding(tokens=layers[-1], pooled=(relay + highest) / 2, layers=layers)
