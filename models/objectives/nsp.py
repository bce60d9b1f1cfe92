"""Next-sentence prediction (NSP): does the second text follow the first? Devlin et al. (2019), section 3.1, task 2.

    L_NSP = - ln p(follows | pooled vector),  with as many random second texts as true ones

The survey lists it under contrastive learning, since the negatives are drawn from other documents.
"""

from typing import Any

import tensorflow as tf

from ptmbench.models.layers.core import Layer
from ptmbench.models.layers.heads import ClassifierConfig
from ptmbench.models.objective import Part

RANDOM_SECOND = 0.5
"""The share of rows whose second text is random."""


class NextSentence(Part, Layer):
    """The head: two scores from the pooled vector [B, D]; class 1 is "follows"."""

    reports = ("nsp_loss", "nsp_accuracy")

    def __init__(self, config: ClassifierConfig, name: str = "nsp", **kwargs: Any):
        super().__init__(config, name=name, **kwargs)

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"pairs": tf.size(batch["next"])}

    def call(self, encoding: Any, batch: dict[str, Any], totals: dict[str, Any]) -> dict[str, Any]:
        logits = tf.cast(self.scores(encoding.pooled), tf.float32)  # [B, 2]
        total = tf.cast(totals["pairs"], tf.float32)
        nll = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["next"], logits)  # [B]
        hit = tf.cast(tf.equal(tf.argmax(logits, -1, output_type=tf.int32), batch["next"]), tf.float32)
        return {
            "nsp_loss": tf.reduce_sum(nll) / total,
            "nsp_accuracy": tf.reduce_sum(hit) / total,
        }
