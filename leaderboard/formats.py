"""Writes the board's tables as Markdown and CSV."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ptmbench.leaderboard.text import csv_cell, markdown_cell

if TYPE_CHECKING:
    import pandas as pd


_WIDTH = 120
"""Widest table whose columns are aligned, in characters. In wider ones, lines wrap, and spaces would only fill the file
and let one long cell change every line."""


def to_markdown(frame: pd.DataFrame) -> str:
    """Returns a pipe table without the columns that are blank in every row. Markup in cells is escaped."""
    if len(frame):
        frame = frame.loc[:, ~frame.map(_blank).all()]
    header = [markdown_cell(name) for name in frame.columns]
    body = [["" if _blank(value) else markdown_cell(_plain(value)) for value in row] for row in frame.values.tolist()]
    widths = [max(map(len, column)) for column in zip(header, *body, strict=True)]
    if sum(widths) + 3 * len(widths) + 1 > _WIDTH:
        widths = [0] * len(widths)
    rules = ["-" * max(3, width) for width in widths]
    lines = (_line(cells, widths) for cells in [header, rules, *body])
    return "\n".join(lines) + "\n"


def to_csv(frame: pd.DataFrame) -> str:
    """Returns CSV in which no cell starts a formula. Numbers keep all their digits."""
    safe = frame.astype(object).map(csv_cell)
    safe.columns = [csv_cell(name) for name in frame.columns]
    return safe.to_csv(index=False, lineterminator="\n")


def _line(cells: list[str], widths: list[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"


def _blank(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.2f}".rstrip("0").rstrip(".")
    return f"{value:,}" if isinstance(value, int) and abs(value) >= 10_000 else str(value)
