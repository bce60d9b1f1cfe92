"""A training step in which weights learn at different rates: what adaptations with several rates share."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ptmbench.bench.engine.step import TrainStep


class RatedStep(TrainStep):
    """A step in which every weight has a share of the rate, ``shares`` float32 [N]; 0 keeps it as it is.

    What Adam moves a weight by is in proportion to the rate, and so is what decays: a share of the rate is a share of
    the way.
    """

    def __init__(self, loss: Callable, variables: Sequence[Any], **options: Any):
        super().__init__(loss, variables, **options)
        self.shares = tf.Variable(tf.ones(len(variables)), trainable=False)

    def reset(self) -> None:
        """Forget moments and step count, and the shares that an earlier training ended with."""
        super().reset()
        self.shares.assign(tf.ones(len(self.variables)))

    def _apply(self, gradients: Sequence[Any], scalars: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        before = [tf.identity(variable.value) for variable in self.variables]
        scalars = super()._apply(gradients, scalars)
        for number, (variable, old) in enumerate(zip(self.variables, before, strict=True)):
            variable.assign(old + self.shares[number] * (variable.value - old))
        return scalars
