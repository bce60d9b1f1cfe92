"""Training under a head, with early stopping, and prediction: the loop that all adaptations share."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench.adapt.heads import Row, stack
from bench.adapt.settings import Settings
from bench.cost import phase
from bench.errors import Diverged

_POOL = 50
"""Batches whose rows are sorted together: enough to hardly pad, few enough to stay random."""


@dataclass
class Course:
    """What a training run did."""

    steps: int = 0
    tokens: int = 0
    flops: float = 0.0
    best_score: float = -math.inf
    curve: list[dict[str, float]] = field(default_factory=list)

    def then(self, later: "Course") -> "Course":
        """This run and a ``later`` one as one: the steps of its curve count on, and its best score is the best."""
        curve = [*self.curve, *({**point, "step": point["step"] + self.steps} for point in later.curve)]
        spent = (self.steps + later.steps, self.tokens + later.tokens, self.flops + later.flops)
        return Course(*spent, later.best_score, curve)


def epoch_batches(rows: Sequence[Row], size: int, seed: int, epoch: int) -> list[list[Row]]:
    """One pass over ``rows`` in an order that follows from (seed, epoch), rows of like length side by side. A batch has
    rows of one task; where there are several, each comes as often as its share of the rows says."""
    rng, batches = np.random.default_rng([seed, 2, epoch]), []
    for part in _by_task(rows):
        order = rng.permutation(len(part))
        for begin in range(0, len(order), size * _POOL):
            pool = sorted(order[begin : begin + size * _POOL], key=lambda i: _length(part[i]))
            batches += [[part[i] for i in pool[k : k + size]] for k in range(0, len(pool), size)]
    return [batches[i] for i in rng.permutation(len(batches))]


def train(
    adapted: Any,
    rows: Sequence[Row],
    settings: Settings,
    seed: int,
    score: Callable[[], float],
    advance: Callable[..., None] = lambda *a, **k: None,
) -> Course:
    """Fit ``adapted`` to ``rows``; afterwards it holds the weights of its best ``score()`` (higher is better), whose
    time counts as the phase "select". A second stage begins from the best of the first one, and is judged anew."""
    course, best, stale = Course(), adapted.state(), 0
    per_epoch = sum(math.ceil(len(part) / settings.batch) for part in _by_task(rows))
    steps = per_epoch * settings.epochs
    if settings.max_steps:
        steps = min(steps, settings.max_steps)
    every, turn = max(1, per_epoch // settings.evaluations), adapted.turn(steps, settings)
    losses: list[Any] = []
    for epoch in range(settings.epochs):
        for batch_rows in epoch_batches(rows, settings.batch, seed, epoch):
            rate = adapted.rate(course.steps, steps, settings)
            batch_rows, made_flops = adapted.make(batch_rows, settings, (seed, course.steps))
            scalars = adapted.step(stack(batch_rows), (seed, course.steps), rate)
            losses.append(scalars["loss"])
            course.steps += 1
            course.tokens += sum(row.tokens for row in batch_rows)
            course.flops += adapted.training_flops(batch_rows) + made_flops
            advance(1)
            if course.steps % every == 0 or course.steps in (turn, steps):
                values = [float(value) for value in losses]
                if not np.isfinite(values).all():
                    raise Diverged(course.steps - len(values) + 1 + int(np.argmin(np.isfinite(values))), seed)
                loss = float(np.mean(values))
                losses = []
                with phase("select"):
                    value = score()
                course.curve.append({"step": course.steps, "loss": round(loss, 5), "score": round(value, 4)})
                if value > course.best_score:
                    course.best_score, best, stale = value, adapted.state(), 0
                else:
                    stale += 1
            if course.steps == turn:
                adapted.restore(best)
                course.best_score, stale = -math.inf, 0
            if course.steps == steps or (stale > settings.patience and course.steps > turn):
                adapted.restore(best)
                return course
    adapted.restore(best)
    return course


def outputs(adapted: Any, rows: Sequence[Row], size: int = 64) -> list[np.ndarray]:
    """The head's numbers for every row, in the order of ``rows``; rows of like length are run together."""
    results: list[Any] = [None] * len(rows)
    order = sorted(range(len(rows)), key=lambda i: _length(rows[i]))
    for begin in range(0, len(order), size):
        places = order[begin : begin + size]
        for place, value in zip(places, adapted.forward(stack([rows[i] for i in places])), strict=True):
            results[place] = value
    return results


def _by_task(rows: Sequence[Row]) -> list[list[Row]]:
    """``rows`` by the task that they are of, where they say so."""
    parts: dict[int, list[Row]] = {}
    for row in rows:
        parts.setdefault(int(row.arrays.get("task", 0)), []).append(row)
    return list(parts.values())


def _length(row: Row) -> int:
    return row.arrays["tokens"].shape[-1]
