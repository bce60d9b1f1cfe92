"""Sentence order prediction (SOP): which of two consecutive texts comes first? Lan et al. (2020), section 3.1.

    L_SOP = - ln p(in order | pooled vector),  with as many swapped pairs as ordered ones

Random second texts, as in NSP, can be recognised by their topic. Two parts of one passage share the topic, so the model
has to learn coherence. As in the authors' code, the row is cut after the swap, so that the cut does not reveal the
order.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.models.layers.core import Layer
from ptmbench.models.layers.heads import ClassifierConfig
from ptmbench.models.objective import Part
from ptmbench.models.objectives.sampling import Pairs, make_pair_rows

SWAPPED = 0.5
"""The share of rows whose texts are swapped."""


def pairs(
    texts: Pairs, step: int, batch: int, seed: int
) -> tuple[dict[str, np.ndarray], np.ndarray, np.random.Generator]:
    """Returns rows of two consecutive texts of the corpus, half of them swapped. The second text is cut at the end of
    the row.

    ``tokens`` and ``segments`` int32 [B, T], ``swapped`` int32 [B]; the position of each token in the corpus, int64
    [B, T], -1 for special tokens; and the random generator for later draws.
    """
    begin, size, first, rng = texts.draw_first_texts(step, batch, seed)
    swapped = rng.random(batch) < SWAPPED
    size, other = texts.sizes_for_any_order(begin, size, first)
    after = begin + size
    rows, where = make_pair_rows(
        texts.corpus,
        texts.vocabulary,
        texts.length,
        np.where(swapped, after, begin),
        np.where(swapped, other, size),
        np.where(swapped, begin, after),
    )
    return rows | {"swapped": swapped.astype(np.int32)}, where, rng


class SentenceOrder(Part, Layer):
    """The head: two scores from the pooled vector [B, D]; class 1 is "swapped"."""

    reports = ("sop_loss", "sop_accuracy")

    def __init__(self, config: ClassifierConfig, name: str = "sop", **kwargs: Any):
        super().__init__(config, name=name, **kwargs)

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"pairs": tf.size(batch["swapped"])}

    def call(self, encoding: Any, batch: dict[str, Any], totals: dict[str, Any]) -> dict[str, Any]:
        logits = tf.cast(self.scores(encoding.pooled), tf.float32)  # [B, 2]
        total = tf.cast(totals["pairs"], tf.float32)
        nll = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["swapped"], logits)  # [B]
        hit = tf.cast(tf.equal(tf.argmax(logits, -1, output_type=tf.int32), batch["swapped"]), tf.float32)
        return {"sop_loss": tf.reduce_sum(nll) / total, "sop_accuracy": tf.reduce_sum(hit) / total}
