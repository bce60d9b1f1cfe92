"""What the page's template needs, worked out beforehand: the template only lays it out."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from leaderboard import tables
from leaderboard.grid import NOT_RUN, Cell, Column, Grid, Row
from leaderboard.record import Record
from leaderboard.stats import Interval, Summary, differences, summarise
from leaderboard.text import clean

_AXES = ("representation", "architecture", "objectives", "extensions")
_FILTERS = {"representation": "Representation", "architecture": "Architecture", "objectives": "Objective"}
_FILTERS |= {"extensions": "Extension", "size": "Size", "division": "Division", "kind": "Weights"}
_FILTERS |= {"adaptation": "Adaptation", "corpus": "Corpus"}
_PLOT = 200  # width of an interval plot in its own units
_UNITS = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def board(grid: Grid, records: Sequence[Record]) -> dict[str, Any]:
    """Everything on the page, as plain values."""
    leaders = {column: grid.leaders(column) for column in grid.columns}
    scale = _scale(grid)
    rows = [_row(grid, row, leaders, scale, number) for number, row in enumerate(grid.rows)]
    return {
        "columns": [_column(column) for column in grid.columns],
        "rows": rows,
        "twins": [_twin(grid, row, twin) for row, twin in tables.twin_rows(grid)],
        "cards": _cards(grid),
        "reported": tables.reported(grid).to_dict(orient="records"),
        "filters": _filters(rows),
        "notes": grid.notes,
        "definition": grid.definition() if grid.averaged else "",
        "benchmarks": _benchmarks(grid),
        "scale": [tables.number(bound) for bound in scale],
        "facts": _facts(grid, records),
        "plot": _PLOT,
    }


def _benchmarks(grid: Grid) -> dict[str, Any]:
    frame = tables.benchmarks(grid)
    rows = [
        {
            "benchmark": one["benchmark"],
            "model": " ".join(part for part in (one["model"], one["size"], one["kind"], one["adaptation"]) if part),
            "seeds": one["seeds"],
            "mean": tables.number(one["mean"]) if one["seeds"] else "",
            "sd": tables.number(one["sd"]) if one["seeds"] > 1 else "",
            "missing": one["missing"],
        }
        for one in frame.to_dict(orient="records")
    ]
    return {"rows": rows, "definition": frame.attrs.get("definition", "")}


def quantity(value: float | None, unit: str = "") -> str:
    """Three digits and a prefix: 11.2 M, 3.4 PFLOP."""
    if value is None:
        return ""
    for size, prefix in _UNITS:
        if abs(value) >= size:
            return f"{value / size:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}".strip()


def duration(seconds: float | None) -> str:
    """Seconds as people say them: 8.1 s, 3 min 20 s, 2 h 5 min."""
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _column(column: Column) -> dict[str, Any]:
    task = column.task
    return {
        "title": column.title,
        "head": task["title"],
        "apart": [part for part in ("" if column.official else task["source"], *column.part.split(", ")) if part],
        "name": task["name"],
        "metric": task["headline"],
        "arrow": "↑" if task["higher_is_better"] else "↓",
        "better": "higher is better" if task["higher_is_better"] else "lower is better",
        "form": str(task.get("form") or "").replace("_", " "),
        "source": task.get("source") or "",
        "split": task.get("split") or "",
        "examples": task.get("examples"),
        "chance": tables.number(task.get("chance")),
        "version": task["version"],
        "data": (task["data_sha256"] or "")[:12],
        "licence": task.get("licence") or "",
    }


def _row(grid: Grid, row: Row, leaders: dict[Column, set[Row]], scale: Interval, number: int) -> dict[str, Any]:
    macro = summarise(list(grid.macro(row).values()))
    scored = sum(1 for column in grid.averaged if (cell := grid.cells.get((row, column))) and cell.ok)
    spent = tables.cost_of(row)
    return {
        "id": f"r{number}",
        "label": row.label,
        "words": row.words,
        "title": row.title,
        "filters": {name: _axis(row, name) for name in _FILTERS},
        "macro": _score(macro),
        "missing": f"{scored} of {len(grid.averaged)} tasks" if grid.averaged and not macro.n else "",
        "plot": _plot(macro, scale),
        "cells": [
            _cell(grid.cells.get((row, column)), column, row in leaders[column], f"c{number}-{i}")
            for i, column in enumerate(grid.columns)
        ],
        "cost": {
            "parameters": (spent["parameters"], quantity(spent["parameters"])),
            "embedding": (spent["embedding parameters"], quantity(spent["embedding parameters"])),
            "tokens": (spent["pre-training tokens"], quantity(spent["pre-training tokens"])),
            "flops": (spent["pre-training FLOPs"], quantity(spent["pre-training FLOPs"], "FLOP")),
            "seconds": (spent["pre-training seconds"], duration(spent["pre-training seconds"])),
            "cell flops": (spent["FLOPs per cell"], quantity(spent["FLOPs per cell"], "FLOP")),
            "cell seconds": (spent["seconds per cell"], duration(spent["seconds per cell"])),
            "all seconds": (spent["seconds of all cells"], duration(spent["seconds of all cells"])),
            "memory": (spent["peak memory MiB"], quantity(spent["peak memory MiB"], "MiB").replace("k", "1000 ")),
            "device": spent["device"],
        },
    }


def _cell(cell: Cell | None, column: Column, leads: bool, anchor: str) -> dict[str, Any]:
    code, sentence = NOT_RUN if cell is None else cell.blank or ("", "")
    status = "missing" if cell is None else "ok" if cell.ok else cell.records[0].status
    records = cell.records if cell else ()
    return {
        "id": anchor,
        "task": column.title,
        "metric": column.task["headline"],
        "status": status,
        "code": code,
        "sentence": sentence,
        "score": _score(cell.summary, cell.interval) if cell and cell.ok else _score(summarise([])),
        "leads": leads,
        "marks": cell.marks if cell else (),
        "seeds": [_seed(record) for record in records],
        "commands": cell.commands if cell else (),
    }


def _seed(record: Record) -> str:
    if record.status == "ok":
        return f"seed {record.seed}: {record.headline['value']:.2f}"
    return f"seed {record.seed}: {record.status.replace('_', ' ')}, {record.reason['text']}"


def _score(summary: Summary, interval: Interval | None = None, signed: bool = False) -> dict[str, Any]:
    low, high = interval or summary.interval
    known = math.isfinite(low) and math.isfinite(high)
    return {
        "n": summary.n,
        "mean": tables.number(summary.mean, signed) if summary.n else "",
        "sd": tables.number(summary.sd) if math.isfinite(summary.sd) else "",
        "interval": f"{tables.number(low, signed)} to {tables.number(high, signed)}" if known else "",
        "sort": repr(float(summary.mean)) if math.isfinite(summary.mean) else "",
        "apart": known and (low > 0 or high < 0),
    }


def _twin(grid: Grid, row: Row, twin: Row) -> dict[str, Any]:
    average = differences(grid.macro(row), grid.macro(twin))
    parts = [tables.twin_difference(grid, row, twin, column) for column in grid.columns]
    return {
        "label": row.label,
        "words": row.words,
        "average": _score(average, signed=True),
        "cells": [_score(part, signed=True) for part in parts],
    }


def _cards(grid: Grid) -> list[dict[str, Any]]:
    """One card per model, with the rows it stands for."""
    cards: dict[str, dict[str, Any]] = {}
    for row in grid.rows:
        if row.card and row.kind != "random" and row.name not in cards:
            words = {name: _words(row.card.get(name)) for name in (*_AXES, "title", "citation", "year", "loss")}
            words |= {name: _words(row.card.get(name)) for name in ("tokenizer", "corpus", "parameters")}
            reported = [
                f"{one['task']} {one['value']} {one['metric']} ({one.get('split')})"
                for one in row.card.get("reported") or ()
            ]
            cards[row.name] = words | {"name": row.name, "reported": "; ".join(reported)}
    return [cards[name] for name in sorted(cards)]


def _words(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else "" if value is None else str(value)


def _axis(row: Row, name: str) -> list[str]:
    """The values of one filter for one row; a model can have several objectives and extensions."""
    if name in ("size", "division", "adaptation"):
        values: Any = getattr(row, name)
    elif name == "kind":
        values = {"pretrained": "pre-trained", "random": "random weights"}.get(row.kind, row.kind)
    elif name == "corpus":
        values = [record.pretraining.get("corpus") for record in row.records if record.pretraining]
    else:
        values = row.card.get(name)
    several = values if isinstance(values, (list, tuple)) else [values]
    return sorted({clean(value) for value in several if value})


def _filters(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The filters that have something to choose between."""
    rows = list(rows)
    found = {name: sorted({value for row in rows for value in row["filters"][name]}) for name in _FILTERS}
    return [
        {"name": name, "title": _FILTERS[name], "values": values} for name, values in found.items() if len(values) > 1
    ]


