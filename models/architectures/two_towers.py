"""Two towers and what brings them together: one causal Transformer reads forwards, one backwards, and attention over
both puts a vector together for each token, from everything but the token or from all.

Source: Baevski et al. (2019), section 3; what the paper leaves open follows the authors' code (fairseq, "bi_trans_lm").
Layer-norm stands before each part, positions are fixed sinusoids beside token vectors times sqrt(D), the feed-forward
layers have ReLU. With F and B the normalised outputs of the towers, F_t having read x_1 ... x_t and B_t x_t ... x_T,

    query for t:   F_{t-1} + B_{t+1}                     zero where there is no neighbour
    keys, values:  F_1 ... F_{t-1} and B_{t+1} ... B_T   to predict x_t: nothing here has read it
                   F_1 ... F_t     and B_t ... B_T       to encode x_t, once trained (section 4)

The attention's output takes the place of the query, it is not added to it; a feed-forward layer with a residual
connection follows. No package that could be installed holds this network: the tests work the equations out one
position at a time.
"""

from collections.abc import Callable
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

EPSILON = 1e-5


def waves(length: int, width: int) -> np.ndarray:
    """The fixed positions of Vaswani et al. (2017), section 3.5: float32 [T, D], all sines before all cosines."""
    rates = 10_000.0 ** -np.linspace(0, 1, width // 2)
    angle = np.arange(length)[:, None] * rates  # [T, D / 2]
    return np.concatenate([np.sin(angle), np.cos(angle)], axis=1).astype(np.float32)


class TwoTowers(keras.layers.Layer):
    """Batch to `Encoding`: L layers in each tower of width D, and one layer over both.

    ``Encoding.layers`` are the embeddings, the mean of both towers after each of their layers, and the last layer, so
    ``depth`` is L + 1. The pooled vector is the mean of the first and the last token's: the paper hands a classifier
    the vectors of the tokens at the boundaries side by side. ``dropout`` is read when a graph is traced.
    """

    causal = False
    recurrent = False

    def __init__(self, size: Size, vocabulary: int, name: str = "encoder"):
        super().__init__(name=name)
        if size.width % 2:
            raise ValueError(f"Positions made of sines and cosines need an even width, not {size.width}.")
        self.width, self.depth, self.length = size.width, size.layers + 1, size.length
        self.heads, self.dropout = size.heads, 0.1
        self.token_embedding = self.add_weight(
            (vocabulary, size.width), keras.initializers.RandomNormal(stddev=size.width**-0.5), name="tokens"
        )
        self.waves = waves(size.length, size.width)
        self.forward_blocks = [self._block(f"forward_{index}", size) for index in range(size.layers)]
        self.backward_blocks = [self._block(f"backward_{index}", size) for index in range(size.layers)]
        self.both = self._both(size)
        self.built = True

    def _weights(self, name: str) -> Callable[..., keras.Variable]:
        def weight(part: str, *dims: int, start: str = "zeros") -> keras.Variable:
            return self.add_weight(dims, start, name=f"{name}_{part}")

        return weight

    def _feed_forward(self, weight: Callable[..., keras.Variable], size: Size) -> dict[str, keras.Variable]:
        return dict(
            norm_scale=weight("norm_scale", size.width, start="ones"),
            norm_bias=weight("norm_bias", size.width),
            inner_kernel=weight("inner_kernel", size.width, size.inner, start="glorot_uniform"),
            inner_bias=weight("inner_bias", size.inner),
            outer_kernel=weight("outer_kernel", size.inner, size.width, start="glorot_uniform"),
            outer_bias=weight("outer_bias", size.width),
        )

    def _block(self, name: str, size: Size) -> SimpleNamespace:
        weight, D = self._weights(name), size.width
        return SimpleNamespace(
            attention_norm_scale=weight("attention_norm_scale", D, start="ones"),
            attention_norm_bias=weight("attention_norm_bias", D),
            qkv_kernel=weight("qkv_kernel", D, 3 * D, start="glorot_uniform"),
            qkv_bias=weight("qkv_bias", 3 * D),
            output_kernel=weight("output_kernel", D, D, start="glorot_uniform"),
            output_bias=weight("output_bias", D),
            **self._feed_forward(weight, size),
        )

    def _both(self, size: Size) -> SimpleNamespace:
        weight, D = self._weights("both"), size.width
        return SimpleNamespace(
            forward_norm_scale=weight("forward_norm_scale", D, start="ones"),
            forward_norm_bias=weight("forward_norm_bias", D),
            backward_norm_scale=weight("backward_norm_scale", D, start="ones"),
            backward_norm_bias=weight("backward_norm_bias", D),
            q_kernel=weight("q_kernel", D, D, start="glorot_uniform"),
            q_bias=weight("q_bias", D),
            kv_kernel=weight("kv_kernel", D, 2 * D, start="glorot_uniform"),
            kv_bias=weight("kv_bias", 2 * D),
            output_kernel=weight("output_kernel", D, D, start="glorot_uniform"),
            output_bias=weight("output_bias", D),
            **self._feed_forward(weight, size),
        )

    def hidden(
        self, tokens: tf.Tensor, seed: Any = None, documents: tf.Tensor | None = None, see_itself: bool = True
    ) -> list[tf.Tensor]:
        """The L + 2 tensors [B * T, D] of `Encoding.layers` for tokens [B, T].

        With ``see_itself`` false, nothing that makes the last one at t has read token t. A token sees only those of
        its own number in ``documents`` [B, T]. A token that then sees nothing gets a vector that means nothing.
        """
        batch, length = shape(tokens)
        check_length(length, self.length, "encoder")
        together = tf.not_equal(tokens, 0)[:, None, :]  # [B, 1, T]
        if documents is not None:
            together &= tf.equal(documents[:, :, None], documents[:, None, :])  # [B, T, T]
        ahead = tf.range(length)[None, :] - tf.range(length)[:, None]  # [T, T], key minus query

        def seen(where: tf.Tensor) -> tf.Tensor:
            return tf.where(together & where, 0.0, HIDDEN)[:, None]  # [B, 1, T, T]

        x = tf.gather(self.token_embedding.value, tokens) * self.width**0.5  # [B, T, D]
        x = tf.reshape(x + tf.constant(self.waves, x.dtype)[:length], [-1, self.width])
        forward = backward = x = dropout(x, self.dropout, seed, 0)  # [B * T, D]
        before, after, layers = seen(ahead <= 0), seen(ahead >= 0), [x]

        def layer(x: tf.Tensor, w: SimpleNamespace, bias: tf.Tensor, salt: int) -> tf.Tensor:
            h = layer_norm(x, w.attention_norm_scale, w.attention_norm_bias, EPSILON)
            q, k, v = split_heads(dense(h, w.qkv_kernel, w.qkv_bias), batch, length, self.heads, 3)  # [B, H, T, K]
            h = attention(q * q.shape[-1] ** -0.5, k, v, bias, self.dropout, seed, salt)  # [B * T, D]
            x += dropout(dense(h, w.output_kernel, w.output_bias), self.dropout, seed, salt + 1)
            return self._fed_forward(x, w, seed, salt)

        for index, (ahead_weights, back_weights) in enumerate(
            zip(self.forward_blocks, self.backward_blocks, strict=True)
        ):
            forward = block(partial(layer, salt=20 * (index + 1)), forward, ahead_weights, before)
            backward = block(partial(layer, salt=20 * (index + 1) + 10), backward, back_weights, after)
            layers.append((forward + backward) / 2)
        if not see_itself:
            before, after = seen(ahead < 0), seen(ahead > 0)

        def combined(forward: tf.Tensor, w: SimpleNamespace, backward: tf.Tensor) -> tf.Tensor:
            forward = layer_norm(forward, w.forward_norm_scale, w.forward_norm_bias, EPSILON)
            backward = layer_norm(backward, w.backward_norm_scale, w.backward_norm_bias, EPSILON)
            query = dense(self._neighbours(forward, backward, tokens, documents), w.q_kernel, w.q_bias)
            (q,) = split_heads(query, batch, length, self.heads)  # [B, H, T, K]
            pairs = [
                split_heads(dense(h, w.kv_kernel, w.kv_bias), batch, length, self.heads, 2) for h in (forward, backward)
            ]
            k, v = (tf.concat(part, axis=2) for part in zip(*pairs, strict=True))  # [B, H, 2 T, K]
            bias = tf.concat([before, after], axis=-1)  # [B, 1, T, 2 T]
            h = attention(q * q.shape[-1] ** -0.5, k, v, bias, self.dropout, seed, 1)  # [B * T, D]
            h = dropout(dense(h, w.output_kernel, w.output_bias), self.dropout, seed, 2)
            return self._fed_forward(h, w, seed, 2)

        layers.append(block(combined, forward, self.both, backward))
        return layers

    def _fed_forward(self, x: tf.Tensor, w: SimpleNamespace, seed: Any, salt: int) -> tf.Tensor:
        """``x`` [B * T, D] and the feed-forward layer of ``w``; its places for dropout are ``salt`` + 2 and + 3."""
        h = layer_norm(x, w.norm_scale, w.norm_bias, EPSILON)
        h = dropout(tf.nn.relu(dense(h, w.inner_kernel, w.inner_bias)), self.dropout, seed, salt + 2)  # [B * T, F]
        return x + dropout(dense(h, w.outer_kernel, w.outer_bias), self.dropout, seed, salt + 3)

    def _neighbours(
        self, forward: tf.Tensor, backward: tf.Tensor, tokens: tf.Tensor, documents: tf.Tensor | None
    ) -> tf.Tensor:
        """F_{t-1} + B_{t+1}, [B * T, D]; zero in place of a neighbour that is padding or of another document."""
        joined = joins(tokens, documents)[:, :, None]  # [B, T - 1, 1]
        forward, backward = (tf.reshape(x, [*shape(tokens), self.width]) for x in (forward, backward))
        joined = tf.cast(joined, forward.dtype)
        left = tf.pad(forward[:, :-1] * joined, [[0, 0], [1, 0], [0, 0]])
        right = tf.pad(backward[:, 1:] * joined, [[0, 0], [0, 1], [0, 0]])
        return tf.reshape(left + right, [-1, self.width])

    def call(self, batch: dict[str, Any], seed: Any = None) -> Encoding:
        tokens = batch["tokens"]
        rows, length = shape(tokens)
        flat = self.hidden(tokens, seed)
        layers = tuple(tf.reshape(x, [rows, length, self.width]) for x in flat)
        count = tf.reduce_sum(tf.cast(tf.not_equal(tokens, 0), tf.int32), axis=1)  # [B]
        last = tf.gather(flat[-1], tf.range(rows) * length + tf.maximum(count - 1, 0))  # [B, D]
        return Encoding(tokens=layers[-1], pooled=(layers[-1][:, 0] + last) / 2, layers=layers)


def joins(tokens: tf.Tensor, documents: tf.Tensor | None) -> tf.Tensor:
    """Whether tokens t and t + 1 belong to one text: bool [B, T - 1]."""
    present = tf.not_equal(tokens, 0)
    joined = present[:, :-1] & present[:, 1:]
    return joined if documents is None else joined & tf.equal(documents[:, :-1], documents[:, 1:])
