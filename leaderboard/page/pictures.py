"""The two pictures at the top of a board, as inline SVG: scores against cost with names, and gains with intervals.

Names are placed so that they touch neither each other nor a point. If there is no room for the name of a point, it is
only in the tooltip. Only numbers and escaped texts go into the markup, so nothing from a record can become an element.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup, escape

from ptmbench.leaderboard.page.charts import LEAST_DECADES, front, round_levels, rules, scale, whisker, widened
from ptmbench.leaderboard.stats import Interval
from ptmbench.leaderboard.text import JOINT, clean, duration, number

_WIDTH, _HEIGHT = 860, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 16, 14, 40
_LETTER, _CAPITAL, _LINE = 7.1, 9.0, 15.0
"""Width of a small and of a capital letter, and height of a line of text. They are generous, since the reader's font is
not known."""
_LONGEST = 38
"""Most characters of a name. The tooltip has the whole name."""
_TIMES = (0.001, 0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 36_000.0, 360_000.0, 3_600_000.0)
"""Seconds that may be labels on a time axis."""
_SHORT_TIMES = tuple(digit * unit for unit in _TIMES for digit in (1, 2, 5) if digit * unit not in (50.0, 3000.0))
"""The same for an axis that has fewer than `_LEAST_TICKS` of them. There is no room for 50 s next to 1 min."""
_LEAST_TICKS = 3
_LEAST_STEPS = 20
"""Least height of an axis of scores, in units of the last printed decimal. A smaller height would magnify differences
that rounding hides."""
_ROW = 19
_NAMES, _NUMBERS = 305, 196
"""Greatest width for names, and width for numbers."""


@dataclass(frozen=True, kw_only=True)
class ScatterPoint:
    """A row: cost, score with its interval, and anchor. ``kind`` is "model" (a full circle), "random" (a hollow one) or
    "baseline" (a square)."""

    name: str
    cost: float
    score: float
    interval: Interval
    kind: str
    link: str


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A gain with its interval. ``excludes_zero`` says whether the interval excludes zero."""

    name: str
    value: float
    interval: Interval
    excludes_zero: bool
    link: str


class Axis(NamedTuple):
    """The axis of costs: the possible ticks, the text of a tick, and the text of a cost in tooltips."""

    ticks: Sequence[float]
    tick: Callable[[float], str]
    cost: Callable[[float], str]


class _Box(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: "_Box") -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


