"""Distillation of every layer: a student learns the hidden states and the attention scores of a frozen teacher.
Jiao et al. (2020), "TinyBERT: Distilling BERT for Natural Language Understanding", section "Transformer Distillation".

The student has M layers, the teacher N. H_0 are the embeddings, and H_m the output vectors of layer m. A_m are the
scaled attention scores of layer m before the softmax, for h heads. A prime marks those of the teacher:

    L = sum_{m=0}^{M} hidden_m + sum_{m=1}^{M} attention_m
    hidden_m = MSE(H_m W + b, H'_g(m))        attention_m = 1 / h sum_{i=1}^{h} MSE(A_m,i, A'_g(m),i)

W is learnt and maps the student's width to the teacher's. The layer map g is uniform, g(m) = m N / M; the paper
compares it with top, g(m) = m + N - M, and bottom, g(m) = m. In all three, embeddings learn from embeddings. Student
and teacher have the same number of heads.

Checked against the authors' code (huawei-noah/Pretrained-Language-Model, `TinyBERT/task_distill.py` at 008b180,
`TinyBERT/general_distill.py` at 1bb9b3e and `TinyBERT/transformer/modeling.py` at e670706). As in that code, the
embeddings and all layers share one product with a bias, where the paper has W_e and W_h. Here means are over tokens,
and pairs of tokens, that are not padding. The authors' code includes padding, and sets the scores of padded keys to 0.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from ptmbench.models.layers.core import built
from ptmbench.models.layers.heads import FitConfig
from ptmbench.models.layers.states import inner_states
from ptmbench.models.objective import Batch, Batches, sampled
from ptmbench.models.objectives import sampling
from ptmbench.models.objectives._joint import Joint
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary

MAPS = ("uniform", "top", "bottom")
"""Names of the maps from the student's layers to the teacher's."""


class TeacherOutputs(NamedTuple):
    """The teacher's outputs for a batch, of its layers g(0) to g(M)."""

    layers: Sequence[tf.Tensor]
    """M + 1 tensors [B, T, D']."""
    scores: Sequence[tf.Tensor]
    """M tensors [B, H, T, T]."""


def map_layers(student: int, teacher: int, way: str) -> list[int]:
    """Returns g(0) to g(M) for a ``student`` of M layers and a ``teacher`` of N layers. Layer 0 is the embeddings.
    Raises `ValueError` with a reason if the map ``way`` does not exist for M and N."""
    if student > teacher or (way == "uniform" and teacher % student):
        raise ValueError(f"the student has {student} layers and the teacher {teacher}, which is no multiple of that.")
    if way == "uniform":
        return [layer * teacher // student for layer in range(student + 1)]
    return [0, *(layer + (teacher - student if way == "top" else 0) for layer in range(1, student + 1))]


def vectors_loss(student: tf.Tensor, teacher: tf.Tensor, share: tf.Tensor) -> tf.Tensor:
    """MSE [] between [B, T, D] and [B, T, D]. Each token is weighted by its ``share`` [B, T]; the shares of a whole
    batch add up to 1."""
    each = tf.reduce_mean(tf.square(tf.cast(student, tf.float32) - tf.cast(teacher, tf.float32)), axis=-1)
    return tf.reduce_sum(share * each)


def scores_loss(student: tf.Tensor, teacher: tf.Tensor, share: tf.Tensor) -> tf.Tensor:
    """MSE [] between [B, H, T, T] and [B, H, T, T], as a mean over heads. Each pair of tokens is weighted by its
    ``share`` [B, T, T]; the shares of a whole batch add up to 1."""
    used = share[:, None, :, :] > 0  # padded keys have scores of -1e9, whose rounding errors must not count
    each = tf.square(tf.where(used, student - teacher, 0.0))
    return tf.reduce_sum(share * tf.reduce_mean(each, axis=1))


def pairs(present: tf.Tensor) -> tf.Tensor:
    """float32 [B, T, T]: 1 for pairs of tokens that are both ``present``, float32 [B, T]."""
    return present[:, :, None] * present[:, None, :]


def layer_losses(
    states: Any, teacher: TeacherOutputs, fit: Any, token_share: tf.Tensor, pair_share: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Returns the scalars "hidden_loss" and "attention_loss" of a student's `models.layers.states.InnerStates`.

    ``fit`` maps vectors [N, D] to [N, D']. ``token_share`` [B, T] and ``pair_share`` [B, T, T] weight tokens and pairs
    of tokens; the weights of a whole batch add up to 1.
    """
    width = states.layers[0].shape[-1]
    hidden = attended = 0.0
    for ours, theirs in zip(states.layers, teacher.layers, strict=True):
        fitted = tf.reshape(fit(tf.reshape(ours, [-1, width])), tf.shape(theirs))
        hidden += vectors_loss(fitted, theirs, token_share)
    for attention, theirs in zip(states.attentions, teacher.scores, strict=True):
        attended += scores_loss(attention.scores, theirs, pair_share)
    return {"hidden_loss": hidden, "attention_loss": attended}


@sampled()
def batches(corpus: Corpus, vocabulary: Vocabulary, batch: int, length: int) -> Batches:
    """Returns a function from (step, seed) to full sentences without hidden words: ``tokens`` [B, T]."""
    texts = sampling.FullSentences(corpus, vocabulary, length)

    def make(step: int, seed: int) -> Batch:
        return texts(step, batch, seed)[0]

    return make


class LayerDistillation(Joint):
    """The ``loss`` of a student that reads the same texts as its ``teacher``: the losses of all layers. ``config`` has
    the projection to the teacher's width.

    The teacher's weights are frozen and are not among ``variables``. Without a ``teacher`` the layer only holds the
    student's weights, for adaptations; calling it raises `ValueError`.
    """

    over_vocabulary = False
    reports = ("hidden_loss", "attention_loss")

    def __init__(self, encoder: keras.layers.Layer, config: FitConfig, teacher: Pretrainable | None):
        super().__init__(encoder, [])
        self.fit = built(config.fit, name="fit")
        self.teacher = teacher  # Keras does not track layers inside it
        if teacher is not None:
            teacher.loss.trainable = False

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        tokens = tf.math.count_nonzero(batch["tokens"], axis=1, dtype=tf.int32)  # [B]
        return {"tokens": tf.reduce_sum(tokens), "squares": tf.reduce_sum(tf.square(tokens))}

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        if self.teacher is None:
            raise ValueError("The loss of distillation needs a teacher, and the network was built without one.")
        tokens, totals = batch["tokens"], totals or self.totals(batch)
        ours = inner_states(self.encoder, batch, seed)
        theirs = inner_states(self.teacher.encoder, {"tokens": tokens})
        places = map_layers(len(ours.attentions), len(theirs.attentions), "uniform")
        layers = [tf.stop_gradient(theirs.layers[place]) for place in places]
        scores = [tf.stop_gradient(theirs.attentions[place - 1].scores) for place in places[1:]]
        counts = (tf.cast(tf.maximum(totals[name], 1), tf.float32) for name in ("tokens", "squares"))
        present = tf.cast(tf.not_equal(tokens, 0), tf.float32)
        shares = (one / count for one, count in zip((present, pairs(present)), counts, strict=True))
        found = layer_losses(ours, TeacherOutputs(layers, scores), self.fit, *shares)
        return {"loss": found["hidden_loss"] + found["attention_loss"], **found}
