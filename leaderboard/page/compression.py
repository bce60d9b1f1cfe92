"""The board's section about compressed models: `leaderboard.scores.compression` as plain values for the template."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import chain
from typing import Any

from ptmbench.leaderboard.page import pictures, story
from ptmbench.leaderboard.scores.compression import WIDEST, CompressedRow, Latency, compressed
from ptmbench.leaderboard.scores.contrast import samples
from ptmbench.leaderboard.scores.grid import Column, Grid, Row
from ptmbench.leaderboard.scores.retention import Retention
from ptmbench.leaderboard.scores.words import adaptation_of
from ptmbench.leaderboard.stats import Interval
from ptmbench.leaderboard.text import JOINT, duration, number, quantity

_NOWHERE = Interval(math.nan, math.nan)
_KEPT = 95.0
"""Percent of the score that the models in `finding` are shown to keep."""
_LOWEST, _HIGHEST = -50.0, 250.0
"""Percentages within which intervals are drawn. A wider interval would leave no room for the points. The table has all
intervals."""
_TICKS = tuple(digit * 10.0**power for power in range(-6, 7) for digit in (1, 2, 5))
"""Costs that may be labels on an axis."""


def section(grid: Grid, ids: Mapping[Row, str]) -> dict[str, Any]:
    """Returns {"measure", "findings", "leads", "pictures", "lines", "elsewhere", "tasks"} for the template; {} if no
    row of ``grid`` was compressed. ``ids`` are the anchors of the rows on the page.

    The page opens with the findings ("leads") if most of its rows with a score on the measure have a retention.
    "elsewhere" says whether a line is on another measure than the others."""
    column, lines_on = _measure(grid), cache(partial(compressed, grid))
    lines = lines_on(column)
    if not lines:
        return {}
    comparable = _comparable(lines, map(lines_on, grid.columns))
    measure = column.title if column else f"the average of {len(grid.averaged)} tasks"
    found, kept = findings(lines, measure), sum(1 for line in lines if line.retention)
    return {
        "measure": measure,
        "findings": found,
        "leads": bool(found) and 2 * kept > len(samples(grid, column)),
        "pictures": [one for one in (_picture(lines, ids, *plane) for plane in _PLANES) if one],
        "lines": [_line(line, ids, column) for line in comparable.values()],
        "elsewhere": any(line.column is not column for line in comparable.values()),
        "tasks": _by_task(grid, map(lines_on, grid.averaged), ids) if len(grid.averaged) > 1 else {},
    }


def opening(headline: str, section: Mapping[str, Any]) -> list[str]:
    """Returns the sentences at the top of a page, the first one in large type: the ``headline`` of its scores and the
    findings of its ``section`` of compressed models, which come first if they lead."""
    found = section.get("findings", [])
    sentences = [*found, headline] if section.get("leads") else [headline, *found]
    return [sentence for sentence in sentences if sentence]


def findings(lines: Sequence[CompressedRow], measure: str) -> list[str]:
    """Returns a sentence on the smallest and one on the fastest of the models that are shown to keep `_KEPT` percent of
    the score on ``measure``: their whole interval lies above. Models with one seed do not count. There is no sentence
    without others, or on a gain that is no larger than the quartiles of a sound measurement may lie apart."""
    known = [line for line in lines if line.retention and line.retention.seeds > 1]
    kept = [line for line in known if line.retention.interval.low > _KEPT]
    if known and not kept:
        return [f"No compressed model is shown to keep {_KEPT:g} % of the score on {measure}."]
    names = _names(lines)
    size = {line: line.shrinkage or 0.0 for line in kept}
    speed = {line: 0.0 if line.noise else line.speed_up or 0.0 for line in kept}
    found = []
    for ratios, gain, other in ((size, "times smaller on disk", "smaller"), (speed, "times as fast", "faster")):
        best = max(ratios, key=ratios.__getitem__, default=None)
        if best and ratios[best] > 1 + WIDEST:
            label, name = best.row.label, names[best.row]
            found.append(
                f"{name if name.startswith(label) else f'{label} ({name})'} is {ratios[best]:.2g} {gain} and keeps "
                f"{_percent(best.retention)} of the score on {measure}{_counted(best)}; "
                f"no {other} model is shown to keep {_KEPT:g} %."
            )
    return found


def _counted(line: CompressedRow) -> str:
    """Returns the retention above chance in brackets; "" if it is not known."""
    return f" ({_kept(line.above_chance)['value']} counted from chance)" if line.above_chance else ""


def phrases(grid: Grid) -> dict[Row, str]:
    """Returns the `compression_phrase` of each compressed row of ``grid``: by the measure of `section` or, without a
    retention there, by the task with most seeds, whose name is then in the phrase."""
    measure = _measure(grid)
    each = (compressed(grid, column) for column in grid.columns)
    lines = {row: line for row, line in _comparable(compressed(grid, measure), each).items() if line.kind}
    return {row: words for row, line in lines.items() if (words := compression_phrase(line, measure))}


def _comparable(lines: Sequence[CompressedRow], by_task: Iterable[Sequence[CompressedRow]]) -> dict[Row, CompressedRow]:
    """Returns ``lines`` by row. A line that has no retention, or no score if others are compared with it, is replaced
    by the row's line on the task with most seeds. ``by_task`` are the lines on each task."""

    def seeds(line: CompressedRow) -> int:
        if line.kind:
            return line.retention.seeds if line.retention else 0
        return len(line.sample.values) if line.sample else 0

    found = {line.row: line for line in lines}
    lacking = {row for row, line in found.items() if not seeds(line)}
    for line in chain.from_iterable(by_task if lacking else ()):
        if line.row in lacking and seeds(line) > seeds(found[line.row]):
            found[line.row] = line
    return found


