"""LayerDrop in TensorFlow."""

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ptmbench.models.layers.core import Drop, Rows
from ptmbench.models.layers.operations import fold

_SEED_OFFSET = 9
"""The number of this draw among the ten places for dropout that each layer has."""


@dataclass(frozen=True)
class LeavingOut:
    """The detour of a stack (`models.layers.blocks.Stack`) that leaves out each block with probability ``rate``. The
    draws depend on the seed of the step. Without a seed, outside of training, all blocks are computed."""

    rate: float

    def __call__(self, block: Any, x: tf.Tensor, index: int, bias: tf.Tensor, rows: Rows, drop: Drop) -> tf.Tensor:
        if drop.seed is None or not self.rate:
            return block(x)
        drawn = tf.random.stateless_uniform([], fold(drop.seed, drop.place + 10 * (index + 1) + _SEED_OFFSET))
        return tf.cond(drawn >= self.rate, lambda: block(x), lambda: x)
