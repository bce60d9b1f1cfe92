"""Sub-networks that share the weights of one network. They have fewer layers, and the first units of each layer.

`SharedBlocks` runs them during training, so that their gradients reach the shared weights (`dynabert`, `nasbert`).
`extract_subnetwork` returns the weights of a sub-network as a smaller network (`subnetwork`). Both compute the same
function. Units are attention heads and neurons of feed-forward layers, as in `bench.adapt.transforms.units`.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from ptmbench.bench.adapt import shapes
from ptmbench.bench.adapt.adapted import Adapted
from ptmbench.bench.adapt.heads import InputRow
from ptmbench.bench.adapt.shapes import StackShape
from ptmbench.bench.adapt.transforms import units
from ptmbench.models.layers.core import Drop, Rows, built


class Width(NamedTuple):
    """The numbers of heads and neurons of a block that a sub-network uses; they are the first ones."""

    heads: int
    inner: int


Subnetwork = tuple[Width | None, ...]
"""The width of each layer of the whole network; None for a layer that the sub-network omits."""


def kept_layers(layers: int, depth: float) -> list[int]:
    """The numbers, from 0, of the ``layers`` that a sub-network of ``depth`` keeps: floor(i / depth) for i = 0, 1, ...,
    as in the authors' code of DynaBERT."""
    return [math.floor(number / depth + 1e-9) for number in range(max(1, round(depth * layers)))]


def scaled(shape: StackShape, width: float, depth: float = 1.0) -> Subnetwork:
    """The sub-network of a stack of ``shape`` with the share ``width`` of the heads and neurons of each block, at least
    one of each, and the share ``depth`` of its layers."""
    kept = kept_layers(shape.layers, depth)
    every = [
        Width(*(max(1, math.floor(width * count + 0.5)) for count in counts))
        for counts in zip(shape.heads, shape.inner, strict=True)
    ]
    # With shared weights, one block is applied in every layer.
    return tuple(every[layer % len(every)] if layer in kept else None for layer in range(shape.layers))


def ranked(adapted: Adapted, scores: Mapping[str, Sequence[np.ndarray]]) -> dict[str, np.ndarray]:
    """The weights of ``adapted`` with the units of each block in descending order of their ``scores``, for the parts
    "heads" and "inner". The network computes the same function."""
    weights = None
    for part, found in scores.items():
        orders = [np.argsort(-one, kind="stable") for one in found]
        weights, _ = units.keep_units(adapted, part, orders, weights)
    return weights


def extract_subnetwork(adapted: Adapted, chosen: Subnetwork) -> tuple[dict[str, np.ndarray], StackShape]:
    """The weights of the sub-network ``chosen`` of ``adapted`` as a smaller network, and its shape."""
    whole, weights, left = units.shape_of(adapted), None, {}
    for part in ("heads", "inner"):
        counts = list(getattr(whole, part))
        for layer, width in enumerate(chosen):
            if width is not None:
                counts[layer % len(counts)] = getattr(width, part)
        left[part] = tuple(counts)
        weights, _ = units.keep_units(adapted, part, [np.arange(count) for count in counts], weights)
    kept = [layer for layer, width in enumerate(chosen) if width is not None]
    return units.keep_layers(adapted, kept, (weights, replace(whole, **left)))


