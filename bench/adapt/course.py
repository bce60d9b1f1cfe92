"""The progress of an adaptation's training, and its states on disk, from which a stopped cell resumes."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ptmbench.bench.console import Bar, progress, say
from ptmbench.bench.engine import checkpoint, cost
from ptmbench.bench.engine.stopping import SAVE_SECONDS, Stop, check_finished


@dataclass
class Course:
    """What a training run did. Random numbers, data order and learning rate follow from ``steps`` and the settings."""

    steps: int = 0
    tokens: int = 0
    flops: float = 0.0
    best_score: float = -math.inf
    curve: list[dict[str, float]] = field(default_factory=list)
    stale: int = 0
    """Evaluations since the best one."""
    losses: list[Any] = field(default_factory=list)
    """The losses of the steps since the last evaluation."""
    finished: bool = False
    asked: float = 0.0
    """FLOPs of asking a teacher in the steps. They are part of ``flops``."""
    flops_evaluate: float = 0.0
    """FLOPs of the scores on the selection split, of the training of a transform. They are not part of ``flops``."""

    def then(self, later: "Course") -> "Course":
        """Returns this run followed by a ``later`` one as one run. The curve continues the count of steps, and the best
        score is that of the ``later`` run."""
        curve = [*self.curve, *({**point, "step": point["step"] + self.steps} for point in later.curve)]
        spent = (self.steps + later.steps, self.tokens + later.tokens, self.flops + later.flops)
        evaluated = self.flops_evaluate + later.flops_evaluate
        return Course(*spent, later.best_score, curve, flops_evaluate=evaluated)


class Bookmark:
    """Saves the progress of a cell in ``folder``: the states of its trainings, one after the other, and of long
    measurements before, between or in them.

    A state of a training has the variables that training changes, the best weights so far, the optimizer and the
    `Course`. A repeated cell resumes each training from its newest intact state. A training without a state is cheap to
    repeat, so it starts anew. Most cells end within ``every`` seconds and save nothing. Without a folder, nothing is
    saved. ``title`` names the cell in the progress bar of its trainings.
    """

    def __init__(
        self,
        folder: Path | None = None,
        every: float = SAVE_SECONDS,
        tell: Callable[[str], None] = say,
        title: str = "a model",
    ):
        self.folder, self.every, self.tell, self.title = folder, every, tell, title
        self._saved, self._training = time.monotonic(), 0
        self.course = Course()
        """The progress of the training that began last."""

    def begin(self, adapted: Any) -> tuple[Course, list[np.ndarray]]:
        """Begins the next training of the cell: restores ``adapted`` from the newest intact state, if there is one.
        Returns the course so far and the best weights."""
        self._training += 1
        self.course, best = self._begun(adapted)
        return self.course, best

    def _begun(self, adapted: Any) -> tuple[Course, list[np.ndarray]]:
        if (found := self._newest(self._place)) is None:
            return Course(), adapted.state()
        state, arrays = found
        adapted.restore(_listed(arrays["learnt"]))
        adapted.recall(_listed(arrays["remembered"]))
        adapted.step.restore(arrays["optimizer"])
        cost.set_earlier_seconds(state.about["seconds"])
        course = Course(**state.about["course"])
        if not course.finished:
            self.tell(f"The cell goes on at step {course.steps}, where it was stopped.")
        return course, _listed(arrays["best"])

    @contextmanager
    def bar(self, course: Course, steps: int) -> Iterator[Bar]:
        """Yields the progress bar of the training that began last, after the steps of ``course``. ``steps`` is their
        number without early stopping."""
        which = f" ({self._training})" if self._training > 1 else ""
        with progress(f"train {self.title}{which}", steps, brief=True) as bar:
            bar.skip(course.steps)
            yield bar

    def due(self, course: Course) -> bool:
        """Whether ``course`` should be saved now. The end of a training that already has a state is saved, so that it
        is not trained again."""
        return self._due(self._place, course.finished)

    def save(self, adapted: Any, course: Course, best: Sequence[np.ndarray]) -> None:
        """Saves the training that began last."""
        if self.folder is None:
            return
        course.losses = [float(loss) for loss in course.losses]
        arrays = {
            "learnt": _numbered(adapted.state()),
            "remembered": _numbered(adapted.memory()),
            "best": _numbered(best),
            "optimizer": adapted.step.state(),
        }
        self._write(self._place, course.steps, {"course": vars(course)}, arrays)

    def measure(
        self, what: str, unit: str, count: int, one: Callable[[int], tuple[float, float]]
    ) -> tuple[np.ndarray, float]:
        """Measures ``count`` values, and returns them, float64 [count], and the FLOPs of all. ``one(number)`` returns a
        value and its FLOPs. ``what`` and ``unit`` name the values in the progress bar.

        A measurement is saved and resumed like a training, so one that took long is not repeated if the cell is stopped
        later. Measurements during the same training, or between the same trainings, need different names.
        """
        place = f"{self._place}-{what.replace(' ', '-')}"
        values, flops = self._measured(place)
        if 0 < len(values) < count:
            self.tell(f"The cell goes on after {len(values)} of {count} {unit}, where it was stopped.")
        with Stop() as stop, progress(f"measure {what}", count, unit, brief=True) as bar:
            bar.skip(len(values))
            for number in range(len(values), count):
                value, spent = one(number)
                values.append(value)
                flops += spent
                bar.advance()
                if stop.signal or self._due(place, len(values) == count):
                    self._write(place, len(values), {"flops": flops}, {"values": {"all": np.array(values)}})
                if stop.signal:
                    break
        check_finished(len(values), count)
        return np.array(values), flops

    def _measured(self, place: str) -> tuple[list[float], float]:
        """The saved values of the measurement ``place``, and their FLOPs."""
        if (found := self._newest(place)) is None:
            return [], 0.0
        state, arrays = found
        cost.set_earlier_seconds(state.about["seconds"])
        return arrays["values"]["all"].tolist(), state.about["flops"]

    def _newest(self, place: str) -> tuple[checkpoint.Checkpoint, dict[str, dict[str, np.ndarray]]] | None:
        """The newest intact state of the training or measurement ``place``, and its arrays."""
        return checkpoint.newest_intact(self.folder / place, self.tell) if self.folder else None

    def _due(self, place: str, finished: bool) -> bool:
        if self.folder is None:
            return False
        long = time.monotonic() - self._saved > self.every
        return long or (finished and checkpoint.newest(self.folder / place) is not None)

    def _write(
        self, place: str, step: int, about: Mapping[str, Any], arrays: Mapping[str, Mapping[str, np.ndarray]]
    ) -> None:
        if self.folder is None:
            return
        with cost.phase("save"):
            about = {**about, "seconds": cost.spent()}
            checkpoint.write_state(self.folder / place, step, about=about, arrays=arrays)
        self._saved = time.monotonic()

    @property
    def _place(self) -> str:
        return f"training-{self._training}"


def _numbered(arrays: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    return {f"{number:05d}": array for number, array in enumerate(arrays)}


def _listed(arrays: dict[str, np.ndarray]) -> list[np.ndarray]:
    return [arrays[name] for name in sorted(arrays)]
