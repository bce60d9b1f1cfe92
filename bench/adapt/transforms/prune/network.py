"""Pruning in TensorFlow: the Toolkit's masks on variables of Keras 3, and the training with them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptmbench.bench.adapt import loop
from ptmbench.bench.adapt.adapted import Adapted
from ptmbench.bench.adapt.heads import InputRow
from ptmbench.bench.adapt.transforms import kernels, zeros
from ptmbench.bench.adapt.transforms.contract import Material, Transformed
from ptmbench.bench.adapt.transforms.further import Learner
from ptmbench.bench.adapt.transforms.prune import Settings
from ptmbench.bench.adapt.transforms.toolkit import toolkit
from ptmbench.bench.engine.cost import phase
from ptmbench.bench.errors import NotApplicable


class Masks:
    """The masks of ``variables`` (TensorFlow variables, [I, O]), which the Toolkit computes by ``settings``.

    The Toolkit's wrapper accepts Keras 2 layers only. It gets a layer without own variables that returns ours, so that
    the wrapper masks them in place.
    """

    def __init__(self, variables: Sequence[tf.Variable], settings: Settings, end: int):
        import tf_keras

        sparsity = toolkit().sparsity.keras

        class Carrier(tf_keras.layers.Layer, sparsity.PrunableLayer):
            def get_prunable_weights(self) -> list[tf.Variable]:
                return list(variables)

            def call(self, x: tf.Tensor) -> tf.Tensor:
                return x

        options: dict[str, Any] = {"block_size": settings.block}
        if settings.zeros is not None:
            options = {"sparsity_m_by_n": settings.zeros}
        self._wrapper = sparsity.prune_low_magnitude(Carrier(), schedule_of(sparsity, settings, end), **options)
        self._wrapper.build((1, 1))
        self._advance = tf.function(lambda: self._wrapper(tf.zeros((1, 1)), training=True), autograph=False)
        self._apply = tf.function(lambda: (self._wrapper.pruning_obj.weight_mask_op(), None)[1], autograph=False)
        self._wrapper.pruning_step.assign(0)

    @property
    def values(self) -> list[tf.Variable]:
        """The masks of zeros and ones, one for each variable."""
        return [mask for _, mask, _ in self._wrapper.pruning_vars]

    def advance(self) -> None:
        """Moves to the next step: updates the masks by the schedule, and applies them."""
        self._advance()

    def apply(self) -> None:
        """Sets the masked weights to zero again after an update."""
        self._apply()

    def memory(self) -> list[np.ndarray]:
        """The state for `recall`: the step number, and the masks as bool arrays."""
        return [self._wrapper.pruning_step.numpy(), *(mask.numpy().astype(bool) for mask in self.values)]

    def recall(self, memory: Sequence[np.ndarray]) -> None:
        step, *masks = memory
        self._wrapper.pruning_step.assign(step)
        for mask, value in zip(self.values, masks, strict=True):
            mask.assign(value.astype(np.float32))


def schedule_of(sparsity: Any, settings: Settings, end: int) -> Any:
    """The Toolkit's schedule. Its first step is 1."""
    if settings.at_once:
        return sparsity.ConstantSparsity(settings.sparsity, begin_step=1, end_step=end, frequency=1)
    return sparsity.PolynomialDecay(
        settings.initial, settings.sparsity, begin_step=0, end_step=end, frequency=settings.frequency
    )


class MaskedStep:
    """A training step with ``masks``: masked weights get no update (Zhu and Gupta, section 3)."""

    def __init__(self, step: Any, masks: Masks):
        self._step, self._masks = step, masks
        self.state, self.restore = step.state, step.restore

    def __call__(self, batch: Mapping[str, np.ndarray], seed: tuple[int, int], rate: float) -> Any:
        self._masks.advance()
        scalars = self._step(batch, seed, rate)
        self._masks.apply()
        return scalars


class PruningLearner(Learner):
    """Trains with ``masks``. Weights from before step ``end`` are not eligible, as they have too few zeros."""

    def __init__(self, adapted: Adapted, masks: Masks, end: int):
        super().__init__(adapted, MaskedStep(adapted.step, masks))  # FLOPs are dense: no product here skips zeros
        self._masks, self._end = masks, end

    def ready(self, step: int) -> bool:
        return step >= self._end

    def memory(self) -> list[np.ndarray]:
        return [*self._masks.memory(), *super().memory()]

    def recall(self, memory: Sequence[np.ndarray]) -> None:
        count = 1 + len(self._masks.values)
        self._masks.recall(memory[:count])
        super().recall(memory[count:])


