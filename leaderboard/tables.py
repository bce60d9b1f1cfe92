"""The board's tables as pandas frames: pure functions of records, shared by HTML, CSV, Markdown and JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ptmbench.leaderboard.records.record import Record
from ptmbench.leaderboard.scores import agreement as agreements
from ptmbench.leaderboard.scores import centred, external, phenomena
from ptmbench.leaderboard.scores import compression as compressions
from ptmbench.leaderboard.scores import ladder as ladders
from ptmbench.leaderboard.scores import overlap as shared
from ptmbench.leaderboard.scores.arrange import arrange
from ptmbench.leaderboard.scores.benchmarks import BENCHMARKS
from ptmbench.leaderboard.scores.contrast import gap, samples
from ptmbench.leaderboard.scores.costs import COSTS, cost_of
from ptmbench.leaderboard.scores.grid import NO_SEED, NOT_RUN, Cell, Column, Grid, Row
from ptmbench.leaderboard.scores.twins import twin_rows
from ptmbench.leaderboard.stats import Interval, Summary, difference, summarise
from ptmbench.leaderboard.survey import order as survey_orders
from ptmbench.leaderboard.survey import reported as survey
from ptmbench.leaderboard.text import number

if TYPE_CHECKING:
    import pandas as pd

Records = Iterable[Record] | Grid
"""Records, or the grid of them if several tables share one."""


def spread(summary: Summary, signed: bool = False, decimals: int = 1) -> str:
    """Returns "mean ± sd (n)"; without the middle part for a single seed, "" for none."""
    if not summary.n:
        return ""
    deviation = f" ± {number(summary.sd, decimals=decimals)}" if math.isfinite(summary.sd) else ""
    return f"{number(summary.mean, signed, decimals)}{deviation} ({summary.n})"


def shown(cell: Cell | None) -> str:
    """Returns the text of a cell: its score with spread and marks, or the code of the reason for the blank in
    brackets."""
    code = NOT_RUN[0] if cell is None else cell.blank[0] if cell.blank else ""
    several = [cell.drawn] if cell and cell.pretrainings > 1 else []
    return f"[{code}]" if code else "; ".join((spread(cell.summary, decimals=cell.decimals), *several, *cell.marks))


def scores(records: Records) -> pd.DataFrame:
    """Returns models x tasks: "mean ± sd (n)" of the headlines, or the reason code of a blank. The average comes
    first."""
    grid = _grid(records)
    lines = [
        [*_identity(row), spread(grid.macro_summary(row))]
        + [shown(grid.cells.get((row, column))) for column in grid.columns]
        for row in grid.rows
    ]
    return _frame(lines, [*_IDENTITY, "average", *task_titles(grid.columns)], dtype=object)


def cells(records: Records) -> pd.DataFrame:
    """Returns one line per model and task with unrounded numbers, for spreadsheets and other programs."""
    grid = _grid(records)
    lines = [_cell_line(row, column, grid.cells.get((row, column))) for row in grid.rows for column in grid.columns]
    return _frame(lines, [*_IDENTITY, *_CELL])


def macro(records: Records) -> pd.DataFrame:
    """Returns the average over tasks per row with its spread over seeds. For incomplete rows it is blank, with what is
    missing.

    The definition is in ``frame.attrs["definition"]``.
    """
    grid = _grid(records)
    lines = []
    for row in grid.rows:
        missing = [column.title for column in grid.averaged if not _scored(grid, row, column)]
        rank = str(grid.ranks().get(row, ""))
        numbers = _numbers(grid.macro_summary(row), grid.macro_interval(row))
        lines.append([*_identity(row), *numbers, rank, _lacking(missing, numbers) if grid.averaged else ""])
    frame = _frame(lines, [*_IDENTITY, *_SUMMARY, "rank", "missing"])
    frame.attrs["definition"] = grid.definition()
    return frame


def centred_average(records: Records) -> pd.DataFrame:
    """Returns the average over instruments per row, with the chance of each at 0, and its spread over seeds.

    It is empty if there is nothing to centre. The definition is in ``frame.attrs["definition"]``.
    """
    grid, lines = _grid(records), []
    for one in centred.lines(grid):
        numbers = _numbers(one.summary, one.interval)
        lines.append([*_identity(one.row), *numbers, str(one.rank or ""), _lacking(one.missing, numbers)])
    frame = _frame(lines, [*_IDENTITY, *_SUMMARY, "rank", "missing"])
    if lines:
        frame.attrs["definition"] = centred.definition(grid)
    return frame


def benchmarks(records: Records) -> pd.DataFrame:
    """Returns the official scores of the benchmarks whose tasks all have a column, per row with their spread over
    seeds.

    Their definitions are in ``frame.attrs["definition"]``.
    """
    lines, definition = benchmark_lines(_grid(records))
    frame = _frame(lines, ["benchmark", *_IDENTITY, *_SUMMARY, "missing"])
    if definition:
        frame.attrs["definition"] = definition
    return frame


def benchmark_lines(grid: Grid) -> tuple[list[dict[str, Any]], str]:
    shown = [benchmark for benchmark in BENCHMARKS if benchmark.complete(grid)]
    heads = ["benchmark", *_IDENTITY, *_SUMMARY, "missing"]
    lines = []
    for benchmark in shown:
        for row in grid.rows:
            numbers = _numbers(*benchmark.summary(grid, row))
            missing = _lacking(benchmark.missing(grid, row), numbers)
            values = [benchmark.title, *_identity(row), *numbers, missing]
            lines.append(dict(zip(heads, values, strict=True)))
    return lines, " ".join(benchmark.definition for benchmark in shown)


def twins(records: Records) -> pd.DataFrame:
    """Returns the effect of pre-training: the score of each pre-trained row minus the score of the same network with
    random weights.

    It has the mean and sample standard deviation of the differences over seeds, and the t interval of their mean.
    """
    grid = _grid(records)
    lines = []
    for row, twin in twin_rows(grid):
        average = difference(grid.macro(row), grid.macro(twin))
        line = [*_identity(row), *_numbers(average)]
        lines.append(
            line + [spread(twin_difference(grid, row, twin, column), True, column.decimals) for column in grid.columns]
        )
    return _frame(lines, [*_IDENTITY, *_SUMMARY, *task_titles(grid.columns)])


def gains(records: Records) -> pd.DataFrame:
    """Returns one line per pre-trained row with a random twin, and per task or "average": the score minus the score of
    the twin with its 95 % interval over seeds and examples (`leaderboard.scores.contrast.gap`). Numbers are
    unrounded."""
    grid, lines = _grid(records), []
    for column in (None, *grid.columns):
        found = samples(grid, column)
        task = ["average", ""] if column is None else [column.title, column.task["headline"]]
        for row, twin in twin_rows(grid):
            if row in found and twin in found:
                difference = gap(found[row], found[twin])
                values = [found[row].mean, found[twin].mean, difference.value, *difference.interval]
                lines.append([*_identity(row), *task, *values])
    return _frame(lines, [*_IDENTITY, "task", "metric", "mean", "mean of twin", "difference", "low", "high"])


def cost(records: Records) -> pd.DataFrame:
    """Returns the cost of each row: parameters, pre-training, adaptation per cell, and peak memory."""
    rows = _grid(records).rows
    notes = {row: external.note(row) for row in rows if row.division == "external"}
    declared = ["declared"] if notes else []
    lines = [[*_identity(row), *cost_of(row).values(), *([notes.get(row, "")] if notes else [])] for row in rows]
    return _frame(lines, [*_IDENTITY, *COSTS, *declared])


def compression(records: Records) -> pd.DataFrame:
    """Returns one line per task (or "average") for each compressed row and each row that one is compared with:
    retention with its 95 % interval, size, latency, memory and cost. Numbers are unrounded."""
    lines = compressions.table_lines(_grid(records))
    heads = [*_IDENTITY, *(head for head in (lines[0] if lines else {}) if head != "row")]
    return _frame([[*_identity(line.pop("row")), *line.values()] for line in lines], heads)


def ladder(records: Records) -> pd.DataFrame:
    """Returns one line per rung of each ladder of budgets: the score on a task or on the average, or the loss, and the
    gain per doubling of the FLOPs since the rung below."""
    lines = []
    for curve in ladders.curves(_grid(records)):
        gains = [None, *curve.gains]
        for rung, gain in zip(curve.rungs, gains, strict=True):
            since = [gain.value, *gain.interval] if gain else [None, None, None]
            values = [rung.budget, rung.flops, rung.value, *rung.interval, rung.drawn, *since]
            lines.append([*_curve(curve), *values])
    return _frame(lines, [*_CURVE, *_RUNG])


def scaling(records: Records) -> pd.DataFrame:
    """Returns one line per curve of a ladder: its straight line, bend and power law (`leaderboard.scores.ladder.Fit`),
    each with the 95 % interval, or the reason why there is no fit."""
    lines = []
    for curve in ladders.curves(_grid(records)):
        fit, numbers = curve.fit, [None] * 9
        if fit:
            numbers = [fit.slope, *fit.slope_interval, fit.bend, *fit.bend_interval]
            numbers += [fit.exponent, *fit.exponent_interval]
        lines.append([*_curve(curve), len(curve.rungs), *numbers, curve.refusal])
    return _frame(lines, [*_CURVE, *_SCALING])


def crossings(records: Records) -> pd.DataFrame:
    """Returns one line per pair of models and task: the share of draws in which the first is ahead at each common rung,
    where the lines between the rungs cross, and the share of draws in which the order at the first rung is reversed at
    the last."""
    lines = [
        [_numbered(pair.first), _numbered(pair.second), pair.first.measure.title,
         ", ".join(f"{budget}: {share:.3f}" for budget, share in zip(pair.budgets, pair.ahead, strict=True)),
         pair.crossing, pair.crossed]
        for pair in ladders.pairs(ladders.curves(_grid(records)))
    ]  # fmt: skip
    return _frame(lines, ["first", "second", "task", "first ahead", "cross at FLOPs", "order changes"])


def overlap(records: Records) -> pd.DataFrame:
    """Returns the overlap of each task's report split with its training split, and among its own examples, where it was
    counted."""
    lines = [shared.line(column.title, column.task) for column in _grid(records).columns]
    return _frame([line for line in lines if line], shared.HEADS)


def reported(records: Records) -> pd.DataFrame:
    """Returns scores from the papers next to ours, on official data only. They are not comparable: corpus, size and
    split differ."""
    return _frame(reported_lines(_grid(records)), _REPORTED)


def reported_lines(grid: Grid) -> list[dict[str, Any]]:
    by_name: dict[str, list[Column]] = {}
    for column in grid.columns:
        for one in _names(column) if column.official else ():
            by_name.setdefault(one, []).append(column)
    lines = []
    for row in grid.rows:
        if row.kind in ("random", "baseline"):
            continue
        for entry in row.card.get("reported") or ():
            for column in by_name.get(entry["task"].casefold(), ()):
                cell = grid.cells.get((row, column))
                measured, metric = _measured(cell, column, entry["metric"])
                source = [entry.get("split") or "", entry.get("source") or ""]
                ours = [measured or shown(cell), metric, column.task.get("split") or ""]
                values = [*_identity(row), column.title, entry["metric"], entry["value"], *source, *ours]
                lines.append(dict(zip(_REPORTED, values, strict=True)))
    return lines


def blimp(records: Records) -> pd.DataFrame:
    """Returns the accuracy on BLiMP by phenomenon in percent. Figures published by others, with their source, follow
    our rows."""
    blank = [""] * (len(_IDENTITY) - 1)
    found = [
        [*(_identity(line.row) if line.row else [line.name, *blank]), line.task, line.seeds or None, line.overall]
        + [*line.values, line.source]
        for line in phenomena.lines(_grid(records))
    ]
    return _frame(found, [*_IDENTITY, "task", "seeds", "all pairs", *phenomena.PHENOMENA.values(), "source"])


def agreement(records: Records) -> pd.DataFrame:
    """Returns Kendall's tau between the orders of models after pre-trainings with different seeds, one line per task.
    It is empty if too few models share several pre-trainings."""
    grid = _grid(records)
    found = [(column.title, agreements.agreement(grid, column)) for column in grid.columns]
    lines = [[title, one.tau, *one.interval, one.models, one.pretrainings] for title, one in found if one]
    return _frame(lines, ["task", "tau", "low", "high", "models", "pre-trainings"])


def survey_order(records: Records) -> pd.DataFrame:
    """Returns the order of models by their reported GLUE scores and by ours, and Kendall's tau between them, one line
    per measure. It is empty if too few models have both."""
    lines = [
        [one.rows, one.measure, one.tau, *one.interval, len(one.here), ", ".join(one.survey), ", ".join(one.here)]
        for one in survey_orders.orders(_grid(records))
    ]
    return _frame(lines, ["row", "measure", "tau", "low", "high", "models", "order in the survey", "order here"])


def table_2(records: Records) -> pd.DataFrame:
    """Returns the survey's Table 2, reported and measured."""
    return _survey(survey.table_2(_grid(records)), "model", [*survey.TABLE_2, *survey.GLUE, "FT"])


