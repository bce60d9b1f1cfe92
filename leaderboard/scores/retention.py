"""Retention: the score of a compressed model in percent of the score of its reference model, with a 95 % interval.

A transformed model is compared with the same model without the transform, a student with its teacher, and each seed
with the same seed. Let x be the scores of the compressed model and y those of the reference. The interval is Fieller's
(1954, "Some problems in interval estimation", JRSS B 16). It holds every ratio R for which the mean of x - R y over
seeds is not shown to differ from zero. That test is the board's own (`leaderboard.stats.error`): over new seeds and new
examples.

Some records have the headline on the same replicates of the examples ("redrawn"), from which the covariance of x and y
over examples is computed. Without them, x and y are taken as independent over examples, which makes the interval too
wide rather than too narrow.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ptmbench.leaderboard.records.layout import is_number
from ptmbench.leaderboard.records.record import THEN, Draw, Record
from ptmbench.leaderboard.scores.chance import chance
from ptmbench.leaderboard.scores.grid import Cell, Column, Grid, Row
from ptmbench.leaderboard.stats import LARGEST, Interval, by_seed, error, mean_of, summarise, units

_FARTHEST = 1e3
"""Distance from the estimate, in ratios, above which an interval counts as unbounded."""
_HALVINGS = 30
_PLAIN = "finetune"


class Retention(NamedTuple):
    """A ratio in percent. Unbounded ends of the interval are NaN."""

    value: float
    interval: Interval
    seeds: int
    paired: bool
    """Whether the examples are paired as well."""


class _ScorePair(NamedTuple):
    """The scores of two models by seed, and the variances and the covariance of their means over examples."""

    ours: Mapping[Draw, float]
    theirs: Mapping[Draw, float]
    variances: tuple[float, float, float]
    """Variance of ours, variance of theirs, and the covariance. Variances are NaN if they are not known."""
    paired: bool


def reference_rows(grid: Grid) -> dict[Row, Row]:
    """Returns each row of compressed models with its reference row, if that is on the board. The reference of a
    transformed model is the model before its transforms. That of a student is its teacher, adapted like the student if
    it taught in pre-training alone. The reference of a model that its adaptation compressed is the same model after
    plain fine-tuning."""
    found = {}
    for row in filter(lambda row: row.compression, grid.rows):
        same = _reference(grid, row)
        if same and same is not row:
            found[row] = same
    return found


def _reference(grid: Grid, row: Row) -> Row | None:
    if row.transform:
        return _row_with_adaptation(grid, row, row.adaptation.partition(THEN)[0])
    if row.teacher:
        return _teacher_row(grid, row)
    return _pretraining_teacher_row(grid, row) if row.student else _row_with_adaptation(grid, row, _PLAIN)


def retention(
    grid: Grid, row: Row, reference: Row, column: Column | None, above_chance: bool = False
) -> Retention | None:
    """Returns the score of ``row`` in percent of the score of ``reference`` on ``column``, or on the average (None).
    With ``above_chance``, both scores are counted from `leaderboard.scores.chance`.

    None if the rows share no seeds, if lower scores are better, if the reference is not above zero, or, with
    ``above_chance``, if a chance is not known.
    """
    columns = grid.averaged if column is None else (column,)
    if not columns or not all(one.task["higher_is_better"] for one in columns):
        return None
    origin = mean_of([chance(grid, one) for one in columns]) if above_chance else 0.0
    if math.isnan(origin):
        return None
    pairs = [_pair_cells(grid.cells.get((row, one)), grid.cells.get((reference, one))) for one in columns]
    if None in pairs:
        return None
    whole = _averaged(pairs, [str(one.task["data_sha256"] or one.key) for one in columns])
    return ratio(whole, origin)


def ratio(pair: _ScorePair, origin: float = 0.0) -> Retention | None:
    """Returns Fieller's interval of the ratio of ``pair``, with both sides counted from ``origin``."""
    x, y = ({draw: value - origin for draw, value in side.items()} for side in (pair.ours, pair.theirs))
    if set(x) != set(y):  # other seeds of pre-training: they share only the seeds of the adaptation
        x, y = ({("", seed): value for seed, value in by_seed(side).items()} for side in (x, y))
    shared = sorted(set(x) & set(y))
    if not shared or not all(abs(side[draw]) < LARGEST for side in (x, y) for draw in shared):
        return None
    top, bottom = (mean_of(units({draw: side[draw] for draw in shared})) for side in (x, y))
    if bottom <= 0:
        return None
    ours, theirs, both = pair.variances

    def holds(share: float) -> bool:
        summary = summarise(units({draw: x[draw] - share * y[draw] for draw in shared}))
        examples = max(0.0, ours - 2 * share * both + share**2 * theirs) if math.isfinite(ours + theirs) else math.nan
        low, high = error(summary, examples).around(summary.mean)
        return low <= 0 <= high

    value, known = top / bottom, len(units({draw: x[draw] for draw in shared})) > 1 or math.isfinite(ours + theirs)
    ends = (_end(holds, value, -1), _end(holds, value, 1)) if known else (math.nan, math.nan)
    return Retention(100 * value, Interval(*(100 * end for end in ends)), len(shared), pair.paired)


