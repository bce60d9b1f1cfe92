"""Word structural objective: restore the order of shuffled words. Wang et al. (2020), section 2.3.

    L_WSO = - 1/|S| sum_{t in S} ln p(x_t | x with M hidden and the trigrams in S shuffled)

After masking, 5 % of the trigrams among the visible words are shuffled, and every position of a shuffled trigram
predicts the piece that was there. Trigrams do not overlap and count as three pieces, so 5 % of the visible text moves.
All six orders are equally likely, the true one included.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptmbench.models.objective import Part
from ptmbench.models.objectives.mlm import MaskedLm
from ptmbench.models.text.tokenizers import Vocabulary

RATE, LONG = 0.05, 3


def slots(length: int) -> int:
    """Returns the number of trigrams per row of ``length`` tokens: the share `RATE` of them, rounded up."""
    return -(-round(RATE * 100) * length // (100 * LONG))


def shuffle(batch: dict[str, np.ndarray], rng: np.random.Generator, vocabulary: Vocabulary) -> dict[str, np.ndarray]:
    """Returns the masked ``batch`` with trigrams of its ``tokens`` [B, T] shuffled, and ``shuffled_positions``,
    ``shuffled_labels`` int32 and ``shuffled_weights`` float32 [B, S].

    A share `RATE` of each row is drawn (rounded, at least one trigram if there is one). Trigrams with special or masked
    tokens are never drawn. Unused slots have weight 0.
    """
    tokens = batch["tokens"]
    rows, length = tokens.shape
    row = np.arange(rows)
    free = (tokens != vocabulary.pad) & (tokens != vocabulary.cls) & (tokens != vocabulary.sep)
    used = batch["masked_weights"] > 0
    free[np.nonzero(used)[0], batch["masked_positions"][used]] = False  # including the 10 % that stay unchanged
    wanted = np.minimum(np.maximum(np.rint(RATE * free.sum(axis=1) / LONG), 1), slots(length)).astype(np.int64)
    order = rng.random((rows, length - LONG + 1), dtype=np.float32)
    order = np.argsort(order, axis=1)
    starts, count = np.zeros((rows, slots(length)), np.int64), np.zeros(rows, np.int64)
    for turn in range(order.shape[1]):
        short = count < wanted
        if not short.any():
            break
        places = order[:, turn, None] + np.arange(LONG)  # [B, 3]
        ok = short & free[row[:, None], places].all(axis=1)
        free[row[:, None], places] &= ~ok[:, None]
        starts[row[ok], count[ok]] = order[ok, turn]
        count += ok
    there = np.arange(slots(length)) < count[:, None]  # [B, S / 3]
    positions = starts[:, :, None] + np.arange(LONG)
    source = starts[:, :, None] + np.argsort(rng.random(positions.shape), axis=2)
    shuffled = tokens.copy()
    line = np.nonzero(there)[0][:, None]
    shuffled[line, positions[there]] = tokens[line, source[there]]
    positions, there = positions.reshape(rows, -1), np.repeat(there, LONG, axis=1)
    return batch | {
        "tokens": shuffled,
        "shuffled_positions": (positions * there).astype(np.int32),
        "shuffled_labels": np.where(there, tokens[row[:, None], positions], vocabulary.pad).astype(np.int32),
        "shuffled_weights": there.astype(np.float32),
    }


class WordStructure(Part, keras.layers.Layer):
    """The head: shuffled positions are predicted by the same layers as masked ones, those of ``mlm``."""

    reports = ("word_structure_loss", "word_structure_accuracy")

    def __init__(self, mlm: MaskedLm, name: str = "word_structure"):
        super().__init__(name=name)
        self.mlm = mlm
        self.built = True

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"shuffled": tf.math.count_nonzero(batch["shuffled_weights"], dtype=tf.int32)}

    def call(self, encoding: Any, batch: dict[str, Any], totals: dict[str, Any]) -> dict[str, Any]:
        logits = self.mlm.logits(encoding.tokens, batch["shuffled_positions"])  # [B * S, V]
        labels = tf.reshape(batch["shuffled_labels"], [-1])
        weights = tf.cast(tf.reshape(batch["shuffled_weights"], [-1]), tf.float32)
        total = tf.cast(tf.maximum(totals["shuffled"], 1), tf.float32)
        nll = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        hit = tf.cast(tf.equal(tf.argmax(logits, -1, output_type=tf.int32), labels), tf.float32)
        return {
            "word_structure_loss": tf.reduce_sum(nll * weights) / total,
            "word_structure_accuracy": tf.reduce_sum(hit * weights) / total,
        }
