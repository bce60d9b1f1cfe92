"""Fine-tuning with fixed masks in TensorFlow."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.bench.adapt.course import Bookmark, Course
from ptmbench.bench.adapt.heads import InputRow
from ptmbench.bench.adapt.sparse import Own
from ptmbench.bench.adapt.transforms import kernels, zeros
from ptmbench.bench.adapt.transforms.prune.network import (
    Masks,
    check_shapes,
    check_sparsity,
    has_enough_zeros,
    zeros_in,
)
from ptmbench.bench.engine.step import TrainStep
from ptmbench.bench.errors import NotApplicable

_MASK = "mask-"


class SparseStep(TrainStep):
    """A training step with fixed ``masks``, bool arrays by the number of their variable. They are saved with the state
    of the optimizer."""

    masks: Mapping[int, np.ndarray] = MappingProxyType({})

    def __call__(self, batch: Mapping[str, np.ndarray], seed: tuple[int, int], rate: float) -> dict[str, tf.Tensor]:
        scalars = super().__call__(batch, seed, rate)
        self.apply()
        return scalars

    def apply(self) -> None:
        """Sets the masked weights to zero."""
        for number, mask in self.masks.items():
            zeros.apply_mask(self.variables[number], mask)

    def reset(self) -> None:
        super().reset()
        self.masks = {}

    def state(self) -> dict[str, np.ndarray]:
        return super().state() | {f"{_MASK}{number:05d}": mask for number, mask in self.masks.items()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        super().restore(state)
        found = {name.removeprefix(_MASK): mask for name, mask in state.items() if name.startswith(_MASK)}
        self.masks = {int(number): mask.astype(bool) for number, mask in found.items()}


def initialise_masks(
    adapted: Any, rows: Sequence[InputRow], settings: Own, seed: int, bookmark: Bookmark, teacher: Any = None
) -> Course:
    """Chooses the masks from the initial weights of ``adapted`` and applies them (`bench.adapt.contract.First`)."""
    step = adapted.step
    step.masks = choose_masks(adapted, settings, seed)
    step.apply()
    if not settings.hold:
        step.masks = {}
    return Course()


def choose_masks(adapted: Any, settings: Own, seed: int) -> dict[int, np.ndarray]:
    """The masks by the number of their variable in the training step.

    A kernel that already has enough zeros keeps them, because it was masked before. Raises `NotApplicable` if there are
    no kernels, if the pattern does not fit their shapes, or if many weights are equal in magnitude.
    """
    pruning, own = settings.pruning(), {id(one): number for number, one in enumerate(adapted.step.variables)}
    variables = [one.kernel for one in kernels.products(adapted)]
    variables += kernels.tables(adapted) if settings.embeddings else []
    numbers = [own[id(one)] for one in variables if id(one) in own]
    if not numbers:
        raise NotApplicable("no-kernels", "because this model has no kernels that could be pruned.")
    variables = [adapted.step.variables[number] for number in numbers]
    check_shapes(variables, pruning)
    values = [variable.numpy() for variable in variables]
    if settings.by == "random":
        rng = np.random.default_rng([seed, 8])
        values = [value if _masked(value, pruning) else rng.random(value.shape, np.float32) for value in values]
    copies = [tf.Variable(value) for value in values]
    masks = Masks(copies, pruning, 1)
    masks.advance()
    found = [mask.numpy().astype(bool) for mask in masks.values]
    names = kernels.names(adapted, variables)
    check_sparsity(dict(zip(names, found, strict=True)), pruning)
    return dict(zip(numbers, found, strict=True))


def _masked(value: np.ndarray, pruning: Any) -> bool:
    """Whether ``value`` already has enough zeros for ``pruning``."""
    return zeros_in(value.shape, pruning) > 0 and has_enough_zeros(value, pruning)
