"""Vectors of tokens, positions and segments, scores of distances, and the masks of attention."""

import math
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.models.layers.config import DistancesConfig, EmbeddingsConfig, Start, WavesConfig
from ptmbench.models.layers.core import NO_DROP, Drop, Layer, made_from
from ptmbench.models.layers.operations import HIDDEN, shape, waves

BUCKETS, FARTHEST = 32, 128
"""The number of distance buckets, and the distance from which on all share the last one (Raffel et al., 2020, section
2.1)."""


def distance_buckets(buckets: int) -> np.ndarray:
    """The bucket of each distance 0 ... FARTHEST, int32. Half of the buckets have one distance each, and the others
    grow with the logarithm of the distance."""
    exact = buckets // 2
    distance = np.arange(FARTHEST + 1, dtype=np.float32)
    grown = np.log(np.maximum(distance, 1) / exact) / np.float32(math.log(FARTHEST / exact)) * (buckets - exact)
    far = np.minimum(exact + grown.astype(np.int32), buckets - 1)
    return np.where(distance < exact, distance, far).astype(np.int32)


def padding_bias(tokens: tf.Tensor) -> tf.Tensor:
    """The bias [B, 1, 1, T] that masks the padding in ``tokens`` [B, T]."""
    return tf.where(tf.equal(tokens, 0), HIDDEN, 0.0)[:, None, None, :]


def future_bias(length: Any) -> tf.Tensor:
    """The bias [1, 1, T, T] that masks the keys after each query."""
    place = tf.range(length)
    return tf.where(place[None, :] <= place[:, None], 0.0, HIDDEN)[None, None, :, :]


@made_from(WavesConfig)
class Waves(Layer):
    """Fixed vectors [..., D] of positions, int32 [...]: sines, then cosines."""

    def call(self, positions: tf.Tensor) -> tf.Tensor:
        flat = waves(tf.reshape(positions, [-1]), self.config.width)
        return tf.cast(tf.reshape(flat, [*shape(positions), self.config.width]), self.compute_dtype)

    def first(self, count: Any) -> tf.Tensor:
        """The vectors [T, D] of positions 0 to T - 1."""
        return self(tf.range(count))


@made_from(DistancesConfig)
class Distances(Layer):
    """Scores float32 [1, H, T, T] for each pair of ``length`` positions."""

    def starts(self) -> dict[str, Start]:
        return {"table": self.config.start}

    def call(self, length: Any) -> tf.Tensor:
        return self.between(tf.range(length)[None, :])

    def between(self, queries: tf.Tensor, keys: tf.Tensor | None = None) -> tf.Tensor:
        """Scores float32 [B, H, T, U] for ``queries`` at positions int32 [B, T] and ``keys`` at positions [B, U]
        (default: those of the queries)."""
        config = self.config
        keys = queries if keys is None else keys
        ahead = keys[:, None, :] - queries[:, :, None]  # [B, T, U], key minus query
        buckets = tf.constant(distance_buckets(config.buckets // 2 if config.both_ways else config.buckets))
        bucket = tf.gather(buckets, tf.minimum(tf.abs(ahead), FARTHEST))
        if config.both_ways:
            bucket += tf.where(ahead > 0, config.buckets // 2, 0)
        scores = tf.transpose(tf.cast(tf.gather(self.table.value, bucket), tf.float32), [0, 3, 1, 2])
        return scores if config.both_ways else tf.where(ahead[:, None, :, :] > 0, HIDDEN, scores)

    def last(self, length: Any) -> tf.Tensor:
        """Scores [1, H, 1, T] of the last of ``length`` positions as the query, for layers that are not
        ``both_ways``."""
        back = length - 1 - tf.range(length)  # [T], query minus key
        bucket = tf.gather(tf.constant(distance_buckets(self.config.buckets)), tf.minimum(back, FARTHEST))
        return tf.transpose(tf.cast(tf.gather(self.table.value, bucket), tf.float32))[None, :, None]


@made_from(EmbeddingsConfig)
class Embeddings(Layer):
    """Token, position and segment vectors, summed and normalised: tokens [B, T] to [B * T, E].

    Extensions at "sum" get the sum [B * T, E] before it is normalised, and the ``batch`` where there is one.
    """

    SEAMS = ("sum",)

    def call(
        self,
        tokens: tf.Tensor,
        positions: Any = None,
        segments: Any = None,
        table: Any = None,
        drop: Drop = NO_DROP,
        batch: Any = None,
    ) -> tf.Tensor:
        """``positions`` [B, T] or [T] are 0 to T - 1 by default. ``table`` are the token vectors of another layer.
        ``batch`` has the channels of the configuration, int32 [B, T]."""
        config = self.config
        x = self.words(tokens, table, batch)  # [B, T, E]
        if config.scale != 1.0:
            x *= config.scale
        if config.positions is not None:
            x += self.positions.first(shape(tokens)[1]) if positions is None else self.positions(positions)
        x = tf.reshape(x, [-1, x.shape[-1]])  # [B * T, E]
        if config.segments is not None:
            if segments is None or config.segments.rows == 1:
                x += self.segments.whole()[0]
            else:  # a product with few rows: its gradient is a product too, not a scatter of B * T rows
                kinds = tf.one_hot(tf.reshape(segments, [-1]), config.segments.rows, dtype=x.dtype)
                x += tf.matmul(kinds, tf.cast(self.segments.whole(), x.dtype))
        for name, _ in config.channels:
            x += tf.reshape(getattr(self, name)(tf.abs(batch[name])), [-1, x.shape[-1]])
        return self.ended(x, drop, batch)

    def words(self, tokens: tf.Tensor, table: Any = None, batch: Any = None) -> tf.Tensor:
        """The vectors [B, T, E] of tokens alone; the arguments are those of `call`."""
        return self.tokens(tokens) if self.config.tokens is not None else tf.gather(table, tokens)

    def ended(self, x: tf.Tensor, drop: Drop = NO_DROP, batch: Any = None) -> tf.Tensor:
        """The sum x [N, E] after extensions, normalisation and dropout."""
        x = self.through("sum", x, batch=batch)
        return drop(self.norm(x) if self.config.norm is not None else x)
