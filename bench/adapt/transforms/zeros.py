"""Zeros of a pruned model that stay zero while a transform trains it further.

The zeros are those of an earlier `prune` of the chain, or of an adaptation that prunes (`Adaptation.pruning`).
Transforms call `keep` before each training, or `check_none` if they begin with new weights. The module does not choose
which weights are pruned.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.bench.adapt import load
from ptmbench.bench.adapt.predictor import Trained
from ptmbench.bench.adapt.transforms import kernels
from ptmbench.bench.adapt.transforms.further import Learner
from ptmbench.bench.adapt.transforms.prune import Settings
from ptmbench.bench.errors import NotApplicable


def apply_mask(variable: Any, kept: Any) -> None:
    """Sets the weights of ``variable`` to zero where ``kept`` is False."""
    variable.assign(tf.where(kept, variable.value, tf.zeros([], variable.dtype)))


class KeepingStep:
    """A training step after which the weights of ``variables`` that are zero now are zero again."""

    def __init__(self, step: Any, variables: Sequence[Any]):
        self._step, self._masks = step, [(one, tf.not_equal(one.value, 0)) for one in variables]
        self.state, self.restore = step.state, step.restore

    def __call__(self, batch: Mapping[str, np.ndarray], seed: tuple[int, int], rate: float) -> Any:
        scalars = self._step(batch, seed, rate)
        for variable, kept in self._masks:
            apply_mask(variable, kept)
        return scalars


def prunings(predictor: Trained) -> list[Settings]:
    """The settings of the prunings of ``predictor`` whose zeros later trainings keep."""
    asked = [load(predictor.method).pruning(predictor.settings), *(one.settings for one in predictor.chain)]
    return [one for one in asked if isinstance(one, Settings) and one.sparsity]


def keep(learner: Learner, predictor: Trained) -> None:
    """Makes ``learner`` keep the zeros of the pruned weights of ``predictor``. Its network must have these weights."""
    adapted = learner.adapted
    found = [one for settings in prunings(predictor) for one in kernels.prunable(adapted, settings)]
    if found:
        learner.step = KeepingStep(learner.step, list({id(one): one for one in found}.values()))


def check_none(predictor: Trained, title: str) -> None:
    """Raises `NotApplicable` if ``predictor`` has pruned weights. ``title`` is the name of a transform that replaces
    them by new ones."""
    if prunings(predictor):
        raise NotApplicable(
            "pruned-before",
            f"because {title} replaces pruned weights by new ones, which are not zero. Prune afterwards: "
            f"{title}+prune.",
        )
