"""Quantisation-aware training: weights and the inputs of products are rounded during training.

A `Rounding` is attached to the kernel of a product or to an embedding table, an `InputRounding` to the inputs of a
product. Both call the quantizers of the TensorFlow Model Optimization Toolkit. The gradient passes straight through
(Bengio et al., 2013): d round(x) / dx = 1. The transforms `qat` and `qbert` train with this.

Rounded weights are stored, scored and compared. The variables of the network hold unrounded weights only during
training.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from ptmbench.bench.adapt import loop
from ptmbench.bench.adapt.adapted import Adapted
from ptmbench.bench.adapt.heads import InputRow, stack
from ptmbench.bench.adapt.settings import Settings
from ptmbench.bench.adapt.transforms import kernels, zeros
from ptmbench.bench.adapt.transforms.contract import Material, Transformed
from ptmbench.bench.adapt.transforms.further import Learner
from ptmbench.bench.adapt.transforms.toolkit import toolkit
from ptmbench.bench.engine import packing
from ptmbench.bench.engine.cost import phase
from ptmbench.bench.errors import NotApplicable

ANSWERING, CALIBRATING, LEARNING = "answering", "calibrating", "learning"
_mode: ContextVar[str] = ContextVar("mode", default=ANSWERING)

BITS = 8
"""Bits of the inputs of products."""


@contextmanager
def tracing(mode: str) -> Iterator[None]:
    """A context in which functions are traced for ``mode``."""
    token = _mode.set(mode)
    try:
        yield
    finally:
        _mode.reset(token)


@tf.custom_gradient
def straight_through(x: tf.Tensor, rounded: tf.Tensor) -> Any:
    """Returns ``rounded`` with the gradient of ``x``."""
    return rounded, lambda dy: (dy, None)


class Grid(NamedTuple):
    """The values that a matrix may have. They are equidistant and include 0."""

    bits: int = BITS
    groups: int = 1
    """The number of groups of consecutive columns (or rows, of a table) that have separate ranges."""
    symmetric: bool = True
    """If True, a range is -m..m with 2^bits - 1 values, where m is the largest magnitude. Otherwise it is min..max with
    2^bits values."""
    rows: bool = False
    """Whether groups consist of rows."""

    def columns(self, x: Any) -> Any:
        """Returns ``x`` [I, O], a tensor or an array, as [N, G] with one column for each group."""
        kind = tf if tf.is_tensor(x) else np
        x = kind.transpose(x) if self.rows else x
        inputs, outputs = x.shape
        x = kind.transpose(kind.reshape(x, [inputs, self.groups, outputs // self.groups]), [0, 2, 1])
        return kind.reshape(x, [-1, self.groups])

    def matrix(self, columns: Any, shape: Sequence[int]) -> Any:
        """The inverse of `columns`, [I, O]."""
        kind = tf if tf.is_tensor(columns) else np
        inputs, outputs = reversed(shape) if self.rows else shape
        x = kind.reshape(columns, [inputs, outputs // self.groups, self.groups])
        x = kind.reshape(kind.transpose(x, [0, 2, 1]), [inputs, outputs])
        return kind.transpose(x) if self.rows else x

    @property
    def quantizer(self) -> Any:
        """The quantizer of the Toolkit."""
        options = {"symmetric": self.symmetric, "narrow_range": self.symmetric}
        return toolkit().quantization.keras.quantizers.LastValueQuantizer(self.bits, per_axis=True, **options)

    def steps(self, columns: np.ndarray) -> np.ndarray:
        """The distance between neighbouring values of each group, float32 [G]; 1 for a group of zeros."""
        if self.symmetric:
            found = 2 * np.abs(columns).max(0) / np.float32(2**self.bits - 2)
        else:
            found = (np.maximum(columns.max(0), 0) - np.minimum(columns.min(0), 0)) / np.float32(2**self.bits - 1)
        return np.where(found > 0, found, 1).astype(np.float32)


class Shelf:
    """Creates the variables of the Toolkit's quantizers, in place of the Keras 2 layer that they expect."""

    def add_weight(self, name: str, initializer: Callable, trainable: bool, shape: int | None = None) -> tf.Variable:
        return tf.Variable(initializer(() if shape is None else (shape,)), trainable=trainable, name=name)


