"""The steps of a training in two stages, where the second stage has its own variables."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ptmbench.bench.engine.step import TrainStep

_LATER = "second-"


class TwoSteps:
    """A `TrainStep` for each stage, with the interface of one. ``second`` is True in the second stage. Each step has
    its own optimizer and is traced at its first call."""

    def __init__(self, first: TrainStep, second: TrainStep):
        self._first, self._second, self.second = first, second, False

    def __call__(self, batch: Mapping[str, Any], seed: tuple[int, int], rate: float) -> dict[str, Any]:
        return (self._second if self.second else self._first)(batch, seed, rate)

    def reset(self) -> None:
        """Resets both optimizers and returns to the first stage."""
        self.second = False
        self._first.reset()
        self._second.reset()

    def state(self) -> dict[str, np.ndarray]:
        """The variables of both optimizers."""
        return self._first.state() | {f"{_LATER}{name}": value for name, value in self._second.state().items()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        later = {name.removeprefix(_LATER): value for name, value in state.items() if name.startswith(_LATER)}
        self._first.restore({name: value for name, value in state.items() if not name.startswith(_LATER)})
        self._second.restore(later)
