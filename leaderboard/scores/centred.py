"""The centred average: a mean over instruments whose chance levels differ, with the chance of each at 0.

Guessing scores 50 on minimal pairs, 68 on paraphrases (the most frequent class) and 0 on entities, so a plain mean of
percentages has no common zero. Here each score is rescaled from chance (0) to certainty (100),

    100 (score - chance) / (best - chance)

as in the centred accuracy of DataComp-LM (Li et al., 2024, section 3.5). Chance is stated by the task. Otherwise it is
the score of the majority baseline on the same data, which is taken as exact. There is a centred average only if minimal
pairs are among the instruments. All rows share the scales, so the order on each instrument does not change. Standard
errors are scaled too. `leaderboard.tables` prints the average, and `leaderboard.scores.measures` gives it to the curves
of a ladder.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ptmbench.leaderboard.records.record import Draw
from ptmbench.leaderboard.scores.chance import chance
from ptmbench.leaderboard.scores.grid import Column, Grid, Row
from ptmbench.leaderboard.scores.ranks import Rank, ranks, simultaneous_confidence
from ptmbench.leaderboard.stats import Error, Interval, Summary, error, mean_of, summarise, units

_PAIRS = "minimal_pair"


@dataclass(frozen=True, kw_only=True)
class CentredScore:
    """The centred average of one row over seeds, and its 95 % interval over seeds and examples."""

    row: Row
    summary: Summary
    interval: Interval
    rank: Rank | None
    missing: tuple[str, ...]
    """Titles of the instruments without a score."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The scores of chance and of certainty on an instrument."""

    chance: float
    best: float

    def __call__(self, value: float) -> float:
        return 100 * (value - self.chance) / (self.best - self.chance)

    @property
    def slope(self) -> float:
        """Points of the centred score per point of the score."""
        return 100 / (self.best - self.chance)


@dataclass(frozen=True, kw_only=True, eq=False)
class Centred:
    """The centred averages of a board's rows."""

    grid: Grid

    @cached_property
    def scales(self) -> Mapping[Column, Scale]:
        """The instruments with their scales: columns with a known chance that apply to every model and on which at
        least one model has a score. Columns under a condition are left out. {} for fewer than two instruments, or
        without minimal pairs among them."""
        models, found = [row for row in self.grid.rows if row.kind != "baseline"], {}
        for column in self.grid.columns:
            cells = [cell for row in models if (cell := self.grid.cells.get((row, column)))]
            unfit = any(one.status == "not_applicable" for cell in cells for one in cell.records)
            rival = column.averaged and column not in self.grid.averaged
            level = chance(self.grid, column)
            best = 100.0 if column.task["higher_is_better"] else 0.0
            fits = any(cell.ok for cell in cells) and not unfit and not rival and not column.task.get("condition")
            if fits and math.isfinite(level) and level != best:
                found[column] = Scale(chance=level, best=best)
        return found if len(found) > 1 and any(column.task.get("form") == _PAIRS for column in found) else {}

    def values(self, row: Row) -> dict[Draw, float]:
        """Returns the average of ``row`` for every draw of seeds that has all instruments; {} if one has no score."""
        cells = {column: self.grid.cells.get((row, column)) for column in self.scales}
        if not cells or any(cell is None or not cell.ok for cell in cells.values()):
            return {}
        every = {draw for cell in cells.values() for draw in cell.values}
        values = {column: cell.at(every) for column, cell in cells.items()}
        draws = set.intersection(*(set(one) for one in values.values()))
        return {
            draw: mean_of([self.scales[column](one[draw]) for column, one in values.items()]) for draw in sorted(draws)
        }

    def summary(self, row: Row) -> Summary:
        """Summarises `values` over seeds, or over the means of pre-trainings if there are several."""
        return summarise(units(self.values(row)))

    def error(self, row: Row) -> Error:
        """Returns the error over seeds and examples. Errors of instruments on the same data are taken as perfectly
        correlated, as in the plain average."""
        summary = self.summary(row)
        if not summary.n:
            return error(summary, math.nan)
        by_data: dict[str, float] = {}
        for column, scale in self.scales.items():
            data = column.task["data_sha256"] or column.key
            size = abs(scale.slope) * math.sqrt(self.grid.cells[row, column].examples)
            by_data[data] = by_data.get(data, 0.0) + size
        return error(summary, math.fsum(one**2 for one in by_data.values()) / len(self.scales) ** 2)

    def missing(self, row: Row) -> tuple[str, ...]:
        """Returns the titles of the instruments on which ``row`` has no score."""
        found = {column: self.grid.cells.get((row, column)) for column in self.scales}
        return tuple(column.title for column, cell in found.items() if not (cell and cell.ok))


def lines(grid: Grid) -> list[CentredScore]:
    """Returns a line for each row that is not a baseline: the best first, rows without an average last. [] if the board
    has no centred average."""
    average = Centred(grid=grid)
    rows = [row for row in grid.rows if row.kind != "baseline"] if average.scales else []
    summaries, errors = {row: average.summary(row) for row in rows}, {row: average.error(row) for row in rows}
    ranked = [row for row in rows if summaries[row].n]
    confidence = simultaneous_confidence(len(ranked))
    found = ranks({row: errors[row].around(summaries[row].mean, confidence) for row in ranked})
    ordered = sorted(rows, key=lambda row: -summaries[row].mean if summaries[row].n else math.inf)
    return [
        CentredScore(
            row=row,
            summary=summaries[row],
            interval=errors[row].around(summaries[row].mean),
            rank=found.get(row),
            missing=average.missing(row),
        )
        for row in ordered
    ]


def definition(grid: Grid) -> str:
    """Returns a description of the average with the chance of each instrument."""
    scales = Centred(grid=grid).scales
    instruments = ", ".join(f"{column.title} (chance {scale.chance:.4g})" for column, scale in scales.items())
    return (
        "Centred average: each score is rescaled so that chance is 0 and the best possible score is 100. The average "
        f"is over {len(scales)} instruments that apply to all models: {instruments}. Chance is what the task states, "
        "or the score of the majority baseline. The interval is over seeds and examples."
    )
