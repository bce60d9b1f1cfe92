"""One training step: loss, gradients, clipping, update. Pre-training and every adaptation use this one.

The step is traced once. With ``dynamic=True`` it takes batches of any size and length, so all tasks of a form, all
seeds, and a pre-trained model and its random twin share one graph: building graphs costs more than training tiny
models does.
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
"""(batch, seed) to named scalars, of which "loss" is minimised; where a batch is split, (batch, seed, totals), see
`models.pretrainable.Pretrainable`."""


class TrainStep:
    """``step(batch, seed, rate)`` updates ``variables`` once and returns the loss's named scalars.

    A batch is split evenly over the replicas of ``strategy`` and, on each, into ``accumulate`` parts that are computed
    one after the other. ``totals(batch)`` says what the means of the whole batch are over; so losses, gradients and
    their clipped norm belong to the whole batch, however it is split; ``clip`` 0 clips nothing. Weight decay is
    decoupled and spares biases and gains (Loshchilov & Hutter, 2019). ``adam`` changes Adam's ``beta1``, ``beta2``,
    ``epsilon`` and ``bias_correction`` (`bench.engine.optimizers.optimizer`).
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
        # Parts and replicas add up dense gradients.
        self.sparse = optimizer in SPARSE and strategy is None and accumulate == 1
        with scope(strategy):
            self.optimizer = optimizer_of(optimizer, self.variables, weight_decay=weight_decay, **(adam or {}))
        self._functions: dict[frozenset[str], Traced] = {}
        """By the names of the arrays of a batch."""

    def __call__(self, batch: Mapping[str, np.ndarray], seed: tuple[int, int], rate: float) -> dict[str, tf.Tensor]:
        inputs = self._inputs(batch, seed)
        function = self._function(inputs)
        self.optimizer.learning_rate.assign(rate)
        scalars = function(*inputs)
        if self.strategy:  # all replicas have the same ones
            return {name: self.strategy.experimental_local_results(value)[0] for name, value in scalars.items()}
        return scalars

    def traced(self, batch: Mapping[str, np.ndarray]) -> Callable:
        """The graph of a step on batches like ``batch``, which later steps run: a concrete function on one device, a
        `tf.function` with a strategy."""
        return self._function(self._inputs(batch, (0, 0))).function

    def reset(self) -> None:
        """Forget moments and step count, as if no step had been taken. The trace stays."""
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
        if self.strategy:  # what compiles is each part: collectives between replicas stay outside
            part = tf.function(self._part, jit_compile=self.jit or None, autograph=False)
            return tf.function(lambda *args: self.strategy.run(self._split, args=(part, *args)), autograph=False)
        jit = self.jit or None
        if self.sparse:  # what compiles is the part
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
            # Parts have seeds of their own, or each would drop the same units.
            own = tf.random.experimental.stateless_fold_in(seed, first + index)
            return part(_slice(batch, index, self.accumulate), own, totals)

        def add(index: tf.Tensor, sums: Any) -> Any:
            return index + 1, tf.nest.map_structure(tf.add, sums, numbered(index))

        sums = numbered(0)
        if self.accumulate > 1:
            _, sums = tf.while_loop(
                lambda index, _: index < self.accumulate, add, (tf.constant(1), sums), parallel_iterations=1
            )
        if self.strategy:  # one reduction a step, of everything
            sums = context.all_reduce("SUM", sums)
        return self._apply(*sums)

    def _part(
        self, batch: Mapping[str, tf.Tensor], seed: tf.Tensor, *totals: Mapping[str, tf.Tensor]
    ) -> tuple[list[tf.Tensor | None], dict[str, tf.Tensor]]:
        """Gradients and scalars of one part: sums over its rows, divided by the ``totals`` of the batch."""
        with tf.GradientTape() as tape:
            scalars = dict(self.loss(batch, seed, *totals))
        gradients = tape.gradient(scalars["loss"], [v.value for v in self.variables])
        # A row that is looked up twice is in a lookup's sparse gradient twice. Norms and second moments are of the sum,
        # and neither `tf.clip_by_global_norm` nor Keras adds the two up before it squares: a dense gradient does, and
        # so does `summed`, later: how many rows there are depends on the batch, and XLA compiles no such thing.
        return [g if g is None or self.sparse else tf.convert_to_tensor(g) for g in gradients], scalars

    def _apply(self, gradients: Sequence[Any], scalars: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        # A head that reads tokens leaves the pooler without a gradient: such variables stay as they are.
        gradients, variables = zip(
            *((g, v) for g, v in zip(gradients, self.variables, strict=True) if g is not None), strict=True
        )
        gradients, norm = self.clipped([summed(g) for g in gradients])
        self.optimizer.apply(gradients, variables)
        return {**scalars, "gradient_norm": norm}

    def clipped(self, gradients: Sequence[Any]) -> tuple[Sequence[Any], tf.Tensor]:
        """``gradients``, clipped, and the norm that they had together."""
        if 0 < self.clip < math.inf:
            return tf.clip_by_global_norm(gradients, self.clip)
        # TensorFlow would make zeros of norm 0, and NaN of infinity.
        return gradients, tf.linalg.global_norm(gradients)


def _slice(batch: Mapping[str, tf.Tensor], index: Any, parts: int) -> dict[str, tf.Tensor]:
    """Part ``index`` of ``parts`` equal ones of ``batch``, by rows."""
    if parts == 1:
        return dict(batch)
    return {
        name: tf.reshape(value, [parts, value.shape[0] // parts, *value.shape[1:]])[index]
        for name, value in batch.items()
    }
