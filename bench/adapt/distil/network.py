"""The loss of a student against its teacher in TensorFlow."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from ptmbench.models.objectives.distillation import divergence


def soft(numbers: tf.Tensor, batch: Mapping[str, Any], temperature: float, match: str) -> tf.Tensor:
    """The loss of the student's ``numbers`` against the array ``teacher`` of the batch, a scalar
    (`bench.adapt.distil`).

    Shapes: classification [B, C] and [B, C], regression [B, 1] and [B], tagging [B, T, C] and [B, C, T].
    """
    teacher = batch["teacher"]
    if "score" in batch:
        return tf.reduce_mean(tf.square(numbers[:, 0] - teacher))
    unused = batch["unused"][:, : numbers.shape[-1]]  # [B, C]
    if "tags" not in batch:
        return tf.reduce_mean(_each(numbers, teacher, unused, temperature, match))
    known = tf.cast(batch["tags"] >= 0, tf.float32)  # [B, T]
    each = _each(numbers, tf.transpose(teacher, [0, 2, 1]), unused[:, None], temperature, match)
    return tf.reduce_sum(each * known) / tf.maximum(tf.reduce_sum(known), 1.0)


def _each(student: tf.Tensor, teacher: tf.Tensor, unused: tf.Tensor, temperature: float, match: str) -> tf.Tensor:
    """The loss of each text or token: logits [..., C] to [...]. ``unused`` [..., C] is 0 for the possible answers."""
    if match == "probabilities":
        return divergence(teacher, student, temperature)
    # Both have -1e9 added at unused outputs. Their rounding errors there must not count as differences.
    used = tf.cast(tf.equal(unused, 0), tf.float32)
    return tf.reduce_sum(tf.square(used * (student - teacher)), axis=-1)
