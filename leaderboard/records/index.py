"""A cache of a folder's records, so that another board of thousands of records need not parse them again.

The cache is one hidden file in the folder of the records, with a hash of its own. A record is taken from it only while
its file has the size and both times (of content and of metadata, to the nanosecond) that it had when its seal was
verified. All other records are read and verified. A lost or damaged cache costs only time.
"""

import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from ptmbench.leaderboard.records.layout import SCHEMA
from ptmbench.leaderboard.records.pieces import SHARED
from ptmbench.leaderboard.records.record import Record

NAME = ".index"
LEAST = 500  # records; reading fewer is as quick
_FIELDS = tuple(one.name for one in fields(Record))
_Marks = tuple[int, int, int]


class Index:
    """The cached records of one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / NAME
        self._held = _read(self._path)
        self._kept: dict[str, tuple[_Marks, Record]] = {}
        self._new = 0

    def get(self, name: str) -> Record | None:
        """Returns the record of the file ``name`` if the file is unchanged since the seal was verified, or else
        None."""
        held = self._held.get(name)
        if held is None or held[0] != self.marks(name):
            return None
        self._kept[name] = held
        return held[1]

    def put(self, name: str, marks: _Marks | None, record: Record) -> None:
        """Caches ``record``, whose file had ``marks`` (see `marks`) before it was read."""
        self._new += 1
        if marks is not None:
            self._kept[name] = (marks, record)

    def marks(self, name: str) -> _Marks | None:
        """Returns the size and both times of the file ``name``; None if they cannot be read."""
        try:
            found = os.stat(f"{self._folder}{os.sep}{name}")
        except OSError:
            return None
        return (found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    def save(self) -> None:
        """Writes the cache if there are new records, at least `LEAST` in all, and the folder is writable."""
        if len(self._kept) < LEAST or not self._new:
            return
        content = _dumps(self._kept).encode("ascii")
        temporary = self._path.with_name(f"{NAME}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
        try:
            temporary.write_bytes(_digest(content) + b"\n" + content)
            os.replace(temporary, self._path)
        except OSError:  # a read-only folder: the next board takes as long as this one
            temporary.unlink(missing_ok=True)


def _read(path: Path) -> dict[str, tuple[_Marks, Record]]:
    try:
        digest, _, content = path.read_bytes().partition(b"\n")
        if digest != _digest(content):
            return {}
        held = json.loads(content)  # intact, by its hash: this module wrote it
    except (OSError, ValueError, RecursionError):
        return {}
    columns = held["columns"]
    for name, values in held["shared"].items():
        columns[name] = [values[place] for place in columns[name]]
    columns["curve"] = map(tuple, columns["curve"])
    records = map(_record, zip(*(columns[name] for name in _FIELDS), strict=True))
    marks = zip(*held["marks"], strict=True)
    return dict(zip(held["files"], zip(marks, records, strict=True), strict=True))


def _record(values: tuple[Any, ...]) -> Record:
    """Returns a record with its fields set at once. The constructor of a frozen class sets them one by one, which takes
    longer."""
    record = object.__new__(Record)
    vars(record).update(zip(_FIELDS, values, strict=True))
    return record


def _dumps(kept: Mapping[str, tuple[_Marks, Record]]) -> str:
    """Serialises records by columns, since rows would be thousands of lists to parse. A part that many records share is
    stored once."""
    shared, columns = {}, {}
    for name in _FIELDS:
        values = [getattr(record, name) for _, record in kept.values()]
        if name in SHARED:
            distinct = {id(value): value for value in values}
            places = {key: place for place, key in enumerate(distinct)}
            shared[name], values = list(distinct.values()), [places[id(value)] for value in values]
        columns[name] = values
    marks = list(zip(*(marks for marks, _ in kept.values()), strict=True))
    held = {"files": list(kept), "marks": marks, "shared": shared, "columns": columns}
    return json.dumps(held, separators=(",", ":"))


def _digest(content: bytes) -> bytes:
    """Returns the SHA-256 of ``content`` and of the layout, so that an index with another schema or order of fields is
    not used."""
    return hashlib.sha256(f"columns {SCHEMA} {','.join(_FIELDS)}\n".encode() + content).hexdigest().encode()
