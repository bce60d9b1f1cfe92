"""Distillation at hidden words: a student learns the predictions of a frozen teacher at masked positions. Song et al.
(2020), "LightPAFF: A Two-Stage Distillation Framework for Pre-training and Fine-tuning".

    L = (1 - lambda) L_MLM + lambda L_KD
    L_KD = 1/|M| sum_{t in M} KL(p_t || q_t)

M are the masked positions of `models.objectives.mlm`. p_t and q_t are the probabilities of all pieces at position t for
teacher and student. Both read the same masked text, and there is no temperature. KL differs from the cross-entropy with
soft targets by the teacher's entropy, which has no gradient. The paper's lambda is a hyper-parameter; 1/2 is our
choice.

`models.objectives.distillation` (DistilBERT) has soft targets at all positions, at temperature 2, and a loss of the
last layer's vectors.
"""

from typing import Any

import keras
import tensorflow as tf

from ptmbench.models.layers.operations import rematerialising
from ptmbench.models.objectives._joint import Joint
from ptmbench.models.objectives.distillation import divergence, masked_lm
from ptmbench.models.objectives.mlm import MaskedLm
from ptmbench.models.pretrainable import Pretrainable

LAMBDA = 0.5
"""Weight of the teacher in the loss; the hidden words have weight 1 - lambda."""


class MaskedDistillation(Joint):
    """The ``loss`` of a student: MLM by ``head``, and the teacher's probabilities at the masked positions.

    The teacher's weights are frozen and are not among ``variables``. Without a ``teacher`` the layer only holds the
    student's weights, for adaptations; calling it raises `ValueError`.
    """

    def __init__(self, encoder: keras.layers.Layer, head: MaskedLm, teacher: Pretrainable | None):
        super().__init__(encoder, [head])
        self.teacher = teacher  # Keras does not track layers inside it
        if teacher is not None:
            teacher.loss.trainable = False

    @property
    def reports(self) -> tuple[str, ...]:
        return (*super().reports, "soft_loss")

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        if self.teacher is None:
            raise ValueError("The loss of distillation needs a teacher, and the network was built without one.")
        (head,), totals, places = self.heads, totals or self.totals(batch), batch["masked_positions"]
        logits = head.logits(self.encoder(batch, seed=seed).tokens, places)  # [B * M, V]
        with rematerialising(False):  # the teacher has no backward pass
            given = self.teacher.encoder(batch).tokens
            targets = tf.stop_gradient(masked_lm(self.teacher).logits(given, places))  # [B * M, V]
        used = tf.cast(tf.reshape(batch["masked_weights"], [-1]), tf.float32)  # [B * M]
        share = used / tf.cast(tf.maximum(totals["masked"], 1), tf.float32)
        parts = head.score(logits, batch, totals)
        parts["soft_loss"] = tf.reduce_sum(share * divergence(targets, logits, 1.0))
        return {"loss": (1 - LAMBDA) * parts["mlm_loss"] + LAMBDA * parts["soft_loss"], **parts}
