"""The training loop of all adaptations, with early stopping, and prediction."""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from ptmbench.bench.adapt.course import Bookmark, Course
from ptmbench.bench.adapt.heads import InputRow, stack
from ptmbench.bench.adapt.settings import Settings
from ptmbench.bench.console import progress
from ptmbench.bench.engine.cost import phase
from ptmbench.bench.engine.stopping import Stop, check_finished
from ptmbench.bench.errors import Diverged, NotApplicable

_POOL = 50
"""Number of batches whose rows are sorted by length together: a compromise between padding and random order."""


def epoch_batches(rows: Sequence[InputRow], size: int, seed: int, epoch: int) -> list[list[InputRow]]:
    """The batches of one epoch in an order that depends on (seed, epoch), with rows of similar length in each. A batch
    has rows of one task; several tasks are mixed in proportion to their rows."""
    rng, batches = np.random.default_rng([seed, 2, epoch]), []
    for part in _by_task(rows):
        order = rng.permutation(len(part))
        for begin in range(0, len(order), size * _POOL):
            pool = sorted(order[begin : begin + size * _POOL], key=lambda i: _length(part[i]))
            batches += [[part[i] for i in pool[k : k + size]] for k in range(0, len(pool), size)]
    return [batches[i] for i in rng.permutation(len(batches))]


def train(
    adapted: Any,
    rows: Sequence[InputRow],
    settings: Settings,
    seed: int,
    score: Callable[[], float] | None,
    bookmark: Bookmark | None = None,
) -> Course:
    """Trains ``adapted`` on ``rows`` and restores the weights with the best ``score()`` (higher is better), whose time
    counts as the phase "select". A second stage starts from the best weights of the first one, and selects again.
    Without a ``score``, it keeps the weights of the first step that is `Adapted.ready`, and records no curve.

    Training resumes at ``bookmark``. After a signal to stop, the bookmark is saved first. Raises `NotApplicable`
    without rows, `bench.engine.stopping.Unfinished` if the loop ends before its last step.
    """
    if not rows:
        raise NotApplicable("nothing-to-learn", "because no training example is left.")
    per_epoch, steps = _steps_per_epoch(rows, settings), steps_of(rows, settings)
    every, second_start = max(1, per_epoch // settings.evaluations), adapted.second_stage_start(steps, settings)
    bookmark = bookmark or Bookmark()
    course, best = bookmark.begin(adapted)
    if course.finished:
        return course
    with Stop() as stop, bookmark.bar(course, steps) as bar:
        for batch_rows in islice(_batches(rows, settings, seed), course.steps, steps):
            rate = adapted.rate(course.steps, steps, settings)
            batch_rows, made_flops = adapted.make(batch_rows, settings, (seed, course.steps))
            scalars = adapted.step(stack(batch_rows), (seed, course.steps), rate)
            course.losses.append(scalars["loss"])
            course.steps += 1
            course.tokens += sum(row.tokens for row in batch_rows)
            course.flops += adapted.training_flops(batch_rows) + made_flops
            bar.advance()
            if course.steps % every == 0 or course.steps in (second_start, steps):
                loss = _settled(course, seed)
                with phase("select"):
                    value = score() if score else 0.0
                if score:
                    course.curve.append({"step": course.steps, "loss": round(loss, 5), "score": round(value, 4)})
                bar.advance(0, loss=loss, **({"score": value} if score else {}))
                ready = adapted.ready(course.steps)
                course.stale += ready
                if ready and value > course.best_score:
                    course.best_score, best, course.stale = value, adapted.state(), 0
            if course.steps == second_start:
                adapted.restore(best)
                course.best_score, course.stale = -math.inf, 0
            stopped_early = course.stale > settings.patience and course.steps > second_start
            course.finished = course.steps == steps or stopped_early
            if course.finished:
                adapted.restore(best)
            if stop.signal or bookmark.due(course):
                bookmark.save(adapted, course, best)
            if stop.signal or course.finished:
                break
    if not course.finished:
        check_finished(course.steps, steps)
    return course


def steps_of(rows: Sequence[InputRow], settings: Settings) -> int:
    """Number of training steps on ``rows`` without early stopping."""
    steps = _steps_per_epoch(rows, settings) * settings.epochs
    return min(steps, settings.max_steps) if settings.max_steps else steps


def prepare(
    adapted: Any,
    rows: Sequence[InputRow],
    settings: Settings,
    seed: int,
    bookmark: Bookmark | None,
    teacher: Any = None,
) -> Course:
    """Runs the training of ``adapted`` that precedes the training with the head, if its adaptation has one, on the
    texts of ``rows``. It may learn from ``teacher``, and resumes at ``bookmark``."""
    return adapted.first(adapted, rows, settings, seed, bookmark or Bookmark(), teacher) if adapted.first else Course()


def _steps_per_epoch(rows: Sequence[InputRow], settings: Settings) -> int:
    return sum(math.ceil(len(part) / settings.batch) for part in _by_task(rows))


def _batches(rows: Sequence[InputRow], settings: Settings, seed: int) -> Iterator[list[InputRow]]:
    for epoch in range(settings.epochs):
        yield from epoch_batches(rows, settings.batch, seed, epoch)


def _settled(course: Course, seed: int) -> float:
    """The mean of the losses since the last evaluation. Raises `Diverged` with the first step whose loss is not
    finite."""
    values = np.array([float(value) for value in course.losses])
    if not np.isfinite(values).all():
        raise Diverged(course.steps - len(values) + 1 + int(np.argmin(np.isfinite(values))), seed)
    course.losses = []
    return float(np.mean(values))


def outputs(
    adapted: Any, rows: Sequence[InputRow], size: int = 64, answer: Callable[[Any], Any] | None = None
) -> list[Any]:
    """The head's output for every row, in the order of ``rows``. With ``answer``, a function of a batch, its result for
    every row instead: an array, or arrays by name. Rows of similar length share a batch."""
    answer = answer or adapted.answered
    results: list[Any] = [None] * len(rows)
    order = sorted(range(len(rows)), key=lambda i: _length(rows[i]))
    with progress("predict", len(rows), "inputs", brief=True) as bar:
        for begin in range(0, len(order), size):
            places = order[begin : begin + size]
            found = answer(stack([rows[i] for i in places]))
            if isinstance(found, dict):
                found = [dict(zip(found, values, strict=True)) for values in zip(*found.values(), strict=True)]
            for place, value in zip(places, found, strict=True):
                results[place] = value
            bar.advance(len(places))
    return results


def _by_task(rows: Sequence[InputRow]) -> list[list[InputRow]]:
    """``rows`` grouped by their array ``task``, if they have one."""
    parts: dict[int, list[InputRow]] = {}
    for row in rows:
        parts.setdefault(int(row.arrays.get("task", 0)), []).append(row)
    return list(parts.values())


def _length(row: InputRow) -> int:
    return row.arrays["tokens"].shape[-1]