class SharedBlocks:
    """Blocks of the ``widths`` of sub-networks, which use the weights of ``adapted``.

    `copy_weights` copies all weights. Inside `using_copy`, the network uses this copy, as a teacher that does not
    change.
    """

    def __init__(self, adapted: Adapted, widths: Iterable[Width]):
        self._adapted, self._stack = adapted, adapted.network.encoder.stack
        self._blocks: dict[Width, Any] = {}
        for number, width in enumerate(dict.fromkeys(widths)):
            one = StackShape(layers=1, heads=(width.heads,), inner=(width.inner,))
            (block,) = shapes.resized(adapted.network.encoder.config, one).stack.blocks
            self._blocks[width] = built(block, name=f"narrow_{number}")
        read = [*adapted.network.encoder.variables, *adapted.own]
        self._read = list({id(one): one for one in read}.values())
        self._copies = {id(one): tf.Variable(one.value, trainable=False) for one in self._read}
        self._inside = False

    def copy_weights(self) -> None:
        """Copies the current values of all weights."""
        for variable in self._read:
            self._copies[id(variable)].assign(variable.value)

    @contextmanager
    def using_copy(self) -> Iterator[None]:
        """A context in which traced graphs use the copied weights."""
        self._inside = True
        try:
            with keras.StatelessScope([(one, self._copies[id(one)]) for one in self._read]):
                yield
        finally:
            self._inside = False

    @contextmanager
    def using_subnetwork(self, chosen: Subnetwork) -> Iterator[None]:
        """A context in which traced graphs use the sub-network ``chosen``. Omitted layers pass their input on."""

        def detour(block: Any, x: tf.Tensor, index: int, bias: tf.Tensor, rows: Rows, drop: Drop) -> tf.Tensor:
            width = chosen[index]
            return x if width is None else self.block(width, index, x, bias, rows, drop)

        with self._stack.detoured(detour):
            yield

    def block(self, width: Width, index: int, x: tf.Tensor, bias: tf.Tensor, rows: Rows, drop: Drop) -> tf.Tensor:
        """The output of layer ``index`` with ``width`` for ``x`` [N, D]."""
        number = index % len(self._stack.blocks)
        block, narrow = self._stack.blocks[number], self._blocks[width]
        values = {variable.path.removeprefix(block.path): self._value(variable) for variable in block.variables}
        for part, count in zip(("heads", "inner"), width, strict=True):
            for variable, axis, places in units.cuts(self._adapted, part, number, np.arange(count)):
                name = variable.path.removeprefix(block.path)
                values[name] = _sliced(values[name], axis, places)
        given = [(variable, values[variable.path.removeprefix(narrow.path)]) for variable in narrow.variables]
        with keras.StatelessScope(given):
            return narrow(x, bias, rows=rows, drop=drop.at(10 * (index + 1)))[0]

    def forward_flops(self, chosen: Subnetwork, rows: Sequence[InputRow]) -> float:
        """FLOPs of a forward pass of the sub-network ``chosen`` over ``rows``."""
        whole = [block for _, block in self._stack.config.parts()]
        spent = self._adapted.forward_flops(rows)
        for layer, width in enumerate(chosen):
            spent -= _flops(whole[layer % len(whole)], rows)
            spent += 0.0 if width is None else self.block_flops(width, rows)
        return spent

    @property
    def widths(self) -> tuple[Width, ...]:
        """The distinct widths of the blocks."""
        return tuple(self._blocks)

    def parameters(self, width: Width) -> int:
        """The number of parameters of one layer of ``width``."""
        return self._blocks[width].config.parameters().total

    def block_flops(self, width: Width, rows: Sequence[InputRow]) -> float:
        """FLOPs of a forward pass of one layer of ``width`` over ``rows``."""
        return _flops(self._blocks[width].config, rows)

    def _value(self, variable: Any) -> tf.Tensor:
        return tf.convert_to_tensor(self._copies[id(variable)] if self._inside else variable.value)


def _flops(block: Any, rows: Sequence[InputRow]) -> float:
    return sum(block.flops(row.tokens, row.tokens) for row in rows)


def _sliced(value: tf.Tensor, axis: int, places: np.ndarray) -> tf.Tensor:
    """``value`` at ``places`` along ``axis``. The places form few runs of consecutive numbers. The gradient is dense,
    unlike the gradient of `tf.gather`."""
    runs = np.split(places, np.flatnonzero(np.diff(places) != 1) + 1)
    bounds = [(int(run[0]), int(run[-1]) + 1) for run in runs]
    return tf.concat([value[begin:end] if axis == 0 else value[:, begin:end] for begin, end in bounds], axis)
