"""The section of the board about ladders of budgets: pictures and tables of `leaderboard.ladder`, as plain values for
the template."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from ptmbench.leaderboard import charts, ladder
from ptmbench.leaderboard.grid import Grid
from ptmbench.leaderboard.ladder import Curve, Pair
from ptmbench.leaderboard.stats import Interval
from ptmbench.leaderboard.text import clean, number, quantity

_MOST_LINES = 2 * charts.COLOURS
"""Lines of one picture; the table has all."""
_LIKELY = 0.05
"""Share of the replicates from which a pair that does not cross is listed as one that may."""


def section(grid: Grid) -> dict[str, Any]:
    """{"pictures", "lines", "pairs"}; all empty where no model has several budgets."""
    found = ladder.curves(grid)
    by_task: dict[Any, list[Curve]] = {}
    for one in found:
        by_task.setdefault(one.column, []).append(one)
    losses = by_task.pop(ladder.LOSS, [])
    pictures = [
        {"title": _capital(same[0].title), "better": "higher" if same[0].higher_is_better else "lower",
         "svg": charts.ladder(list(_lines(grid, same)), _ticks(same)), "left_out": max(0, len(same) - _MOST_LINES)}
        for same in by_task.values()
    ]  # fmt: skip
    shown = [_line(one) for same in (*by_task.values(), losses) for one in same]
    pairs = [_pair(one) for one in ladder.pairs(found) if math.isfinite(one.crossing) or one.crossed >= _LIKELY]
    steps = max((len(line["gains"]) for line in shown), default=0)
    return {"pictures": pictures, "lines": shown, "pairs": pairs, "steps": steps, "replicates": ladder.REPLICATES}


def _lines(grid: Grid, same: Sequence[Curve]) -> Iterator[charts.Line]:
    for one in same[:_MOST_LINES]:
        twin = None
        if one.series.twin is not None:
            if one.column is None:
                summary, interval = grid.macro_summary(one.series.twin), grid.macro_interval(one.series.twin)
            else:
                cell = grid.cells.get((one.series.twin, one.column))
                summary, interval = (cell.summary, cell.interval) if cell and cell.ok else (None, None)
            twin = (summary.mean, interval) if summary and math.isfinite(summary.mean) else None
        points = [(point.flops, point.value, point.interval) for point in one.points]
        yield charts.Line(number=one.series.number, label=clean(one.series.label), points=points, twin=twin)


def _ticks(same: Sequence[Curve]) -> dict[float, str]:
    """The mean FLOPs of each rung, with the budget that was asked for where it is one of FLOPs."""
    rungs: dict[str, list[float]] = {}
    for one in same[:_MOST_LINES]:
        for point in one.points:
            rungs.setdefault(point.rung, []).append(point.flops)
    ends = {flops for values in rungs.values() for flops in (min(values), max(values))}
    found = {math.exp(sum(map(math.log, values)) / len(values)): rung for rung, values in rungs.items()}
    ticks = {
        flops: rung.removesuffix(" FLOPs") if rung.endswith(" FLOPs") else quantity(flops, "FLOP")
        for flops, rung in found.items()
    }
    return {min(ends): "", max(ends): ""} | ticks


def _line(one: Curve) -> dict[str, Any]:
    fit = one.fit
    return {
        "number": one.series.number,
        "label": one.series.label,
        "words": one.series.words,
        "task": _capital(one.title),
        "points": ", ".join(f"{point.rung}: {_digits(point.value)}" for point in one.points),
        "drawn": "; ".join(dict.fromkeys(point.drawn for point in one.points)),
        "gains": [
            {"steps": f"{gain.below.rung} to {gain.above.rung}", **_signed(gain.value, gain.interval)}
            for gain in one.gains
        ],
        "slope": _signed(fit.slope, fit.slope_interval) if fit else None,
        "bend": _signed(fit.bend, fit.bend_interval) if fit else None,
        "exponent": _signed(fit.exponent, fit.exponent_interval, 3) if fit else None,
        "refusal": one.refusal,
    }


def _pair(pair: Pair) -> dict[str, Any]:
    first, second = pair.first.series, pair.second.series
    return {
        "first": f"{first.number} {first.label}",
        "second": f"{second.number} {second.label}",
        "words": first.words if first.words == second.words else f"{first.words}; {second.words}",
        "task": _capital(pair.first.title),
        "ahead": [
            {"rung": rung, "share": f"{100 * share:.0f} %" if math.isfinite(share) else ""}
            for rung, share in zip(pair.rungs, pair.ahead, strict=True)
        ],
        "crossing": f"{pair.crossing:.2g} FLOPs".replace("e+0", "e").replace("e+", "e")
        if math.isfinite(pair.crossing)
        else "",
        "sort": pair.crossing if math.isfinite(pair.crossing) else "",
        "crossed": f"{100 * pair.crossed:.0f} %" if math.isfinite(pair.crossed) else "",
    }


def _signed(value: float, interval: Interval, digits: int = 2) -> dict[str, Any]:
    """A number with its sign and interval; ``apart`` where the interval excludes zero."""
    known = math.isfinite(interval.low) and math.isfinite(interval.high)
    return {
        "value": f"{value:+.{digits}f}" if math.isfinite(value) else "",
        "interval": f"{interval.low:+.{digits}f} to {interval.high:+.{digits}f}" if known else "",
        "sort": f"{value:.6g}" if math.isfinite(value) else "",
        "apart": known and (interval.low > 0 or interval.high < 0),
    }


def _digits(value: float) -> str:
    return number(value) if abs(value) >= 10 else f"{value:.2f}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
