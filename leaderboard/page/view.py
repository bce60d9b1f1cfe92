"""Computes the values that the page's template lays out."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from ptmbench.leaderboard import tables
from ptmbench.leaderboard.page import compression as compression_page
from ptmbench.leaderboard.page import examples, lessons, sheets, story
from ptmbench.leaderboard.page import ladder as ladder_page
from ptmbench.leaderboard.page import survey as survey_tables
from ptmbench.leaderboard.page.anchors import column_anchors, row_anchors
from ptmbench.leaderboard.page.cells import Places, places, score
from ptmbench.leaderboard.page.pictures import with_interval
from ptmbench.leaderboard.records.record import Record
from ptmbench.leaderboard.scores import agreement, centred, external, phenomena
from ptmbench.leaderboard.scores.contrast import stars
from ptmbench.leaderboard.scores.costs import adaptation_tuning_of, cost_of, tuning_of
from ptmbench.leaderboard.scores.grid import NO_SEED, Column, Grid, Row
from ptmbench.leaderboard.scores.ranks import separable
from ptmbench.leaderboard.stats import Interval, Summary, by_seed, difference, redrawable
from ptmbench.leaderboard.survey import order as survey_order
from ptmbench.leaderboard.survey import reported as survey
from ptmbench.leaderboard.text import clean, duration, number, quantity

_FILTERS = {"representation": "Representation", "architecture": "Architecture", "objectives": "Objective"}
_FILTERS |= {"extensions": "Extension", "size": "Size", "division": "Division", "kind": "Weights"}
_FILTERS |= {"adaptation": "Adaptation", "corpus": "Corpus", "tuning": "Tuning"}
_PLOT = 200  # width of an interval plot in its own units


def board(
    grid: Grid,
    records: Sequence[Record],
    scripts: Mapping[str, str],
    catalogue: lessons.Catalogue | None = None,
    past: Mapping[tuple[Row, Column], str] | None = None,
    home: str = "",
    boards: lessons.Boards | None = None,
) -> dict[str, Any]:
    """Returns everything on the page as plain values. ``scripts`` are the files of examples, {seal: path}, and ``past``
    is the markup of the histories of cells (`leaderboard.page.history`). The ``catalogue`` (`leaderboard.page.lessons`)
    describes models beyond their records. ``home`` is the page of its lessons and objectives, "" for this page.
    ``boards`` are the other pages with rows of a model."""
    past, boards, catalogue = past or {}, boards or {}, catalogue or {}
    scale = _scale(grid)
    costs = {row: cost_of(row) for row in grid.rows}
    facts = _facts(grid, records)
    ids, column_ids = row_anchors(grid.rows), column_anchors(grid.columns)
    starred = {column: stars(grid, column) for column in grid.columns}
    cells = [
        [
            places(grid, row, column, (ids[row], column_ids[column]), facts["drawn"], row in starred[column])
            for column in grid.columns
        ]
        for row in grid.rows
    ]
    scored = [
        [bool((cell := grid.cells.get((row, column))) and cell.ok) for column in grid.columns] for row in grid.rows
    ]
    filled = [any(line[j] for line in scored) for j in range(len(grid.columns))]
    rows = [
        _row(grid, row, costs[row], scale, ids[row])
        | {"sheet": _sheet(grid, row, cells[i], past), "scored": any(scored[i])}
        | {"scores": Markup("".join(cell.score for cell, one in zip(cells[i], filled, strict=True) if one))}
        for i, row in enumerate(grid.rows)
    ]
    rows = [external.marked(row, shown) for row, shown in zip(grid.rows, rows, strict=True)]
    models = sheets.models(grid, rows, catalogue, home)
    links = sheets.links_of(models, catalogue, home)
    columns = [
        sheets.column(grid, column, j)
        | {"id": column_ids[column], "key": column_ids[column].removeprefix("task-"), "scored": filled[j]}
        | {"lines": Markup("".join(line[j].task for line in cells))}
        for j, column in enumerate(grid.columns)
    ]
    tale, shrunk = story.section(grid, costs, ids), compression_page.section(grid, ids)
    return {
        "opening": compression_page.opening(tale["headline"], shrunk),
        "story": tale,
        "columns": columns,
        "rows": rows,
        "blank": _blank(grid, rows, columns),
        "twins": _twins(grid, columns),
        "models": [sheet | {"boards": boards.get(sheet["model"], ())} for sheet in models],
        "survey": survey_tables.tables(grid, catalogue, links, home, boards),
        "objectives": [] if home else lessons.objectives(catalogue, links),
        "home": home,
        "figure": lessons.figure(catalogue, links, [*boards, *(one["model"] for one in models if one["rows"])]),
        "boards": boards,
        "planes": sheets.planes(grid, costs),
        "costs": sheets.costs(rows),
        "ladder": ladder_page.section(grid),
        "compression": shrunk,
        "table2": [_named(line, grid, rows) for line in survey.table_2(grid)],
        "table3": [_named(line, grid, rows) for line in survey.table_3(grid)],
        "compressed": survey.compressed_glue().definition,
        "reported": tables.reported_lines(grid),
        "filters": _filters(rows),
        "notes": grid.notes,
        "definition": grid.definition() if grid.averaged else "",
        "phenomena": _phenomena(grid, ids),
        "agreement": _agreement(grid),
        "orders": _orders(grid),
        "benchmarks": _benchmarks(grid),
        "centred": _centred(grid),
        "scale": [number(bound) for bound in scale],
        "facts": facts,
        "ranking": _ranking(grid),
        "plot": _PLOT,
        "data": _data(grid, rows, scripts),
    }


def _sheet(grid: Grid, row: Row, places: Sequence[Places], past: Mapping[tuple[Row, Column], str]) -> Markup:
    """Returns the lines of a row's sheet, each cell followed by its history."""
    pairs = zip(grid.columns, places, strict=True)
    return Markup("".join(cell.sheet + past.get((row, column), "") for column, cell in pairs))


