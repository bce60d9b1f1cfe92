"""The markup of a cell in its three places on the page: the table of scores, its row's sheet and its task's sheet.

Sixty rows and forty tasks have 7,200 such places, which are most of the page. So their markup is built here, once per
cell, and not in the loops of a template. Texts from records pass `_inert`, which escapes them as the template does.
Everything else is numbers and our own names.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from markupsafe import escape

from ptmbench.leaderboard.page import charts
from ptmbench.leaderboard.records.layout import is_number
from ptmbench.leaderboard.records.record import Record, planned
from ptmbench.leaderboard.scores import overlap
from ptmbench.leaderboard.scores.grid import NOT_RUN, Cell, Column, Grid, Row
from ptmbench.leaderboard.stats import Interval, Summary, mean_of
from ptmbench.leaderboard.text import clean, decimals_of, number

_POINTS = 6  # points of a learning curve in the text


class Places(NamedTuple):
    """The markup of one cell."""

    score: str
    """A cell of the table of scores."""
    sheet: str
    """A line of the row's sheet, with seeds, learning curve and commands."""
    task: str
    """A line of the task's sheet."""


def places(grid: Grid, row: Row, column: Column, at: tuple[str, str], drawn: str, starred: bool = False) -> Places:
    """Returns the markup of the cell of ``row`` and ``column``, whose anchors on the page are ``at``. Most cells have
    the seeds ``drawn``, so only other seeds are written. A cell without any record is only in the table of scores."""
    cell = grid.cells.get((row, column))
    if cell is None:
        code, sentence = map(_inert, NOT_RUN)
        blank = f'<td class=num data-v=""><span class=code title="{sentence}">{code}</span>\n'
        return Places(score=blank, sheet="", task="")
    anchor = cell_anchor(*at)
    rank = grid.ranks(column).get(row, "")
    if cell.ok:
        mean = number(cell.summary.mean, decimals=column.decimals)
        interval = _interval(cell.interval, decimals=column.decimals)
        star = "*" if starred else ""
        score = _score(cell, anchor, f" class=leads>{mean}*" if star else f">{mean}", interval, drawn)
        task, sentence = f"{mean}{star}", ""
    else:
        code, sentence = map(_inert, cell.blank)
        bad = " bad" if cell.records[0].status in ("failed", "diverged") else ""
        mean = task = f'<span class="code{bad}">{code}</span>'
        interval = ""
        score = f'<td class=num data-v=""><a class="code{bad}" href=#{anchor} title="{sentence}">{code}</a>\n'
    numbers = f"<td class=num>{interval}<td class=num>{rank}"
    ran = _inert("; ".join(_seed(one, cell.pretrainings > 1) for one in cell.records))
    shared = _inert(overlap.cell_line(cell.ok))
    ran += f"<small>{shared}</small>" if shared else ""
    course = f"<td class=seeds>{ran or sentence}<td class=course>{_curve(cell)}"
    commands = [_inert(one) for one in cell.commands]
    if len(commands) == 1:  # without a <code> element: pages have hundreds
        again = f"<td class=command>{commands[0]}"
    else:
        again = f"<td>{''.join(f'<code>{one}</code>' for one in commands)}"
    head = f"<th scope=row><a href=#{at[1]} dir=auto>{_inert(column.title)}</a>"
    return Places(
        score=score,
        sheet=f"<tr id={anchor}>{head}<td class=num>{mean}{numbers}{course}{again}\n",
        task=f"<tr data-of={at[0]}><td><a href=#{anchor} dir=auto>{_inert(row.title)}</a>"
        f"<td class=num>{task}{numbers}\n\n",
    )


def cell_anchor(row: str, column: str) -> str:
    """Returns the anchor of a cell on the page, from the anchors of its row and its column."""
    return f"cell-{row.removeprefix('row-')}-{column.removeprefix('task-')}"


def score(
    summary: Summary, interval: Interval | None = None, signed: bool = False, decimals: int = 1
) -> dict[str, Any]:
    """Returns a score as text for the page; "" for missing parts."""
    low, high = interval or summary.interval
    known = math.isfinite(low) and math.isfinite(high)
    return {
        "n": summary.n,
        "mean": number(summary.mean, signed, decimals) if summary.n else "",
        "sd": number(summary.sd, decimals=decimals) if math.isfinite(summary.sd) else "",
        "interval": _interval(Interval(low, high), signed, decimals),
        "sort": _sort(summary.mean),
        "excludes_zero": known and (low > 0 or high < 0),
    }


def _score(cell: Cell, anchor: str, link: str, interval: str, drawn: str) -> str:
    below = ""
    if cell.marks:
        below = f"<small class=bad>{_inert(', '.join(cell.marks))}</small>"
    elif cell.drawn != drawn:
        below = f"<small>{cell.drawn}</small>"
    value = _sort(cell.summary.mean) or '""'
    low, high = cell.interval
    ends = f" data-low={low:.6g} data-high={high:.6g}" if math.isfinite(low) and math.isfinite(high) else ""
    return f"<td class=num data-v={value}{ends}><a href=#{anchor}{link}</a><small>{interval}</small>{below}"


def _interval(interval: Interval, signed: bool = False, decimals: int = 1) -> str:
    if not (math.isfinite(interval.low) and math.isfinite(interval.high)):
        return ""
    return f"{number(interval.low, signed, decimals)} to {number(interval.high, signed, decimals)}"


def _sort(mean: float) -> str:
    """Returns the value that the script sorts by."""
    return f"{mean:.3f}" if math.isfinite(mean) else ""


def _seed(record: Record, several: bool) -> str:
    """Returns the score of a seed, with the seed of its pre-training if the cell has ``several``."""
    made = record.pretraining or planned(record)
    seed = f"pre-training {made.get('seed')}, {record.seed}" if several else f"{record.seed}"
    if record.status == "ok":
        return f"{seed}: {number(record.headline['value'], decimals=decimals_of(record.task) + 1)}"
    return f"{seed}: {record.status.replace('_', ' ')}, {record.reason['text']}"


def _curve(cell: Cell) -> str:
    """Returns the learning curve of the adaptation as a picture and as text. It is averaged over seeds, at the steps
    that all seeds have."""
    steps: dict[Any, list[Mapping[str, float]]] = {}
    for record in cell.ok:
        for point in record.curve:
            if is_number(step := point.get("step")):
                steps.setdefault(step, []).append(point)
    common = sorted(step for step, found in steps.items() if len(found) == len(cell.ok))
    if not common:
        return ""
    name = "score" if all("score" in one for step in common for one in steps[step]) else "loss"
    points = [(float(step), _mean([one.get(name) for one in steps[step]])) for step in common]
    every = max(1, -(-len(points) // _POINTS))
    text = ", ".join(f"{step:g}: {value:.4g}" for step, value in (*points[:-1:every], points[-1]))
    return f"{charts.curve(points)}{name} {text}"


def _mean(values: Sequence[Any]) -> float:
    known = [float(value) for value in values if is_number(value)]
    return mean_of(known) if known else math.nan


def _inert(text: str) -> str:
    return str(escape(clean(text)))