def table_3(records: Records) -> pd.DataFrame:
    """Returns the survey's Table 3 (compressed models), reported and measured."""
    return _survey(survey.table_3(_grid(records)), "method", [*survey.TABLE_3, *survey.GLUE])


def _survey(lines: list[dict[str, Any]], name: str, heads: list[str]) -> pd.DataFrame:
    found = [[line[name].label, line[name].words, *(line[head] for head in heads[1:])] for line in lines]
    return _frame(found, [name, "row", *heads[1:]])


def twin_difference(grid: Grid, row: Row, twin: Row, column: Column) -> Summary:
    one, other = grid.cells.get((row, column)), grid.cells.get((twin, column))
    return difference(one.at(other.values), other.values) if one and other else summarise([])


def task_titles(columns: Sequence[Column]) -> list[str]:
    """Returns the column heads. If two tasks share a title, the key of the column is added."""
    titles = [column.title for column in columns]
    return [
        title if titles.count(title) == 1 else f"{title} [{column.key}]"
        for title, column in zip(titles, columns, strict=True)
    ]


_IDENTITY = ["model", "size", "kind", "division", "adaptation", "variant"]
_SUMMARY = ["seeds", "mean", "sd", "low", "high"]
_CELL = ["task", "version", "split", "metric", *_SUMMARY, "chance", "note", "reason code", "reason", "command"]
_CELL += ["share in training", "share in corpus", "clean mean", "interval over"]
_REPORTED = [*_IDENTITY, "task", "metric", "reported", "reported split", "source", "measured", "measured metric"]
_REPORTED += ["measured split"]
_CURVE = ["model", "words", "task"]
_RUNG = ["budget", "FLOPs", "score", "low", "high", "over", "gain per doubling", "gain low", "gain high"]
_SCALING = ["rungs", "per doubling", "per doubling low", "per doubling high", "bend", "bend low", "bend high"]
_SCALING += ["exponent", "exponent low", "exponent high", "note"]


