"""Progressive knowledge transfer: a thin student learns its teacher layer by layer, then the teacher's predictions.
Sun et al. (2020), "MobileBERT: a Compact Task-Agnostic BERT for Resource-Limited Devices", sections "Training
Objectives" and "Training Strategies".

Student and teacher both have L layers, the same number of heads, and vectors of the same width between layers. H_l are
the vectors after layer l, and A_l is the attention of that layer. A prime marks those of the teacher. N normalises a
vector to mean 0 and variance 1; mu and v are its mean and variance. Means are over tokens, and over heads or
dimensions:

    transfer_l = 1 / L (100 MSE(N(H_l), N(H'_l)) + 5000 MSE(mu_l, mu'_l) + 5 mean |v_l - v'_l| + mean KL(A'_l || A_l))
    predict = 1/2 L_MLM + 1/2 KL(p' || p) + L_NSP

p are the predictions at hidden words. Training has L + 1 phases. In the first L, which take 24/74 of all steps, layer l
is trained by transfer_l alone: the layers below are frozen, and the layers above are not trained yet. In the last phase
everything is trained by "predict".

From the authors' code (google-research/google-research, `mobilebert/run_pretraining.py` at 0c1bbe5, and the command in
`mobilebert/README.md`): the weights of the losses, the 240,000 and 500,000 steps of the two stages, and the split of
feature maps into normalised vectors, means and variances. The code uses cross-entropies of attention and of
predictions, which have the same gradients as these divergences.

Differences from the code: it trains lower layers at a tenth of the rate, while here they are frozen except for Adam's
momentum and weight decay. Its student has no dropout; here it has that of the recipe. Rates follow the schedule of all
pre-trainings and do not restart in each phase. Variances are compared layer by layer; the code subtracts those of all
of the teacher's layers, which looks like a mistake. Padding tokens do not count. The student starts with the teacher's
embeddings and head for hidden words; we did not check whether the authors copy the head.

The cost of a pre-training includes the heads of student and teacher in all steps, also in the first L phases, which do
not compute them: 1.4 % of it at size mini with 4,000 pieces and 64 tokens.
"""

from typing import Any

import keras
import tensorflow as tf

from ptmbench.models.layers.operations import AttentionTensors, rematerialising
from ptmbench.models.layers.states import inner_states
from ptmbench.models.objectives._joint import Joint
from ptmbench.models.objectives.distillation import divergence, masked_lm
from ptmbench.models.objectives.mlm import MaskedLm
from ptmbench.models.objectives.nsp import NextSentence
from ptmbench.models.pretrainable import Pretrainable

FEATURES, MEANS, VARIANCES, ATTENTION = 100.0, 5000.0, 5.0, 1.0
"""Weights of the losses of a layer."""
GOLD = 0.5
"""Weight of the hidden words in the loss; the teacher's predictions have weight 1 - `GOLD`."""
TRANSFER = 240_000 / 740_000
"""Share of the steps in which layers are transferred."""
_COPIED = ("tokens", "positions", "segments", "trigrams")
"""The parts of the embeddings that both networks have."""
_LAYER_LOSSES = ("feature_loss", "mean_loss", "variance_loss", "attention_loss")


