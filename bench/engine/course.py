"""The progress of a pre-training, and the training states on disk from which it resumes."""

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
    """The progress of a training. Random numbers, data position and learning rate follow from ``step`` and recipe."""

    step: int = 0
    steps: int | None = None
    """The total number of steps. None until a budget in minutes has been converted to steps."""
    curve: list[dict[str, float]] = field(default_factory=list)
    spent: dict[str, float] = field(default_factory=dict)
    """Seconds by phase, of all earlier processes together."""


class Losses:
    """Scalars of the last steps. They stay on the device until `settle`, so that no step waits for the host."""

    def __init__(self, diverged: Callable[[int], Diverged]):
        self._diverged, self._pending, self._last = diverged, [], {}

    def add(self, step: int, scalars: Mapping[str, Any]) -> None:
        self._pending.append((step, scalars))

    def settle(self) -> dict[str, float]:
        """Returns the scalars of the last step. Raises `Diverged` for the first step without a finite loss or norm."""
        for step, scalars in self._pending:
            self._last = {name: float(value) for name, value in scalars.items()}
            if not np.isfinite([self._last["loss"], self._last["gradient_norm"]]).all():
                raise self._diverged(step)
        self._pending.clear()
        return self._last


class TrainingStates:
    """The training states of one run, in folders named after their steps.

    A state has the weights, the optimizer's variables, the `Course`, and the ``identity`` of the run. Every process can
    resume, but only a process that ``writes`` saves states.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any], network: Any, step_function: Any, writes: bool):
        self.folder, self.identity, self.writes = folder, identity, writes
        self._network, self._step_function = network, step_function

    def resume(self, warn: Callable[[str], None]) -> Course | None:
        """Restores the newest intact state and returns its `Course`; None if there is none. Calls ``warn`` for damaged
        states.

        Raises `UsageError` if the state belongs to another run, whose training would be lost.
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
        """Writes the state at ``course``. Raises `Diverged` if a weight is not finite."""
        if not self.writes:
            return
        arrays = {"weights": self.finite_weights(course.step), "optimizer": self._step_function.state()}
        about = {"identity": self.identity, **vars(course)}
        checkpoint.write_state(self.folder, course.step, about=about, arrays=arrays)

    def finite_weights(self, step: int) -> dict[str, np.ndarray]:
        """Returns the network's weights after ``step``. Raises `Diverged` if one is not finite."""
        self._step_function.settle()
        arrays = weights(self._network.loss.variables)
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise self.diverged(step, "The weights are")
        return arrays

    def diverged(self, step: int, what: str = "The loss is") -> Diverged:
        """The error for a training that diverged at ``step``, with the path of the newest training state."""
        return Diverged(step, self.identity["seed"], what, last_good=checkpoint.newest(self.folder))


def differences(there: Mapping[str, Any], here: Mapping[str, Any], where: str = "") -> list[str]:
    """Returns a sentence such as "recipe.batch is 8 there and 16 here" for each setting that differs."""
    found = []
    for name in sorted({*there, *here}):
        old, new = there.get(name), here.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += differences(old, new, f"{where}{name}.")
        elif old != new:
            found.append(f"{where}{name} is {old} there and {new} here")
    return found
