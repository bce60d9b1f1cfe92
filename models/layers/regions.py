"""The layers of an encoder that reads image regions: their vectors, and the encoder.

Source: Li et al. (2019), section 3.2. The configurations are in `models.layers.region_config`. Further letters in
shapes: R regions, F features of a region, W words that mention it.
"""

from typing import Any

import tensorflow as tf

from ptmbench.models.layers.core import Drop, Layer, Rows, built, made_from
from ptmbench.models.layers.operations import HIDDEN, shape
from ptmbench.models.layers.region_config import RegionEncoderConfig, RegionsConfig
from ptmbench.models.layers.transformers import Encoder

__all__ = ["RegionEncoder", "Regions", "built"]

_PLACE = 5
"""Dropout place of the region vectors. The embeddings have 0, and the first block begins with 10."""


@made_from(RegionsConfig)
class Regions(Layer):
    """Features [B, R, F] to vectors [B * R, D]: the sum of projected features, a segment and a position vector."""

    def call(self, features: tf.Tensor, positions: Any = None) -> tf.Tensor:
        """``positions`` [B * R, D] are added: for each region, the mean position vector of the words that mention it,
        or zeros."""
        features = tf.ensure_shape(features, [None, None, self.config.projection.inputs])
        x = self.projection(tf.reshape(features, [-1, self.config.projection.inputs]))  # [B * R, D]
        x += tf.cast(self.segment.whole() + self.position.whole(), x.dtype)
        return x if positions is None else x + positions


@made_from(RegionEncoderConfig)
class RegionEncoder(Encoder):
    """Batch to the `Encoding` of the tokens. Without the channel ``regions`` it is BERT.

    Tokens and regions attend to each other, but not to padding. A region is padding if its box in ``boxes`` is zeros.
    ``alignments`` are the positions of the tokens that mention each region. Regions cannot be combined with the
    channels ``documents`` and ``attention``.
    """

    stepwise = False  # the stack also reads the regions, after the tokens

    def deeper(self, x: tf.Tensor, bias: tf.Tensor, batch: dict[str, Any], rows: Rows, drop: Drop) -> list[tf.Tensor]:
        if batch.get("regions") is None:
            return super().deeper(x, bias, batch, rows, drop)
        width, count = self.width, shape(batch["regions"])[1]
        vectors = self.embeddings.ended(self.regions(batch["regions"], self._aligned(batch)), drop.at(_PLACE))
        both = [tf.reshape(one, [rows.batch, -1, width]) for one in (x, tf.cast(vectors, x.dtype))]
        bias = tf.concat([bias, region_padding_bias(batch["boxes"])], axis=3)  # [B, 1, 1, T + R]
        whole = Rows(rows.batch, rows.tokens + count)
        layers = super().deeper(tf.reshape(tf.concat(both, 1), [-1, width]), bias, batch, whole, drop)
        texts = [tf.reshape(one, [rows.batch, whole.tokens, width])[:, : rows.tokens] for one in layers]
        return [tf.reshape(one, [-1, width]) for one in texts]

    def _aligned(self, batch: dict[str, Any]) -> tf.Tensor | None:
        """The mean position vectors [B * R, D] of the words that mention each region, or zeros if there are none.
        Returns None without the channel ``alignments``."""
        words = batch.get("alignments")  # [B, R, W]
        if words is None:
            return None
        named = tf.cast(words >= 0, tf.float32)[..., None]  # [B, R, W, 1]
        found = tf.cast(self.embeddings.positions(tf.maximum(words, 0)), tf.float32) * named  # [B, R, W, D]
        mean = tf.reduce_sum(found, 2) / tf.maximum(tf.reduce_sum(named, 2), 1.0)
        return tf.cast(tf.reshape(mean, [-1, self.width]), self.compute_dtype)


def region_padding_bias(boxes: tf.Tensor) -> tf.Tensor:
    """The attention bias [B, 1, 1, R] that masks padding: the regions whose ``boxes`` [B, R, 4] are zeros."""
    return tf.where(tf.reduce_any(tf.not_equal(boxes, 0), axis=-1), 0.0, HIDDEN)[:, None, None, :]