def layer_losses(
    ours: tf.Tensor,
    theirs: tf.Tensor,
    our_attention: AttentionTensors,
    their_attention: AttentionTensors,
    share: tf.Tensor,
) -> dict[str, tf.Tensor]:
    """Returns the four weighted scalars of one layer, from the vectors ``ours`` and ``theirs`` [B, T, D] and the
    attention of the student and the teacher. Each token is weighted by its ``share`` [B, T]."""
    ours, theirs = tf.cast(ours, tf.float32), tf.cast(theirs, tf.float32)
    (mean, variance), (other_mean, other_variance) = (tf.nn.moments(x, -1, keepdims=True) for x in (ours, theirs))

    def normal(x: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
        return (x - mean) * tf.math.rsqrt(variance + 1e-12)

    apart = normal(ours, mean, variance) - normal(theirs, other_mean, other_variance)
    attended = tf.reduce_mean(divergence(their_attention.scores, our_attention.scores, 1.0), axis=1)  # [B, T]
    each = {
        "feature_loss": FEATURES * tf.reduce_mean(tf.square(apart), -1),
        "mean_loss": MEANS * tf.square(mean - other_mean)[..., 0],
        "variance_loss": VARIANCES * tf.abs(variance - other_variance)[..., 0],
        "attention_loss": ATTENTION * attended,
    }
    return {name: tf.reduce_sum(share * value) for name, value in each.items()}


def phase_of(progress: tf.Tensor, layers: int) -> tf.Tensor:
    """Returns the number int32 [] of the layer that is transferred at the share ``progress`` [] of the steps, or
    ``layers`` in the last phase."""
    phase = tf.cast(tf.floor(progress / TRANSFER * layers), tf.int32)
    return tf.minimum(phase, layers)


class ProgressiveTransfer(Joint):
    """The ``loss`` of a student with ``heads`` for hidden words and for next sentences.

    The array ``progress`` [B] of a batch is the share of the steps that are done. Without it, as for held-out text, the
    loss is that of the last phase. The teacher's weights are frozen and are not among ``variables``. Without a
    ``teacher`` the layer only holds the student's weights, for adaptations; calling it raises `ValueError`.
    """

    def __init__(self, encoder: keras.layers.Layer, heads: tuple[MaskedLm, NextSentence], teacher: Pretrainable | None):
        super().__init__(encoder, heads)
        self.teacher = teacher  # Keras does not track layers inside it
        if teacher is not None:
            teacher.loss.trainable = False
            copy_teacher_weights(self, teacher)

    @property
    def reports(self) -> tuple[str, ...]:
        return (*super().reports, "soft_loss", *_LAYER_LOSSES)

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        return super().totals(batch) | {"tokens": tf.math.count_nonzero(batch["tokens"], dtype=tf.int32)}

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        if self.teacher is None:
            raise ValueError("The loss of distillation needs a teacher, and the network was built without one.")
        totals = totals or self.totals(batch)
        if "progress" not in batch:
            return self._predicting(batch, totals, seed)
        phase = phase_of(batch["progress"][0], self.encoder.depth)
        return tf.cond(
            phase < self.encoder.depth,
            lambda: self._transferring(batch, totals, seed, phase),
            lambda: self._predicting(batch, totals, seed),
        )

    def _transferring(self, batch: dict[str, Any], totals: Any, seed: Any, phase: tf.Tensor) -> dict[str, Any]:
        """Returns the losses of the layer ``phase``. Gradients do not reach other layers."""
        with self.encoder.stack.detoured(lambda block, x, *_: block(tf.stop_gradient(x))):
            ours = inner_states(self.encoder, batch, seed)
        theirs = inner_states(self.teacher.encoder, batch)
        present = tf.cast(tf.not_equal(batch["tokens"], 0), tf.float32)
        share = present / tf.cast(tf.maximum(totals["tokens"], 1), tf.float32)  # [B, T]
        found = dict.fromkeys(_LAYER_LOSSES, 0.0)
        depth = len(ours.attentions)
        for layer, (own, other) in enumerate(zip(ours.attentions, theirs.attentions, strict=True)):
            pair = (ours.layers[layer + 1], tf.stop_gradient(theirs.layers[layer + 1]))
            losses = layer_losses(*pair, own, AttentionTensors(*map(tf.stop_gradient, other)), share)
            gate = tf.cast(tf.equal(layer, phase), tf.float32) / depth
            found = {name: found[name] + gate * value for name, value in losses.items()}
        others = dict.fromkeys((*super().reports, "soft_loss"), tf.constant(0.0))
        return {"loss": sum(found.values()), **others, **found}

    def _predicting(self, batch: dict[str, Any], totals: Any, seed: Any) -> dict[str, Any]:
        """Returns the losses of the last phase."""
        words, follows = self.heads
        encoding = self.encoder(batch, seed=seed)
        with rematerialising(False):  # the teacher has no backward pass
            given = tf.stop_gradient(self.teacher.encoder(batch).tokens)
        logits = words.logits(encoding.tokens, batch["masked_positions"])  # [B * M, V]
        targets = tf.stop_gradient(masked_lm(self.teacher).logits(given, batch["masked_positions"]))
        weights = tf.cast(tf.reshape(batch["masked_weights"], [-1]), tf.float32)
        share = weights / tf.cast(tf.maximum(totals["masked"], 1), tf.float32)
        parts = words.score(logits, batch, totals) | follows(encoding, batch, totals)
        parts["soft_loss"] = tf.reduce_sum(share * divergence(targets, logits, 1.0))
        parts |= dict.fromkeys(_LAYER_LOSSES, tf.constant(0.0))
        loss = GOLD * parts["mlm_loss"] + (1 - GOLD) * parts["soft_loss"] + parts["nsp_loss"]
        return {"loss": loss, **parts}


def copy_teacher_weights(student: ProgressiveTransfer, teacher: Pretrainable) -> None:
    """Copies the weights of ``teacher`` to ``student`` for the parts that both have: the embeddings, except for their
    norm, and the head for hidden words."""
    head, theirs = student.heads[0], masked_lm(teacher)
    pairs = [(getattr(student.encoder.embeddings, n), getattr(teacher.encoder.embeddings, n)) for n in _COPIED]
    pairs += [(getattr(head, name), getattr(theirs, name)) for name, _ in head.config.parts()]
    head.output_bias.assign(theirs.output_bias.numpy())
    for part, other in pairs:
        for variable, given in zip(part.variables, other.variables, strict=True):
            variable.assign(given.numpy())
