"""The centred average: a mean over instruments whose chance levels differ, with the chance of each at 0.

A coin has 50 on minimal pairs, the most frequent class 68 on paraphrases and nothing on entities, so a plain mean of
percentages adds up different zeros. Here each score is the share of the way from chance to certainty,

    100 (score - chance) / (best - chance)

as in the centred accuracy of DataComp-LM (Li et al., 2024, section 3.5), with the chance that the task states, or else
the score of the majority baseline on the same data, which is taken as exact. Shown where minimal pairs stand among the
instruments. A scale that all rows share leaves the order on each instrument alone; standard errors are scaled with it.
"""

import math
from dataclasses import dataclass

from ptmbench.leaderboard.grid import Column, Grid, Row
from ptmbench.leaderboard.ranks import Rank, ranks, together
from ptmbench.leaderboard.stats import Error, Interval, Summary, error, mean_of, summarise, units

_FLOOR = "majority"
_PAIRS = "minimal_pair"


@dataclass(frozen=True, kw_only=True)
class Line:
    """The centred average of one row over seeds, and its 95 % interval over seeds and examples."""

    row: Row
    summary: Summary
    interval: Interval
    rank: Rank | None
    missing: tuple[str, ...]
    """Titles of instruments without a score."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Two scores of an instrument: of chance and of certainty."""

    chance: float
    best: float

    def __call__(self, value: float) -> float:
        return 100 * (value - self.chance) / (self.best - self.chance)

    @property
    def slope(self) -> float:
        """What one point of the score is."""
        return 100 / (self.best - self.chance)


def scales(grid: Grid) -> dict[Column, Scale]:
    """The instruments with their scales: columns with a known chance that no model was unfit for, and that one has a
    score on at least. {} without minimal pairs among them."""
    models, found = [row for row in grid.rows if row.kind != "baseline"], {}
    for column in grid.columns:
        cells = [cell for row in models if (cell := grid.cells.get((row, column)))]
        unfit = any(one.status == "not_applicable" for cell in cells for one in cell.records)
        rival = column.averaged and column not in grid.averaged
        chance = _chance(grid, column)
        best = 100.0 if column.task["higher_is_better"] else 0.0
        fits = any(cell.ok for cell in cells) and not unfit and not rival and not column.task.get("condition")
        if fits and math.isfinite(chance) and chance != best:
            found[column] = Scale(chance=chance, best=best)
    return found if len(found) > 1 and any(column.task.get("form") == _PAIRS for column in found) else {}


def lines(grid: Grid) -> list[Line]:
    """One for each row that is no baseline, the best first; those that lack an instrument stand last."""
    known = scales(grid)
    rows = [row for row in grid.rows if row.kind != "baseline"] if known else []
    summaries = {row: _summary(grid, row, known) for row in rows}
    errors = {row: _error(grid, row, known, summaries[row]) for row in rows}
    ranked = [row for row in rows if summaries[row].n]
    confidence = together(len(ranked))
    found = ranks({row: errors[row].around(summaries[row].mean, confidence) for row in ranked})
    ordered = sorted(rows, key=lambda row: -summaries[row].mean if summaries[row].n else math.inf)
    return [
        Line(
            row=row,
            summary=summaries[row],
            interval=errors[row].around(summaries[row].mean),
            rank=found.get(row),
            missing=tuple(c.title for c in known if not ((cell := grid.cells.get((row, c))) and cell.ok)),
        )
        for row in ordered
    ]


def definition(grid: Grid) -> str:
    """What is averaged, in words, with the chance of each instrument."""
    known = scales(grid)
    told = ", ".join(f"{column.title} (chance {scale.chance:.4g})" for column, scale in known.items())
    return (
        "Centred average: on each instrument the share of the way from chance (0) to certainty (100), and the mean of "
        f"these over {len(known)} instruments that all models can be asked: {told}. Chance is what the task states, or "
        "the majority baseline. Seed by seed; the interval is over seeds and examples."
    )


def _chance(grid: Grid, column: Column) -> float:
    stated = column.task.get("chance")
    if isinstance(stated, int | float) and math.isfinite(stated):
        return float(stated)
    floors = [grid.cells.get((row, column)) for row in grid.rows if (row.kind, row.name) == ("baseline", _FLOOR)]
    return next((cell.summary.mean for cell in floors if cell and cell.ok), math.nan)


def _summary(grid: Grid, row: Row, known: dict[Column, Scale]) -> Summary:
    cells = {column: grid.cells.get((row, column)) for column in known}
    if any(cell is None or not cell.ok for cell in cells.values()):
        return summarise([])
    every = {draw for cell in cells.values() for draw in cell.values}
    values = {column: cell.at(every) for column, cell in cells.items()}
    draws = set.intersection(*(set(one) for one in values.values()))
    means = {draw: mean_of([known[column](one[draw]) for column, one in values.items()]) for draw in sorted(draws)}
    return summarise(units(means))


def _error(grid: Grid, row: Row, known: dict[Column, Scale], summary: Summary) -> Error:
    """Instruments on the same data are taken to err together, as in the plain average."""
    if not summary.n:
        return error(summary, math.nan)
    by_data: dict[str, float] = {}
    for column, scale in known.items():
        data = column.task["data_sha256"] or column.key
        size = abs(scale.slope) * math.sqrt(grid.cells[row, column].examples)
        by_data[data] = by_data.get(data, 0.0) + size
    return error(summary, math.fsum(one**2 for one in by_data.values()) / len(known) ** 2)
