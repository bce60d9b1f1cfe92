"""A training step on split weights, used like a `bench.engine.step.TrainStep`."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.experimental import dtensor

from ptmbench.bench.engine.cost import phase
from ptmbench.bench.engine.optimizers import decays
from ptmbench.bench.engine.step import TrainStep
from ptmbench.bench.engine.tensor_parallel.devices import DATA, TensorParallel
from ptmbench.bench.engine.tensor_parallel.layouts import divided
from ptmbench.bench.engine.tensor_parallel.updates import update_of
from ptmbench.bench.errors import UsageError
from ptmbench.models.layers.config import Config
from ptmbench.models.layers.operations import drawing
from ptmbench.models.layers.products import for_accelerators
from ptmbench.models.layers.split import Cut, cuts

_REFUSALS = (tf.errors.UnknownError, tf.errors.InvalidArgumentError, tf.errors.UnimplementedError, UnicodeDecodeError)
"""Errors of DTensor while it splits a function. The message of some is not UTF-8."""
_REFUSED = re.compile(r"'tf\.(\w+)' op does not implement")


class TensorStep:
    """``step(batch, seed, rate)``, with weights and moments split over the model axis of ``strategy``.

    All tensors are DTensors: the program sees whole tensors, and each device holds a part. The loss, the gradients and
    their norm are those of one device, up to rounding. Weights and moments are put on the devices before the first
    step. From then on, the variables of the network and of the optimizer are out of date until `settle`. Training
    states have the form of those of ``step``, so that a training can change its number of devices when it resumes.
    """

    def __init__(self, step: TrainStep, loss: Any, strategy: TensorParallel):
        self._step, self._strategy = step, strategy
        self._weights = list(loss.variables)
        self._cuts, self._fused = _cuts(loss, strategy.model_parallel)
        self._held: list[dtensor.DVariable] = []
        self._moments: list[tuple[dtensor.DVariable, dtensor.DVariable]] = []
        self._functions: tuple[Callable, Callable] | None = None
        self._rate, self._settled = 0.0, True

    def __call__(self, batch: Mapping[str, np.ndarray], seed: tuple[int, int], rate: float) -> dict[str, tf.Tensor]:
        if self._held:
            return self._run(batch, seed, rate)
        self._begin()
        with phase("trace"):
            try:
                return self._run(batch, seed, rate)
            except _REFUSALS as error:
                raise UsageError(_refusal(error)) from error

    def settle(self) -> None:
        """Gathers weights and moments into the variables of the network and of the optimizer."""
        if self._settled:
            return
        for variable, held in zip(self._weights, self._held, strict=True):
            variable.assign(self._fetched(variable, held))
        optimizer = self._step.optimizer
        pairs = zip(optimizer._momentums, optimizer._velocities, strict=True)
        for variable, kept, held in zip(self._step.variables, pairs, self._moments, strict=True):
            for one, other in zip(kept, held, strict=True):
                one.assign(self._fetched(variable, other))
        optimizer.iterations.assign(self._count)
        optimizer.learning_rate.assign(self._rate)
        self._settled = True

    def state(self) -> dict[str, np.ndarray]:
        """As `TrainStep.state`, after the last step."""
        self.settle()
        return self._step.state()

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """As `TrainStep.restore`."""
        self._step.restore(state)
        self._held, self._settled = [], True

    def bytes_per_device(self) -> list[int]:
        """Bytes of the weights and moments that each device holds, counted on the devices."""
        every = [*self._held, *(one for pair in self._moments for one in pair)]
        shards = [[part.numpy().nbytes for part in dtensor.unpack(variable.read_value())] for variable in every]
        return [sum(sizes) for sizes in zip(*shards, strict=True)]

    def _begin(self) -> None:
        """Puts weights and moments on the devices."""
        optimizer = self._step.optimizer
        pairs = zip(optimizer._momentums, optimizer._velocities, strict=True)
        self._held = [self._put(variable, variable) for variable in self._weights]
        self._moments = [
            tuple(self._put(variable, one) for one in pair)
            for variable, pair in zip(self._step.variables, pairs, strict=True)
        ]
        self._count = int(optimizer.iterations.numpy())
        self._functions = None  # they captured the variables of an earlier call

    def _put(self, weight: Any, value: Any) -> dtensor.DVariable:
        """``value``, an array for the variable ``weight``, on the devices."""
        cut, array = self._cuts.get(id(weight)), value.numpy()
        if cut is None:
            return dtensor.DVariable(self._strategy.put(array))
        grouped = _regrouped(array, cut, cut.parts, self._strategy.model_parallel)
        return dtensor.DVariable(self._strategy.put(grouped, cut.axis))

    def _fetched(self, weight: Any, held: dtensor.DVariable) -> np.ndarray:
        """The current value, as an array, of what `_put` put on the devices."""
        array, cut = self._strategy.fetch(held.read_value()), self._cuts.get(id(weight))
        return array if cut is None else _regrouped(array, cut, self._strategy.model_parallel, cut.parts)

    def _run(self, batch: Mapping[str, np.ndarray], seed: tuple[int, int], rate: float) -> dict[str, tf.Tensor]:
        if self._functions is None:
            self._functions = tf.function(self._part, autograph=False), tf.function(self._apply, autograph=False)
        part, apply = self._functions
        put, parts, sums = self._strategy.put, self._step.accumulate, None
        totals = []
        if parts > 1:
            totals = [{name: put(total) for name, total in self._step.totals(batch).items()}]
        with dtensor.default_mesh(self._strategy.mesh):
            for index in range(parts):
                rows = {name: put(np.split(array, parts)[index], 0, DATA) for name, array in batch.items()}
                own = seed if parts == 1 else _folded(seed, index)
                found = part(rows, put(np.asarray(own, np.int32)), *totals)
                sums = found if sums is None else tf.nest.map_structure(tf.add, sums, found)
            step = np.float32(self._count + 1)
            norm = apply(sums[0], put(step), put(np.float32(rate)))
        self._count, self._rate, self._settled = self._count + 1, rate, False
        scalars = {**sums[1], "gradient_norm": norm}
        return {name: dtensor.unpack(value)[0] for name, value in scalars.items()}

    def _part(
        self, batch: Mapping[str, tf.Tensor], seed: tf.Tensor, *totals: Mapping[str, tf.Tensor]
    ) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
        """Gradients by the number of their weight, and scalars of a batch or of a part of it."""
        values = [held.read_value() for held in self._held]
        place = {id(variable): index for index, variable in enumerate(self._weights)}
        learning = [values[place[id(variable)]] for variable in self._step.variables]
        for layer in self._fused:
            layer.shards = self._strategy.model_parallel
        try:
            with (
                keras.StatelessScope(state_mapping=list(zip(self._weights, values, strict=True))),
                drawing(self._copied),
                for_accelerators(),  # the padding of narrow products would move columns between devices
                tf.GradientTape() as tape,
            ):
                tape.watch(learning)
                scalars = dict(self._step.loss(batch, seed, *totals))
                _check_slices(scalars["loss"].graph)
        finally:
            for layer in self._fused:
                layer.shards = 1
        gradients = tape.gradient(scalars["loss"], learning)
        return {f"{i:05d}": tf.convert_to_tensor(g) for i, g in enumerate(gradients) if g is not None}, scalars

    def _apply(self, gradients: Mapping[str, tf.Tensor], step: tf.Tensor, rate: tf.Tensor) -> tf.Tensor:
        """Updates weights and moments, and returns the norm of the gradient of the whole network."""
        names, given = zip(*sorted(gradients.items()), strict=True)
        given, norm = self._step.clipped(given)
        optimizer, place = self._step.optimizer, {id(one): index for index, one in enumerate(self._weights)}
        update, decay = update_of(optimizer, step, rate), optimizer.weight_decay
        for name, gradient in zip(names, given, strict=True):
            variable, (m, v) = self._step.variables[int(name)], self._moments[int(name)]
            held = self._held[place[id(variable)]]
            weight = held.read_value()
            if decay and decays(variable):
                weight -= weight * decay * rate
            for kept, value in zip((held, m, v), update(weight, gradient, m.read_value(), v.read_value()), strict=True):
                kept.assign(value)
        return norm

    def _copied(self, x: tf.Tensor) -> tf.Tensor:
        return dtensor.relayout(x, self._strategy.layout(x.shape.rank))


def _cuts(loss: Any, devices: int) -> tuple[dict[int, Cut], list[Any]]:
    """How the variables of ``loss`` are split, by their id, and the layers with a fused kernel that is split."""
    found: dict[int, Cut] = {}
    fused = []
    for layer in loss._flatten_layers():
        if not isinstance(config := getattr(layer, "config", None), Config):
            continue
        for name, own in cuts(config).items():
            for weight, cut in own.items():
                if divided(cut, devices):
                    found[id(getattr(getattr(layer, name), weight))] = cut
                    if cut.parts > 1 and layer not in fused:
                        fused.append(layer)
    return found, fused


def _regrouped(array: np.ndarray, cut: Cut, outer: int, inner: int) -> np.ndarray:
    """Reorders ``array`` along the axis of ``cut``, from ``outer`` blocks of ``inner`` blocks each to ``inner`` blocks
    of ``outer`` blocks each."""
    if cut.parts == 1:
        return array
    before, after = array.shape[: cut.axis], array.shape[cut.axis + 1 :]
    blocks = array.reshape(*before, outer, inner, -1, *after)
    return np.ascontiguousarray(np.swapaxes(blocks, cut.axis, cut.axis + 1)).reshape(array.shape)


def _folded(seed: Sequence[int], index: int) -> np.ndarray:
    """The seed of part ``index``, as on one device."""
    with tf.device("CPU:0"):
        return tf.random.experimental.stateless_fold_in(tf.constant(seed, tf.int32), index).numpy()


def _check_slices(graph: tf.Graph) -> None:
    """Raises `UsageError` for slices such as x[:, None]. DTensor of TensorFlow 2.21 would end the process, because it
    needs every axis: x[:, None, :]."""
    for operation in graph.get_operations():
        if operation.type != "StridedSlice" or not operation.get_attr("new_axis_mask"):
            continue
        rank, count = operation.inputs[0].shape.rank, operation.inputs[1].shape[0]
        fresh = operation.get_attr("new_axis_mask").bit_count()
        if operation.get_attr("ellipsis_mask") == 0 and (rank is None or count - fresh < rank):
            frames = [frame for frame in operation.traceback if f"{Path('models')}/" in frame.filename]
            where = f" in {frames[-1].filename}, line {frames[-1].lineno}" if frames else ""
            raise UsageError(
                f"The training step cannot be split over devices: a slice{where} adds an axis and leaves out later "
                "ones. Write x[:, None, :] in place of x[:, None]; or use --strategy one or mirrored."
            )


def _refusal(error: Exception) -> str:
    """The message about a step that DTensor cannot split."""
    text = "" if isinstance(error, UnicodeDecodeError) else str(error)
    found = _REFUSED.search(text)
    why = f"it has no rule for the operation {found[1]}" if found else text.partition("\n")[0][:200] or "without reason"
    return (
        f"TensorFlow's DTensor cannot split the training step of this model over devices: {why}. "
        "Use --strategy one or mirrored."
    )
