"""Distillation of a masked language model: a student learns the predictions and the vectors of a frozen teacher.
Sanh et al. (2019), section 2.

    L = 5 L_soft + 2 L_MLM + L_cos
    L_soft = t^2 / |P| sum_{p in P} KL(softmax(z_p / t) || softmax(y_p / t))
    L_cos = 1/|P| sum_{p in P} 1 - cos(g_p, h_p)

P are all positions that are not padding. z_p and y_p are the logits of teacher and student at position p, g_p and h_p
their vectors in the last layer, and t = 2 is the temperature. Both read the same masked text. The factor t^2 keeps the
gradient of soft targets as large as at t = 1 (Hinton et al., 2015, section 2). KL differs from the cross-entropy with
soft targets by the teacher's entropy, which has no gradient.

The paper does not give weights, temperature and positions. They are from the authors' code (huggingface/transformers,
research_projects/distillation), in the command of its README.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptmbench.models.layers.operations import rematerialising, shape
from ptmbench.models.objectives._joint import Joint
from ptmbench.models.objectives.mlm import MaskedLm, gather
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary

TEMPERATURE = 2.0
SOFT, HARD, COSINE = 5.0, 2.0, 1.0
"""Weights of the three losses."""
SMOOTHING = 0.7
"""The weight of a piece for masking is its count to the power of minus this, as in XLM's code. Rare pieces are hidden
more often."""


def rarity(corpus: Corpus, vocabulary: Vocabulary) -> np.ndarray:
    """Returns the masking weight of each piece of the ``vocabulary``, float64 [V]. Reads the ``corpus`` once."""
    counts = corpus.counts()
    return np.maximum(np.pad(counts, (0, vocabulary.size - len(counts))), 1.0) ** -SMOOTHING


def divergence(targets: tf.Tensor, logits: tf.Tensor, temperature: float = TEMPERATURE) -> tf.Tensor:
    """KL [N] from the softened distribution of ``targets`` [N, V] to that of ``logits`` [N, V], times the square of
    ``temperature``. Both arguments are logits."""
    wanted, found = (tf.nn.log_softmax(scores / temperature) for scores in (targets, logits))
    return temperature**2 * tf.reduce_sum(tf.exp(wanted) * (wanted - found), -1)


def angle(targets: tf.Tensor, vectors: tf.Tensor) -> tf.Tensor:
    """1 - cos [N] of the angles between ``targets`` [N, D] and ``vectors`` [N, D]."""
    both, theirs, ours = (
        tf.reduce_sum(a * b, -1) for a, b in ((targets, vectors), (targets, targets), (vectors, vectors))
    )
    return 1.0 - both * tf.math.rsqrt((theirs + 1e-12) * (ours + 1e-12))


def copy_teacher_weights(student: Joint, teacher: Pretrainable) -> None:
    """Copies weights of ``teacher`` to ``student``: embeddings, the head for masked words, and equally spaced layers,
    including the first and the last. Six of twelve layers are 0, 2, 4, 7, 9 and 11, as in the authors' code."""
    head, theirs = student.heads[0], masked_lm(teacher)
    blocks, layers = list(student.encoder.stack), list(teacher.encoder.stack)
    spaced = np.rint(np.linspace(0, len(layers) - 1, len(blocks))).astype(int)
    pairs = [(block, layers[index]) for block, index in zip(blocks, spaced, strict=True)]
    for part, other in ((student.encoder.embeddings, teacher.encoder.embeddings), (head, theirs)):
        pairs += [(getattr(part, name), getattr(other, name)) for name, _ in part.config.parts()]
    head.output_bias.assign(theirs.output_bias.numpy())
    for part, other in pairs:
        for variable, given in zip(part.variables, other.variables, strict=True):
            variable.assign(given.numpy())


def masked_lm(network: Pretrainable) -> MaskedLm:
    """Returns the head of ``network`` that predicts masked words."""
    return next(head for head in network.loss.heads if isinstance(head, MaskedLm))


class Distillation(Joint):
    """The ``loss`` of a student: soft targets, MLM by ``head``, and the cosine of the last layer's vectors.

    The teacher's weights are frozen and are not among ``variables``. Without a ``teacher`` the layer only holds the
    student's weights, for adaptations; calling it raises `ValueError`.
    """

    def __init__(self, encoder: keras.layers.Layer, head: MaskedLm, teacher: Pretrainable | None):
        super().__init__(encoder, [head])
        self.teacher = teacher  # Keras does not track layers inside it
        if teacher is not None:
            teacher.loss.trainable = False
            copy_teacher_weights(self, teacher)

    @property
    def reports(self) -> tuple[str, ...]:
        return (*super().reports, "soft_loss", "cosine_loss")

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        return super().totals(batch) | {"tokens": tf.math.count_nonzero(batch["tokens"], dtype=tf.int32)}

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        if self.teacher is None:
            raise ValueError("The loss of distillation needs a teacher, and the network was built without one.")
        (head,), totals = self.heads, totals or self.totals(batch)
        vectors = self.encoder(batch, seed=seed).tokens  # [B, T, D]
        with rematerialising(False):  # the teacher has no backward pass
            given = tf.stop_gradient(self.teacher.encoder({"tokens": batch["tokens"]}).tokens)
        rows, length, width = shape(vectors)
        vectors, given = (tf.reshape(x, [rows * length, width]) for x in (vectors, given))
        targets = tf.stop_gradient(masked_lm(self.teacher).logits_of(given))  # [B * T, V]
        logits = head.logits_of(vectors)
        hidden = gather(tf.reshape(logits, [rows, length, logits.shape[-1]]), batch["masked_positions"])  # [B * M, V]
        present = tf.cast(tf.reshape(tf.not_equal(batch["tokens"], 0), [-1]), tf.float32)
        share = present / tf.cast(tf.maximum(totals["tokens"], 1), tf.float32)  # [B * T]
        parts = head.score(hidden, batch, totals)
        parts["soft_loss"] = tf.reduce_sum(share * divergence(targets, logits))
        parts["cosine_loss"] = tf.reduce_sum(share * angle(tf.cast(given, tf.float32), tf.cast(vectors, tf.float32)))
        loss = SOFT * parts["soft_loss"] + HARD * parts["mlm_loss"] + COSINE * parts["cosine_loss"]
        return {"loss": loss, **parts}
