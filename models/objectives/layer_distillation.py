"""Distillation of every layer: a student learns the hidden states and the attention scores of a frozen teacher.
Jiao et al. (2020), "TinyBERT: Distilling BERT for Natural Language Understanding", section "Transformer Distillation".

The student has M layers, the teacher N. H_0 are the vectors of the embeddings, H_m those of layer m, and A_m the scores
of the attention of layer m before the softmax, scaled, for h heads; those of the teacher have a prime:

    L = sum_{m=0}^{M} hidden_m + sum_{m=1}^{M} attention_m
    hidden_m = MSE(H_m W + b, H'_g(m))        attention_m = 1 / h sum_{i=1}^{h} MSE(A_m,i, A'_g(m),i)

W is learnt and maps the student's width to the teacher's. The map g is uniform, g(m) = m N / M; the paper compares it
with top, g(m) = m + N - M, and bottom, g(m) = m. The embeddings imitate the embeddings under each. Student and teacher
have the same number of heads.

Read in the authors' code (huawei-noah/Pretrained-Language-Model, `TinyBERT/task_distill.py` at 008b180,
`TinyBERT/general_distill.py` at 1bb9b3e and `TinyBERT/transformer/modeling.py` at e670706), which is followed where the
paper writes more: one product with a bias serves the embeddings and all layers (W_e and W_h in the paper). Here means
run over tokens, and pairs of tokens, that are no padding; there, over padding too, with scores of padded keys as 0.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

MAPS = ("uniform", "top", "bottom")
"""Names of the maps from the student's layers to the teacher's."""


class Told(NamedTuple):
    """What the teacher says of a batch, of its layers g(0) to g(M)."""

    layers: Sequence[tf.Tensor]
    """M + 1 tensors [B, T, D']."""
    scores: Sequence[tf.Tensor]
    """M tensors [B, H, T, T]."""


def mapped(student: int, teacher: int, way: str) -> list[int]:
    """g(0) to g(M) for numbers of layers of ``student`` and ``teacher``, M and N; layer 0 are the embeddings. Raises
    `ValueError` with a reason if there are none."""
    if student > teacher or (way == "uniform" and teacher % student):
        raise ValueError(f"the student has {student} layers and the teacher {teacher}, which is no multiple of that.")
    if way == "uniform":
        return [layer * teacher // student for layer in range(student + 1)]
    return [0, *(layer + (teacher - student if way == "top" else 0) for layer in range(1, student + 1))]


def vectors_loss(student: tf.Tensor, teacher: tf.Tensor, share: tf.Tensor) -> tf.Tensor:
    """MSE [] between [B, T, D] and [B, T, D]; the tokens count by their ``share`` [B, T], which adds up to 1."""
    each = tf.reduce_mean(tf.square(tf.cast(student, tf.float32) - tf.cast(teacher, tf.float32)), axis=-1)
    return tf.reduce_sum(share * each)


def scores_loss(student: tf.Tensor, teacher: tf.Tensor, share: tf.Tensor) -> tf.Tensor:
    """MSE [] between [B, H, T, T] and [B, H, T, T], as a mean over heads; pairs of tokens count by their ``share``
    [B, T, T], which adds up to 1."""
    used = share[:, None] > 0  # padded keys have scores of -1e9, whose rounding errors are no differences
    each = tf.square(tf.where(used, student - teacher, 0.0))
    return tf.reduce_sum(share * tf.reduce_mean(each, axis=1))


def pairs(present: tf.Tensor) -> tf.Tensor:
    """float32 [B, T, T]: 1 for pairs of tokens that are both ``present``, float32 [B, T]."""
    return present[:, :, None] * present[:, None, :]


def layer_losses(
    states: Any, told: Told, fit: Any, present: tf.Tensor, tokens: tf.Tensor, squares: tf.Tensor
) -> dict[str, tf.Tensor]:
    """The scalars "hidden_loss" and "attention_loss" of a student's `models.layers.states.InnerStates`.

    ``fit`` maps vectors [N, D] to [N, D']. ``present`` float32 [B, T] is 1 for the tokens that count; ``tokens`` and
    ``squares`` are how many of these there are, and how many pairs of them.
    """
    width, both = states.layers[0].shape[-1], pairs(present)
    share, square = present / tokens, both / squares
    hidden = attended = 0.0
    for ours, theirs in zip(states.layers, told.layers, strict=True):
        fitted = tf.reshape(fit(tf.reshape(ours, [-1, width])), tf.shape(theirs))
        hidden += vectors_loss(fitted, theirs, share)
    for look, theirs in zip(states.looks, told.scores, strict=True):
        attended += scores_loss(look.scores, theirs, square)
    return {"hidden_loss": hidden, "attention_loss": attended}
