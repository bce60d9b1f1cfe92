"""Extraction in TensorFlow: a vector for each sentence."""

from typing import Any

import tensorflow as tf

from ptmbench.bench.adapt import parts
from ptmbench.bench.adapt.settings import Settings


class Reading(parts.Reading):
    """A vector for each sentence, [B, N, D], in place of the vectors of tokens.

    It is the vector of the [CLS] before the sentence. If no token sees a later one, it is the vector of the [SEP] after
    the sentence. If tokens do not see each other at all, it is the mean over the sentence.
    """

    def __init__(self, encoder: Any, settings: Settings):
        super().__init__(name="reading")
        self.causal, self.apart = encoder.causal, encoder.depth == 0

    def call(self, encoding: Any, batch: dict[str, Any]) -> Any:
        starts, ends = (tf.maximum(batch[name], 0) for name in ("starts", "ends"))  # [B, N]
        if not self.apart:
            places = ends if self.causal else starts
            return encoding._replace(tokens=tf.gather(encoding.tokens, places, batch_dims=1))
        sums = tf.cumsum(encoding.tokens, axis=1)  # [B, T, D]
        between = tf.gather(sums, tf.maximum(ends - 1, 0), batch_dims=1) - tf.gather(sums, starts, batch_dims=1)
        count = tf.maximum(tf.cast(ends - starts - 1, sums.dtype), 1.0)[..., None]
        return encoding._replace(tokens=between / count)
