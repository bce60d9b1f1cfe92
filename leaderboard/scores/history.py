"""The changes of each cell from one commit of a baseline to the next.

Only comparable scores are compared. The records of all commits are arranged together, so a new version of a task,
another data set, corpus or budget starts a separate history. Means and intervals of all commits are computed by the
rules of this version of ptmbench.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ptmbench.leaderboard.records.history import Version
from ptmbench.leaderboard.records.record import Draw, Record, draw_of
from ptmbench.leaderboard.scores.arrange import places
from ptmbench.leaderboard.scores.grid import Cell, Column, Grid, Row, drawn_words
from ptmbench.leaderboard.text import number


@dataclass(frozen=True, kw_only=True)
class CellChange:
    """A cell after a commit that changed it."""

    version: Version
    cell: Cell | None
    """None if the commit has no record of the cell."""
    description: str
    """The change made by the commit, in words: "2 seeds added"."""


def cell_changes(grid: Grid, versions: Sequence[Version]) -> dict[tuple[Row, Column], tuple[CellChange, ...]]:
    """Returns for each cell of ``grid`` the commits that changed its records, oldest first. A cell that is in no
    version is left out."""
    records = {record.seal: record for version in versions for record in version.records}
    home: dict[str, tuple[Row, Column]] = {}
    members: dict[tuple[Row, Column], list[str]] = {}
    for record, row, column in places(records.values()):
        home.setdefault(record.seal, (row, column))
        members.setdefault((row, column), []).append(record.seal)
    held = [{record.seal for record in version.records} for version in versions]
    found = {}
    for pair, cell in grid.cells.items():
        place = next((home[record.seal] for record in cell.records if record.seal in home), None)
        if place is not None:
            drawn = [_newest([records[seal] for seal in members[place] if seal in there]) for there in held]
            found[pair] = tuple(_changed(versions, drawn))
    return found


def _newest(records: Sequence[Record]) -> dict[Draw, Record]:
    """Returns the record of each draw. If a seed was run again, it is the newest record, as on the board."""
    found: dict[Draw, Record] = {}
    for record in sorted(records, key=lambda one: (one.finished, one.seal)):
        found[draw_of(record)] = record
    return dict(sorted(found.items()))


def _changed(versions: Sequence[Version], drawn: Sequence[Mapping[Draw, Record]]) -> list[CellChange]:
    """Returns a change for each of ``versions`` whose records ``drawn`` differ from the records of the version before
    it."""
    found: list[CellChange] = []
    before: Mapping[Draw, Record] = {}
    for version, now in zip(versions, drawn, strict=True):
        if version.fault and not version.records:  # unreadable records are not removed records
            continue
        if {one.seal for one in now.values()} != {one.seal for one in before.values()}:
            cell = Cell(records=tuple(now.values())) if now else None
            found.append(CellChange(version=version, cell=cell, description=_words(before, now)))
            before = now
    return found


def _words(before: Mapping[Draw, Record], now: Mapping[Draw, Record]) -> str:
    again = [draw for draw in now if draw in before and before[draw].seal != now[draw].seal]
    counts = (
        ([draw for draw in now if draw not in before], "added"),
        (again, "measured again"),
        ([draw for draw in before if draw not in now], "removed"),
    )
    words = [f"{drawn_words(draws)} {what}" for draws, what in counts if draws]
    for name, part in (("version", "version of the adaptation"), ("settings", "settings of the adaptation")):
        old, new = (_distinct(side, name) for side in (before, now))
        if old and new and old != new:
            words.append(f"other {part}")
    return ", ".join(words)


def _distinct(side: Mapping[Draw, Record], name: str) -> list[Any]:
    """Returns the different values of a part of the adaptation."""
    found: list[Any] = []
    for record in side.values():
        if (value := record.adaptation.get(name, 1)) not in found:
            found.append(value)
    return found


def lines(changes: Sequence[CellChange], decimals: int) -> list[dict[str, str]]:
    """Returns the ``changes`` as text, a line each: "commit", "date", "score", "interval", "seeds", "change" and
    "reason"."""
    return [_line(change, decimals) for change in changes]


def _line(change: CellChange, decimals: int) -> dict[str, str]:
    version, cell = change.version, change.cell
    score, interval, seeds = "no record", "", ""
    if cell is not None and cell.ok:
        score, seeds = number(cell.summary.mean, decimals=decimals), cell.drawn
        if all(map(math.isfinite, cell.interval)):
            interval = " to ".join(number(end, decimals=decimals) for end in cell.interval)
    elif cell is not None and cell.blank:
        score = cell.blank[0]
    return {
        "commit": version.commit[:10] or "not committed",
        "date": version.date[:10],
        "score": score,
        "interval": interval,
        "seeds": seeds,
        "change": change.description,
        "reason": version.reason or version.subject,
    }
