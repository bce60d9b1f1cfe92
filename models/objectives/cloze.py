"""Cloze: predict every token of a row at once, each from all others. Baevski et al. (2019), section 3.

    L_cloze = - 1/T sum_t ln p(x_t | x_1 ... x_{t-1}, x_{t+1} ... x_T)

MLM (`models.objectives.mlm`) hides 15 % of the tokens, so that the network cannot see the answers. Here nothing is
hidden: the network has no path from token t to its own prediction, so every token of a row is a training example. All
positions reach the output layer. Batches are those of `models.objectives.lm`.
"""

from typing import Any

import keras
import tensorflow as tf

from ptmbench.models.layers.products import product
from ptmbench.models.layers.two_towers import joins
from ptmbench.models.objective import Objective


class Cloze(Objective, keras.layers.Layer):
    """The ``loss`` of an encoder with ``hidden(tokens, seed, documents, see_itself)`` (see `models.layers.two_towers`)
    and ``token_embedding`` [V, D], which is the output layer."""

    reports = ("cloze_accuracy",)

    def __init__(self, encoder: keras.layers.Layer, name: str = "loss"):
        super().__init__(name=name)
        self.encoder = encoder
        self.built = True

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"tokens": tf.math.count_nonzero(_accompanied(batch), dtype=tf.int32)}

    def logits(self, batch: dict[str, Any], seed: Any = None) -> tf.Tensor:
        """Scores [B * T, V] of every piece at every position, computed from the other positions."""
        x = self.encoder.hidden(batch["tokens"], seed, batch.get("documents"), see_itself=False)[-1]  # [B * T, D]
        return tf.cast(product(x, self.encoder.token_embedding, transposed=True), tf.float32)

    def fill(self, batch: dict[str, Any]) -> tf.Tensor:
        """Scores [B, V] of every piece at ``places`` [B] of ``tokens`` [B, T], whatever token is there."""
        tokens, places = (tf.convert_to_tensor(batch[name], tf.int32) for name in ("tokens", "places"))
        x = self.encoder.hidden(tokens, see_itself=False)[-1]  # [B * T, D]
        x = tf.gather(x, tf.range(tf.shape(tokens)[0]) * tf.shape(tokens)[1] + places)
        return tf.cast(product(x, self.encoder.token_embedding, transposed=True), tf.float32)

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        totals = totals or self.totals(batch)
        labels = tf.reshape(batch["tokens"], [-1])  # [B * T]
        weights = tf.reshape(tf.cast(_accompanied(batch), tf.float32), [-1])
        weights /= tf.cast(tf.maximum(totals["tokens"], 1), tf.float32)
        logits = self.logits(batch, seed)
        nll = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        hit = tf.cast(tf.equal(tf.argmax(logits, -1, output_type=tf.int32), labels), tf.float32)
        return {"loss": tf.reduce_sum(nll * weights), "cloze_accuracy": tf.reduce_sum(hit * weights)}


def _accompanied(batch: dict[str, Any]) -> tf.Tensor:
    """Whether a token has a neighbour of its own text, from which it can be predicted: bool [B, T]."""
    joined = joins(tf.convert_to_tensor(batch["tokens"]), batch.get("documents"))  # [B, T - 1]
    return tf.pad(joined, [[0, 0], [1, 0]]) | tf.pad(joined, [[0, 0], [0, 1]])
