"""Differences between two rows with their intervals, and the rows not shown to be worse than the best of a column.

Seeds that both sides share are compared one by one, because both used the same data order and the same initialisation
of the head. The examples of the two sides are taken as independent. In fact both rows have the same examples, whose
errors partly cancel. So the interval is too wide rather than too narrow.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

from ptmbench.leaderboard.records.record import Draw
from ptmbench.leaderboard.scores.grid import Column, Grid, Row
from ptmbench.leaderboard.stats import (
    LARGEST,
    Interval,
    by_seed,
    difference,
    error,
    independent_error,
    mean_of,
    summarise,
    units,
)


class Sample(NamedTuple):
    """The scores of a row on a task, or on the average."""

    values: Mapping[Draw, float]
    examples: float
    """Variance of the mean over examples; NaN if it is not known."""
    interval: Interval
    """The 95 % interval of the mean, as the page prints it."""

    @property
    def mean(self) -> float:
        return mean_of(units(self.values))


class Gap(NamedTuple):
    """The difference of two means, with its 95 % interval."""

    value: float
    interval: Interval

    @property
    def above(self) -> bool:
        """Whether the first mean is shown to be higher."""
        return self.interval.low > 0

    @property
    def below(self) -> bool:
        """Whether the first mean is shown to be lower."""
        return self.interval.high < 0


def samples(grid: Grid, column: Column | None = None) -> dict[Row, Sample]:
    """Returns the rows with a score on ``column``, or on the average (None). Scores that are not finite or too large
    are left out."""
    if column is None:
        found = {row: Sample(grid.macro(row), grid.macro_examples(row), grid.macro_interval(row)) for row in grid.rows}
    else:
        cells = {row: cell for row in grid.rows if (cell := grid.cells.get((row, column))) and cell.ok}
        found = {row: Sample(cell.values, cell.examples, cell.interval) for row, cell in cells.items()}
    return {row: one for row, one in found.items() if one.values and abs(one.mean) < LARGEST}


def gap(ours: Sample, theirs: Sample) -> Gap:
    """Returns ``ours`` minus ``theirs`` over new seeds and new examples. Seeds are paired if both sides have the same
    seeds and more than one. Otherwise the variances of both means are added."""
    examples = ours.examples + theirs.examples
    seeds = [set(by_seed(side.values)) for side in (ours, theirs)]
    if seeds[0] == seeds[1] and len(seeds[0]) > 1:
        found = difference(ours.values, theirs.values)
        return Gap(found.mean, error(found, examples).around(found.mean))
    value = ours.mean - theirs.mean
    parts = [summarise(units(side.values)) for side in (ours, theirs)]
    if not any(one.n > 1 for one in parts) and not math.isfinite(examples):
        return Gap(value, Interval(math.nan, math.nan))
    return Gap(value, independent_error(parts, examples).around(value))


def not_worse(found: Mapping[Row, Sample], higher_is_better: bool = True) -> set[Row]:
    """Returns the rows that are not shown to be worse than the row with the best mean, with that row included.

    If possible, the printed intervals decide. A row is worse if its interval lies wholly on the worse side of the best
    row's interval. It is not shown to be worse if its interval holds the best mean, or if its mean lies in the interval
    of the best row. In all other cases, the 95 % interval of the difference (`gap`) decides.
    """
    if not found:
        return set()
    sign = 1 if higher_is_better else -1
    best = max(found, key=lambda row: sign * found[row].mean)
    return {row for row in found if row is best or not _worse(found[row], found[best], sign)}


def stars(grid: Grid, column: Column) -> set[Row]:
    """Returns the rows that have a star on ``column``: the rows of `not_worse`. No row has one if there is only one
    row, or if more than half of the rows would have one."""
    found = samples(grid, column)
    leading = not_worse(found, column.task["higher_is_better"])
    return leading if len(found) > 1 and 2 * len(leading) <= len(found) else set()


def _worse(one: Sample, best: Sample, sign: int) -> bool:
    low, high = sorted(sign * end for end in one.interval)
    best_low, best_high = sorted(sign * end for end in best.interval)
    if all(map(math.isfinite, (low, high, best_low, best_high))):
        if high < best_low:
            return True
        if high >= sign * best.mean or best_low <= sign * one.mean:
            return False
    difference = gap(one, best)
    return difference.below if sign > 0 else difference.above
