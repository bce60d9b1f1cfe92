"""The progress of an adaptation's training, and its states on disk, from which a stopped cell resumes."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ptmbench.bench.console import Bar, progress, say
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
    """Saves the progress of a cell in ``folder``: the states of its trainings, one after the other.

    A state has the variables that training changes, the best weights so far, the optimizer and the `Course`. A repeated
    cell resumes each training from its newest intact state. A training without a state is cheap to repeat, so it starts
    anew. Most cells end within ``every`` seconds and save nothing. Without a folder, nothing is saved. ``title`` names
    the cell in the progress bar of its trainings.
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
        found = checkpoint.newest_intact(self._here, self.tell) if self.folder else None
        if found is None:
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
        if self.folder is None:
            return False
        long = time.monotonic() - self._saved > self.every
        return long or (course.finished and checkpoint.newest(self._here) is not None)

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
