"""Exports scores for other programs: LaTeX tables, Every Eval Ever records, Hugging Face `.eval_results`.

Every Eval Ever (github.com/evaleval/every_eval_ever, eval.schema.json 0.2.1) has one file per evaluated model. Hugging
Face reads `.eval_results/*.yaml` in a model's repository (huggingface.co/docs/hub/eval-results). It lists only data
sets that are registered there as benchmarks, under their own names, so the ids here have to be adapted. Both formats
are written from cells: every value has its seeds, its interval and the command behind it.
"""

import datetime
import hashlib
import json
import math
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ptmbench.leaderboard.records.record import slug
from ptmbench.leaderboard.scores import overlap
from ptmbench.leaderboard.scores.grid import Cell, Column, Grid, Row
from ptmbench.leaderboard.text import clean, latex_cell, number

if TYPE_CHECKING:
    import pandas as pd

_EEE = "0.2.1"
_LIBRARY = "ptmbench"
_RELATIONSHIPS = {"published": "third_party", "external": "other"}
"""Relationship of evaluator and model by division. The maker of an external system is not known."""


def to_latex(frame: "pd.DataFrame", caption: str) -> str:
    """Returns a booktabs table with words left and numbers right. It needs only ``\\\\usepackage{booktabs}``."""
    numeric = [all(not isinstance(value, str) for value in frame[name]) for name in frame.columns]
    lines = [
        f"% {clean(caption)}",
        f"\\begin{{tabular}}{{{''.join('r' if one else 'l' for one in numeric)}}}",
        "\\toprule",
        " & ".join(latex_cell(name) for name in frame.columns) + r" \\",
        "\\midrule",
    ]
    lines += [" & ".join(_latex(value) for value in values) + r" \\" for values in frame.itertuples(index=False)]
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"]) + "\n"


def every_eval_ever(grid: Grid) -> list[dict[str, Any]]:
    """Returns one evaluation per row, with a result for every cell that has a score. Blank cells are left out."""
    return [one for row in grid.rows if (one := _evaluation(grid, row))["evaluation_results"]]


def eval_results(grid: Grid) -> dict[str, str]:
    """Returns {path below a model's repository: YAML}: one file per row, for official data only.

    The text is JSON, which is also YAML, so that no name can break the format.
    """
    files = {}
    for row in grid.rows:
        entries = [_entry(row, column, cell) for column, cell in _scored(grid, row) if column.official]
        if entries:
            files[f"{_name(row)}/.eval_results/{_LIBRARY}.yaml"] = _dumps(entries)
    return files


def _evaluation(grid: Grid, row: Row) -> dict[str, Any]:
    latest = max((record.finished for record in row.records), default="")
    results = [_result(column, cell) for column, cell in _scored(grid, row)]
    return {
        "schema_version": _EEE,
        "evaluation_id": f"{_LIBRARY}/{_name(row)}/{_epoch(latest)}",
        "evaluation_timestamp": clean(latest),
        "retrieved_timestamp": _epoch(latest),
        "source_metadata": {
            "source_name": _LIBRARY,
            "source_type": "evaluation_run",
            "source_organization_name": "unknown",
            "evaluator_relationship": _RELATIONSHIPS.get(row.division, "first_party"),
        },
        "eval_library": {
            "name": _LIBRARY,
            "version": clean(next((record.versions.get(_LIBRARY, "unknown") for record in row.records), "unknown")),
        },
        "model_info": {
            "name": clean(row.title),
            "id": f"{_LIBRARY}/{_name(row)}",
            "additional_details": {
                name: clean(value)
                for name, value in (
                    ("size", row.size),
                    ("weights", row.kind),
                    ("division", row.division),
                    ("adaptation", row.adaptation),
                    ("citation", row.card.get("citation") or ""),
                )
            },
        },
        "evaluation_results": results,
    }


def _result(column: Column, cell: Cell) -> dict[str, Any]:
    low, high = cell.interval
    uncertainty: dict[str, Any] = {}
    if isinstance(examples := column.task.get("examples"), int):
        uncertainty["num_samples"] = examples
    if math.isfinite(low) and math.isfinite(high):
        method = f"over {cell.covers}"
        uncertainty["confidence_interval"] = {"lower": low, "upper": high, "confidence_level": 0.95, "method": method}
    return {
        "evaluation_name": clean(column.title),
        "source_data": {
            "dataset_name": clean(column.task["title"]),
            "source_type": "other",
            "additional_details": {
                "version": str(column.task["version"]),
                "split": clean(column.task.get("split") or ""),
                "data_sha256": clean(column.task["data_sha256"] or ""),
                "source": clean(column.task.get("source") or "official"),
            },
        },
        "metric_config": {
            "evaluation_description": clean(column.task["headline"]),
            "lower_is_better": not column.task["higher_is_better"],
            "score_type": "continuous",
            **_bounds(column),
        },
        "score_details": {
            "score": cell.summary.mean,
            "uncertainty": uncertainty,
            "details": {
                "seeds": ", ".join(str(seed) for _, seed in cell.values),
                "standard deviation over seeds": f"{cell.summary.sd:.4f}" if math.isfinite(cell.summary.sd) else "",
                "marks": "; ".join(map(clean, cell.marks)),
                "overlap": clean(" ".join(filter(None, [overlap.training(column.task), overlap.cell_line(cell.ok)]))),
                "commands": "\n".join(map(clean, cell.commands)),
            },
        },
    }


def _name(row: Row) -> str:
    """Returns a safe file name that is unique for every row."""
    identity = repr((row.name, row.label, row.size, row.kind, row.division, row.adaptation, row.part))
    return f"{slug(row.title)}-{hashlib.sha256(ascii(identity).encode()).hexdigest()[:8]}"


def _bounds(column: Column) -> dict[str, float]:
    """Returns the bounds of the score. The schema requires both. Perplexity has no upper bound, so it gets the largest
    float."""
    low, high = column.bounds
    return {"min_score": low, "max_score": min(high, sys.float_info.max)}


def _epoch(moment: str) -> str:
    """Returns the seconds since 1970 as text, "0" for an invalid time. Times come from records, never from the
    clock."""
    try:
        return str(int(datetime.datetime.fromisoformat(moment).timestamp()))
    except ValueError:
        return "0"


def _entry(row: Row, column: Column, cell: Cell) -> dict[str, Any]:
    low, high = cell.interval
    known = math.isfinite(low) and math.isfinite(high)
    ends = [number(end, decimals=column.decimals + 1) for end in (low, high)]
    span = f", 95 % interval {' to '.join(ends)} over {cell.covers}" if known else ""
    seeds = cell.drawn
    note = f"{column.task['headline']}, {column.task.get('split') or 'unnamed split'}, {seeds}{span}; {row.words}"
    return {
        "dataset": {"id": clean(column.task["name"]), "task_id": clean(column.task["headline"])},
        "value": round(cell.summary.mean, 4),
        "date": max(record.finished[:10] for record in cell.ok),
        "notes": clean("; ".join((note, *cell.marks, *(f"repeat: {one}" for one in cell.commands)))),
    }


def _scored(grid: Grid, row: Row) -> Iterable[tuple[Column, Cell]]:
    for column in grid.columns:
        cell = grid.cells.get((row, column))
        if cell and cell.ok and math.isfinite(cell.summary.mean):
            yield column, cell


def _latex(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return latex_cell(f"{value:.2f}" if isinstance(value, float) and abs(value) < 10_000 else value)


def _dumps(value: Any) -> str:
    return json.dumps(value, indent=1, allow_nan=False) + "\n"
