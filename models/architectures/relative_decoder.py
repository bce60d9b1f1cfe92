"""The left-to-right Transformer of Transformer-XL: relative positions, and a memory of the text before.

Source: Dai et al. (2019), section 3; what the paper leaves open (scores over the root of the head's width, embeddings
times the root of the width, ReLU, layer-norm after each residual sum) is as in the authors' code. With queries q and
keys k of a layer, and R the fixed waves of a distance, the score of key j for query i is

    (q_i + u) . k_j + (q_i + v) . (W_R R_{i-j})

u and v are the same in every layer (section 3.3). Keys and values are made of [memory; text], queries of the text.
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
    fold,
    layer_norm,
    relative_shift,
    shape,
    split_heads,
    waves,
)
from ptmbench.models.architectures.products import product
from ptmbench.models.card import Size
from ptmbench.models.pretrainable import Encoding

EPSILON = 1e-5


def initializer() -> keras.initializers.Initializer:
    """Normal with standard deviation 0.02, as in the authors' code; a fresh one per weight."""
    return keras.initializers.RandomNormal(stddev=0.02)


class RelativeDecoder(keras.layers.Layer):
    """Batch to `Encoding`, without a memory; the pooled vector is that of the last token, which has seen all others.

    ``length`` bounds the text, and ``dropout`` is read when a graph is traced.
    """

    causal = True
    recurrent = False

    def __init__(self, size: Size, vocabulary: int, name: str = "encoder"):
        super().__init__(name=name)
        self.width, self.depth, self.length, self.heads, self.dropout = (
            size.width,
            size.layers,
            size.length,
            size.heads,
            0.1,
        )
        self.token_embedding = self.add_weight((vocabulary, size.width), initializer(), name="tokens")
        biases = (size.heads, 1, size.width // size.heads)
        self.content_bias = self.add_weight(biases, initializer(), name="content_bias")  # u
        self.position_bias = self.add_weight(biases, initializer(), name="position_bias")  # v
        self.blocks = [self._block(f"layer_{index}", size.width, size.inner) for index in range(size.layers)]
        self.built = True

    def _block(self, name: str, width: int, inner: int) -> SimpleNamespace:
        def weight(part: str, *dims: int, start: Any = "zeros") -> keras.Variable:
            return self.add_weight(dims, start, name=f"{name}_{part}")

        return SimpleNamespace(
            q_kernel=weight("q_kernel", width, width, start=initializer()),
            kv_kernel=weight("kv_kernel", width, 2 * width, start=initializer()),
            distance_kernel=weight("distance_kernel", width, width, start=initializer()),
            output_kernel=weight("output_kernel", width, width, start=initializer()),
            attention_norm_scale=weight("attention_norm_scale", width, start="ones"),
            attention_norm_bias=weight("attention_norm_bias", width),
            inner_kernel=weight("inner_kernel", width, inner, start=initializer()),
            inner_bias=weight("inner_bias", inner),
            outer_kernel=weight("outer_kernel", inner, width, start=initializer()),
            outer_bias=weight("outer_bias", width),
            norm_scale=weight("norm_scale", width, start="ones"),
            norm_bias=weight("norm_bias", width),
        )

    def hidden(
        self, tokens: tf.Tensor, seed: Any = None, memory: tf.Tensor | None = None, documents: tf.Tensor | None = None
    ) -> list[tf.Tensor]:
        """The L + 1 tensors [B * T, D] for tokens [B, T]: embeddings, then each layer.

        ``memory`` [B, M] are the tokens just before them. Their hidden states are computed first, from themselves
        alone, and no gradient reaches them. A token sees only those of its own number in ``documents`` [B, M + T].
        Padding at the right end needs no mask, since nothing before it looks there.
        """
        if memory is None:
            layers = self._run(tokens, [None] * self.depth, 0, documents, seed)
            return [*layers[:-1], dropout(layers[-1], self.dropout, seed, 2)]
        before = shape(memory)[1]
        inside = None if documents is None else documents[:, :before]
        # What the last layer makes of the memory is nobody's key.
        states = self._run(memory, [None] * (self.depth - 1), 0, inside, fold(seed, 5000))
        layers = self._run(tokens, [tf.stop_gradient(x) for x in states], before, documents, seed)
        return [*layers[:-1], dropout(layers[-1], self.dropout, seed, 2)]

    def _run(
        self, tokens: tf.Tensor, memory: list[tf.Tensor | None], before: Any, documents: tf.Tensor | None, seed: Any
    ) -> list[tf.Tensor]:
        """As many layers as there are entries in ``memory``: what goes into each of them for the M = ``before`` tokens
        before, [B * M, D], or None."""
        batch, length = shape(tokens)
        check_length(length, self.length, "decoder")
        keys = before + length  # U
        column = tf.range(keys) - before
        bias = tf.where(column[None, :] > tf.range(length)[:, None], HIDDEN, 0.0)[None, None]  # [1, 1, T, U]
        if documents is not None:
            together = tf.equal(documents[:, before:, None], documents[:, None, :])[:, None]  # [B, 1, T, U]
            bias = tf.minimum(bias, tf.where(together, 0.0, HIDDEN))
        x = tf.reshape(tf.gather(self.token_embedding.value, tokens), [-1, self.width]) * self.width**0.5  # [B * T, D]
        x = dropout(x, self.dropout, seed, 0)
        far = tf.cast(waves(tf.range(keys, -1, -1), self.width), x.dtype)  # [U + 1, D]
        far = dropout(far, self.dropout, seed, 1)
        layers = [x]

        def layer(
            x: tf.Tensor, weights: SimpleNamespace, u: tf.Tensor, v: tf.Tensor, old: tf.Tensor | None, salt: int
        ) -> tf.Tensor:
            rate = self.dropout
            (q,) = split_heads(product(x, weights.q_kernel), batch, length, self.heads)  # [B, H, T, K]
            key, value = split_heads(product(x, weights.kv_kernel), batch, length, self.heads, 2)
            if old is not None:  # a product of its own: its input needs no gradient
                old = split_heads(product(old, weights.kv_kernel), batch, before, self.heads, 2)
                key, value = tf.concat([old[0], key], axis=2), tf.concat([old[1], value], axis=2)  # [B, H, U, K]
            (r,) = split_heads(product(far, weights.distance_kernel), 1, keys + 1, self.heads)  # [1, H, U + 1, K]
            scale = q.shape[-1] ** -0.5
            places = relative_shift(tf.matmul((q + v) * scale, r, transpose_b=True), keys)  # [B, H, T, U]
            places = tf.cast(places, tf.float32) + bias
            context = attention((q + u) * scale, key, value, places, rate, seed, salt)  # [B * T, D]
            update = dropout(product(context, weights.output_kernel), rate, seed, salt + 1)
            x = layer_norm(x + update, weights.attention_norm_scale, weights.attention_norm_bias, EPSILON)
            inner = tf.nn.relu(dense(x, weights.inner_kernel, weights.inner_bias))  # [B * T, F]
            inner = dropout(inner, rate, seed, salt + 2)
            update = dropout(dense(inner, weights.outer_kernel, weights.outer_bias), rate, seed, salt + 3)
            return layer_norm(x + update, weights.norm_scale, weights.norm_bias, EPSILON)

        u, v = (tf.convert_to_tensor(bias) for bias in (self.content_bias, self.position_bias))  # [H, 1, K]
        for index, (weights, old) in enumerate(zip(self.blocks, memory, strict=False)):
            layers.append(block(partial(layer, old=old, salt=10 * (index + 1)), layers[-1], weights, u, v))
        return layers

    def call(self, batch: dict[str, Any], seed: Any = None) -> Encoding:
        tokens = batch["tokens"]
        batch_size, length = shape(tokens)
        flat = self.hidden(tokens, seed)
        count = tf.reduce_sum(tf.cast(tf.not_equal(tokens, 0), tf.int32), axis=1)  # [B]
        last = tf.range(batch_size) * length + tf.maximum(count - 1, 0)
        layers = tuple(tf.reshape(x, [batch_size, length, self.width]) for x in flat)
        return Encoding(tokens=layers[-1], pooled=tf.gather(flat[-1], last), layers=layers)
