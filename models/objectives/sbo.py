"""Span boundary objective (SBO): predict a hidden span from the two tokens around it. Joshi et al. (2020), section 3.2.

    L_SBO = - 1/|M| sum_{i in M} ln p(x_i | h_{s-1}, h_{e+1}, p_{i-s+1})        for the span (s, e) that i lies in
    u = [h_{s-1}; h_{e+1}; p_{i-s+1}],  v = LayerNorm(GELU(W_1 u)),  y = LayerNorm(GELU(W_2 v)),  p(x_i) = softmax(E y)

So the tokens at a span's boundaries learn to summarise it, which is useful for heads that select spans. Only the first
20 tokens of a span count, since the authors' code has 20 relative positions. E is the table of token vectors.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptmbench.models.layers.core import Layer
from ptmbench.models.layers.heads import SpanBoundaryConfig
from ptmbench.models.layers.operations import gelu
from ptmbench.models.layers.products import product
from ptmbench.models.objective import Part
from ptmbench.models.objectives.masking import Chosen
from ptmbench.models.objectives.mlm import gather

LONGEST = SpanBoundaryConfig.longest
"""The number of tokens of a span that are predicted from its boundaries."""


def boundaries(chosen: Chosen) -> dict[str, np.ndarray]:
    """Returns ``span_lefts``, ``span_rights`` (the positions s - 1 and e + 1) and ``span_offsets`` (i - s) int32, and
    ``span_weights`` float32, all [B, M]. The tokens to predict are the ``masked_labels``."""
    counted = chosen.used & (chosen.positions - chosen.begins < LONGEST)
    arrays = {
        "span_lefts": chosen.begins - 1,
        "span_rights": chosen.ends,
        "span_offsets": chosen.positions - chosen.begins,
    }
    return {name: (array * counted).astype(np.int32) for name, array in arrays.items()} | {
        "span_weights": counted.astype(np.float32)
    }


class SpanBoundary(Part, Layer):
    """The head: two layers over the boundary tokens and a relative position, then the token embedding [V, D] as the
    output layer. ``owner`` is the layer whose ``token_embedding`` is tied."""

    reports = ("sbo_loss", "sbo_accuracy")
    OTHERS = ("owner",)

    def __init__(self, config: SpanBoundaryConfig, owner: keras.layers.Layer, name: str = "sbo", **kwargs: Any):
        super().__init__(config, name=name, **kwargs)
        self.owner = owner

    def logits(self, tokens: tf.Tensor, batch: dict[str, Any]) -> tf.Tensor:
        """Scores [B * M, V] of every piece at the masked positions, computed from the ``tokens`` [B, T, D] at the
        boundaries only."""
        left, right = gather(tokens, batch["span_lefts"]), gather(tokens, batch["span_rights"])  # [B * M, D]
        place = self.places(tf.reshape(batch["span_offsets"], [-1]))
        x = tf.concat([left, right, tf.cast(place, left.dtype)], axis=1)
        x = self.first_norm(gelu(self.first(x)))
        x = self.second_norm(gelu(self.second(x)))
        logits = tf.nn.bias_add(product(x, self.owner.token_embedding, transposed=True), self.output_bias)
        return tf.cast(logits, tf.float32)

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"bounded": tf.math.count_nonzero(batch["span_weights"], dtype=tf.int32)}

    def call(self, encoding: Any, batch: dict[str, Any], totals: dict[str, Any]) -> dict[str, Any]:
        logits, labels = self.logits(encoding.tokens, batch), tf.reshape(batch["masked_labels"], [-1])
        weights = tf.cast(tf.reshape(batch["span_weights"], [-1]), tf.float32)  # [B * M]
        total = tf.cast(tf.maximum(totals["bounded"], 1), tf.float32)
        nll = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        hit = tf.cast(tf.equal(tf.argmax(logits, -1, output_type=tf.int32), labels), tf.float32)
        return {
            "sbo_loss": tf.reduce_sum(nll * weights) / total,
            "sbo_accuracy": tf.reduce_sum(hit * weights) / total,
        }
