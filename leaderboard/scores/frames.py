"""Records as pandas frames with fixed columns and types, for `ptmbench.results`.

The tables of the board (`leaderboard.tables`) are for reading; these are for computing. A frame has the same columns
and types whatever was run, even if nothing was. Missing values are NaN, or NaT for times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ptmbench.leaderboard.records.layout import is_number
from ptmbench.leaderboard.records.record import Record
from ptmbench.leaderboard.scores.arrange import arrange
from ptmbench.leaderboard.scores.costs import spent_on
from ptmbench.leaderboard.scores.grid import Cell, Column, Row

if TYPE_CHECKING:
    import pandas as pd

TEXT, NUMBER, WHOLE, TIME = "str", "float64", "int64", "datetime64[us, UTC]"
"""Types of columns. Whole numbers that may be missing are float64, because int64 has no missing value in pandas."""

_IDENTITY = dict.fromkeys(("model", "label", "size", "kind", "division"), TEXT)
RECORDS = {
    **_IDENTITY,
    **dict.fromkeys(("task", "adaptation"), TEXT),
    "seed": WHOLE,
    **dict.fromkeys(("status", "reason", "metric"), TEXT),
    **dict.fromkeys(("score", "low", "high", "examples", "parameters", "steps", "tokens"), NUMBER),
    **dict.fromkeys(("flops_pretrain", "flops_adapt", "flops_evaluate", "seconds", "latency"), NUMBER),
    **dict.fromkeys(("memory", "disk", "steps_pretrain", "tokens_pretrain", "seconds_pretrain"), NUMBER),
    "seed_pretrain": NUMBER,
    **dict.fromkeys(("device", "key", "command"), TEXT),
    "finished": TIME,
}
"""Columns of `records` with their types."""
MEANS = {
    **_IDENTITY,
    **dict.fromkeys(("adaptation", "variant", "task", "title", "metric", "split"), TEXT),
    **dict.fromkeys(("seeds", "pretrainings"), WHOLE),
    **dict.fromkeys(("mean", "sd", "low", "high", "chance"), NUMBER),
    **dict.fromkeys(("reason", "note"), TEXT),
}
"""Columns of `means` with their types."""


def records(found: Iterable[Record]) -> pd.DataFrame:
    """Returns one line per record, in the order of ``found``, with the columns `RECORDS`.

    - ``score`` is the headline ``metric``; ``low`` and ``high`` bound its 95 % interval over the ``examples``.
    - ``steps``, ``tokens``, ``flops_adapt`` and ``seconds`` are the cost of the adaptation. ``flops_evaluate`` is the
      cost of its predictions, ``latency`` the seconds for one example. ``memory`` and ``disk`` are in bytes.
    - ``steps_pretrain``, ``tokens_pretrain``, ``flops_pretrain`` and ``seconds_pretrain`` are the cost of the
      pre-training and of the pre-trainings that it depends on. Other records of the same model share this cost.
    - ``reason`` says why there is no score, and ``command`` repeats the cell.
    """
    return frame([_record_line(one) for one in found], RECORDS)


def means(found: Iterable[Record]) -> pd.DataFrame:
    """Returns one line per model, task and adaptation of ``found``, with the columns `MEANS`: the numbers of the board.

    - ``mean`` and ``sd`` are over ``seeds`` seeds. With several ``pretrainings`` they are over the means of these, and
      ``seeds`` is their number.
    - ``low`` and ``high`` bound the 95 % interval of the mean over new seeds and new examples. For a single seed it is
      the interval over examples.
    - ``variant`` distinguishes rows of the board that are otherwise alike, and ``note`` has the marks of the cell.

    A model that was not run on a task has no line.
    """
    grid = arrange(found)
    pairs = [(row, column, grid.cells.get((row, column))) for row in grid.rows for column in grid.columns]
    return frame([_mean_line(*pair) for pair in pairs if pair[2] is not None], MEANS)


def frame(lines: Sequence[Sequence[Any]], columns: Mapping[str, str]) -> pd.DataFrame:
    """Returns ``lines`` as a frame of the ``columns`` with their types. None, and "" in text columns, is a missing
    value."""
    import pandas as pd  # takes most of a second to import

    series = {}
    for place, (name, kind) in enumerate(columns.items()):
        values = pd.Series([_VALUE[kind](line[place]) for line in lines], dtype="object")
        if kind == TIME:
            values = pd.to_datetime(values, utc=True, format="ISO8601", errors="coerce")
        series[name] = values.astype(kind)
    return pd.DataFrame(series, columns=list(columns))


def _number(value: Any) -> float | None:
    return float(value) if is_number(value) or isinstance(value, float) else None


_VALUE: dict[str, Callable[[Any], Any]] = {
    TEXT: lambda value: str(value) if value else None,
    TIME: lambda value: value or None,
    NUMBER: _number,
    WHOLE: int,
}


def _record_line(record: Record) -> list[Any]:
    row, task, cost, made = record.row, record.task, record.cost, spent_on(record.pretraining or {})
    what = [row["name"], row["label"], row["size"], row["kind"], row["division"], task["name"]]
    how = [record.adaptation["name"], record.seed, record.status, (record.reason or {}).get("text"), task["headline"]]
    score = [*(record.headline[name] for name in ("value", "low", "high")), task.get("examples")]
    seconds = cost.get("seconds")
    spent = [*(cost.get(name) for name in ("parameters", "steps", "tokens")), made.get("flops")]
    spent += [cost.get("flops"), cost.get("flops_evaluate")]
    spent += [seconds.get("total") if isinstance(seconds, Mapping) else None, cost.get("latency_seconds")]
    spent += [cost.get("peak_memory_bytes"), cost.get("disk_bytes")]
    spent += [*(made.get(name) for name in ("steps", "tokens", "seconds")), (record.pretraining or {}).get("seed")]
    return [*what, *how, *score, *spent, record.device, record.key, record.command, record.finished]


def _mean_line(row: Row, column: Column, cell: Cell) -> list[Any]:
    task, summary = column.task, cell.summary
    numbers = [summary.mean, summary.sd, *cell.interval] if cell.ok else [None] * 4
    what = [row.name, row.label, row.size, row.kind, row.division, row.adaptation, row.part]
    what += [task["name"], column.title, task["headline"], task.get("split")]
    several = [cell.drawn] if cell.pretrainings > 1 else []
    reason = cell.blank[1] if cell.blank else None
    counts = [summary.n, cell.pretrainings]
    return [*what, *counts, *numbers, task.get("chance"), reason, "; ".join((*several, *cell.marks))]