def _end(holds: Callable[[float], bool], value: float, sign: int) -> float:
    """Returns the end of the interval around ``value`` in the direction ``sign``; NaN if it is unbounded."""
    inside, step = 0.0, 1e-4
    while holds(value + sign * step):
        inside, step = step, 2 * step
        if step > _FARTHEST:
            return math.nan
    for _ in range(_HALVINGS):
        middle = (inside + step) / 2
        inside, step = (middle, step) if holds(value + sign * middle) else (inside, middle)
    return value + sign * inside


def _pair_cells(ours: Cell | None, theirs: Cell | None) -> _ScorePair | None:
    """Returns the scores of both cells on the seeds that they share; None without such seeds."""
    if not (ours and theirs and ours.ok and theirs.ok):
        return None
    by_their_seed = {record.seed: record.adaptation["settings"] for record in theirs.ok}
    seeds = {
        one.seed for one in ours.ok if one.seed in by_their_seed and _has_teacher_settings(one, by_their_seed[one.seed])
    }
    x, y = ({draw: value for draw, value in one.values.items() if draw[1] in seeds} for one in (ours, theirs))
    if not seeds:
        return None
    drawn = [_redrawn([one for one in cell.ok if one.seed in seeds]) for cell in (ours, theirs)]
    if drawn[0] is None or drawn[1] is None or len(drawn[0]) != len(drawn[1]):
        return _ScorePair(x, y, (ours.examples, theirs.examples, 0.0), False)
    (own, both), (_, other) = np.cov(drawn[0], drawn[1])
    return _ScorePair(x, y, (float(own), float(other), float(both)), True)


def _has_teacher_settings(record: Record, settings: Mapping[str, Any]) -> bool:
    """Whether the teacher behind ``record``, if it has one, was adapted with these ``settings``. True for a transformed
    student, which is compared with the student before its transforms."""
    teacher = record.adaptation.get("teacher")
    return record.adaptation.get("transform") or not isinstance(teacher, dict) or teacher.get("settings") == settings


def _redrawn(records: Sequence[Record]) -> np.ndarray | None:
    """Returns the means [R] over ``records`` of the headline on each replicate of the examples; None if a record has
    none."""
    found = [record.headline.get("redrawn") for record in records]
    sound = all(isinstance(one, list) and len(one) > 1 and all(map(is_number, one)) for one in found)
    if not sound or len({len(one) for one in found}) != 1:
        return None
    return np.mean(np.clip(np.array(found, dtype=float), -LARGEST, LARGEST), axis=0)


def _averaged(pairs: Sequence[_ScorePair], data: Sequence[str]) -> _ScorePair:
    """Returns the average over tasks, on the seeds that all have. Errors of tasks on the same ``data`` are taken as
    perfectly correlated."""
    if len(pairs) == 1:
        return pairs[0]
    sides = []
    for scores in zip(*((pair.ours, pair.theirs) for pair in pairs), strict=True):
        draws = set.intersection(*map(set, scores))
        sides.append({draw: mean_of([one[draw] for one in scores]) for draw in sorted(draws)})
    totals = [0.0, 0.0, 0.0]
    for name in dict.fromkeys(data):
        same = [pair.variances for pair, one in zip(pairs, data, strict=True) if one == name]
        ours, theirs = (sum(math.sqrt(one[side]) for one in same) ** 2 for side in (0, 1))
        both = sum(one[2] for one in same) * len(same)
        for place, part in enumerate((ours, theirs, both)):
            totals[place] += part / len(pairs) ** 2
    return _ScorePair(sides[0], sides[1], (totals[0], totals[1], totals[2]), all(pair.paired for pair in pairs))


def _row_with_adaptation(grid: Grid, row: Row, adaptation: str) -> Row | None:
    """Returns the row of the same model as ``row`` under another ``adaptation``."""
    names = ("name", "label", "size", "kind", "division", "part", "extra_encoders")
    rows = (one for one in grid.rows if one.adaptation == adaptation)
    return next((one for one in rows if all(getattr(one, name) == getattr(row, name) for name in names)), None)


def _teacher_row(grid: Grid, row: Row) -> Row | None:
    """Returns the row of the teacher that ``row`` learned from, with the same model, size, adaptation and pre-trained
    weights."""
    about = row.teacher
    weights = (about.get("pretraining") or {}).get("weights_sha256")
    wanted = (about.get("name"), about.get("size"), about.get("adaptation"))
    rows = (one for one in grid.rows if (one.name, one.size, one.adaptation) == wanted)
    return next((one for one in rows if _begins_with(one, weights)), None)


def _pretraining_teacher_row(grid: Grid, row: Row) -> Row | None:
    """Returns the row of the model that taught ``row`` in pre-training, with the same adaptation: preferably with the
    same settings, or else with its own."""
    weights = row.pretraining_teacher.get("weights_sha256")
    rows = [one for one in grid.rows if weights and _begins_with(one, weights)]
    for adaptation in (row.adaptation, row.adaptation.partition(":")[0]):
        if found := next((one for one in rows if one.adaptation == adaptation), None):
            return found
    return None


def _begins_with(row: Row, weights: str | None) -> bool:
    """Whether ``row`` has pre-trained weights with the hash ``weights``; None stands for random weights."""
    return any((record.pretraining or {}).get("weights_sha256") == weights for record in row.records)