def _blank(grid: Grid, rows: Sequence[dict[str, Any]], columns: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns the rows and tasks without any score, which the table leaves out, and the reason codes of each row."""
    left = []
    for row, shown in zip(grid.rows, rows, strict=True):
        if not shown["scored"]:
            codes = {cell.blank[0] for column in grid.columns if (cell := grid.cells.get((row, column))) and cell.blank}
            left.append({"title": row.title, "codes": sorted(codes)})
    tasks = [column["title"] for column in columns if not column["scored"]]
    counts = [f"{len(one)} {word}{'s' * (len(one) > 1)}" for one, word in ((left, "row"), (tasks, "task")) if one]
    return {"rows": left, "tasks": tasks, "words": " and ".join(counts)}


def _data(grid: Grid, rows: Sequence[dict[str, Any]], scripts: Mapping[str, str]) -> dict[str, Any]:
    """Returns the data for the script: scores by seed, and the files of examples. The script reads texts from the
    page."""
    from scipy.special import stdtrit

    seeds: list[list[int]] = []
    cells = []
    several = any(cell.pretrainings > 1 for cell in grid.cells.values())
    for row in grid.rows:
        line: list[Any] = []
        for column in grid.columns:
            cell = grid.cells.get((row, column))
            if cell is None or not cell.ok:
                line.append(0)
                continue
            found = by_seed(cell.values)
            ran = list(found)
            if ran not in seeds:
                seeds.append(ran)
            values = [round(value, column.decimals + 2) if math.isfinite(value) else None for value in found.values()]
            first = {record.seed: record for record in reversed(cell.ok)}  # of the first pre-training
            files = [scripts.get(first[seed].seal, "") for seed in ran]
            entry: list[Any] = [seeds.index(ran), values, files if any(files) else 0]
            if cell.pretrainings > 1:  # variance of the mean over pre-trainings, and its degrees of freedom
                spread = cell.summary.sd**2 / cell.summary.n
                entry.append([round(spread, 6) if math.isfinite(spread) else None, cell.summary.n - 1])
            elif several and redrawable(cell.values):
                entry.append(0)
            line.append(entry if len(entry) > 3 or entry[2] else entry[:2])
        cells.append(line)
    columns = [
        {
            "title": one.title,
            "key": anchor.removeprefix("task-"),
            "name": one.task["name"],
            "metric": one.task["headline"],
            "form": one.task.get("form") or "",
            "higher": one.task["higher_is_better"],
            "decimals": one.decimals,
            **({"texts": file} if (file := scripts.get(examples.text_key(one.task))) else {}),
        }
        for one, anchor in column_anchors(grid.columns).items()
    ]
    named = [{"id": row["id"], "title": clean(row["title"])} for row in rows]
    t = [round(float(stdtrit(freedom, 0.975)), 4) for freedom in range(1, 41)]
    return {"columns": columns, "rows": named, "cells": cells, "seeds": seeds, "t": t}


def _named(line: dict[str, Any], grid: Grid, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns a line of the survey's tables with its row's label, and numbers as text."""
    row = line.get("model") or line.get("method")
    place = grid.rows.index(row)
    measured = line["GLUE measured"]
    known = math.isfinite(line["GLUE low"])
    return line | {
        "label": row.label,
        "words": row.words,
        "row": rows[place]["id"],
        "here": quantity(line["parameters here"]),
        "measured": measured if isinstance(measured, str) else number(measured),
        "interval": f"{number(line['GLUE low'])} to {number(line['GLUE high'])}" if known else "",
    }


def _ranking(grid: Grid) -> dict[str, int]:
    """Counts the neighbours in the ranking by average that are certainly different."""
    different, pairs = separable(list(grid.rank_intervals().values()))
    return {"different": different, "pairs": pairs, "rows": len(grid.ranks())}


def _centred(grid: Grid) -> dict[str, Any]:
    rows = [
        {
            "label": one.row.label,
            "words": one.row.words,
            "rank": one.rank,
            "score": score(one.summary, one.interval),
            "missing": f"no {', '.join(one.missing)}" if one.missing else "" if one.summary.n else NO_SEED,
        }
        for one in centred.lines(grid)
    ]
    return {"rows": rows, "definition": centred.definition(grid) if rows else ""}


def _phenomena(grid: Grid, ids: Mapping[Row, str]) -> dict[str, Any]:
    """Returns the lines of `leaderboard.scores.phenomena`; {} if there are none."""
    lines = [
        {
            "id": ids[one.row] if one.row else "",
            "name": one.name,
            "words": f"{one.row.words} · {one.task}" if one.row else "published",
            "overall": number(one.overall),
            "shares": ["" if value is None else number(value) for value in one.values],
            "source": one.source,
        }
        for one in phenomena.lines(grid)
    ]
    return {"titles": list(phenomena.PHENOMENA.values()), "lines": lines} if lines else {}


def _agreement(grid: Grid) -> list[dict[str, Any]]:
    """Returns the lines of `leaderboard.scores.agreement`."""
    found = [(column, agreement.agreement(grid, column)) for column in grid.columns]
    return [
        {
            "task": column.title,
            "tau": with_interval(one.tau, one.interval, 2),
            "models": one.models,
            "pretrainings": one.pretrainings,
        }
        for column, one in found
        if one
    ]


def _orders(grid: Grid) -> list[dict[str, Any]]:
    """Returns the lines of `leaderboard.survey.order`."""
    return [one._asdict() | {"tau": with_interval(one.tau, one.interval, 2)} for one in survey_order.orders(grid)]


def _benchmarks(grid: Grid) -> dict[str, Any]:
    lines, definition = tables.benchmark_lines(grid)
    rows = [
        {
            "benchmark": one["benchmark"],
            "model": " ".join(part for part in (one["model"], one["size"], one["kind"], one["adaptation"]) if part),
            "seeds": one["seeds"],
            "mean": number(one["mean"]) if one["seeds"] else "",
            "sd": number(one["sd"]) if one["seeds"] > 1 else "",
            "missing": one["missing"],
        }
        for one in lines
    ]
    return {"rows": rows, "definition": definition}


def _row(grid: Grid, row: Row, spent: Mapping[str, Any], scale: Interval, anchor: str) -> dict[str, Any]:
    macro, interval = grid.macro_summary(row), grid.macro_interval(row)
    scored = sum(1 for column in grid.averaged if (cell := grid.cells.get((row, column))) and cell.ok)
    rank = grid.ranks().get(row)
    return {
        "id": anchor,
        "name": row.name,
        "label": row.label,
        "words": row.words,
        "title": row.title,
        "filters": {name: _axis(row, name) for name in _FILTERS},
        "macro": score(macro, interval),
        "rank": rank,
        "missing": _missing(scored, len(grid.averaged)) if grid.averaged and not macro.n else "",
        "plot": _plot(macro, interval, scale),
        "cost": {
            "parameters": (spent["parameters"], quantity(spent["parameters"])),
            "embedding": (spent["embedding parameters"], quantity(spent["embedding parameters"])),
            "tokens": (spent["pre-training tokens"], quantity(spent["pre-training tokens"])),
            "flops": (spent["pre-training FLOPs"], quantity(spent["pre-training FLOPs"], "FLOP")),
            "seconds": (spent["pre-training seconds"], duration(spent["pre-training seconds"])),
            "cell flops": (spent["FLOPs per cell"], quantity(spent["FLOPs per cell"], "FLOP")),
            "cell seconds": (spent["seconds per cell"], duration(spent["seconds per cell"])),
            "all seconds": (spent["seconds of all cells"], duration(spent["seconds of all cells"])),
            "memory": (spent["peak memory MiB"], quantity(spent["peak memory MiB"], "MiB")),
            "disk": (spent["disk MiB"], quantity(spent["disk MiB"], "MiB")),
            "compressed": (spent["compressed MiB"], quantity(spent["compressed MiB"], "MiB")),
            "bits": (spent["bits per weight"], quantity(spent["bits per weight"])),
            "zeros": (spent["zero weights"], _percent(spent["zero weights"])),
            "device": spent["device"],
        },
    }


def _percent(share: float | None) -> str:
    """Returns a share in percent, with one decimal."""
    return "" if share is None else f"{100 * share:.1f} %"


def _missing(scored: int, tasks: int) -> str:
    return f"{scored} of {tasks} tasks" if scored < tasks else NO_SEED


def _twins(grid: Grid, columns: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns the rows with a random twin, and the ``columns`` with a number in one of these rows."""
    pairs = tables.twin_rows(grid)
    found = [[tables.twin_difference(grid, row, twin, column) for column in grid.columns] for row, twin in pairs]
    filled = [j for j in range(len(columns)) if any(line[j].n for line in found)]
    rows = [
        {
            "label": row.label,
            "words": row.words,
            "average": score(difference(grid.macro(row), grid.macro(twin)), signed=True),
            "cells": [score(line[j], signed=True, decimals=grid.columns[j].decimals) for j in filled],
        }
        for (row, twin), line in zip(pairs, found, strict=True)
    ]
    averages = any(row["average"]["n"] for row in rows)
    return {"rows": rows, "columns": [columns[j] for j in filled], "averages": averages}


def _axis(row: Row, name: str) -> list[str]:
    """Returns the values of one filter for one row. A model can have several objectives and extensions."""
    if name in ("size", "division", "adaptation"):
        values: Any = getattr(row, name)
    elif name == "kind":
        values = {"pretrained": "pre-trained", "random": "random weights"}.get(row.kind, row.kind)
    elif name == "corpus":
        values = [record.pretraining.get("corpus") for record in row.records if record.pretraining]
    elif name == "tuning":
        values = [tuning_of(record.pretraining) for record in row.records if record.pretraining]
        values += [adaptation_tuning_of({"tuning": row.tuning})] if row.tuning else []
    else:
        values = row.card.get(name)
    several = values if isinstance(values, (list, tuple)) else [values]
    return sorted({clean(value) for value in several if value})


def _filters(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the filters with at least two values."""
    rows = list(rows)
    found = {name: sorted({value for row in rows for value in row["filters"][name]}) for name in _FILTERS}
    return [
        {"name": name, "title": _FILTERS[name], "values": values} for name, values in found.items() if len(values) > 1
    ]


def _scale(grid: Grid) -> Interval:
    """Returns the axis of the interval plots: all averages and their intervals, rounded outwards to tens."""
    found = ((grid.macro_summary(row).mean, *grid.macro_interval(row)) for row in grid.rows)
    known = [x for one in found for x in one if math.isfinite(x)]
    bounds = [min(known), max(known)] if known else [0.0, 100.0]
    low, high = 10 * math.floor(bounds[0] / 10), 10 * math.ceil(bounds[1] / 10)
    return Interval(low, high if high > low else low + 10)


def _plot(summary: Summary, interval: Interval, scale: Interval) -> dict[str, str]:
    def at(value: float) -> str:
        return f"{_PLOT * (value - scale.low) / (scale.high - scale.low):.1f}"

    if not math.isfinite(summary.mean):
        return {}
    plot = {"mean": at(summary.mean)}
    if math.isfinite(interval.low):
        plot |= {"low": at(interval.low), "high": at(interval.high)}
    return plot


def _facts(grid: Grid, records: Sequence[Record]) -> dict[str, Any]:
    days = sorted(record.finished[:10] for record in records if record.finished)
    statuses = [record.status for record in records]
    counts = Counter(cell.drawn for cell in grid.cells.values() if cell.ok)
    return {
        "averaged": len(grid.averaged),
        "drawn": max(counts, key=lambda drawn: (counts[drawn], drawn), default=""),
        "rows": len(grid.rows),
        "tasks": sum(not column.task.get("condition") for column in grid.columns),
        "records": len(records),
        "bad": {status.replace("_", " "): statuses.count(status) for status in sorted(set(statuses) - {"ok"})},
        "days": "" if not days else days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}",
        "commits": sorted({record.commit[:10] for record in records if record.commit}),
        "devices": sorted({record.device for record in records if record.device}),
        "versions": sorted({f"{name} {version}" for one in _distinct(records) for name, version in one.items()}),
    }


def _distinct(records: Sequence[Record]) -> list[Mapping[str, str]]:
    """Returns each set of versions once, since thousands of records share one."""
    return list({id(record.versions): record.versions for record in records}.values())
