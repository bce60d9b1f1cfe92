"""The encoder-decoder Transformer of T5: layer-norm without centring before each part, relative positions, no biases.

Source: Raffel et al. (2020), section 2.1; initial values and the scaled output layer follow the authors' code (Mesh
TensorFlow). What differs from Vaswani et al. (2017): each layer adds to a stream that is only normalised on the way
into a part; positions are learned scalars per distance, added to the attention scores and shared by all layers;
scores are not divided by the root of the head's width, since the queries start smaller by that factor.
"""

import math
from functools import partial
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from models.architectures.parts import HIDDEN, attention, block, check_length, dropout, rms_norm, shape, split_heads
from models.architectures.products import product
from models.card import Size
from models.pretrainable import Encoding

EPSILON = 1e-6
BUCKETS, FARTHEST = 32, 128


def normal(*deviations: float) -> Any:
    """An initialiser: as many equal blocks of columns as there are ``deviations``, each normal with its own."""

    def draw(dims: tuple[int, ...], dtype: Any = None) -> tf.Tensor:
        block = (*dims[:-1], dims[-1] // len(deviations))
        return tf.concat([keras.initializers.RandomNormal(stddev=d)(block, dtype=dtype) for d in deviations], -1)

    return draw


def distance_buckets(buckets: int) -> np.ndarray:
    """The bucket of each distance 0 ... FARTHEST, int32: half of them exact, the rest growing with the logarithm of
    the distance."""
    exact = buckets // 2
    distance = np.arange(FARTHEST + 1, dtype=np.float32)
    grown = np.log(np.maximum(distance, 1) / exact) / np.float32(math.log(FARTHEST / exact)) * (buckets - exact)
    far = np.minimum(exact + grown.astype(np.int32), buckets - 1)
    return np.where(distance < exact, distance, far).astype(np.int32)


def position_bias(table: Any, length: Any, both_ways: bool) -> tf.Tensor:
    """Scores [1, H, T, T] to add for each pair of positions, from the learned ``table`` [BUCKETS, H].

    ``both_ways`` keeps half of the buckets for keys after the query; otherwise such keys are masked.
    """
    positions = tf.range(length)
    ahead = positions[None, :] - positions[:, None]  # [T, T], key minus query
    buckets = tf.constant(distance_buckets(BUCKETS // 2 if both_ways else BUCKETS))
    bucket = tf.gather(buckets, tf.minimum(tf.abs(ahead), FARTHEST))
    if both_ways:
        bucket += tf.where(ahead > 0, BUCKETS // 2, 0)
    bias = tf.transpose(tf.cast(tf.gather(table.value, bucket), tf.float32), [2, 0, 1])[None]  # [1, H, T, T]
    return bias if both_ways else tf.where(ahead > 0, HIDDEN, bias)


def distance_bias(table: Any, length: Any) -> tf.Tensor:
    """The last row of a one-way `position_bias`: scores [1, H, 1, T] for the last of ``length`` positions."""
    back = length - 1 - tf.range(length)  # [T], query minus key
    bucket = tf.gather(tf.constant(distance_buckets(BUCKETS)), tf.minimum(back, FARTHEST))
    return tf.transpose(tf.cast(tf.gather(table.value, bucket), tf.float32))[None, :, None]


def padding_bias(tokens: tf.Tensor) -> tf.Tensor:
    """[B, 1, 1, T]: hides the keys that are padding."""
    return tf.where(tf.equal(tokens, 0), HIDDEN, 0.0)[:, None, None, :]


class Encoder(keras.layers.Layer):
    """Batch to `Encoding`; the pooled vector is the mean over tokens. ``dropout`` is read when a graph is traced.

    Positions are relative, so ``length`` bounds only what is meant to be used, and attention's square with it.
    """

    causal = False
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
        D, F, K = size.width, size.inner, size.width // size.heads
        self.token_embedding = self.add_weight((vocabulary, D), normal(1.0), name="tokens")
        self.distances = self.add_weight((BUCKETS, size.heads), normal(D**-0.5), name="distances")
        self.blocks = [self._block(f"layer_{index}", D, F, K) for index in range(size.layers)]
        self.norm_scale = self.add_weight((D,), "ones", name="norm_scale")
        self.built = True

    def _block(self, name: str, D: int, F: int, K: int) -> SimpleNamespace:
        add, near = self.add_weight, D**-0.5
        return SimpleNamespace(
            attention_norm_scale=add((D,), "ones", name=f"{name}_attention_norm_scale"),
            qkv_kernel=add((D, 3 * D), normal((D * K) ** -0.5, near, near), name=f"{name}_qkv_kernel"),
            output_kernel=add((D, D), normal(near), name=f"{name}_output_kernel"),
            norm_scale=add((D,), "ones", name=f"{name}_norm_scale"),
            inner_kernel=add((D, F), normal(near), name=f"{name}_inner_kernel"),
            outer_kernel=add((F, D), normal(F**-0.5), name=f"{name}_outer_kernel"),
        )

    def call(self, batch: dict[str, Any], seed: Any = None) -> Encoding:
        tokens = batch["tokens"]
        batch_size, length = shape(tokens)
        check_length(length, self.length, "encoder")
        rate = self.dropout
        bias = position_bias(self.distances, length, both_ways=True) + padding_bias(tokens)  # [B, H, T, T]
        x = tf.reshape(tf.gather(self.token_embedding.value, tokens), [-1, self.width])  # [B * T, D]
        x = dropout(x, rate, seed, 0)
        layers = [x]

        def layer(x: tf.Tensor, weights: SimpleNamespace, bias: tf.Tensor, salt: int) -> tf.Tensor:
            h = product(rms_norm(x, weights.attention_norm_scale, EPSILON), weights.qkv_kernel)  # [B * T, 3 D]
            q, k, v = split_heads(h, batch_size, length, self.heads, 3)  # [B, H, T, K]
            h = product(attention(q, k, v, bias, rate, seed, salt), weights.output_kernel)  # [B * T, D]
            x += dropout(h, rate, seed, salt + 1)
            h = tf.nn.relu(product(rms_norm(x, weights.norm_scale, EPSILON), weights.inner_kernel))  # [B * T, F]
            h = product(dropout(h, rate, seed, salt + 2), weights.outer_kernel)  # [B * T, D]
            return x + dropout(h, rate, seed, salt + 3)

        for index, weights in enumerate(self.blocks):
            layers.append(block(partial(layer, salt=10 * (index + 1)), layers[-1], weights, bias))
        layers[-1] = dropout(rms_norm(layers[-1], self.norm_scale, EPSILON), rate, seed, 1)
        layers = tuple(tf.reshape(x, [batch_size, length, self.width]) for x in layers)
        present = tf.cast(tf.not_equal(tokens, 0), layers[-1].dtype)[:, :, None]  # [B, T, 1]
        pooled = tf.reduce_sum(layers[-1] * present, 1) / tf.maximum(tf.reduce_sum(present, 1), 1.0)  # [B, D]
        return Encoding(tokens=layers[-1], pooled=pooled, layers=layers)


class Decoder(keras.layers.Layer):
    """Next-token logits over what ``encoder`` gives; its token embedding serves as input and as output layer here
    too."""

    def __init__(self, size: Size, encoder: Encoder, name: str = "decoder"):
        super().__init__(name=name)
        self.encoder, self.width, self.heads = encoder, size.width, size.heads
        D, F, K = size.width, size.inner, size.width // size.heads
        self.distances = self.add_weight((BUCKETS, size.heads), normal(D**-0.5), name="distances")
        self.blocks = [self._block(f"layer_{index}", D, F, K) for index in range(size.layers)]
        self.norm_scale = self.add_weight((D,), "ones", name="norm_scale")
        self.built = True

    def _block(self, name: str, D: int, F: int, K: int) -> SimpleNamespace:
        add, near = self.add_weight, D**-0.5
        return SimpleNamespace(
            attention_norm_scale=add((D,), "ones", name=f"{name}_attention_norm_scale"),
            qkv_kernel=add((D, 3 * D), normal((D * K) ** -0.5, near, near), name=f"{name}_qkv_kernel"),
            output_kernel=add((D, D), normal(near), name=f"{name}_output_kernel"),
            cross_norm_scale=add((D,), "ones", name=f"{name}_cross_norm_scale"),
            cross_q_kernel=add((D, D), normal((D * K) ** -0.5), name=f"{name}_cross_q_kernel"),
            cross_kv_kernel=add((D, 2 * D), normal(near), name=f"{name}_cross_kv_kernel"),
            cross_output_kernel=add((D, D), normal(near), name=f"{name}_cross_output_kernel"),
            norm_scale=add((D,), "ones", name=f"{name}_norm_scale"),
            inner_kernel=add((D, F), normal(near), name=f"{name}_inner_kernel"),
            outer_kernel=add((F, D), normal(F**-0.5), name=f"{name}_outer_kernel"),
        )

    def call(self, targets: tf.Tensor, memory: tf.Tensor, tokens: tf.Tensor, seed: Any = None) -> tf.Tensor:
        """Logits [B, S, V] after each of ``targets`` [B, S], given ``memory`` [B, T, D], the encoding of ``tokens``
        [B, T].

        The decoder's places for dropout are numbered from 1000, apart from the encoder's.
        """
        batch, length = shape(targets)
        source = shape(tokens)[1]
        rate = self.encoder.dropout
        bias = position_bias(self.distances, length, both_ways=False)  # [1, H, S, S]
        hidden = padding_bias(tokens)  # [B, 1, 1, T]
        embedding = self.encoder.token_embedding
        memory = tf.reshape(memory, [-1, self.width])  # [B * T, D]
        x = tf.reshape(tf.gather(embedding.value, targets), [-1, self.width])  # [B * S, D]
        x = dropout(x, rate, seed, 1000)

        def layer(x: tf.Tensor, weights: SimpleNamespace, bias: tf.Tensor, memory: tf.Tensor, salt: int) -> tf.Tensor:
            cross = self._cross(memory, weights, batch, source)
            return self._layer(x, weights, cross, None, bias, hidden, (batch, length), seed, salt)[0]

        for index, weights in enumerate(self.blocks):
            x = block(partial(layer, salt=1000 + 10 * (index + 1)), x, weights, bias, memory)
        x = dropout(rms_norm(x, self.norm_scale, EPSILON), rate, seed, 1001)
        logits = product(x * self.width**-0.5, embedding, transposed=True)  # [B * S, V]
        return tf.reshape(logits, [batch, length, embedding.shape[0]])

    def _cross(self, memory: tf.Tensor, weights: SimpleNamespace, batch: Any, source: Any) -> list[tf.Tensor]:
        """Keys and values [B, H, T, K] of memory [B * T, D]."""
        return split_heads(product(memory, weights.cross_kv_kernel), batch, source, self.heads, 2)

    def _layer(
        self,
        x: tf.Tensor,
        weights: SimpleNamespace,
        cross: list[tf.Tensor],
        past: Any,
        bias: tf.Tensor,
        absent: tf.Tensor,
        rows: tuple,
        seed: Any,
        salt: int,
    ) -> tuple[tf.Tensor, tuple]:
        """A layer for x [B * S, D] of (B, S) = ``rows``, and the keys and values that it looked at: those of the
        ``past``, if any, and its own. ``bias`` hides some of them, ``absent`` some of the memory's, ``cross``."""
        rate = self.encoder.dropout
        h = product(rms_norm(x, weights.attention_norm_scale, EPSILON), weights.qkv_kernel)  # [B * S, 3 D]
        q, k, v = split_heads(h, *rows, self.heads, 3)  # [B, H, S, K]
        if past is not None:
            k, v = tf.concat([past[0], k], axis=2), tf.concat([past[1], v], axis=2)  # [B, H, U, K]
        h = product(attention(q, k, v, bias, rate, seed, salt), weights.output_kernel)  # [B * S, D]
        x += dropout(h, rate, seed, salt + 1)
        h = product(rms_norm(x, weights.cross_norm_scale, EPSILON), weights.cross_q_kernel)  # [B * S, D]
        (q,) = split_heads(h, *rows, self.heads)  # [B, H, S, K]
        h = product(attention(q, *cross, absent, rate, seed, salt + 2), weights.cross_output_kernel)  # [B * S, D]
        x += dropout(h, rate, seed, salt + 3)
        h = tf.nn.relu(product(rms_norm(x, weights.norm_scale, EPSILON), weights.inner_kernel))  # [B * S, F]
        h = product(dropout(h, rate, seed, salt + 4), weights.outer_kernel)  # [B * S, D]
        return x + dropout(h, rate, seed, salt + 5), (k, v)

    def begin(self, memory: tf.Tensor, tokens: tf.Tensor) -> tuple[Any, Any]:
        """What `step` needs of ``memory`` [B, T, D], the encoding of ``tokens`` [B, T]: each layer's keys and values of
        it; and a past without any (see `models.pretrainable.Writer`)."""
        batch, source = shape(tokens)
        flat = tf.reshape(memory, [-1, self.width])  # [B * T, D]
        cross = [self._cross(flat, weights, batch, source) for weights in self.blocks]
        none = tf.zeros([batch, self.heads, 0, self.width // self.heads], flat.dtype)
        return (padding_bias(tokens), cross), [(none, none) for _ in self.blocks]

    def step(self, memory: Any, past: Any, written: tf.Tensor, seen: tf.Tensor) -> tuple[tf.Tensor, Any]:
        """Logits [B, K, V] after ``written`` [B, K, S], and ``past`` grown by this step's keys and values (see
        `models.pretrainable.Writer`)."""
        (absent, cross), (*rows, length) = memory, shape(written)
        near = tf.repeat(distance_bias(self.distances, length), rows[1], axis=3)  # [1, H, 1, U]
        bias, kept = tf.where(seen[:, None], near, HIDDEN), []  # [B, H, K, U]
        x = tf.gather(self.encoder.token_embedding.value, tf.reshape(written[:, :, -1], [-1]))  # [B * K, D]
        for weights, looked_at, before in zip(self.blocks, cross, past, strict=True):
            x, grown = self._layer(x, weights, looked_at, before, bias, absent, tuple(rows), None, 1000)
            kept.append(grown)
        x = rms_norm(x, self.norm_scale, EPSILON) * self.width**-0.5
        logits = product(x, self.encoder.token_embedding, transposed=True)
        return tf.reshape(logits, [*rows, logits.shape[-1]]), kept
