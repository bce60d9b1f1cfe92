"""The layers of an encoder that reads image regions: their vectors, and the encoder.

Source: Li et al. (2019), section 3.2. The configurations are in `models.layers.region_config`. Letters beside the usual
ones: R regions, F features of a region, W words that name it.
"""

from typing import Any

import tensorflow as tf

from ptmbench.models.layers.core import Drop, Layer, Rows, built, made_from
from ptmbench.models.layers.operations import HIDDEN, shape
from ptmbench.models.layers.region_config import RegionEncoderConfig, RegionsConfig
from ptmbench.models.layers.transformers import Encoder

__all__ = ["RegionEncoder", "Regions", "built"]

_PLACE = 5
"""The place for dropout of regions' vectors: the embeddings have 0, and the first block begins with 10."""


@made_from(RegionsConfig)
class Regions(Layer):
    """Features [B, R, F] to the sum [B * R, D] of what regions are made of."""

    def call(self, features: tf.Tensor, positions: Any = None) -> tf.Tensor:
        """``positions`` [B * R, D] are added: the mean of those of the words that name a region, zeros for none."""
        features = tf.ensure_shape(features, [None, None, self.config.projection.inputs])
        x = self.projection(tf.reshape(features, [-1, self.config.projection.inputs]))  # [B * R, D]
        x += tf.cast(self.segment.whole() + self.position.whole(), x.dtype)
        return x if positions is None else x + positions


@made_from(RegionEncoderConfig)
class RegionEncoder(Encoder):
    """Batch to `Encoding`, of the tokens alone; without the channel ``regions`` it is BERT.

    Tokens and regions see each other, but no region whose box in ``boxes`` is zeros. ``alignments`` say which tokens
    name a region. The channels ``documents`` and ``attention`` are not read.
    """

    stepwise = False  # the stack reads the regions behind the tokens

    def deeper(self, x: tf.Tensor, bias: tf.Tensor, batch: dict[str, Any], rows: Rows, drop: Drop) -> list[tf.Tensor]:
        if batch.get("regions") is None:
            return super().deeper(x, bias, batch, rows, drop)
        width, count = self.width, shape(batch["regions"])[1]
        vectors = self.embeddings.ended(self.regions(batch["regions"], self._aligned(batch)), drop.at(_PLACE))
        both = [tf.reshape(one, [rows.batch, -1, width]) for one in (x, tf.cast(vectors, x.dtype))]
        bias = tf.concat([bias, absent(batch["boxes"])], axis=3)  # [B, 1, 1, T + R]
        whole = Rows(rows.batch, rows.tokens + count)
        layers = super().deeper(tf.reshape(tf.concat(both, 1), [-1, width]), bias, batch, whole, drop)
        texts = [tf.reshape(one, [rows.batch, whole.tokens, width])[:, : rows.tokens] for one in layers]
        return [tf.reshape(one, [-1, width]) for one in texts]

    def _aligned(self, batch: dict[str, Any]) -> tf.Tensor | None:
        """The mean [B * R, D] of the positions of the words that name each region, zeros for none; None without the
        channel."""
        words = batch.get("alignments")  # [B, R, W]
        if words is None:
            return None
        named = tf.cast(words >= 0, tf.float32)[..., None]  # [B, R, W, 1]
        found = tf.cast(self.embeddings.positions(tf.maximum(words, 0)), tf.float32) * named  # [B, R, W, D]
        mean = tf.reduce_sum(found, 2) / tf.maximum(tf.reduce_sum(named, 2), 1.0)
        return tf.cast(tf.reshape(mean, [-1, self.width]), self.compute_dtype)


def absent(boxes: tf.Tensor) -> tf.Tensor:
    """[B, 1, 1, R]: hides the regions whose ``boxes`` [B, R, 4] are zeros, which are padding."""
    return tf.where(tf.reduce_any(tf.not_equal(boxes, 0), axis=-1), 0.0, HIDDEN)[:, None, None, :]
