"""The last layers of FastBERT's branches. The codec is that of classification."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from ptmbench.bench.adapt import parts
from ptmbench.bench.adapt.exits import with_layer_number
from ptmbench.bench.adapt.heads import classification

Codec = classification.Codec
"""Reads the logits of its classes. The last number of each output is the exit layer, from which costs are computed."""


class Logits(NamedTuple):
    """The logits of the branches, with -1e9 added at the outputs that are not a class of the task."""

    students: Any
    """[B, L - 1, C]"""
    teacher: Any
    """[B, C]"""
    unused: Any
    """[B, C]: 0 for each class of the task, -1e9 for other outputs."""


class Students(keras.layers.Layer):
    """A separate layer for each student: [B, L - 1, W] to [B, L - 1, C]."""

    def __init__(self, outputs: int):
        super().__init__(name="students")
        self.outputs = outputs

    def build(self, input_shape: Any) -> None:
        _, students, width = input_shape
        self.kernel = self.add_weight((students, width, self.outputs), "glorot_uniform", name="kernel")
        self.bias = [self.add_weight((self.outputs,), "zeros", name=f"bias_{index}") for index in range(students)]

    def call(self, x: Any) -> Any:
        return tf.einsum("blw,lwc->blc", x, self.kernel) + tf.stack([tf.convert_to_tensor(one) for one in self.bias])

    def one(self, index: int, x: Any) -> Any:
        """The logits [B, C] of the student ``index`` for x [B, W]."""
        return tf.matmul(x, self.kernel[index]) + self.bias[index]


class Head(parts.Head):
    """Computes `Logits` from the vectors of students [B, L - 1, W] and teacher [B, W], which are the tokens and the
    pooled vector of its input."""

    def __init__(self, outputs: int):
        super().__init__()
        self.outputs = outputs
        self.teacher, self.students = keras.layers.Dense(outputs, name="teacher"), Students(outputs)

    @property
    def glorot(self) -> list[Any]:
        return [self.teacher.kernel, self.students.kernel]

    def call(self, reading: Any, batch: dict[str, Any]) -> Logits:
        unused = self.unused(batch)
        students, teacher = self.students(reading.tokens), self.teacher(reading.pooled)
        return Logits(students + unused[:, None], teacher + unused, unused)

    def unused(self, batch: dict[str, Any]) -> Any:
        """[B, C]: 0 for each class of the task, -1e9 for other outputs."""
        return batch["unused"][:, : self.outputs]

    def loss(self, logits: Logits, batch: dict[str, Any]) -> Any:
        """The teacher's cross-entropy."""
        losses = keras.losses.sparse_categorical_crossentropy(batch["label"], logits.teacher, from_logits=True)
        return tf.reduce_mean(losses)

    def predicted(self, logits: Logits, batch: dict[str, Any]) -> Any:
        """The teacher's logits and the number of its layer, [B, C + 1]."""
        return with_layer_number(logits.teacher, logits.students.shape[1] + 1)
