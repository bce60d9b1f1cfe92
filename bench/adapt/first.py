"""A training of the encoder before the one that learns the task: `Adaptation.first`."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ptmbench.bench.adapt.course import Bookmark, Course
from ptmbench.bench.engine.stopping import Stop, check_finished
from ptmbench.bench.errors import Diverged


class FirstStage:
    """Base class of first stages. `train` runs their steps, saves their states, and stops after a signal.

    Subclasses set ``step``, a `bench.engine.step.TrainStep`. `bench.adapt.course.Bookmark` saves its variables and its
    optimizer: the next steps depend on nothing else.
    """

    step: Any = None

    def train(
        self, course: Course, steps: int, seed: int, bookmark: Bookmark, one_step: Callable[[int], float]
    ) -> Course:
        """Trains until ``steps`` steps are done, and returns ``course``. ``one_step(number)`` takes a step, counts its
        cost in ``course``, and returns the loss. Raises `Diverged` for a loss that is not finite."""
        if course.steps == steps:
            return course
        with Stop() as stop, bookmark.bar(course, steps) as bar:
            for number in range(course.steps, steps):
                loss = one_step(number)
                course.steps += 1
                bar.advance(loss=loss)
                if not np.isfinite(loss):
                    raise Diverged(course.steps, seed)
                course.finished = course.steps == steps
                if stop.signal or bookmark.due(course):
                    bookmark.save(self, course, ())
                if stop.signal:
                    break
        check_finished(course.steps, steps)
        return course

    def state(self) -> list[np.ndarray]:
        return [v.numpy() for v in self.step.variables]

    def restore(self, state: Sequence[np.ndarray]) -> None:
        for variable, value in zip(self.step.variables, state, strict=True):
            variable.assign(value)

    def memory(self) -> list[np.ndarray]:
        return []

    def recall(self, memory: Sequence[np.ndarray]) -> None:
        """Does nothing, because there is no memory."""