@keras.saving.register_keras_serializable(package="ptmbench")
class Rounding(keras.layers.Layer):
    """Rounds a matrix [I, O] to a `Grid` during training. Otherwise it returns the matrix unchanged, because the
    variable already holds rounded values."""

    grid = Grid()
    _quantizer: Any = None

    def prepare(self, grid: Grid, shape: Sequence[int]) -> None:
        """Creates the quantizer for ``grid``. Call it before a step is traced."""
        self.grid, self._shape, self._quantizer = grid, tuple(shape), grid.quantizer
        self._ranges = self._quantizer.build((None, grid.groups), "range", Shelf())

    def rounded(self, x: tf.Tensor) -> tf.Tensor:
        columns = self.grid.columns(tf.cast(x, tf.float32))
        return self.grid.matrix(self._quantizer(columns, True, self._ranges), self._shape)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        if _mode.get() != LEARNING or self._quantizer is None:
            return x
        return straight_through(x, tf.cast(self.rounded(x), x.dtype))

    def packed(self, name: str, array: np.ndarray) -> dict[str, np.ndarray]:
        """The rounded ``array`` in the format of checkpoints, under ``name``."""
        grid, shape = self.grid, array.shape
        steps = grid.steps(grid.columns(array))
        rounded = grid.columns(self.rounded(tf.constant(array)).numpy())
        codes = grid.matrix(np.rint(rounded / steps).astype(np.int16), shape)
        steps = steps[:, None] if grid.rows else steps[None, :]
        if grid.bits == 8 and grid.symmetric:
            return packing.as_codes(name, codes.astype(np.int8), np.float32(1) / steps)
        return packing.as_levels(name, codes, steps, grid.bits)


@keras.saving.register_keras_serializable(package="ptmbench")
class InputRounding(keras.layers.Layer):
    """Rounds vectors [N, I] to 8 bits, symmetrically in -limit..limit.

    Calibration sets ``limit`` to the largest magnitude of its batches. In training it is the moving average of the
    batches' largest magnitudes, with the Toolkit's decay of 0.999.
    """

    _moving: Any = None

    def build(self, input_shape: Any = None) -> None:
        self.limit = self.add_weight((), "zeros", trainable=False, autocast=False, name="limit")

    def prepare(self) -> None:
        """Creates the quantizers for training. Call it before a step is traced."""
        if self._moving is None:
            quantizers = toolkit().quantization.keras.quantizers
            options = {"num_bits": BITS, "per_axis": False, "symmetric": True, "narrow_range": True}
            self._moving = quantizers.MovingAverageQuantizer(**options)
            self._largest = quantizers.AllValuesQuantizer(**options)
            self._ranges = self._moving.build((None,), "range", Shelf())

    def call(self, x: tf.Tensor) -> tf.Tensor:
        exact, mode = tf.cast(x, tf.float32), _mode.get()
        if mode == ANSWERING or self._moving is None:
            rounded = tf.quantization.fake_quant_with_min_max_vars(
                exact, -self.limit.value, self.limit.value, num_bits=BITS, narrow_range=True
            )
        else:
            low, high = self._ranges["min_var"], self._ranges["max_var"]
            low.assign(-self.limit.value)
            high.assign(self.limit.value)
            quantizer = self._moving if mode == LEARNING else self._largest
            rounded = quantizer(exact, True, self._ranges)
            self.limit.assign(high)
        if mode == CALIBRATING:
            return x
        # A product that training does not reach keeps the limit 0, and its inputs are not rounded.
        return straight_through(x, tf.cast(tf.where(self.limit.value > 0, rounded, exact), x.dtype))


def attach(adapted: Adapted, activations: bool, embeddings: bool) -> None:
    """Attaches roundings to the kernels of ``adapted``, with ``activations`` to the inputs of their products, and with
    ``embeddings`` to embedding tables. They have no effect before training sets their grids and limits. The states of
    recurrent layers are not rounded, because they are multiplied inside a loop."""
    limits = {}
    for layer in kernels.products(adapted):
        layer.attach("kernel", Rounding(name="kernel_rounding"))
        if activations and "input" in layer.SEAMS:
            rounding = InputRounding(name="input_rounding")
            with keras.name_scope("input", override_parent=layer.path):
                rounding.build()
            layer.attach("input", rounding)
            limits[id(layer.kernel)] = (layer.kernel, rounding.limit)
    for table in kernels.lookups(adapted) if embeddings else ():
        table.attach("table", Rounding(name="table_rounding"))
    adapted.update_variables(limits)


@dataclass(frozen=True)
class Rounded:
    """The roundings that `attach` has attached to a network."""

    adapted: Adapted

    @cached_property
    def products(self) -> list[Any]:
        return kernels.products(self.adapted)

    @cached_property
    def weights(self) -> list[tuple[str, Any, Rounding]]:
        """The name, the variable and the rounding of each matrix."""
        found = [(one.kernel, one.extensions("kernel")[-1]) for one in self.products]
        tables = [(one.table, one.extensions("table")) for one in kernels.lookups(self.adapted)]
        found += [(table, extensions[-1]) for table, extensions in tables if extensions]
        names = kernels.names(self.adapted, [variable for variable, _ in found])
        return [(name, *pair) for name, pair in zip(names, found, strict=True)]

    @cached_property
    def inputs(self) -> list[InputRounding]:
        found = [one.extensions("input")[-1:] for one in self.products]
        return [one for last in found for one in last if isinstance(one, InputRounding)]

    @property
    def limits(self) -> list[Any]:
        return [one.limit for one in self.inputs]

    def prepare(self, grids: Sequence[Grid]) -> None:
        """Prepares all roundings for training, with a grid for each of `weights`."""
        for (_, variable, rounding), grid in zip(self.weights, grids, strict=True):
            rounding.prepare(grid, variable.shape)
        for one in self.inputs:
            one.prepare()

    def packed(self) -> dict[str, np.ndarray]:
        """The rounded weights in the format of checkpoints."""
        found = {}
        for name, variable, rounding in self.weights:
            found |= rounding.packed(name, variable.numpy())
        return found

    @contextmanager
    def stored(self) -> Iterator[None]:
        """A context in which the variables hold the weights that a checkpoint would restore."""
        exact = [variable.numpy() for _, variable, _ in self.weights]
        values = packing.unpacked(self.packed())
        for name, variable, _ in self.weights:
            variable.assign(values[name])
        try:
            yield
        finally:
            for (_, variable, _), value in zip(self.weights, exact, strict=True):
                variable.assign(value)


