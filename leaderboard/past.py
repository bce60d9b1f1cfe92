"""The history of a baseline as lines of text, for the command ``history``. The board shows the same in its
drill-down."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from ptmbench.leaderboard.page.anchors import column_anchors, row_anchors
from ptmbench.leaderboard.page.cells import cell_anchor
from ptmbench.leaderboard.records.history import History, HistoryError, Version, history
from ptmbench.leaderboard.scores.arrange import arrange
from ptmbench.leaderboard.scores.grid import Column
from ptmbench.leaderboard.scores.history import CellChange, cell_changes, lines

_MOST_NAMED = 5


@dataclass(frozen=True)
class TextTable:
    lines: tuple[tuple[str, ...], ...]
    """The titles of the columns, then the lines below them."""
    notes: tuple[str, ...]


def commits(folder: Path) -> TextTable:
    """Returns the commits of the baseline in ``folder``: date, number of records, number of changed cells, reason."""
    found = history(folder)
    changed = Counter(id(one.version) for _, changes in _changes_by_cell_name(found).values() for one in changes)
    rows = [
        (_commit(one), one.date[:10], str(len(one.records)), str(changed[id(one)]), one.reason or one.subject)
        for one in found.versions
    ]
    return TextTable((("commit", "date", "records", "cells changed", "reason"), *rows), found.notes)


def cells(folder: Path, part: str) -> TextTable:
    """Returns the commits that changed the cells whose names contain ``part``, with the scores after each commit.

    Raises `HistoryError` if no cell of the baseline has such a name.
    """
    found = history(folder)
    by_name = _changes_by_cell_name(found)
    wanted = part.strip().lstrip("#").removeprefix("cell-").lower()
    chosen = {name: one for name, one in by_name.items() if wanted in name.lower()}
    if not chosen:
        near = get_close_matches(wanted, by_name, n=_MOST_NAMED, cutoff=0.3) or sorted(by_name)[:_MOST_NAMED]
        raise HistoryError(
            f"No cell of {folder} is called '{part}'. It has {len(by_name)} cells, such as {', '.join(near)}."
        )
    rows = [
        (name, *line.values())
        for name, (column, changes) in sorted(chosen.items())
        for line in lines(changes, column.decimals)
    ]
    titles = ("cell", "commit", "date", "score", "95 % interval", "seeds", "change", "reason")
    return TextTable((titles, *rows), found.notes)


def _changes_by_cell_name(found: History) -> Mapping[str, tuple[Column, Sequence[CellChange]]]:
    """Returns {cell name: (column, changes)}. The names are the anchors of the board without "cell-"."""
    grid = arrange(found.versions[-1].records)
    rows, columns = row_anchors(grid.rows), column_anchors(grid.columns)
    return {
        cell_anchor(rows[row], columns[column]).removeprefix("cell-"): (column, changes)
        for (row, column), changes in cell_changes(grid, found.versions).items()
    }


def _commit(version: Version) -> str:
    return version.commit[:10] or "not committed"
