"""How far a pre-training has come, and the states on disk that it goes on from."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ptmbench.bench.engine import checkpoint
from ptmbench.bench.engine.networks import assign, weights
from ptmbench.bench.errors import Diverged, UsageError


@dataclass
class Course:
    """What a training has done. Random numbers, data position and learning rate follow from ``step`` and the recipe."""

    step: int = 0
    steps: int | None = None
    """Where it ends; None while a budget in minutes has not yet been turned into steps."""
    curve: list[dict[str, float]] = field(default_factory=list)
    spent: dict[str, float] = field(default_factory=dict)
    """Seconds by phase, of all earlier processes together."""


class Losses:
    """Scalars of the last steps, still on the device: fetched together, so that no step waits for the host."""

    def __init__(self, diverged: Callable[[int], Diverged]):
        self._diverged, self._pending, self._last = diverged, [], {}

    def add(self, step: int, scalars: Mapping[str, Any]) -> None:
        self._pending.append((step, scalars))

    def settle(self) -> dict[str, float]:
        """The scalars of the last step; `Diverged` names the first one at which loss or gradient is not finite."""
        for step, scalars in self._pending:
            self._last = {name: float(value) for name, value in scalars.items()}
            if not np.isfinite([self._last["loss"], self._last["gradient_norm"]]).all():
                raise self._diverged(step)
        self._pending.clear()
        return self._last


class TrainingStates:
    """The training states of one run, in folders named after their steps.

    A state is the weights, the optimizer and the `Course`, sealed with ``identity``: what the run is. Only a writer
    saves; every process may resume.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any], network: Any, step_function: Any, writes: bool):
        self.folder, self.identity, self.writes = folder, identity, writes
        self._network, self._step_function = network, step_function

    def resume(self, warn: Callable[[str], None]) -> Course | None:
        """Take up the newest intact state, naming damaged ones to ``warn``; None where there is none.

        `UsageError` when it belongs to another run: its training would be lost.
        """
        found = checkpoint.newest_intact(self.folder, warn)
        if found is None:
            return None
        state, arrays = found
        if others := differences(state.about["identity"], self.identity):
            raise UsageError(
                f"{self.folder} holds the training state of another run: {'; '.join(others)}. "
                "Give another --out, or delete that folder."
            )
        assign(self._network.loss.variables, arrays["weights"])
        self._step_function.restore(arrays["optimizer"])
        return Course(**{name: state.about[name] for name in Course.__dataclass_fields__})

    def save(self, course: Course) -> None:
        """Write the state at ``course``. `Diverged` in its place when a weight is not finite."""
        if not self.writes:
            return
        arrays = {"weights": self.finite_weights(course.step), "optimizer": self._step_function.state()}
        about = {"identity": self.identity, **vars(course)}
        checkpoint.write_state(self.folder, course.step, about=about, arrays=arrays)

    def finite_weights(self, step: int) -> dict[str, np.ndarray]:
        """The network's arrays after ``step``; `Diverged` unless all are finite."""
        self._step_function.settle()
        arrays = weights(self._network.loss.variables)
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise self.diverged(step, "The weights are")
        return arrays

    def diverged(self, step: int, what: str = "The loss is") -> Diverged:
        """The error that says so, with the state to look back to."""
        return Diverged(step, self.identity["seed"], what, last_good=checkpoint.newest(self.folder))


def differences(there: Mapping[str, Any], here: Mapping[str, Any], where: str = "") -> list[str]:
    """Sentences such as "recipe.batch is 8 there and 16 here", for all settings that differ."""
    found = []
    for name in sorted({*there, *here}):
        old, new = there.get(name), here.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += differences(old, new, f"{where}{name}.")
        elif old != new:
            found.append(f"{where}{name} is {old} there and {new} here")
    return found
