"""The progress of an adaptation's training, and its states on disk, from which a stopped cell resumes."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ptmbench.bench.console import say
from ptmbench.bench.engine import checkpoint, cost
from ptmbench.bench.engine.stopping import SAVE_SECONDS


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
    """Of the steps since the last evaluation."""
    finished: bool = False
    asked: float = 0.0
    """FLOPs of asking a teacher in the steps, which ``flops`` contain."""

    def then(self, later: "Course") -> "Course":
        """This run and a ``later`` one as one: the steps of its curve count on, and its best score is the best."""
        curve = [*self.curve, *({**point, "step": point["step"] + self.steps} for point in later.curve)]
        spent = (self.steps + later.steps, self.tokens + later.tokens, self.flops + later.flops)
        return Course(*spent, later.best_score, curve)


class Bookmark:
    """Where a cell has come to: the states of its trainings, one after the other, in ``folder``.

    A state is what the network learns and remembers, the best of it so far, the optimizer and the `Course`. A cell
    that is done again takes up the newest intact state of each training; one without any is cheap to repeat, and is.
    Most cells end within ``every`` seconds and save nothing; without a folder, none does.
    """

    def __init__(self, folder: Path | None = None, every: float = SAVE_SECONDS, tell: Callable[[str], None] = say):
        self.folder, self.every, self.tell = folder, every, tell
        self._saved, self._training = time.monotonic(), 0

    def begin(self, adapted: Any) -> tuple[Course, list[np.ndarray]]:
        """The next training of the cell: how far it has come, ``adapted`` being set to that, and its best state."""
        self._training += 1
        found = checkpoint.newest_intact(self._here, self.tell) if self.folder else None
        if found is None:
            return Course(), adapted.state()
        state, arrays = found
        adapted.restore(_listed(arrays["learnt"]))
        adapted.recall(_listed(arrays["remembered"]))
        adapted.step.restore(arrays["optimizer"])
        cost.earlier(state.about["seconds"])
        course = Course(**state.about["course"])
        if not course.finished:
            self.tell(f"The cell goes on at step {course.steps}, where it was stopped.")
        return course, _listed(arrays["best"])

    def due(self, course: Course) -> bool:
        """Whether it is time to save ``course``. The end of a training that has a state is: it is not trained again."""
        if self.folder is None:
            return False
        long = time.monotonic() - self._saved > self.every
        return long or (course.finished and checkpoint.newest(self._here) is not None)

    def save(self, adapted: Any, course: Course, best: Sequence[np.ndarray]) -> None:
        """Save the training that began last."""
        if self.folder is None:
            return
        course.losses = [float(loss) for loss in course.losses]
        arrays = {
            "learnt": _numbered(adapted.state()),
            "remembered": _numbered(adapted.memory()),
            "best": _numbered(best),
            "optimizer": adapted.step.state(),
        }
        with cost.phase("save"):
            about = {"course": vars(course), "seconds": cost.spent()}
            checkpoint.write_state(self._here, course.steps, about=about, arrays=arrays)
        self._saved = time.monotonic()

    @property
    def _here(self) -> Path:
        return self.folder / f"training-{self._training}"


def _numbered(arrays: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    return {f"{number:05d}": array for number, array in enumerate(arrays)}


def _listed(arrays: dict[str, np.ndarray]) -> list[np.ndarray]:
    return [arrays[name] for name in sorted(arrays)]
