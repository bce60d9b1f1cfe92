"""One training step: loss, gradients, clipping, update. Pre-training and every adaptation use this one.

The step is traced once. With ``dynamic=True`` it takes batches of any size and length. Then all tasks of a form, all
seeds, and a pre-trained model and its random twin share one graph, because building a graph takes longer than training
a tiny model.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.bench.engine.cost import Traced
from ptmbench.bench.engine.distribute import scope, share_of
from ptmbench.bench.engine.optimizers import SPARSE, summed
from ptmbench.bench.engine.optimizers import optimizer as optimizer_of

Loss = Callable[..., Mapping[str, Any]]
"""Maps (batch, seed) to named scalars, of which "loss" is minimised. If a batch is split, the arguments are (batch,
seed, totals); see `models.pretrainable.Pretrainable`."""


class TrainStep:
    """``step(batch, seed, rate)`` updates ``variables`` once and returns the loss's named scalars.

    A batch is split evenly over the replicas of ``strategy`` and, on each, into ``accumulate`` parts that are computed
    one after the other. ``totals(batch)`` returns the counts that means over the whole batch are divided by. So losses,
    gradients and their norm are those of the whole batch, however it is split. ``clip`` is the maximum norm, and 0
    turns clipping off. Weight decay is decoupled (Loshchilov & Hutter, 2019) and leaves out biases and gains. ``adam``
    changes Adam's ``beta1``, ``beta2``, ``epsilon`` and ``bias_correction`` (`bench.engine.optimizers.optimizer`).
    """

    def __init__(
        self,
        loss: Loss,
        variables: Sequence[Any],
        *,
        optimizer: str = "adamw",
        weight_decay: float = 0.01,
        clip: float = 1.0,
        adam: Mapping[str, Any] | None = None,
        strategy: tf.distribute.Strategy | None = None,
        accumulate: int = 1,
        totals: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None,
        dynamic: bool = False,
        jit: bool = False,
    ):
        self.loss, self.variables, self.clip, self.dynamic, self.jit = loss, list(variables), clip, dynamic, jit
        self.strategy, self.accumulate, self.totals = strategy, accumulate, totals
        # The gradients of parts and replicas are added up, and this needs dense gradients.
        self.sparse = optimizer in SPARSE and strategy is None and accumulate == 1
        with scope(strategy):
            self.optimizer = optimizer_of(optimizer, self.variables, weight_decay=weight_decay, **(adam or {}))
        self._functions: dict[frozenset[str], Traced] = {}
        """Traced steps by the names of the arrays of a batch."""

    def __call__(self, batch: Mapping[str, np.ndarray], seed: tuple[int, int], rate: float) -> dict[str, tf.Tensor]:
        inputs = self._inputs(batch, seed)
        function = self._function(inputs)
        self.optimizer.learning_rate.assign(rate)
        scalars = function(*inputs)
        if self.strategy:  # the same on all replicas
            return {name: self.strategy.experimental_local_results(value)[0] for name, value in scalars.items()}
        return scalars

    def traced(self, batch: Mapping[str, np.ndarray]) -> Callable:
        """Returns the graph that steps on batches like ``batch`` run: a concrete function on one device, a
        `tf.function` with a strategy."""
        return self._function(self._inputs(batch, (0, 0))).function

    def reset(self) -> None:
        """Sets moments and step count to 0, as before the first step. Keeps the trace."""
        for variable in self.optimizer.variables:
            variable.assign(tf.zeros(variable.shape, variable.dtype))

    def settle(self) -> None:
        """Makes the variables current. They always are, unless another runtime computes the steps
        (`bench.engine.portable.step`)."""

    def state(self) -> dict[str, np.ndarray]:
        """The optimizer's variables, numbered in their fixed order (their paths may repeat)."""
        return {f"{i:05d}": np.asarray(v.numpy()) for i, v in enumerate(self.optimizer.variables)}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        for i, variable in enumerate(self.optimizer.variables):
            variable.assign(state[f"{i:05d}"])

    def _inputs(self, batch: Mapping[str, np.ndarray], seed: tuple[int, int]) -> list:
        inputs = [share_of(batch, self.strategy), tf.constant(seed, tf.int32)]
        if self.strategy or self.accumulate > 1:
            inputs.append({name: tf.constant(total) for name, total in self.totals(batch).items()})
        return inputs

    def _function(self, inputs: list) -> Traced:
        names = frozenset(inputs[0])
        if names not in self._functions:
            self._functions[names] = Traced(lambda: self._trace(inputs))
        return self._functions[names]

    def _trace(self, inputs: list) -> Callable:
        if self.strategy:  # XLA compiles each part; collectives between replicas stay outside
            part = tf.function(self._part, jit_compile=self.jit or None, autograph=False)
            return tf.function(lambda *args: self.strategy.run(self._split, args=(part, *args)), autograph=False)
        jit = self.jit or None
        if self.sparse:  # XLA compiles only the part
            part, jit = tf.function(self._part, jit_compile=jit, autograph=False), None

            def step(*args: Any) -> dict[str, tf.Tensor]:
                return self._apply(*part(*args))
        elif self.accumulate > 1:
            part = tf.function(self._part, autograph=False)  # a function, so that its two calls share one trace

            def step(*args: Any) -> dict[str, tf.Tensor]:
                return self._split(part, *args)
        else:
            step = self._whole
        batch, *others = tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape, x.dtype), inputs)
        if self.dynamic:
            batch = {name: tf.TensorSpec([None] * len(spec.shape), spec.dtype) for name, spec in batch.items()}
        return tf.function(step, jit_compile=jit, autograph=False).get_concrete_function(batch, *others)

    def _whole(self, batch: Mapping[str, tf.Tensor], seed: tf.Tensor) -> dict[str, tf.Tensor]:
        """The step on a batch in one part."""
        return self._apply(*self._part(batch, seed))

    def _split(
        self, part: Callable, batch: Mapping[str, tf.Tensor], seed: tf.Tensor, totals: Mapping[str, tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        """The step on this replica's share of a batch."""
        context = tf.distribute.get_replica_context()
        first = context.replica_id_in_sync_group * self.accumulate

        def numbered(index: Any) -> Any:
            # Each part has its own seed. Otherwise all parts would drop the same units.
            own = tf.random.experimental.stateless_fold_in(seed, first + index)
            return part(_slice(batch, index, self.accumulate), own, totals)

        def add(index: tf.Tensor, sums: Any) -> Any:
            return index + 1, tf.nest.map_structure(tf.add, sums, numbered(index))

        sums = numbered(0)
        if self.accumulate > 1:
            _, sums = tf.while_loop(
                lambda index, _: index < self.accumulate, add, (tf.constant(1), sums), parallel_iterations=1
            )
        if self.strategy:  # a single reduction per step
            sums = context.all_reduce("SUM", sums)
        return self._apply(*sums)

    def _part(
        self, batch: Mapping[str, tf.Tensor], seed: tf.Tensor, *totals: Mapping[str, tf.Tensor]
    ) -> tuple[list[tf.Tensor | None], dict[str, tf.Tensor]]:
        """Gradients and scalars of one part: sums over its rows, divided by the ``totals`` of the batch."""
        with tf.GradientTape() as tape:
            scalars = dict(self.loss(batch, seed, *totals))
        gradients = tape.gradient(scalars["loss"], [v.value for v in self.variables])
        # The sparse gradient of a lookup has a row twice if the row was looked up twice. Norms and second moments need
        # their sum, but `tf.clip_by_global_norm` and Keras square each of them. A dense gradient has the sum. `summed`
        # adds up sparse ones later: the number of rows depends on the batch, which XLA cannot compile.
        return [g if g is None or self.sparse else tf.convert_to_tensor(g) for g in gradients], scalars

    def _apply(self, gradients: Sequence[Any], scalars: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        # Variables without a gradient do not change, such as the pooler under a head that reads tokens.
        gradients, variables = zip(
            *((g, v) for g, v in zip(gradients, self.variables, strict=True) if g is not None), strict=True
        )
        gradients, norm = self.clipped([summed(g) for g in gradients])
        self.optimizer.apply(gradients, variables)
        return {**scalars, "gradient_norm": norm}

    def clipped(self, gradients: Sequence[Any]) -> tuple[Sequence[Any], tf.Tensor]:
        """Returns the clipped ``gradients``, and their global norm before clipping."""
        if 0 < self.clip < math.inf:
            return tf.clip_by_global_norm(gradients, self.clip)
        # For a maximum norm of 0, TensorFlow would return zeros, and for infinity NaN.
        return gradients, tf.linalg.global_norm(gradients)


def _slice(batch: Mapping[str, tf.Tensor], index: Any, parts: int) -> dict[str, tf.Tensor]:
    """Part ``index`` of ``batch``, whose rows are split into ``parts`` equal parts."""
    if parts == 1:
        return dict(batch)
    return {
        name: tf.reshape(value, [parts, value.shape[0] // parts, *value.shape[1:]])[index]
        for name, value in batch.items()
    }
