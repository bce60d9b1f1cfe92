"""The order of models by their GLUE scores in the survey's table 2, and their order here.

The reported scores come from other corpora, sizes and budgets, so nothing says that the orders should agree. How far
they do is Kendall's tau (`leaderboard.scores.agreement`).
"""

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ptmbench.leaderboard.scores.agreement import FEWEST, interval, kendall
from ptmbench.leaderboard.scores.grid import Column, Grid, Row
from ptmbench.leaderboard.stats import Interval
from ptmbench.leaderboard.survey.reported import reported_glue

AVERAGE = "Average over tasks"


class Order(NamedTuple):
    """Models by one measure, the best first."""

    rows: str
    """What the rows of these models have in common: size, budget, adaptation."""
    measure: str
    """`AVERAGE`, or the title of a task."""
    survey: tuple[str, ...]
    """Labels of the models by the GLUE scores of their papers."""
    here: tuple[str, ...]
    """Labels of the same models by their scores here."""
    tau: float
    interval: Interval
    """The 95 % interval of ``tau``, if the models are a sample of all models."""


def orders(grid: Grid) -> list[Order]:
    """One `Order` for each measure, and for each kind of rows, that at least `FEWEST` models with a reported score
    share."""
    kinds: dict[str, list[Row]] = {}
    for row in grid.rows:
        if row.kind == "pretrained" and reported_glue(row):
            kinds.setdefault(row.words, []).append(row)
    found = (
        _order(words, measure, {row: values[row] for row in rows if row in values})
        for words, rows in kinds.items()
        for measure, values in _measures(grid)
    )
    return [one for one in found if one]


def _measures(grid: Grid) -> Iterator[tuple[str, dict[Row, float]]]:
    """Scores of rows by measure, turned so that higher is better."""
    yield AVERAGE, {row: one.mean for row in grid.rows if (one := grid.macro_summary(row)).n}
    for column in grid.columns:
        sign = 1.0 if column.task.get("higher_is_better", True) else -1.0
        yield column.title, {row: sign * value for row in grid.rows if (value := _score(grid, row, column)) is not None}


def _score(grid: Grid, row: Row, column: Column) -> float | None:
    cell = grid.cells.get((row, column))
    return cell.summary.mean if cell and cell.ok and math.isfinite(cell.summary.mean) else None


def _order(words: str, measure: str, scores: Mapping[Row, float]) -> Order | None:
    reported = {row: reported_glue(row)["value"] for row in scores}
    tau = kendall(list(reported.values()), list(scores.values())) if len(scores) >= FEWEST else math.nan
    if not math.isfinite(tau):
        return None
    return Order(words, measure, _best_first(reported), _best_first(scores), tau, interval(tau, len(scores)))


def _best_first(scores: Mapping[Row, float]) -> tuple[str, ...]:
    return tuple(row.label for row in sorted(scores, key=scores.__getitem__, reverse=True))
