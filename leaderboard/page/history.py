"""The history of each cell in the drill-down of the board: a picture and a list of the commits that changed it.

It is shown for accepted baselines in a git repository. Cells with a single commit have no history to show.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import escape

from ptmbench.leaderboard.page import charts
from ptmbench.leaderboard.records.history import History, HistoryError, history, is_baseline
from ptmbench.leaderboard.records.store import runs_below
from ptmbench.leaderboard.scores.grid import Column, Grid, Row
from ptmbench.leaderboard.scores.history import CellChange, cell_changes, lines
from ptmbench.leaderboard.text import clean

SHOWN = 5
"""Most commits listed for a cell, the newest ones, so that the page stays small however old the baseline is."""
_LEAST = 3
"""Fewest scores for a picture of them."""
_STEP, _HEIGHT, _LEFT = 28, 72, 46


@dataclass(frozen=True)
class Past:
    """The history in git of the baselines on a page."""

    histories: tuple[History, ...]
    notes: tuple[str, ...]
    """Sentences about missing parts."""


NOTHING = Past((), ())


def read(folders: Sequence[Path]) -> Past:
    """Returns the histories of the baselines below ``folders``."""
    found, notes = [], []
    for folder in (run for one in folders for run in runs_below(Path(one)) if is_baseline(run)):
        try:
            found.append(history(folder, folder.resolve().name))
            notes += found[-1].notes
        except HistoryError as error:
            notes.append(str(error))
    return Past(tuple(found), tuple(notes))


def markup(grid: Grid, past: Past) -> dict[tuple[Row, Column], str]:
    """Returns a table row for each cell of ``grid`` that several commits changed. It follows the cell on the row's
    sheet."""
    found: dict[tuple[Row, Column], str] = {}
    for one in past.histories:
        for (row, column), changes in cell_changes(grid, one.versions).items():
            if len(changes) > 1:
                found.setdefault((row, column), _details(column, changes))
    return found


def _details(column: Column, changes: Sequence[CellChange]) -> str:
    shown = changes[-SHOWN:]
    items = "".join(_item(line) for line in lines(shown, column.decimals))
    count = f"{len(changes)} commits changed this cell" + (f", the newest {SHOWN}" if len(shown) < len(changes) else "")
    summary = f"<summary>History: {count}</summary>"
    return f"<tr class=past><td colspan=7><details>{summary}{_picture(shown)}<ol>\n{items}</ol></details>\n"


def _item(line: Mapping[str, str]) -> str:
    """Returns one commit as a list item."""
    score = f"<b>{_inert(line['score'])}</b>"
    if line["interval"]:
        score += f" ({_inert(line['interval'])})"
    when = " ".join(filter(None, (line["date"], line["commit"])))
    details = (line["seeds"], line["change"])
    return f"<li>{_inert(when)}: {score}, {_inert('; '.join(filter(None, details)))}. {_inert(line['reason'])}\n"


def _inert(text: str) -> str:
    return str(escape(clean(text)))


def _picture(changes: Sequence[CellChange]) -> str:
    """Draws the score with its interval at each commit; returns "" for fewer than `_LEAST` scores."""
    scored = {i: one.cell for i, one in enumerate(changes) if one.cell is not None and one.cell.ok}
    known = {i: cell for i, cell in scored.items() if math.isfinite(cell.summary.mean)}
    if len(known) < _LEAST:
        return ""
    ends = [x for cell in known.values() for x in (cell.summary.mean, *cell.interval) if math.isfinite(x)]
    levels = charts.round_levels(min(ends), max(ends))
    levels = [levels[0], levels[-1]]
    up, width = charts.scale(levels, _HEIGHT - 10, 10), _LEFT + _STEP * len(changes)
    at = {i: _LEFT + _STEP * (i + 0.5) for i in known}
    means = [f"{at[i]:.0f} {up(cell.summary.mean):.1f}" for i, cell in known.items()]
    parts = [
        *charts.rules(levels, up, _LEFT, width),
        charts.whiskers([(at[i], cell.interval) for i, cell in known.items()], up),
        f'<path class=front d="M{"L".join(means)}"/>',
        f'<path class=dots d="{"".join(f"M{one}h0" for one in means)}"/>',
    ]
    size = f'viewBox="0 0 {width} {_HEIGHT}" width="{width}" height="{_HEIGHT}"'
    return f"<svg class=past {size} aria-hidden=true>{''.join(parts)}</svg>"
