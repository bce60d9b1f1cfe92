"""Reads the records in folders: valid records, and damaged files with their reasons.

A damaged file never breaks a board. It becomes a marked row with its reason, so that no result vanishes silently.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ptmbench.leaderboard.records import pack
from ptmbench.leaderboard.records.index import Index
from ptmbench.leaderboard.records.pack import PACK, PackError
from ptmbench.leaderboard.records.pieces import Pieces
from ptmbench.leaderboard.records.record import FOLDER, Record, RecordError, parse, read


@dataclass(frozen=True, kw_only=True)
class Damaged:
    """A file that should be a record but is not valid."""

    file: str
    """The path below the folder that was given, so that it is the same on every machine."""
    reason: str


@dataclass(frozen=True, kw_only=True)
class Store:
    """All records and damaged files, in an order that does not depend on the file system or on the order of the
    folders."""

    records: tuple[Record, ...]
    damaged: tuple[Damaged, ...] = ()


def load(folders: Sequence[Path], remember: bool = False) -> Store:
    """Reads all records below ``folders`` (run folders, their records folders, or folders of runs), loose or packed.

    Copies of one record count once. With ``remember``, records whose files did not change are taken from the folder's
    index (see `leaderboard.records.index`), and the index is updated. Raises `RecordError` if a folder does not exist
    or holds no records.
    """
    records: dict[str, Record] = {}
    damaged: dict[tuple[str, str], Damaged] = {}
    pieces = Pieces()
    for folder in map(Path, folders):
        for home in homes(folder):
            found = _packed(home, pieces) if home.name == PACK else _loose(home, pieces, remember)
            for name, record in found:
                if isinstance(record, Record):
                    records[record.seal] = record
                else:
                    file = os.path.relpath(home / name, folder)
                    damaged[(file, str(record))] = Damaged(file=file, reason=str(record))
    return Store(
        records=tuple(sorted(records.values(), key=_order)),
        damaged=tuple(damaged[key] for key in sorted(damaged)),
    )


_Found = Iterator[tuple[str, Record | RecordError]]
"""File names, each with its record or with the error."""


def _loose(home: Path, pieces: Pieces, remember: bool) -> _Found:
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
                yield name, error
                continue
            if index:
                index.put(name, marks, record)
        yield name, record
    if index:
        index.save()


def _packed(path: Path, pieces: Pieces) -> _Found:
    try:
        found = pack.read(path)
    except PackError as error:
        yield "", error
        return
    for name, content in found.records.items():
        try:
            yield name, parse(name, content, pieces)
        except RecordError as error:
            yield name, error
    for name in found.lost:
        yield name, RecordError(f"{name} is missing from {path.name} or damaged in it. {pack.AGAIN}")
    if found.fault:
        yield "", RecordError(f"{path.name} is damaged: {found.fault}. {pack.AGAIN}")


def runs_below(folder: Path) -> list[Path]:
    """Returns the run folders and baselines whose records `homes` finds."""
    return list(dict.fromkeys(home.parent for home in homes(folder)))


def homes(folder: Path) -> list[Path]:
    """Returns the records folders and packs below ``folder``. The folder around each of them is a run folder.

    Raises `RecordError` if there is none.
    """
    if folder.is_file() and folder.name == PACK:
        return [folder]
    if not folder.is_dir():
        raise RecordError(f"There is no folder {folder}. Give the folder that a run wrote to (its --out).")
    if folder.name == FOLDER:
        return [folder]
    for pattern in ("", "*/"):
        loose = (path for path in folder.glob(f"{pattern}{FOLDER}") if path.is_dir())
        found = sorted([*loose, *(path for path in folder.glob(f"{pattern}{PACK}") if path.is_file())])
        if found:
            return found
    raise RecordError(
        f"{folder} holds no '{FOLDER}' folder and no {PACK}, so no run wrote there. Give the --out of a run."
    )


def _order(record: Record) -> tuple:
    return (
        record.row["label"],
        record.row["size"] or "",
        record.task["name"],
        record.seed,
        record.finished,
        record.seal,
    )
