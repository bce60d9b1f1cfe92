"""The ponder cost, added to another objective, for encoders that choose the number of steps of each token.

    L = L_head + tau mean over tokens of (N + R)

Graves (2016), section 2: N is the number of steps, and R the remainder, through which the cost has a gradient.
"""

from typing import Any

import keras
import tensorflow as tf

from ptmbench.models.objective import Objective, Part

TAU = 0.01
"""From the code of Dehghani et al. (2019); the paper gives no value."""


class Ponder(Objective, keras.layers.Layer):
    """The ``loss`` of an encoder with ``pondered(batch, seed)`` (see `models.layers.universal`): the loss of ``head``,
    as in `models.objectives._joint`, and the ponder cost."""

    def __init__(self, encoder: keras.layers.Layer, head: Part, name: str = "loss"):
        super().__init__(name=name)
        self.encoder, self.head = encoder, head
        self.built = True

    @property
    def reports(self) -> tuple[str, ...]:
        return (*self.head.reports, "ponder")

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"tokens": tf.math.count_nonzero(batch["tokens"], dtype=tf.int32), **self.head.totals(batch)}

    def fill(self, batch: dict[str, Any]) -> tf.Tensor:
        """Scores [B, V] of every piece at ``places`` [B] of ``tokens`` [B, T], which hold [MASK]."""
        return self.head.fill(self.encoder(batch, seed=None), batch["places"])

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        totals = totals or self.totals(batch)
        encoding, cost = self.encoder.pondered(batch, seed)
        parts = self.head(encoding, batch, totals)
        present = tf.cast(tf.not_equal(batch["tokens"], 0), tf.float32)  # [B, T]
        price = tf.reduce_sum(cost * present) / tf.cast(tf.maximum(totals["tokens"], 1), tf.float32)
        loss = sum(value for name, value in parts.items() if name.endswith("_loss"))
        return {"loss": loss + TAU * price, **parts, "ponder": price}
