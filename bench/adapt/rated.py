"""A training step with different learning rates for different weights, for adaptations with several rates."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ptmbench.bench.engine.step import TrainStep


class RatedStep(TrainStep):
    """A step in which each of N variables has a share of the learning rate, ``shares`` float32 [N]; 0 freezes it.

    Adam's update and the weight decay are both proportional to the rate, so a share of the rate is the same share of
    the update.
    """

    def __init__(self, loss: Callable, variables: Sequence[Any], **options: Any):
        super().__init__(loss, variables, **options)
        self.shares = tf.Variable(tf.ones(len(variables)), trainable=False)

    def reset(self) -> None:
        """Resets the moments, the step count and the shares."""
        super().reset()
        self.shares.assign(tf.ones(len(self.variables)))

    def _apply(self, gradients: Sequence[Any], scalars: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        before = [tf.identity(variable.value) for variable in self.variables]
        scalars = super()._apply(gradients, scalars)
        for number, (variable, old) in enumerate(zip(self.variables, before, strict=True)):
            variable.assign(old + self.shares[number] * (variable.value - old))
        return scalars
