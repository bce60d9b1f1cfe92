"""One training step: loss, gradients, clipping, AdamW. Pre-training and every adaptation use this one.

The step is traced once. With ``dynamic=True`` it takes batches of any size and length, so all tasks of a form, all
seeds, and a pre-trained model and its random twin share one graph: building graphs costs more than training tiny
models does.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

Loss = Callable[[Mapping[str, Any], Any], Mapping[str, Any]]
"""(batch, seed) to named scalars, of which "loss" is minimised."""


class TrainStep:
    """``step(batch, seed, rate)`` updates ``variables`` once and returns the loss's named scalars, averaged over
    replicas.

    Weight decay is decoupled and spares biases and gains (Loshchilov & Hutter, 2019); gradients are clipped by their
    global norm, taken over the whole batch, not per replica.
    """

    def __init__(
        self,
        loss: Loss,
        variables: Sequence[Any],
        *,
        weight_decay: float = 0.01,
        clip: float = 1.0,
        beta_2: float = 0.98,
        strategy: tf.distribute.Strategy | None = None,
        dynamic: bool = False,
        jit: bool = False,
    ):
        self.loss, self.variables, self.clip, self.dynamic, self.jit = loss, list(variables), clip, dynamic, jit
        self.strategy = strategy or tf.distribute.get_strategy()
        with self.strategy.scope():
            self.optimizer = keras.optimizers.AdamW(
                learning_rate=0.0, weight_decay=weight_decay, beta_2=beta_2, epsilon=1e-6
            )
            self.optimizer.exclude_from_weight_decay(var_list=[v for v in self.variables if len(v.shape) < 2])
            self.optimizer.build(self.variables)
        self._function: Callable | None = None

    def __call__(self, batch: Mapping[str, np.ndarray], seed: tuple[int, int], rate: float) -> dict[str, tf.Tensor]:
        replicas = self.strategy.num_replicas_in_sync
        if self._function is None:
            self._function = self._trace(batch, replicas)
        self.optimizer.learning_rate.assign(rate)
        seed_tensor = tf.constant(seed, tf.int32)
        if replicas == 1:
            return self._function({k: tf.convert_to_tensor(v) for k, v in batch.items()}, seed_tensor)
        return self._function(
            self.strategy.experimental_distribute_values_from_function(share_of(batch, replicas)), seed_tensor
        )

    def reset(self) -> None:
        """Forget moments and step count, as if no step had been taken. The trace stays."""
        for variable in self.optimizer.variables:
            variable.assign(tf.zeros(variable.shape, variable.dtype))

    def state(self) -> dict[str, np.ndarray]:
        """The optimizer's variables, numbered in their fixed order (their paths may repeat)."""
        return {f"{i:05d}": np.asarray(v.numpy()) for i, v in enumerate(self.optimizer.variables)}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        for i, variable in enumerate(self.optimizer.variables):
            variable.assign(state[f"{i:05d}"])

    def _trace(self, batch: Mapping[str, np.ndarray], replicas: int) -> Callable:
        def on_replica(batch: Mapping[str, tf.Tensor], seed: tf.Tensor) -> dict[str, tf.Tensor]:
            if replicas > 1:  # or every replica would drop the same units
                replica = tf.distribute.get_replica_context().replica_id_in_sync_group
                seed = tf.random.experimental.stateless_fold_in(seed, replica)
            with tf.GradientTape() as tape:
                scalars = dict(self.loss(batch, seed))
            gradients = tape.gradient(scalars["loss"], [v.value for v in self.variables])
            # A head that reads tokens leaves the pooler without a gradient: such variables stay as they are.
            gradients, variables = zip(
                *((g, v) for g, v in zip(gradients, self.variables, strict=True) if g is not None), strict=True
            )
            if replicas > 1:  # Keras sums gradients over replicas, but after clipping: clip what the sum will be
                # Sparse gradients of lookups have another shape on every replica, which a reduction cannot take.
                gradients = [tf.convert_to_tensor(g) for g in gradients]
                gradients = tf.distribute.get_replica_context().all_reduce("SUM", gradients)
                gradients = [g / replicas for g in gradients]
            gradients, scalars["gradient_norm"] = tf.clip_by_global_norm(gradients, self.clip)
            if replicas > 1:
                gradients = [g / replicas for g in gradients]
            self.optimizer.apply(gradients, variables)
            return scalars

        def step(batch: Any, seed: tf.Tensor) -> dict[str, tf.Tensor]:
            if replicas == 1:
                return on_replica(batch, seed)
            scalars = self.strategy.run(on_replica, args=(batch, seed))
            return {name: self.strategy.reduce("MEAN", value, axis=None) for name, value in scalars.items()}

        if replicas > 1:
            return tf.function(step)
        specs = {k: tf.TensorSpec([None] * v.ndim if self.dynamic else v.shape, v.dtype) for k, v in batch.items()}
        function = tf.function(step, jit_compile=self.jit or None, autograph=False)
        return function.get_concrete_function(specs, tf.TensorSpec([2], tf.int32))


def share_of(batch: Mapping[str, np.ndarray], replicas: int) -> Callable[[Any], dict[str, tf.Tensor]]:
    """The part of a global batch that one replica works on, as tf.distribute asks for it."""

    def share(context: Any) -> dict[str, tf.Tensor]:
        parts = {}
        for name, value in batch.items():
            each = len(value) // replicas
            first = context.replica_id_in_sync_group * each
            parts[name] = tf.convert_to_tensor(value[first : first + each])
        return parts

    return share


def warm_up_then_linear(step: int, steps: int, peak: float, warmup: float) -> float:
    """Learning rate at ``step`` of ``steps``: up to ``peak`` over the share ``warmup``, then straight down to 0
    (Devlin et al., 2019)."""
    rising = max(1, round(steps * warmup))
    if step < rising:
        return peak * (step + 1) / rising
    return peak * max(0.0, (steps - step) / max(1, steps - rising))
