"""The board's section about ladders of budgets: `leaderboard.scores.ladder` as plain values for the template."""

import math
from collections.abc import Sequence
from typing import Any

from ptmbench.leaderboard.page import charts
from ptmbench.leaderboard.scores import ladder
from ptmbench.leaderboard.scores.grid import Grid
from ptmbench.leaderboard.scores.ladder import CurvePair, LadderCurve
from ptmbench.leaderboard.scores.measures import Measure
from ptmbench.leaderboard.stats import Interval
from ptmbench.leaderboard.text import capitalize_first, clean, number, quantity

_MOST_LINES = 2 * charts.COLOURS
"""Most lines of one picture; the table has all lines."""
_LIKELY = 0.05
"""Share of the replicates from which a pair that does not cross is listed as one that may cross."""


def section(grid: Grid) -> dict[str, Any]:
    """Returns {"pictures", "lines", "pairs", "steps", "replicates", "losses"} for the template. The first four are
    empty if no model has several budgets. "losses" says whether there are curves of losses."""
    found = ladder.curves(grid)
    by_measure: dict[Measure, list[LadderCurve]] = {}
    for one in found:
        by_measure.setdefault(one.measure, []).append(one)
    ordered = sorted(by_measure, key=lambda measure: measure.is_loss)  # stable: losses last
    pictures = [_picture(measure, by_measure[measure]) for measure in ordered]
    lines = [_line(one) for measure in ordered for one in by_measure[measure]]
    pairs = [_pair(one) for one in ladder.pairs(found) if math.isfinite(one.crossing) or one.crossed >= _LIKELY]
    return {
        "pictures": pictures,
        "lines": lines,
        "pairs": pairs,
        "steps": _steps(lines),
        "replicates": ladder.REPLICATES,
        "losses": any(measure.is_loss for measure in ordered),
    }


def _steps(lines: Sequence[dict[str, Any]]) -> list[str]:
    """Returns the heads of the columns of gains: the rungs on both sides of a step, or the step's number if the rungs
    of the models differ."""
    found = []
    for i in range(max((len(line["gains"]) for line in lines), default=0)):
        rungs = {line["gains"][i]["steps"] for line in lines if i < len(line["gains"])}
        found.append(rungs.pop() if len(rungs) == 1 else f"Step {i + 1}")
    return found


def _picture(measure: Measure, same: Sequence[LadderCurve]) -> dict[str, Any]:
    return {
        "title": capitalize_first(measure.title),
        "better": "higher" if measure.higher_is_better else "lower",
        "svg": charts.ladder([_plotted(one) for one in same[:_MOST_LINES]], _ticks(same)),
        "left_out": max(0, len(same) - _MOST_LINES),
    }


def _plotted(one: LadderCurve) -> charts.LadderLine:
    found = one.measure.of(one.ladder.twin) if one.ladder.twin else None
    return charts.LadderLine(
        number=one.ladder.number,
        label=clean(one.ladder.label),
        points=[(rung.flops, rung.value, rung.interval) for rung in one.rungs],
        twin=(found.value, found.interval) if found else None,
    )


def _ticks(same: Sequence[LadderCurve]) -> dict[float, str]:
    """Returns {FLOPs: label}: the mean FLOPs of each rung, labelled with the requested budget if that is in FLOPs. The
    ends of the axis have the label ""."""
    spent: dict[str, list[float]] = {}
    for one in same[:_MOST_LINES]:
        for rung in one.rungs:
            spent.setdefault(rung.budget, []).append(rung.flops)
    ends = {flops for values in spent.values() for flops in (min(values), max(values))}
    found = {math.exp(sum(map(math.log, values)) / len(values)): budget for budget, values in spent.items()}
    ticks = {
        flops: _short(budget) if budget.endswith(" FLOPs") else quantity(flops, "FLOP")
        for flops, budget in found.items()
    }
    return {min(ends): "", max(ends): ""} | ticks


def _line(one: LadderCurve) -> dict[str, Any]:
    fit, digits = one.fit, one.measure.decimals
    more = digits + 1  # gains are smaller than scores
    return {
        "number": one.ladder.number,
        "label": one.ladder.label,
        "words": one.ladder.words,
        "task": capitalize_first(one.measure.title),
        "points": [f"{_short(rung.budget)}: {number(rung.value, decimals=digits)}" for rung in one.rungs],
        "drawn": "; ".join(dict.fromkeys(rung.drawn for rung in one.rungs)),
        "gains": [
            {
                "steps": f"{_short(gain.below.budget)} to {gain.above.budget}",
                **_signed(gain.value, gain.interval, more),
            }
            for gain in one.gains
        ],
        "slope": _signed(fit.slope, fit.slope_interval, more) if fit else None,
        "bend": _signed(fit.bend, fit.bend_interval, more) if fit else None,
        "exponent": _signed(fit.exponent, fit.exponent_interval, 3) if fit else None,
        "refusal": one.refusal,
    }


def _pair(pair: CurvePair) -> dict[str, Any]:
    first, second = pair.first.ladder, pair.second.ladder
    return {
        "first": f"{first.number} {first.label}",
        "second": f"{second.number} {second.label}",
        "words": first.words if first.words == second.words else f"{first.words}; {second.words}",
        "task": capitalize_first(pair.first.measure.title),
        "ahead": [
            {"budget": budget, "share": f"{100 * share:.0f} %" if math.isfinite(share) else ""}
            for budget, share in zip(pair.budgets, pair.ahead, strict=True)
        ],
        "crossing": f"{pair.crossing:.2g} FLOPs".replace("e+0", "e").replace("e+", "e")
        if math.isfinite(pair.crossing)
        else "",
        "sort": pair.crossing if math.isfinite(pair.crossing) else "",
        "crossed": f"{100 * pair.crossed:.0f} %" if math.isfinite(pair.crossed) else "",
    }


def _signed(value: float, interval: Interval, digits: int) -> dict[str, Any]:
    """Returns a number with its sign, its interval, and whether the interval excludes zero."""
    known = math.isfinite(interval.low) and math.isfinite(interval.high)
    return {
        "value": f"{value:+.{digits}f}" if math.isfinite(value) else "",
        "interval": f"{interval.low:+.{digits}f} to {interval.high:+.{digits}f}" if known else "",
        "sort": f"{value:.6g}" if math.isfinite(value) else "",
        "excludes_zero": known and (interval.low > 0 or interval.high < 0),
    }


def _short(budget: str) -> str:
    """Returns ``budget`` without the unit FLOPs, as on the axes of the pictures."""
    return budget.removesuffix(" FLOPs")
