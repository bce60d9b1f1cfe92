"""Compares the order of models by their GLUE scores in the survey's table 2 with their order on the board.

The reported scores come from other corpora, sizes and budgets, so the orders need not agree. Kendall's tau measures
their agreement (`leaderboard.scores.agreement`).
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
    """The common words of the rows of these models: size, budget, adaptation."""
    measure: str
    """`AVERAGE`, or the title of a task."""
    survey: tuple[str, ...]
    """Labels of the models, ordered by the GLUE scores of their papers."""
    here: tuple[str, ...]
    """Labels of the same models, ordered by their scores here."""
    tau: float
    interval: Interval
    """The 95 % interval of ``tau``, with the models taken as a sample of all models."""


def orders(grid: Grid) -> list[Order]:
    """Returns one `Order` for each measure and each kind of rows, if at least `FEWEST` models with a reported score
    have it."""
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
    """Yields each measure with the scores of rows, with the sign changed if lower is better."""
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
