"""Sentence structural objective: is the second text the next one, the previous one, or from another document?
Wang et al. (2020), section 2.3.

    L_SSO = - ln p(next, previous or random | pooled vector),  a third of the rows each

It combines NSP, which can be solved by topic, with SOP (`models.objectives.sop`), which has no unrelated texts.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.models.layers.core import Layer
from ptmbench.models.layers.heads import ClassifierConfig
from ptmbench.models.objective import Part
from ptmbench.models.objectives.sampling import Pairs, make_pair_rows

NEXT, PREVIOUS, RANDOM = 0, 1, 2


def pairs(texts: Pairs, step: int, batch: int, seed: int) -> tuple[dict[str, np.ndarray], np.random.Generator]:
    """Returns rows of two texts: ``tokens`` and ``segments`` int32 [B, T], ``order`` int32 [B]; and the random
    generator for later draws.

    Two consecutive texts A B become "A then B" or "B then A", or B is replaced by a text of another document. The
    second text is cut at the end of the row.
    """
    begin, size, first, rng = texts.draw_first_texts(step, batch, seed)
    order = rng.integers(3, size=batch, dtype=np.int32)
    size, other = texts.sizes_for_any_order(begin, size, first)
    before, after = order == PREVIOUS, begin + size
    unrelated = texts.corpus.sentences.take(texts.elsewhere(first, rng))
    rows, _ = make_pair_rows(
        texts.corpus,
        texts.vocabulary,
        texts.length,
        np.where(before, after, begin),
        np.where(before, other, size),
        np.where(before, begin, np.where(order == RANDOM, unrelated, after)),
    )
    return rows | {"order": order}, rng


class SentenceStructure(Part, Layer):
    """The head: three scores from the pooled vector [B, D]."""

    reports = ("sentence_order_loss", "sentence_order_accuracy")

    def __init__(self, config: ClassifierConfig, name: str = "sentence_order", **kwargs: Any):
        super().__init__(config, name=name, **kwargs)

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"pairs": tf.size(batch["order"])}

    def call(self, encoding: Any, batch: dict[str, Any], totals: dict[str, Any]) -> dict[str, Any]:
        logits = tf.cast(self.scores(encoding.pooled), tf.float32)  # [B, 3]
        total = tf.cast(totals["pairs"], tf.float32)
        nll = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["order"], logits)  # [B]
        hit = tf.cast(tf.equal(tf.argmax(logits, -1, output_type=tf.int32), batch["order"]), tf.float32)
        return {
            "sentence_order_loss": tf.reduce_sum(nll) / total,
            "sentence_order_accuracy": tf.reduce_sum(hit) / total,
        }