def _scale(grid: Grid) -> Interval:
    """Common axis of the interval plots: all averages and their intervals, rounded outwards to tens."""
    bounds = [0.0, 100.0]
    summaries = [summarise(list(grid.macro(row).values())) for row in grid.rows]
    known = [x for one in summaries for x in (one.mean, *one.interval) if math.isfinite(x)]
    bounds = [min(known), max(known)] if known else bounds
    low, high = 10 * math.floor(bounds[0] / 10), 10 * math.ceil(bounds[1] / 10)
    return Interval(low, high if high > low else low + 10)


def _plot(summary: Summary, scale: Interval) -> dict[str, str]:
    def at(value: float) -> str:
        return f"{_PLOT * (value - scale.low) / (scale.high - scale.low):.1f}"

    if not math.isfinite(summary.mean):
        return {}
    plot = {"mean": at(summary.mean)}
    if math.isfinite(summary.interval.low):
        plot |= {"low": at(summary.interval.low), "high": at(summary.interval.high)}
    return plot


def _facts(grid: Grid, records: Sequence[Record]) -> dict[str, Any]:
    days = sorted(record.finished[:10] for record in records if record.finished)
    statuses = [record.status for record in records]
    counts = Counter(cell.summary.n for cell in grid.cells.values() if cell.ok)
    return {
        "averaged": len(grid.averaged),
        "seeds": max(counts, key=lambda n: (counts[n], n), default=1),
        "rows": len(grid.rows),
        "tasks": len(grid.columns),
        "records": len(records),
        "bad": {status.replace("_", " "): statuses.count(status) for status in sorted(set(statuses) - {"ok"})},
        "days": "" if not days else days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}",
        "commits": sorted({record.commit[:10] for record in records if record.commit}),
        "devices": sorted({record.device for record in records if record.device}),
        "versions": sorted({f"{name} {version}" for record in records for name, version in record.versions.items()}),
    }
