"""The measures that a curve of a ladder may show: scores on a task, an average over tasks, or the loss on held-out
text.

`leaderboard.scores.ladder` draws a curve for each measure. A measure maps a row of the board to an estimate with its
error.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ptmbench.leaderboard.records.layout import is_number
from ptmbench.leaderboard.records.record import Record
from ptmbench.leaderboard.scores.centred import Centred
from ptmbench.leaderboard.scores.grid import Column, Grid, Row, drawn_words
from ptmbench.leaderboard.stats import LARGEST, Error, Interval, error, summarise, units

LOSS = "held-out loss"
"""The titles of losses begin with this text."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The value of a measure for one row."""

    value: float
    error: Error
    interval: Interval
    """The 95 % interval, within the bounds of the metric."""
    drawn: str = ""
    """The draws that ``value`` is the mean over, in words."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Measure:
    """A quantity on one axis. Values of different measures are not comparable."""

    title: str
    of: Callable[[Row], Estimate | None] = field(repr=False)
    """Returns the estimate of a row; None if there is none."""
    higher_is_better: bool = True
    best: float = 100.0
    """The best possible value, if higher is better."""
    decimals: int = 1
    is_loss: bool = False
    """Whether it measures pre-training alone, so that rows with several adaptations have the same values."""


def measures(grid: Grid) -> tuple[Measure, ...]:
    """Returns the measures of a board: the average, the tasks, and the losses of each objective."""
    return (_average(grid), *(_task(grid, column) for column in grid.columns), *_losses(grid))


def _average(grid: Grid) -> Measure:
    """Returns the centred average if there is one, or else the average over tasks."""
    centred = Centred(grid=grid)

    def of_instruments(row: Row) -> Estimate | None:
        found, off = centred.summary(row), centred.error(row)
        return _estimate(found.mean, off, off.around(found.mean), drawn_words(centred.values(row)))

    def of_tasks(row: Row) -> Estimate | None:
        mean = grid.macro_summary(row).mean
        return _estimate(mean, grid.macro_error(row), grid.macro_interval(row), drawn_words(grid.macro(row)))

    if centred.scales:
        return Measure(title="centred average", of=of_instruments)
    return Measure(title="average", of=of_tasks, best=grid.macro_bounds.high)


def _task(grid: Grid, column: Column) -> Measure:
    def of(row: Row) -> Estimate | None:
        cell = grid.cells.get((row, column))
        return _estimate(cell.summary.mean, cell.error, cell.interval, cell.drawn) if cell and cell.ok else None

    better = column.task["higher_is_better"]
    return Measure(
        title=column.title, of=of, higher_is_better=better, best=column.bounds.high, decimals=column.decimals
    )


def _losses(grid: Grid) -> Iterator[Measure]:
    """Yields a measure for each objective and each held-out text (as tokens): losses are comparable only if both are
    the same."""
    found = dict.fromkeys(key for row in grid.rows for record in row.records if (key := _loss_key(record)))
    names = [name for name, _ in found]
    for name, text in found:
        part = f", text {text[:6]}" if names.count(name) > 1 else ""
        yield Measure(
            title=f"{LOSS} ({name}{part})", of=_loss_of(name, text), higher_is_better=False, decimals=2, is_loss=True
        )


def _loss_key(record: Record) -> tuple[str, str] | None:
    """Returns the objectives of a record's model, and the SHA-256 of the tokens that its held-out loss was measured on;
    None without a loss."""
    held_out = held_out_of(record.pretraining)
    objectives = (record.row["card"] or {}).get("objectives")
    named = isinstance(objectives, list | tuple) and objectives
    name = " + ".join(map(str, objectives)) if named else str(record.row["name"])
    return (name, str(held_out.get("corpus_sha256"))) if held_out else None


def held_out_of(pretraining: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Returns the part of a pre-training about the loss on held-out text: "loss", its parts by name, and the cost of
    measuring it. {} if there is no such loss."""
    found = (pretraining or {}).get("held_out")
    return found if isinstance(found, Mapping) and is_number(found.get("loss")) else {}


def _loss_of(name: str, text: str) -> Callable[[Row], Estimate | None]:
    def of(row: Row) -> Estimate | None:
        made = {
            str(record.pretraining.get("weights_sha256")): held_out_of(record.pretraining)["loss"]
            for record in row.records
            if _loss_key(record) == (name, text)
        }
        found = summarise(units({(weights, 0): float(loss) for weights, loss in made.items()}))
        off = error(found, math.nan)
        words = f"{found.n} pre-training{'s' * (found.n != 1)}"
        return _estimate(found.mean, off, off.around(found.mean), words)

    return of


def _estimate(value: float, off: Error, interval: Interval, drawn: str) -> Estimate | None:
    """Returns an estimate; None if the value is missing or too large."""
    known = abs(value) < LARGEST  # False for NaN
    return Estimate(value=value, error=off, interval=interval, drawn=drawn) if known else None