def scatter(
    points: Sequence[ScatterPoint], decimals: int = 1, higher_is_better: bool = True, axis: Axis | None = None
) -> Markup:
    """Draws scores over costs (logarithmic) with intervals; by default the costs are seconds. A line joins the rows
    that no other row beats in both."""
    logs = [math.log10(point.cost) for point in points]
    span = widened(min(logs), max(logs), LEAST_DECADES)
    across = scale(span, _LEFT + 14, _WIDTH - _RIGHT - 14)
    few = sum(span[0] <= math.log10(cost) <= span[1] for cost in _TIMES) < _LEAST_TICKS
    axis = axis or Axis(_SHORT_TIMES if few else _TIMES, _time, duration)
    ends = [end for point in points for end in (point.score, *point.interval) if math.isfinite(end)]
    low, high = widened(min(ends), max(ends), _LEAST_STEPS * 10.0**-decimals)
    levels = round_levels(low, high)
    up = scale((levels[0], levels[-1]), _HEIGHT - _BOTTOM, _TOP)
    parts = rules(levels, up, _LEFT, _WIDTH - _RIGHT)
    for cost in axis.ticks:
        x = across(math.log10(cost))
        if _LEFT <= x <= _WIDTH - _RIGHT:
            parts.append(f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}"/>')
            words = escape(clean(axis.tick(cost)))
            parts.append(f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">{words}</text>')
    places = [(across(math.log10(point.cost)), up(point.score)) for point in points]
    sign = 1 if higher_is_better else -1
    best = front({i: (point.cost, sign * point.score) for i, point in enumerate(points)})
    joined = [places[i] for i in sorted(best, key=lambda i: points[i].cost)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in joined)
    parts.append(f'<polyline class="front" points="{line}"/>')
    parts += [whisker(x, point.interval, up) for point, (x, _) in zip(points, places, strict=True)]
    first = sorted(range(len(points)), key=lambda i: (i not in best, points[i].kind == "random", i))
    named = _labels([points[i].name for i in first], [places[i] for i in first], places, joined)
    for i, label in sorted(zip(first, named, strict=True)):
        point, (x, y) = points[i], places[i]
        tooltip = f"{point.name}: {with_interval(point.score, point.interval, decimals)}, {axis.cost(point.cost)}"
        title = f"<title>{escape(clean(tooltip))}</title>"
        parts.append(f'<a href="#{escape(point.link)}">{_mark(point.kind, x, y, title)}{label}</a>')
    return _svg("plane named", _WIDTH, _HEIGHT, parts)


def forest(bars: Sequence[Bar], decimals: int = 1) -> Markup:
    """Draws gains with their 95 % intervals on one axis that includes zero, one line each. Circles are filled if the
    interval excludes zero."""
    ends = [end for bar in bars for end in (bar.value, *bar.interval) if math.isfinite(end)]
    low, high = widened(min(*ends, 0.0), max(*ends, 0.0), _LEAST_STEPS * 10.0**-decimals)
    levels = round_levels(low, high)
    shown = _shortened([bar.name for bar in bars])
    names = min(_NAMES, 30 + _LETTER * max(map(len, shown)))
    across = scale((levels[0], levels[-1]), names, _WIDTH - _NUMBERS)
    height = _ROW * len(bars) + 30
    parts = []
    for level in levels:
        x, kind = f"{across(level):.1f}", "zero" if level == 0 else "axis"
        parts.append(f'<line class="{kind}" x1="{x}" x2="{x}" y1="4" y2="{height - 24}"/>')
        parts.append(f'<text x="{x}" y="{height - 8}" text-anchor="middle">{f"{level:+g}" if level else 0}</text>')
    for i, (bar, name) in enumerate(zip(bars, shown, strict=True)):
        y, known = _ROW * i + 15, math.isfinite(sum(bar.interval))
        tooltip = f"<title>{escape(clean(bar.name))}</title>" if name != bar.name else ""
        label = f'<text class="name" x="{names - 12:.1f}" y="{y}" dy="4" text-anchor="end">{escape(clean(name))}'
        label += f"{tooltip}</text>"
        drawn = ""
        if known:
            x = across(bar.interval.low), across(bar.interval.high)
            drawn = f'<line class="range" x1="{x[0]:.1f}" x2="{x[1]:.1f}" y1="{y}" y2="{y}"/>'
        drawn += f'<circle class="{"on" if bar.excludes_zero else "off"}" cx="{across(bar.value):.1f}" cy="{y}" r="4"/>'
        words = with_interval(bar.value, bar.interval, decimals, True)
        kind = "amount apart" if bar.excludes_zero else "amount"
        amount = f'<text class="{kind}" x="{_WIDTH - _NUMBERS + 14}" y="{y}" dy="4">{words}</text>'
        parts.append(f'<a href="#{escape(bar.link)}">{label}{drawn}{amount}</a>')
    return _svg("plane forest", _WIDTH, height, parts)


def with_interval(value: float, interval: Interval, decimals: int = 1, signed: bool = False, unit: str = "") -> str:
    """Returns "48.2 (46.5 to 50.0)" or "+3.4 points (+0.5 to +6.3)"; without the brackets if the interval is not
    known."""
    words = number(value, signed, decimals) + unit
    if not math.isfinite(sum(interval)):
        return words
    low, high = (number(end, signed, decimals) for end in interval)
    return f"{words} ({low} to {high})"


def _labels(
    names: Sequence[str],
    places: Sequence[tuple[float, float]],
    points: Sequence[tuple[float, float]],
    line: Sequence[tuple[float, float]] = (),
) -> list[str]:
    """Returns a text for each of ``places``, the earlier ones first. A text is placed where it meets no other text and
    none of ``points``, preferably where the ``line`` does not cross it. It is "" if there is no such place."""
    taken = [_Box(x - 5, y - 5, x + 5, y + 5) for x, y in points]
    inside = _Box(_LEFT, _TOP - 8, _WIDTH, _HEIGHT - _BOTTOM)
    dashes = _along(line)
    found = []
    for words, (x, y) in zip(_shortened(names), places, strict=True):
        width, free = _wide(words), []
        for anchor, dx, dy in (
            ("start", 8, 0), ("end", -8, 0), ("middle", 0, -13), ("middle", 0, 14), ("start", 7, -11), ("start", 7, 12),
            ("end", -7, -11), ("end", -7, 12),
        ):  # fmt: skip
            left = x + dx - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
            box = _Box(left, y + dy - _LINE / 2, left + width, y + dy + _LINE / 2)
            within = box.left >= inside.left and box.right <= inside.right
            if within and inside.top <= box.top and box.bottom <= inside.bottom and not any(map(box.meets, taken)):
                at = f'x="{x + dx:.1f}" y="{y + dy:.1f}" dy="4" text-anchor="{anchor}"'
                free.append((any(map(box.meets, dashes)), len(free), box, at))
        if free:
            *_, box, at = min(free)
            taken.append(box)
        found.append(f'<text class="label" {at}>{escape(clean(words))}</text>' if free else "")
    return found


def _shortened(names: Sequence[str]) -> list[str]:
    """Returns the ``names`` with at most `_LONGEST` characters. A longer one is replaced by its last part ("… · int8")
    if no other name ends with that part. A name that is still too long is cut in the middle."""
    ends = [name.rpartition(JOINT)[2] for name in names]
    found, half = [], _LONGEST // 2
    for name, end in zip(names, ends, strict=True):
        if len(name) > _LONGEST and ends.count(end) == 1:
            name = f"…{JOINT}{end}"
        found.append(name if len(name) <= _LONGEST else f"{name[: half - 1]}…{name[-half:]}")
    return found


def _wide(words: str) -> float:
    """Returns the approximate width of ``words`` in any of the page's fonts."""
    return sum(_CAPITAL if letter.isupper() else _LETTER for letter in words)


def _along(line: Sequence[tuple[float, float]]) -> list[_Box]:
    """Returns small boxes that cover ``line``."""
    boxes = []
    for (x, y), (to_x, to_y) in zip(line, line[1:], strict=False):
        steps = max(1, math.ceil(max(abs(to_x - x), abs(to_y - y)) / 4))
        for step in range(steps + 1):
            at = x + (to_x - x) * step / steps, y + (to_y - y) * step / steps
            boxes.append(_Box(at[0] - 1, at[1] - 1, at[0] + 1, at[1] + 1))
    return boxes


def _mark(kind: str, x: float, y: float, title: str) -> str:
    if kind == "baseline":
        return f'<rect class="on" x="{x - 4.2:.1f}" y="{y - 4.2:.1f}" width="8.4" height="8.4">{title}</rect>'
    return f'<circle class="{"off" if kind == "random" else "on"}" cx="{x:.1f}" cy="{y:.1f}" r="4.6">{title}</circle>'


def _time(seconds: float) -> str:
    """Returns a round time without decimals: 10 s, 1 min, 10 h."""
    for unit, words in ((3600.0, "h"), (60.0, "min"), (1.0, "s")):
        if seconds >= unit:
            return f"{seconds / unit:g} {words}"
    return f"{1000 * seconds:g} ms"


def _svg(kind: str, width: int, height: float, parts: Sequence[str]) -> Markup:
    return Markup(f'<svg class="{kind}" viewBox="0 0 {width} {height}" role="group">{"".join(parts)}</svg>')
