"""The orthogonal map in TensorFlow: the vectors of words, and the step that finds the map."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.bench.adapt import parts
from ptmbench.bench.adapt.mapping import Own
from ptmbench.bench.engine.step import TrainStep

PRIOR = 1e-3
"""e, the weight of the identity, in pairs of words."""


class Reading(parts.Reading):
    """The vectors of words, of length 1, in place of ``pooled``; those of questions are mapped.
    `bench.adapt.mapping.head` describes ``inside``."""

    def __init__(self, encoder: Any, settings: Own):
        super().__init__(name="mapping")
        self.which = {"embedding": slice(1), "top": slice(-1, None)}.get(settings.layers, slice(None))
        self.map = self.add_weight(shape=(encoder.width, encoder.width), initializer="identity", name="map")

    def call(self, encoding: Any, batch: dict[str, Any]) -> Any:
        inside = tf.reshape(batch["inside"], [-1, tf.shape(batch["inside"])[-1]])  # [B * C, T]
        own = tf.cast(inside > 0, tf.float32)[:, :, None]
        total = tf.add_n(
            [tf.reduce_sum(own * tf.cast(layer, tf.float32), axis=1) for layer in encoding.layers[self.which]]
        )
        unit = tf.math.l2_normalize(total, axis=1)  # [B * C, D]; the length of a mean does not matter
        asked = tf.reduce_max(inside, axis=1, keepdims=True) == 2
        return encoding._replace(pooled=tf.where(asked, tf.matmul(unit, self.map), unit))


class Step(TrainStep):
    """Sets the map to the best one for all pairs since `reset`."""

    def __init__(self, loss: Callable[..., Mapping[str, Any]], variables: Sequence[Any], **options: Any):
        super().__init__(loss, variables, **options)
        self.total = tf.Variable(tf.zeros(variables[0].shape), trainable=False)

    def reset(self) -> None:
        super().reset()
        identity = tf.eye(self.total.shape[0])
        self.total.assign(PRIOR * identity)
        self.variables[0].assign(identity)

    def state(self) -> dict[str, np.ndarray]:
        return super().state() | {"total": self.total.numpy()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        super().restore(state)
        self.total.assign(state["total"])

    def _apply(self, gradients: Sequence[Any], scalars: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        _, left, right = tf.linalg.svd(self.total.assign_sub(gradients[0]))
        share = tf.convert_to_tensor(self.optimizer.learning_rate)
        best = tf.matmul(left, right, transpose_b=True)
        self.variables[0].assign(share * best + (1.0 - share) * tf.eye(self.total.shape[0]))
        return scalars