def compression_phrase(line: CompressedRow, measure: Column | None) -> str:
    """Returns a phrase about a compressed row: "97.1 % (93.0 to 101.4), speed × 1.9, size ÷ 4". It names the task of
    ``line`` if that is not the ``measure``."""
    where = f" on {line.column.title}" if line.column and line.column is not measure else ""
    parts = [_percent(line.retention) + where] if line.retention else []
    return ", ".join(filter(None, (*parts, _faster(line), _smaller(line))))


def _measure(grid: Grid) -> Column | None:
    """Returns None, for the average, if it has several tasks and at least two compressed rows have one. Otherwise
    returns the task with a score for most compressed rows."""
    counts = {column: sum(1 for row in samples(grid, column) if row.compression) for column in (None, *grid.columns)}
    if len(grid.averaged) > 1 and counts.pop(None) > 1:
        return None
    return max(grid.columns, key=lambda one: counts[one], default=None)


def _latency(line: CompressedRow) -> float | None:
    return line.latency["1"].median if "1" in line.latency else None


def _bytes(line: CompressedRow) -> float | None:
    return line.figures["disk MiB"]


def _mib(value: float) -> str:
    return f"{value:.3g} MiB"


def _seconds(value: float) -> str:
    return f"{1000 * value:.3g} ms" if value < 1 else duration(value)


_PLANES: tuple[tuple[str, Callable[[CompressedRow], float | None], Callable[[float], str], bool], ...] = (
    ("latency of a text at batch 1", _latency, _seconds, True),
    ("bytes on disk", _bytes, _mib, False),
)
"""Title, cost, text of the cost, and whether other work can disturb the measurement."""


def _picture(
    lines: Sequence[CompressedRow],
    ids: Mapping[Row, str],
    title: str,
    cost: Callable[[CompressedRow], float | None],
    words: Callable[[float], str],
    timed: bool,
) -> dict[str, Any]:
    """Draws retention over ``cost``. Models that others are compared with are at 100 %. Points are hollow if their cost
    is ``timed`` and the measurement was disturbed. Returns {} for fewer than two points."""
    names = _names(lines)
    references = {line.reference for line in lines if line.retention}
    points = []
    for line in lines:
        kept = line.retention or (Retention(100.0, _NOWHERE, 0, True) if line.row in references else None)
        if kept and (spent := cost(line)):
            points.append(
                pictures.ScatterPoint(
                    name=names[line.row], cost=spent, score=kept.value, interval=_drawn(kept), link=ids[line.row],
                    kind="baseline" if not line.retention else "random" if timed and line.noise else "model",
                )
            )  # fmt: skip
    if len(points) < 2:
        return {}
    svg = pictures.scatter(points, axis=pictures.Axis(ticks=_TICKS, tick=words, cost=words))
    unnamed, hollow = len(points) - svg.count('class="label"'), any(point.kind == "random" for point in points)
    return {"title": title, "svg": svg, "unnamed": unnamed, "rows": len(points), "hollow": hollow}


def _names(lines: Sequence[CompressedRow]) -> dict[Row, str]:
    """Returns a name for the point of each row: how it was compressed. If several rows have the same name, the longer
    name with the model is used. Rows that others are compared with have the name of the row."""
    long, short = story.short_names([line.row for line in lines]), {}
    for line in lines:
        row = line.row
        adapted = row.teacher or (row.compression and not row.student)  # what compressed it is the adaptation
        words = [adaptation_of(row)] if adapted and not row.transform else []
        words += [str(row.transform["label"])] if row.transform.get("label") else []
        short[row] = JOINT.join([*words, *(["random weights"] if row.kind == "random" else [])]) if words else long[row]
    counts = Counter(short.values())
    return {row: name if counts[name] == 1 else long[row] for row, name in short.items()}