def _frame(lines: Sequence[Any], heads: Sequence[str], **more: Any) -> pd.DataFrame:
    import pandas as pd  # imported here: the page needs no frame, and pandas takes most of a second to import

    return pd.DataFrame(lines, columns=list(heads), **more)


def _grid(records: Records) -> Grid:
    return records if isinstance(records, Grid) else arrange(records)


def _curve(curve: ladders.LadderCurve) -> list[str]:
    return [_numbered(curve), curve.ladder.words, curve.measure.title]


def _numbered(curve: ladders.LadderCurve) -> str:
    """Returns the model of ``curve`` with its number in the pictures, since models of several sizes share a label."""
    return f"{curve.ladder.number} {curve.ladder.label}"


def _identity(row: Row) -> list[str]:
    return [row.label, row.size, row.kind, row.division, row.adaptation, row.part]


def _numbers(summary: Summary, interval: Interval | None = None) -> list[float | int | None]:
    if not summary.n:
        return [0, None, None, None, None]
    return [summary.n, summary.mean, summary.sd, *(interval or summary.interval)]


def _lacking(missing: Sequence[str], numbers: Sequence[Any]) -> str:
    """Returns why there is no average: titles of tasks without a score, or that no seed has them all; "" if there is
    one."""
    return ", ".join(missing) or ("" if numbers[0] else NO_SEED)


