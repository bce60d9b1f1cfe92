"""Records from folders: whole ones to read, damaged ones to show.

A damaged file never breaks a board. It becomes a marked row with its reason, because a result that silently vanished
is worse than one that is known to be broken.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ptmbench.leaderboard.index import Index
from ptmbench.leaderboard.pieces import Pieces
from ptmbench.leaderboard.record import FOLDER, Record, RecordError, read


@dataclass(frozen=True, kw_only=True)
class Damaged:
    """A file that should be a record and is not."""

    file: str
    """Its path below the folder that was asked for: the same on every machine."""
    reason: str


@dataclass(frozen=True, kw_only=True)
class Store:
    """Everything found, in an order that does not depend on the file system or on the order of the folders."""

    records: tuple[Record, ...]
    damaged: tuple[Damaged, ...] = ()


def load(folders: Sequence[Path], remember: bool = False) -> Store:
    """All records below ``folders`` (run folders, their records folders, or folders of runs).

    Copies of one record count once. ``remember`` takes records whose files did not change from the folder's index (see
    `leaderboard.index`) and keeps it up to date. `RecordError` when a folder is not there or holds no records folder.
    """
    records: dict[str, Record] = {}
    damaged: dict[tuple[str, str], Damaged] = {}
    pieces = Pieces()
    for folder in map(Path, folders):
        for home in _homes(folder):
            index = Index(home) if remember else None
            for name in sorted(os.listdir(home)):
                if not name.endswith(".json") or name.startswith("."):
                    continue
                record = index.get(name) if index else None
                if record is None:
                    marks = index.marks(name) if index else None
                    try:
                        record = read(f"{home}{os.sep}{name}", pieces)
                    except RecordError as error:
                        file = str((home / name).relative_to(folder))
                        damaged[(file, str(error))] = Damaged(file=file, reason=str(error))
                        continue
                    if index:
                        index.put(name, marks, record)
                records[record.seal] = record
            if index:
                index.save()
    return Store(
        records=tuple(sorted(records.values(), key=_order)),
        damaged=tuple(damaged[key] for key in sorted(damaged)),
    )


def runs_below(folder: Path) -> list[Path]:
    """Run folders: ``folder`` itself, the parent of a records folder, or the runs below it."""
    if folder.name == FOLDER:
        return [folder.parent]
    return [folder] if (folder / FOLDER).is_dir() else sorted(path.parent for path in folder.glob(f"*/{FOLDER}"))


def _homes(folder: Path) -> list[Path]:
    """The records folders below ``folder``."""
    if not folder.is_dir():
        raise RecordError(f"There is no folder {folder}. Give the folder that a run wrote to (its --out).")
    if folder.name == FOLDER:
        return [folder]
    if (folder / FOLDER).is_dir():
        return [folder / FOLDER]
    found = sorted(path for path in folder.glob(f"*/{FOLDER}") if path.is_dir())
    if not found:
        raise RecordError(f"{folder} holds no '{FOLDER}' folder, so no run wrote there. Give the --out of a run.")
    return found


def _order(record: Record) -> tuple:
    return (
        record.row["label"],
        record.row["size"] or "",
        record.task["name"],
        record.seed,
        record.finished,
        record.seal,
    )