def _line(line: CompressedRow, ids: Mapping[Row, str], measure: Column | None) -> dict[str, Any]:
    figures, gap = line.figures, line.gap
    decimals = line.column.decimals if line.column else 1
    with_teacher = None if None in (line.own_flops, line.teacher_flops) else line.own_flops + line.teacher_flops
    seconds = line.own_seconds
    return {
        "id": ids[line.row],
        "label": line.row.label,
        "words": line.row.words,
        "where": f"on {line.column.title}" if line.column is not measure else "",
        "kind": line.kind.replace("+", ", ").replace("quantization", "quantisation"),
        "score": _cell(line.sample and line.sample.mean, decimals=decimals),
        "retention": _kept(line.retention),
        "above": _kept(line.above_chance),
        "lack": line.lack,
        "bits": (figures["bits per weight"], quantity(figures["bits per weight"])),
        "zeros": (figures["zero weights"], _share(figures["zero weights"])),
        "parameters": (figures["parameters"], quantity(figures["parameters"])),
        "disk": (*_pair(figures["disk MiB"], _mib), _smaller(line)),
        "compressed": _pair(figures["compressed MiB"], _mib),
        "flops": (line.flops_per_example, quantity(line.flops_per_example, "FLOP")),
        "latency": [_timed(line.latency.get(size)) for size in ("1", "8", "32")],
        "faster": _faster(line),
        "noise": line.noise,
        "memory": _pair(line.memory, _mib),
        "own": (line.own_flops, quantity(line.own_flops, "FLOP")),
        "taught": (with_teacher, quantity(with_teacher, "FLOP")),
        "seconds": (seconds, duration(seconds)),
        "peer": line.peer.words if line.peer else "",
        "peer_id": ids[line.peer] if line.peer else "",
        "gap": pictures.with_interval(gap.value, gap.interval, decimals, True) if gap else "",
        "gap_sort": gap.value if gap else None,
        "verdict": line.verdict,
    }


def _by_task(grid: Grid, by_task: Iterable[Sequence[CompressedRow]], ids: Mapping[Row, str]) -> dict[str, Any]:
    """Returns the retention on each task of the average. ``by_task`` are the lines on these tasks."""
    found = [{line.row: line for line in lines} for lines in by_task]
    rows = [row for row in grid.rows if any(row in part and part[row].retention for part in found)]
    return {
        "titles": [column.title for column in grid.averaged],
        "rows": [
            {
                "label": row.label,
                "words": row.words,
                "id": ids[row],
                "cells": [_kept(part[row].retention if row in part else None) for part in found],
            }
            for row in rows
        ],
    }


def _kept(one: Retention | None) -> dict[str, Any]:
    """Returns a retention as text for the page; "" for missing parts."""
    if one is None:
        return {"sort": None, "value": "", "interval": "", "note": ""}
    low, high = one.interval
    ends = [number(end) if math.isfinite(end) else "unbounded" for end in (low, high)]
    notes = ["examples only"] if one.seeds == 1 else []
    notes += [] if one.paired else ["examples not paired"]
    return {
        "sort": one.value,
        "value": f"{number(one.value)} %",
        "interval": f"{ends[0]} to {ends[1]}",
        "note": ", ".join(notes),
    }


def _percent(one: Retention) -> str:
    kept = _kept(one)
    return f"{kept['value']} ({kept['interval']})"


def _timed(one: Latency | None) -> dict[str, Any]:
    if one is None:
        return {"sort": None, "value": "", "quartiles": ""}
    quartiles = f"{_seconds(one.low)} to {_seconds(one.high)}"
    return {"sort": one.median, "value": _seconds(one.median), "quartiles": quartiles}


def _faster(line: CompressedRow) -> str:
    """Returns "speed × 1.9", relative to the model that it is compared with; "" if a latency is not known."""
    return "" if line.speed_up is None else f"speed × {line.speed_up:.2g}"


def _smaller(line: CompressedRow) -> str:
    return "" if line.shrinkage is None else f"size ÷ {line.shrinkage:.2g}"


def _drawn(kept: Retention) -> Any:
    """Returns the interval of ``kept`` if it is bounded and narrow enough for a picture, or else NaN."""
    low, high = kept.interval
    return kept.interval if low > _LOWEST and high < _HIGHEST else _NOWHERE


def _cell(value: float | None, decimals: int = 1) -> tuple[float | None, str]:
    return value, number(value, decimals=decimals)


def _pair(value: float | None, words: Callable[[float], str]) -> tuple[float | None, str]:
    return value, "" if value is None else words(value)


def _share(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f} %"