class RoundingStep:
    """A training step with rounded weights and inputs."""

    def __init__(self, step: Any):
        self._step, self.state, self.restore = step, step.state, step.restore

    def __call__(self, batch: Mapping[str, np.ndarray], seed: tuple[int, int], rate: float) -> Any:
        with tracing(LEARNING):
            return self._step(batch, seed, rate)


class RoundingLearner(Learner):
    """Trains with ``rounded`` weights. The state includes the limits of inputs. FLOPs of rounding are not counted."""

    def __init__(self, adapted: Adapted, rounded: Rounded):
        # The step of a shared network would keep the grids of the first training that traced it.
        self._own = adapted.new_step()
        super().__init__(adapted, RoundingStep(self._own))
        self._limits = rounded.limits

    def rate(self, step: int, steps: int, settings: Settings) -> float:
        rate = super().rate(step, steps, settings)
        if self.adapted.staged:
            self._own.second = self.adapted.second
        return rate

    def state(self) -> list[np.ndarray]:
        return [*super().state(), *(limit.numpy() for limit in self._limits)]

    def restore(self, state: Sequence[np.ndarray]) -> None:
        count = len(state) - len(self._limits)
        super().restore(list(state[:count]))
        for limit, value in zip(self._limits, state[count:], strict=True):
            limit.assign(value)


def check(adapted: Adapted) -> None:
    """Raises `NotApplicable` if no kernel of ``adapted`` is trained, or if its adaptation changes kernels during
    inference."""
    products = kernels.products(adapted)
    if not products:
        raise NotApplicable("no-kernels", "because this model multiplies by no kernel that could be quantised.")
    kernels.check_blocks_used(adapted)
    if any(one.extensions("kernel") for one in products):
        raise NotApplicable(
            "changed-kernels",
            f"because the adaptation {adapted.adaptation.name} changes kernels while the model answers.",
        )
    learning = {id(variable) for variable in adapted.learning}
    if not any(id(one.kernel) in learning for one in products):
        raise NotApplicable(
            "nothing-learns",
            f"because the adaptation {adapted.adaptation.name} does not train the kernels of the model, and this "
            "transform does. Quantise a model that is fine-tuned, or use int8, which trains nothing.",
        )


def trained(material: Material, grids: Callable[[Rounded], Sequence[Grid]], calibration: int) -> Transformed:
    """Trains the network of ``material`` further with weights on ``grids`` (one for each of `Rounded.weights`), and
    returns these weights. The limits of inputs start with the largest magnitudes in ``calibration`` batches."""
    weights = material.predictor.network.arrays()
    predictor = replace(material.predictor, weights=None, chain=material.chain)
    adapted = predictor.learning
    rounded = Rounded(adapted)
    limits = kernels.names(adapted, rounded.limits)
    adapted.assign({**weights, **{name: np.zeros((), np.float32) for name in limits}})
    adapted.weights_owner = None
    rounded.prepare(grids(rounded))
    rows: Sequence[InputRow] = material.rows["train"]
    flops = calibrated(adapted, rows, material, calibration if limits else 0)

    def score() -> float:
        with rounded.stored():
            return material.score(predictor)

    with phase("train"):
        learner = RoundingLearner(adapted, rounded)
        zeros.keep(learner, material.predictor)
        course = loop.train(learner, rows, material.training, material.seed, score, material.bookmark)
    course.flops += flops
    arrays, changed = adapted.arrays(), tuple(name for name, *_ in rounded.weights)
    left = {name: array for name, array in arrays.items() if name not in changed}
    return Transformed(left | rounded.packed(), changed, course)


def calibrated(adapted: Adapted, rows: Sequence[InputRow], material: Material, batches: int) -> float:
    """Sets the limits of inputs by the first ``batches`` batches of training, and returns the FLOPs."""
    flops, settings = 0.0, material.training
    for batch in loop.epoch_batches(rows, settings.batch, material.seed, 0)[:batches]:
        adapted.run(observed, stack(batch), 0.0)
        flops += adapted.forward_flops(batch)
    return flops


def observed(adapted: Adapted, batch: Mapping[str, tf.Tensor], number: tf.Tensor) -> tf.Tensor:
    """Returns the loss of ``batch``, and raises the limits of inputs to the largest magnitude."""
    with tracing(CALIBRATING):
        return adapted.loss(batch)