def pruned(material: Material) -> Transformed:
    """Trains the network of ``material`` further, and returns its weights with zeros.

    Raises `NotApplicable` if no prunable weights are trained, if the pattern does not fit a kernel, if there are too
    few steps for the schedule, or if a kernel cannot reach the sparsity exactly.
    """
    settings, adapted = material.settings, material.predictor.network
    variables = _prunable(adapted, settings)
    rows: Sequence[InputRow] = material.rows["train"]
    steps = loop.steps_of(rows, material.training)
    # A second stage starts from weights that are pruned to the end.
    pruning_steps = adapted.second_stage_start(steps, material.training) if adapted.staged else steps
    end = settings.end(pruning_steps)
    if not end:
        raise NotApplicable(
            "few-steps",
            f"because masks are updated every {settings.frequency} steps, but pruning trains for {pruning_steps}. Set "
            "a lower frequency, or more epochs.",
        )
    check_shapes(variables, settings)
    adapted.weights_owner = None
    adapted.step.reset()
    masks = Masks([variable.value for variable in variables], settings, end)
    with phase("train"):
        learner = PruningLearner(adapted, masks, end)
        zeros.keep(learner, material.predictor)
        course = loop.train(learner, rows, material.training, material.seed, material.score, material.bookmark)
    arrays, changed = adapted.arrays(), kernels.names(adapted, variables)
    check_sparsity({name: arrays[name] for name in changed}, settings)
    zeroed = {name: arrays[name] + 0.0 for name in changed}  # masked negative weights are -0.0; + 0.0 makes them 0.0
    return Transformed(arrays | zeroed, changed, course)


def zeros_in(shape: Sequence[int], settings: Settings) -> int:
    """The number of zeros that a kernel of this ``shape`` must have. The Toolkit keeps a number of weights or blocks
    that is rounded in float32, and at least one."""
    rows, columns = settings.block
    blocks = math.prod(shape) // (rows * columns)
    if settings.zeros is not None:
        return blocks * settings.zeros[0] // settings.zeros[1]
    kept = max(1, int(np.round(np.float32(blocks) * (np.float32(1) - np.float32(settings.sparsity)))))
    return (blocks - kept) * rows * columns


def _prunable(adapted: Adapted, settings: Settings) -> list[keras.Variable]:
    if not kernels.products(adapted) and not settings.embeddings:
        raise NotApplicable("no-kernels", "because this model has no kernels that could be pruned.")
    if not settings.embeddings:
        kernels.check_blocks_used(adapted)
    if not kernels.prunable(adapted, replace(settings, head=0)):
        raise NotApplicable(
            "nothing-learns",
            f"because the adaptation {adapted.adaptation.name} does not train the kernels of the model, and pruning "
            "trains those that it prunes. Prune a model that is fine-tuned.",
        )
    return kernels.prunable(adapted, settings)


def check_shapes(variables: Sequence[keras.Variable], settings: Settings) -> None:
    """Raises `NotApplicable` if the shape of one of the ``variables`` cannot be divided by the pattern."""
    rows, columns = settings.block if settings.zeros is None else (settings.zeros[1], 1)
    for variable in variables:
        fits = variable.shape[0] % rows == 0 and variable.shape[1] % columns == 0
        if settings.pattern and not (fits and len(variable.shape) == 2):
            raise NotApplicable(
                "pattern",
                f"because {variable.path} of shape {tuple(variable.shape)} cannot be divided by the pattern "
                f"{settings.pattern}.",
            )


def has_enough_zeros(array: np.ndarray, settings: Settings) -> bool:
    """Whether ``array`` has at least 99.9 % of its `zeros_in`. The Toolkit keeps all weights that are equal in
    magnitude to the threshold, of which a kernel of float32 has a few."""
    return array.size - np.count_nonzero(array) >= 0.999 * zeros_in(array.shape, settings)


def check_sparsity(arrays: Mapping[str, np.ndarray], settings: Settings) -> None:
    """Raises `NotApplicable` if one of the ``arrays`` has too few zeros, because many weights are equal in
    magnitude."""
    for name, array in arrays.items():
        if not has_enough_zeros(array, settings):
            raise NotApplicable(
                "ties",
                f"because {name} has weights that are equal in magnitude: {array.size - np.count_nonzero(array)} of "
                f"{array.size} are zero, and {zeros_in(array.shape, settings)} were to be.",
            )
