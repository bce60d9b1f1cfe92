"""Distillation of the last attention: a student learns the attention of a frozen teacher's last layer, and the
relations between its values. Wang et al. (2020), "MiniLM: Deep Self-Attention Distillation for Task-Agnostic
Compression of Pre-Trained Transformers", sections "Self-Attention Distribution Transfer" and "Self-Attention
Value-Relation Transfer".

The last layer has h heads. For head a, A_a = softmax(Q_a K_a^T / sqrt(d)) is its attention over a text x, and V_a
[T, d] are its values. A prime marks those of the teacher, which have d' dimensions:

    L = L_AT + L_VR
    L_AT = 1 / (h |x|) sum_{a=1}^{h} sum_{t=1}^{|x|} KL(A'_a,t || A_a,t)
    L_VR = 1 / (h |x|) sum_{a=1}^{h} sum_{t=1}^{|x|} KL(R'_a,t || R_a,t)        R_a = softmax(V_a V_a^T / sqrt(d))

Both are distributions over tokens, so student and teacher may differ in width and depth, but not in the number of
heads. The authors have published no code of this loss. The equations do not define the average over texts. Here the
mean is over all tokens of a batch that are not padding, and no token attends to padding.

The loss has no gradient for the weights after the last attention, or for a pooler. These are first trained in
adaptation.
"""

from typing import Any

import keras
import tensorflow as tf

from ptmbench.models.layers.embeddings import padding_bias
from ptmbench.models.layers.operations import AttentionTensors
from ptmbench.models.layers.states import inner_states
from ptmbench.models.objectives._joint import Joint
from ptmbench.models.objectives.distillation import divergence
from ptmbench.models.pretrainable import Pretrainable


def relation_losses(
    student: AttentionTensors, teacher: AttentionTensors, tokens: tf.Tensor, share: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Returns the scalars "attention_loss" and "relation_loss". ``tokens`` [B, T] are 0 at padding; ``share``
    float32 [B, T] are the weights of tokens."""
    bias = padding_bias(tokens)  # [B, 1, 1, T]
    attended = divergence(teacher.scores, student.scores, 1.0)  # [B, H, T]
    related = divergence(relations(teacher.values) + bias, relations(student.values) + bias, 1.0)
    each = {"attention_loss": attended, "relation_loss": related}
    return {name: tf.reduce_sum(share * tf.reduce_mean(value, axis=1)) for name, value in each.items()}


def relations(values: tf.Tensor) -> tf.Tensor:
    """V V^T / sqrt(d) [B, H, T, T] of ``values`` [B, H, T, d]: the logits of the relations."""
    values = tf.cast(values, tf.float32)
    return tf.matmul(values, values, transpose_b=True) * values.shape[-1] ** -0.5


class RelationDistillation(Joint):
    """The ``loss`` of a student that reads the same texts as its ``teacher``.

    The teacher's weights are frozen and are not among ``variables``. Without a ``teacher`` the layer only holds the
    student's weights, for adaptations; calling it raises `ValueError`.
    """

    over_vocabulary = False
    reports = ("attention_loss", "relation_loss")

    def __init__(self, encoder: keras.layers.Layer, teacher: Pretrainable | None):
        super().__init__(encoder, [])
        self.teacher = teacher  # Keras does not track layers inside it
        if teacher is not None:
            teacher.loss.trainable = False

    @property
    def unreached(self) -> tuple[str, ...]:
        """Prefixes of the paths of weights without a gradient: those after the last attention."""
        last = list(self.encoder.stack)[-1].path
        parts = ("attention/projection", "attention_norm", "feed_forward", "norm")
        return tuple(f"{last}/{part}/" for part in parts)

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"tokens": tf.math.count_nonzero(batch["tokens"], dtype=tf.int32)}

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        if self.teacher is None:
            raise ValueError("The loss of distillation needs a teacher, and the network was built without one.")
        tokens, totals = batch["tokens"], totals or self.totals(batch)
        ours = inner_states(self.encoder, batch, seed).attentions[-1]
        theirs = inner_states(self.teacher.encoder, {"tokens": tokens}).attentions[-1]
        share = tf.cast(tf.not_equal(tokens, 0), tf.float32) / tf.cast(tf.maximum(totals["tokens"], 1), tf.float32)
        found = relation_losses(ours, AttentionTensors(*map(tf.stop_gradient, theirs)), tokens, share)
        return {"loss": found["attention_loss"] + found["relation_loss"], **found}
