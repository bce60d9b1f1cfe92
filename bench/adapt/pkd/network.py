"""The inner [CLS] vectors of student and teacher, and the loss between them, in TensorFlow."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import tensorflow as tf

from ptmbench.bench.adapt.distil import targets
from ptmbench.bench.adapt.pkd import Own
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.layers.operations import shape


def patience(student: tf.Tensor, teacher: tf.Tensor) -> tf.Tensor:
    """The patience loss [] between the vectors [B, M - 1, D] of the ``student`` and of the ``teacher``
    (`bench.adapt.pkd`)."""
    ours, theirs = (tf.math.l2_normalize(tf.cast(x, tf.float32), axis=-1) for x in (student, teacher))
    return tf.reduce_mean(tf.square(ours - theirs))


def layers(student: int, teacher: int, chosen: str) -> list[int]:
    """The layers of the teacher, counted from 1, that the layers 1 to M - 1 of the student imitate. ``student`` and
    ``teacher`` are numbers of layers.

    Raises `NotApplicable` if the student has no inner layer or more layers than the teacher, or if ``chosen`` is "skip"
    and the teacher's layers are not a multiple of the student's.
    """
    if student < 2:
        raise NotApplicable("one-layer", "because a student of one layer has no inner layer that could imitate one.")
    if student > teacher or (chosen == "skip" and teacher % student):
        raise NotApplicable(
            "other-layers",
            f"because the student has {student} layers and the teacher {teacher}, which is no multiple of that. Name "
            "another teacher, or choose chosen=last for a deeper one.",
        )
    if chosen == "last":
        return [teacher - student + layer for layer in range(1, student)]
    return [layer * teacher // student for layer in range(1, student)]


def inner(adapted: Any, encoding: Any, tokens: tf.Tensor) -> tf.Tensor:
    """The [CLS] vectors [B, M - 1, D] of the layers between the embeddings and the last layer. Encoders that read from
    left to right give the vectors of the last token instead."""
    vectors = tf.stack(encoding.layers[1:-1], axis=1)  # [B, M - 1, T, D]
    if not adapted.network.encoder.causal:
        return vectors[:, :, 0]
    places = tf.reduce_sum(tf.cast(tf.not_equal(tokens, 0), tf.int32), axis=1) - 1  # [B]
    places = tf.repeat(tf.maximum(places, 0)[:, None], shape(vectors)[1], axis=1)  # [B, M - 1]
    return tf.gather(vectors, places, axis=2, batch_dims=2)


def taught(
    teacher: Any, student: Any, rows: Sequence[Any], examples: Sequence[Any], settings: Own, seed: int
) -> tuple[list[Any], float]:
    """Returns ``rows`` with the arrays ``teacher`` (logits [C] or a score []) and ``states`` [M - 1, D], and the FLOPs
    of one forward pass of the teacher over each row. If the settings shuffle, both arrays are shuffled in the same way.
    Raises `NotApplicable` if student and teacher differ in width."""
    ours, theirs = student.network.encoder, teacher.network.network.encoder
    if ours.width != theirs.width:
        raise NotApplicable(
            "other-width",
            f"because the student's vectors have {ours.width} dimensions and the teacher's have "
            f"{theirs.width}. Name a teacher or a student of the same width.",
        )
    places = layers(ours.depth, theirs.depth, settings.chosen)
    read, said, flops = teacher.read(examples, during="teach", function=_both)
    taught = targets.taught(rows, read, [one["numbers"] for one in said], examples, settings.shuffle, seed)
    states = [one["states"][[place - 1 for place in places]] for one in said]
    order = targets.row_permutation(taught, settings.shuffle, seed)
    given = zip(taught, order, strict=True)
    return [replace(row, arrays={**row.arrays, "states": states[place]}) for row, place in given], flops


def _both(adapted: Any, batch: Mapping[str, Any], number: Any) -> dict[str, tf.Tensor]:
    """The output of the teacher's head [B, ...], and its inner [CLS] vectors [B, N - 1, D] (N layers)."""
    encoding = adapted.encoded(batch)
    numbers = adapted.head.predicted(adapted.head_output(encoding, batch), batch)
    return {"numbers": numbers, "states": inner(adapted, encoding, batch["tokens"])}
