"""Inline SVG: curves of adaptation, intervals on a common axis, scores against costs and budgets.

For every chart, the page has a table with the same numbers. Only numbers and escaped texts go into the markup, so
nothing from a record can become an element.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from markupsafe import Markup

from ptmbench.leaderboard.stats import Interval
from ptmbench.leaderboard.text import quantity

_Key = TypeVar("_Key", bound=Hashable)
_CURVE = (96, 22)  # width and height of a curve in its own units
_PLANE = (620, 300)
_MARGIN = (44, 30, 14, 34)  # left, right, top, bottom
_LADDER = (440, 300)
_LADDER_MARGIN = (42, 112, 12, 26)
LEAST_DECADES = 1.0
"""Least width of an axis of costs in powers of ten. A smaller width would magnify rounding and timing noise."""
_ROOM = 80.0
"""Least distance between the labels of two costs on an axis."""
_TWIN = 76  # width of the area for twins, at the left
_DODGE = 4.0  # distance between the whiskers of two models at one rung
_LINE = 16.0  # height of a label
_LONGEST = 12  # most characters of a label
_MOST_STEPS = 5  # most steps of an axis
_LONG = 20  # most characters of the label of a course
_DASHES = 4
COLOURS = 8
"""Number of colours of lines on the page, k0 to k7."""
_ROUND = tuple((4.2 * math.cos(i * math.pi / 6), 4.2 * math.sin(i * math.pi / 6)) for i in range(12))
_SQUARE = ((-3.8, -3.8), (3.8, -3.8), (3.8, 3.8), (-3.8, 3.8))
_UP, _DOWN = ((0, -5), (4.8, 3.6), (-4.8, 3.6)), ((0, 5), (4.8, -3.6), (-4.8, -3.6))
_DIAMOND, _FLAT = ((0, -5.4), (5.4, 0), (0, 5.4), (-5.4, 0)), ((-5.4, -2.2), (5.4, -2.2), (5.4, 2.2), (-5.4, 2.2))
_TALL = ((-2.2, -5.4), (2.2, -5.4), (2.2, 5.4), (-2.2, 5.4))
_MARKERS = (_ROUND, _SQUARE, _UP, _DIAMOND, _DOWN, _TALL, _FLAT)


def curve(points: Sequence[tuple[float, float]]) -> Markup:
    """Draws a polyline through (step, value) points, scaled to its own range; nothing for fewer than two points."""
    known = [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]
    if len(known) < 2:
        return Markup("")
    across, up = scale([x for x, _ in known], 2, _CURVE[0] - 2), scale([y for _, y in known], _CURVE[1] - 2, 2)
    line = " ".join(f"{across(x):.0f},{up(y):.0f}" for x, y in known)
    return Markup(
        f'<svg class=curve viewBox="0 0 {_CURVE[0]} {_CURVE[1]}" aria-hidden=true><polyline points="{line}"/></svg>'
    )


def front(points: Mapping[_Key, tuple[float, float]]) -> set[_Key]:
    """Returns the keys of the (cost, score) points that no other point beats. A point beats a different one if it costs
    no more and its score is no lower."""
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
    """A row in a plane: cost, score with interval, and its number in the picture and in the table."""

    number: int
    cost: float
    score: float
    interval: Interval
    front: bool


def plane(dots: Sequence[Dot], labels: Mapping[float, str]) -> Markup:
    """Draws score over cost (logarithmic). Rows of the front are filled and joined, the others are hollow. Colours
    carry no meaning.

    ``labels`` are the texts for costs on the axis, made of digits and units by the caller.
    """
    left, right, top, bottom = _MARGIN
    scores = [x for dot in dots for x in (dot.score, *dot.interval) if math.isfinite(x)]
    logs = [math.log10(cost) for cost in (*(dot.cost for dot in dots), *labels)]
    across = scale(widened(min(logs), max(logs), LEAST_DECADES), left, _PLANE[0] - right)
    labels = _with_room(labels, lambda cost: across(math.log10(cost)))
    levels = round_levels(min(scores), max(scores))
    up = scale(levels, _PLANE[1] - bottom, top)
    parts = rules(levels, up, left, _PLANE[0] - right)
    for cost, text in labels.items():
        x = f"{across(math.log10(cost)):.1f}"
        parts.append(f'<line class="axis" x1="{x}" x2="{x}" y1="{top}" y2="{_PLANE[1] - bottom}"/>')
        side = "end" if _PLANE[0] - float(x) < _ROOM / 2 else "middle"
        parts.append(f'<text x="{x}" y="{_PLANE[1] - 12}" text-anchor="{side}">{Markup.escape(text)}</text>')
    place = {dot.number: (across(math.log10(dot.cost)), up(dot.score)) for dot in dots}
    steps = " ".join(
        f"{place[dot.number][0]:.1f},{place[dot.number][1]:.1f}"
        for dot in sorted(dots, key=lambda dot: (dot.cost, dot.score))
        if dot.front
    )
    parts.append(f'<polyline class="front" points="{steps}"/>')
    parts.append(whiskers([(place[dot.number][0], dot.interval) for dot in dots], up))
    parts.append(_discs("off", 4, [place[dot.number] for dot in dots if not dot.front]))
    parts.append(_discs("on", 5, [place[dot.number] for dot in dots if dot.front]))
    for dot in dots:
        if dot.front or len(dots) <= 20:
            x, y = place[dot.number]
            parts.append(f'<text class="label" x="{x + 7:.1f}" y="{y - 5:.1f}">{dot.number}</text>')
    return Markup(f'<svg class="plane" viewBox="0 0 {_PLANE[0]} {_PLANE[1]}" aria-hidden="true">{"".join(parts)}</svg>')


@dataclass(frozen=True, kw_only=True)
class LadderLine:
    """Scores of one model against FLOPs: (FLOPs, score, interval) of each rung, and the twin's score with its
    interval."""

    number: int
    label: str
    points: Sequence[tuple[float, float, Interval]]
    twin: tuple[float, Interval] | None = None


def ladder(lines: Sequence[LadderLine], labels: Mapping[float, str]) -> Markup:
    """Draws scores over FLOPs (logarithmic): a line with its label for each model, and whiskers for the intervals.

    The twin with random weights has an area of its own at the left, and a dotted line across. A number has the same
    colour and marker in every picture. Markers and labels distinguish the models without the colours. ``labels`` are
    the texts of FLOPs on the axis, "" for an end without one.
    """
    (width, height), (left, right, top, bottom) = _LADDER, _LADDER_MARGIN
    spans = [(value, interval) for line in lines for _, value, interval in line.points]
    spans += [line.twin for line in lines if line.twin]
    known = [x for value, span in spans for x in (value, *span) if math.isfinite(x)]
    levels = round_levels(min(known), max(known))
    up = scale(levels, height - bottom, top)
    start = left + (_TWIN if any(line.twin for line in lines) else _DODGE * len(lines))
    across = scale([math.log10(cost) for cost in labels], start, width - right - _DODGE * len(lines) / 2)
    parts = rules(levels, up, left, width - right)
    for cost, text in ((cost, text) for cost, text in labels.items() if text):
        x = f"{across(math.log10(cost)):.1f}"
        parts.append(f'<line class="axis" x1="{x}" x2="{x}" y1="{top}" y2="{height - bottom}"/>')
        parts.append(f'<text x="{x}" y="{height - bottom + 17}" text-anchor="middle">{Markup.escape(text)}</text>')
    if start == left + _TWIN:
        middle = left + _TWIN / 3
        parts.append(f'<text x="{middle:.1f}" y="{height - bottom + 17}" text-anchor="middle">none</text>')
    names = []
    for i, line in enumerate(lines):
        colour, marker = f"k{(line.number - 1) % COLOURS}", _MARKERS[(line.number - 1) % len(_MARKERS)]
        shift = _DODGE * (i - (len(lines) - 1) / 2)
        drawn = []
        if line.twin:
            score, span = line.twin
            y, x = up(score), left + _TWIN / 3 + shift
            drawn.append(f'<line class="floor" x1="{left}" x2="{width - right}" y1="{y:.1f}" y2="{y:.1f}"/>')
            drawn += [whisker(x, span, up), _marker(marker, x, y, "off")]
        places = [(across(math.log10(cost)) + shift, up(score), span) for cost, score, span in line.points]
        drawn.append(f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y, _ in places)}"/>')
        drawn += [part for x, y, span in places for part in (whisker(x, span, up), _marker(marker, x, y, "on"))]
        parts.append(f'<g class="{colour}">{"".join(drawn)}</g>')
        names.append((places[-1][1], places[-1][0], colour, marker, line))
    margin = width - right + 8
    label_places = _space_labels([one[0] for one in names], height - bottom)
    for y, (at, x, colour, marker, line) in zip(label_places, names, strict=True):
        label = line.label if len(line.label) <= _LONGEST else f"{line.label[: _LONGEST - 1]}…"
        parts.append(f'<g class="{colour}"><line class="lead" x1="{x:.1f}" x2="{margin}" y1="{at:.1f}" y2="{y:.1f}"/>')
        parts.append(f"{_marker(marker, margin, y, 'on')}</g>")
        parts.append(
            f'<text class="label" x="{margin + 8}" y="{y:.1f}" dy="4">{line.number} {Markup.escape(label)}</text>'
        )
    return Markup(f'<svg class="plane ladder" viewBox="0 0 {width} {height}" aria-hidden="true">{"".join(parts)}</svg>')


@dataclass(frozen=True, kw_only=True)
class Course:
    """A model in a picture of pre-trainings: (tokens or FLOPs, loss) along each of its pre-trainings."""

    number: int
    label: str
    paths: Sequence[Sequence[tuple[float, float]]]
    raw: Sequence[Sequence[tuple[float, float]]] = ()
    """The paths before smoothing."""


def courses(lines: Sequence[Course], unit: str) -> Markup:
    """Draws the loss over tokens or FLOPs, both logarithmic. Each model has a colour and dash, a label at the end of
    its line, and a faint line for the values before smoothing."""
    left, right, top, bottom = 46, 190, 12, 34
    width, height = 760, max(340, int(_LINE * len(lines)) + top + bottom + 16)
    points = [point for line in lines for path in (*line.paths, *line.raw) for point in path]
    across = scale([math.log10(x) for x, _ in points], left, width - right)
    up = scale([math.log10(y) for _, y in points], height - bottom, top)
    parts = [_tick(value, up(math.log10(value)), left, width - right) for value in _decades([y for _, y in points])]
    for value in _decades([x for x, _ in points], most=4):
        x, text = across(math.log10(value)), quantity(value, "FLOP" if unit == "flops" else "")
        parts.append(f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{height - bottom}"/>')
        parts.append(f'<text x="{x:.1f}" y="{height - 12}" text-anchor="middle">{Markup.escape(text)}</text>')
    ends = [(across(math.log10(x)), up(math.log10(y))) for x, y in (line.paths[0][-1] for line in lines)]
    margin = width - right + 10
    for line, (x, y), place in zip(lines, ends, _space_labels([y for _, y in ends], height - bottom), strict=True):
        colour = f"k{(line.number - 1) % COLOURS}"
        dash = f"d{(line.number - 1) // COLOURS % _DASHES}"
        paths = "".join(
            f'<polyline class="{kind}" points="'
            f'{" ".join(f"{across(math.log10(a)):.1f},{up(math.log10(b)):.1f}" for a, b in path)}"/>'
            for kind, several in (("raw", line.raw), ("mean", line.paths))
            for path in several
        )
        label = line.label if len(line.label) <= _LONG else f"{line.label[: _LONG - 1]}…"
        parts.append(
            f'<g class="{colour} {dash}"><title>{Markup.escape(line.label)}</title>{paths}'
            f'<line class="lead" x1="{x:.1f}" x2="{margin}" y1="{y:.1f}" y2="{place:.1f}"/>'
            f'<line class="key" x1="{margin}" x2="{margin + 20}" y1="{place:.1f}" y2="{place:.1f}"/>'
            f'<text class="label" x="{margin + 25}" y="{place:.1f}" dy="4">{line.number} {Markup.escape(label)}</text>'
            "</g>"
        )
    return Markup(f'<svg class="plane course" viewBox="0 0 {width} {height}" aria-hidden="true">{"".join(parts)}</svg>')


def _decades(values: Sequence[float], most: int = 9) -> list[float]:
    """Returns round values between the smallest and the largest of ``values``: small multiples of powers of ten. The
    steps are coarser if there would be more than ``most`` values."""
    low, high = min(values), max(values)
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9), (1, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
        found = [step * 10.0**exponent for exponent in exponents for step in steps]
        found = [value for value in found if low <= value <= high]
        if len(found) <= most:
            break
    return found or [low, high]


def _tick(value: float, y: float, left: float, right: float) -> str:
    """Draws a horizontal line of an axis with its value."""
    line = f'<line class="axis" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
    return f'{line}<text x="{left - 6}" y="{y:.1f}" dy="4" text-anchor="end">{value:g}</text>'


def whisker(x: float, span: Interval, up: Callable[[float], float]) -> str:
    """Draws a vertical line over the interval ``span``; "" if the interval is not known."""
    if not math.isfinite(sum(span)):
        return ""
    return f'<line class="range" x1="{x:.1f}" x2="{x:.1f}" y1="{up(span.low):.1f}" y2="{up(span.high):.1f}"/>'


def whiskers(spans: Sequence[tuple[float, Interval]], up: Callable[[float], float]) -> str:
    """Draws the `whisker` of each (x, interval), all as one element; "" if no interval is known."""
    known = [(x, span) for x, span in spans if math.isfinite(sum(span))]
    drawn = "".join(f"M{x:.1f} {up(span.low):.1f}V{up(span.high):.1f}" for x, span in known)
    return f'<path class="range" d="{drawn}"/>' if drawn else ""


def _discs(kind: str, radius: int, places: Sequence[tuple[float, float]]) -> str:
    """Draws a circle at each of ``places``, all as one element."""
    half = f"a{radius} {radius} 0 1 0"
    drawn = "".join(f"M{x - radius:.1f} {y:.1f}{half} {2 * radius} 0{half} {-2 * radius} 0" for x, y in places)
    return f'<path class="{kind}" d="{drawn}"/>' if drawn else ""


def _marker(shape: Sequence[tuple[float, float]], x: float, y: float, kind: str) -> str:
    points = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in shape)
    return f'<polygon class="{kind}" points="{points}"/>'


def _space_labels(places: Sequence[float], high: float) -> list[float]:
    """Returns ``places`` moved so that labels at them do not touch: at least `_LINE` apart, and none beyond
    ``high``."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    found = [places[i] for i in order]
    for i in range(1, len(found)):
        found[i] = max(found[i], found[i - 1] + _LINE)
    over = max(found[-1] - high, 0.0) if found else 0.0
    for i in range(len(found) - 1, -1, -1):
        limit = high if i == len(found) - 1 else found[i + 1] - _LINE
        found[i] = min(found[i], limit) if over else found[i]
    return [found[order.index(i)] for i in range(len(places))]


