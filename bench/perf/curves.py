"""Draws curves against seconds as a self-contained SVG file."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from xml.sax.saxutils import escape

import numpy as np

_WIDTH, _HEIGHT = 640, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 120, 28, 44
_DASHES = ("none", "7 4", "2 3", "9 3 2 3")  # so that curves differ in more than their colour
_COLOURS = ("#1b5e9e", "#b3541e", "#4b7f3a", "#6a4c93")
_TICKS = 5


def picture(curves: Mapping[str, Sequence[tuple[float, float]]], *, title: str, down: str) -> str:
    """Returns the SVG of ``curves``, {name: (seconds, value) points}. ``down`` is the label of the vertical axis.

    The horizontal axis starts at 0 seconds, the vertical axis at the smallest value. Every point is marked, and the
    name of a curve is next to its last point.
    """
    values = [value for points in curves.values() for _, value in points]
    longest = max(second for points in curves.values() for second, _ in points)
    low, high = min(values), max(values)
    if low == high:
        low, high = low - 0.5, high + 0.5

    def across(second: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * second / longest

    def up(value: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (high - value) / (high - low)

    parts = [f'<text x="{_LEFT}" y="16" font-weight="bold">{escape(title)}</text>']
    for second in np.linspace(0, longest, _TICKS):
        parts.append(
            f'<line class="axis" x1="{across(second):.1f}" x2="{across(second):.1f}" y1="{_TOP}" y2="{up(low):.1f}"/>'
        )
        parts.append(f'<text x="{across(second):.1f}" y="{_HEIGHT - 26}" text-anchor="middle">{second:.0f}</text>')
    for value in np.linspace(low, high, _TICKS):
        parts.append(
            f'<line class="axis" x1="{_LEFT}" x2="{across(longest):.1f}" y1="{up(value):.1f}" y2="{up(value):.1f}"/>'
        )
        parts.append(f'<text x="{_LEFT - 6}" y="{up(value) + 4:.1f}" text-anchor="end">{value:.2f}</text>')
    parts.append(
        f'<text x="{across(longest / 2):.1f}" y="{_HEIGHT - 8}" text-anchor="middle">seconds of training</text>'
    )
    parts.append(
        f'<text transform="translate(12 {up((low + high) / 2):.1f}) rotate(-90)" text-anchor="middle">'
        f"{escape(down)}</text>"
    )
    for (name, points), dash, colour in zip(curves.items(), cycle(_DASHES), cycle(_COLOURS), strict=False):
        places = [f"{across(second):.1f},{up(value):.1f}" for second, value in points]
        parts.append(
            f'<polyline points="{" ".join(places)}" fill="none" stroke="{colour}" stroke-width="2" '
            f'stroke-dasharray="{dash}"/>'
        )
        parts += [
            f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>' for x, y in (place.split(",") for place in places)
        ]
        x, y = places[-1].split(",")
        parts.append(f'<text x="{float(x) + 8:.1f}" y="{float(y) + 4:.1f}" fill="{colour}">{escape(name)}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" '
        f'font-family="sans-serif" font-size="12"><style>.axis{{stroke:#ccc}}</style>'
        f'<rect width="100%" height="100%" fill="white"/>{"".join(parts)}</svg>\n'
    )
