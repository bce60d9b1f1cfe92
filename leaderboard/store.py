"""Records from folders: whole ones to read, damaged ones to show.

A damaged file never breaks a board. It becomes a marked row with its reason, because a result that silently vanished
is worse than one that is known to be broken.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from leaderboard.record import FOLDER, Record, RecordError, read


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


def load(folders: Sequence[Path]) -> Store:
    """All records below ``folders`` (run folders, their records folders, or folders of runs).

    Copies of one record count once. `RecordError` when a folder is not there or holds no records folder at all.
    """
    records: dict[str, Record] = {}
    damaged: dict[tuple[str, str], Damaged] = {}
    for folder in map(Path, folders):
        for path in _files(folder):
            try:
                record = read(path)
            except RecordError as error:
                name = str(path.relative_to(folder))
                damaged[(name, str(error))] = Damaged(file=name, reason=str(error))
            else:
                records[record.seal] = record
    return Store(
        records=tuple(sorted(records.values(), key=_order)),
        damaged=tuple(damaged[key] for key in sorted(damaged)),
    )


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise RecordError(f"There is no folder {folder}. Give the folder that a run wrote to (its --out).")
    if folder.name == FOLDER:
        found = [folder]
    elif (folder / FOLDER).is_dir():
        found = [folder / FOLDER]
    else:
        found = sorted(path for path in folder.glob(f"*/{FOLDER}") if path.is_dir())
    if not found:
        raise RecordError(f"{folder} holds no '{FOLDER}' folder, so no run wrote there. Give the --out of a run.")
    return sorted(path for one in found for path in one.glob("*.json") if not path.name.startswith("."))


def _order(record: Record) -> tuple:
    return (
        record.row["label"],
        record.row["size"] or "",
        record.task["name"],
        record.seed,
        record.finished,
        record.seal,
    )