def scale(values: Sequence[float], start: float, end: float) -> Callable[[float], float]:
    """Returns a function that maps the smallest of ``values`` to ``start`` and the largest to ``end``. It returns the
    middle if all are equal."""
    low, high = min(values), max(values)
    if low == high:
        return lambda value: (start + end) / 2
    return lambda value: start + (end - start) * (value - low) / (high - low)


def widened(low: float, high: float, least: float) -> tuple[float, float]:
    """Returns ``low`` and ``high``, moved apart around the middle to be at least ``least`` apart."""
    missing = max(least - (high - low), 0.0)
    return low - missing / 2, high + missing / 2


def _with_room(labels: Mapping[float, str], at: Callable[[float], float]) -> dict[float, str]:
    """Returns the ``labels`` that do not touch an earlier one."""
    kept: dict[float, str] = {}
    for cost, text in sorted(labels.items()):
        if all(at(cost) - at(other) >= _ROOM for other in kept):
            kept[cost] = text
    return kept


def rules(levels: Sequence[float], up: Callable[[float], float], left: float, right: float) -> list[str]:
    """Draws horizontal lines of an axis at ``levels``, each with its value."""
    return [_tick(value, up(value), left, right) for value in levels]


def round_levels(low: float, high: float) -> list[float]:
    """Returns levels of an axis that holds ``low`` and ``high``: multiples of 1, 2, 2.5 or 5 times a power of ten, in
    at most `_MOST_STEPS` steps."""
    width = max(high - low, 1e-9)
    unit = 10 ** math.floor(math.log10(width / _MOST_STEPS))
    for step in (unit * factor for factor in (1, 2, 2.5, 5, 10, 20, 25)):
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        if last - first <= _MOST_STEPS:
            return [round(step * i, 12) for i in range(first, max(last, first + 1) + 1)]
    return [low, high]