def _cell_line(row: Row, column: Column, cell: Cell | None) -> list[Any]:
    task = column.task
    code, text = NOT_RUN if cell is None else cell.blank or ("", "")
    numbers = [0, None, None, None, None]
    if cell and cell.ok:
        numbers = [cell.summary.n, cell.summary.mean, cell.summary.sd, *cell.interval]
    note = "; ".join((*([cell.drawn] if cell.pretrainings > 1 else []), *cell.marks)) if cell else ""
    command = " ; ".join(cell.commands) if cell else ""
    ok = cell.ok if cell else ()
    own = ok[0].task if ok else {}
    seen = [shared.share_of(task), shared.share_of(own, "corpus", "covered"), shared.clean_mean(ok)]
    place = [column.title, task["version"], task.get("split") or "", task["headline"]]
    return [
        *_identity(row),
        *place,
        *numbers,
        task.get("chance"),
        note,
        code,
        text,
        command,
        *seen,
        cell.covers if cell else "",
    ]


def _scored(grid: Grid, row: Row, column: Column) -> bool:
    cell = grid.cells.get((row, column))
    return bool(cell and cell.ok)


def _measured(cell: Cell | None, column: Column, metric: str) -> tuple[str, str]:
    """Returns our score in the paper's metric, or the headline if we have no metric of that name, and the metric's
    name."""
    if cell is None or not cell.ok:
        return "", ""
    name = metric if all(metric in record.scores for record in cell.ok) else "headline"
    values = [float(record.scores[name]["value"]) for record in cell.ok]
    return spread(summarise(values), decimals=column.decimals), column.task["headline"] if name == "headline" else name


def _names(column: Column) -> set[str]:
    return {column.task["name"].casefold(), column.task["title"].casefold()}
