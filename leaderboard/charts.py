"""Inline SVG: curves of adaptation, intervals on a common axis, scores against costs. Every chart has a table twin.

Only numbers go into the markup, so nothing from a record can become an element; texts stay with the template.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from markupsafe import Markup

from ptmbench.leaderboard.stats import Interval

_Key = TypeVar("_Key", bound=Hashable)
_CURVE = (96, 22)  # width and height of a curve in its own units
_PLANE = (620, 300)
_MARGIN = (44, 30, 14, 34)  # left, right, top, bottom


def curve(points: Sequence[tuple[float, float]]) -> Markup:
    """A polyline through (step, value) points, scaled to its own range; nothing for fewer than two."""
    known = [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]
    if len(known) < 2:
        return Markup("")
    across, up = _scale([x for x, _ in known], 2, _CURVE[0] - 2), _scale([y for _, y in known], _CURVE[1] - 2, 2)
    line = " ".join(f"{across(x):.0f},{up(y):.0f}" for x, y in known)
    return Markup(
        f'<svg class=curve viewBox="0 0 {_CURVE[0]} {_CURVE[1]}" aria-hidden=true><polyline points="{line}"/></svg>'
    )


def front(points: Mapping[_Key, tuple[float, float]]) -> set[_Key]:
    """The (cost, score) points that no other beats: none is at most as costly and at least as good, and differs."""
    best, found = -math.inf, set()
    for key, (_, score) in sorted(points.items(), key=lambda item: (item[1][0], -item[1][1])):
        if score > best:
            best = score
            found.add(key)
        elif points[key] in {points[one] for one in found}:
            found.add(key)
    return found


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A row in a plane: cost, score and its interval, and the number that stands beside it and in the table."""

    number: int
    cost: float
    score: float
    interval: Interval
    front: bool


def plane(dots: Sequence[Dot], labels: Mapping[float, str]) -> Markup:
    """Score over cost (logarithmic). Rows of the front are filled and joined, the others hollow: no meaning by colour.

    ``labels`` are the texts for costs on the axis, made of digits and units by the caller.
    """
    left, right, top, bottom = _MARGIN
    scores = [x for dot in dots for x in (dot.score, *dot.interval) if math.isfinite(x)]
    across = _scale([math.log10(cost) for cost in (*(dot.cost for dot in dots), *labels)], left, _PLANE[0] - right)
    low, high = _round(min(scores), max(scores))
    up = _scale([low, high], _PLANE[1] - bottom, top)
    parts = []
    for i in range(5):
        value = low + (high - low) * i / 4
        y = f"{up(value):.1f}"
        parts.append(f'<line class="axis" x1="{left}" x2="{_PLANE[0] - right}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text x="{left - 6}" y="{y}" dy="4" text-anchor="end">{value:g}</text>')
    for cost, text in labels.items():
        x = f"{across(math.log10(cost)):.1f}"
        parts.append(f'<line class="axis" x1="{x}" x2="{x}" y1="{top}" y2="{_PLANE[1] - bottom}"/>')
        side = "end" if len(labels) > 1 and cost == max(labels) else "middle"
        parts.append(f'<text x="{x}" y="{_PLANE[1] - 12}" text-anchor="{side}">{Markup.escape(text)}</text>')
    place = {dot.number: (across(math.log10(dot.cost)), up(dot.score)) for dot in dots}
    steps = " ".join(
        f"{place[dot.number][0]:.1f},{place[dot.number][1]:.1f}"
        for dot in sorted(dots, key=lambda dot: (dot.cost, dot.score))
        if dot.front
    )
    parts.append(f'<polyline class="front" points="{steps}"/>')
    for dot in dots:
        x, y = place[dot.number]
        if math.isfinite(sum(dot.interval)):
            ends = up(dot.interval.low), up(dot.interval.high)
            parts.append(f'<line class="range" x1="{x:.1f}" x2="{x:.1f}" y1="{ends[0]:.1f}" y2="{ends[1]:.1f}"/>')
        kind = "on" if dot.front else "off"
        parts.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{5 if dot.front else 4}"/>')
        if dot.front or len(dots) <= 20:
            parts.append(f'<text class="label" x="{x + 7:.1f}" y="{y - 5:.1f}">{dot.number}</text>')
    return Markup(f'<svg class="plane" viewBox="0 0 {_PLANE[0]} {_PLANE[1]}" aria-hidden="true">{"".join(parts)}</svg>')


def _scale(values: Sequence[float], start: float, end: float):
    """Maps the smallest of ``values`` to ``start`` and the largest to ``end``; the middle where all agree."""
    low, high = min(values), max(values)
    if low == high:
        return lambda value: (start + end) / 2
    return lambda value: start + (end - start) * (value - low) / (high - low)


def _round(low: float, high: float) -> tuple[float, float]:
    """Outwards to multiples of 4 x 1, 2.5 or 5 of a power of ten, so that the four parts of an axis are round."""
    width = max(high - low, 1e-9)
    unit = 10 ** math.floor(math.log10(width / 4))
    for factor in (1, 2.5, 5, 10, 25):
        step = unit * factor
        start = math.floor(low / step) * step
        if start + 4 * step >= high:
            return start, start + 4 * step
    return low, high
