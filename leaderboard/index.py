"""A folder's records, read once and remembered: the second board of thousands of records opens them all in a blink.

The memory lies beside the records as one hidden file with a hash of its own. A record is taken from it only while its
file has the size and both times (of content and of metadata, to the nanosecond) that it had when its seal was
verified; everything else is read and verified as ever. Losing the file, or finding it damaged, costs time and nothing
else.
"""

import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from leaderboard.layout import SCHEMA
from leaderboard.record import Record

NAME = ".index"
LEAST = 500  # records; below, reading them is as quick
_SHARED = ("row", "pretraining", "task", "adaptation", "versions")
_FIELDS = tuple(one.name for one in fields(Record))


class Index:
    """The remembered records of one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / NAME
        self._held = _read(self._path)
        self._kept: dict[str, tuple[list[int], Record]] = {}
        self._new = 0

    def get(self, name: str) -> Record | None:
        """The record of the file ``name``, where it is unchanged since its seal was verified."""
        held = self._held.get(name)
        if held is None or held[0] != _marks(f"{self._folder}{os.sep}{name}"):
            return None
        self._kept[name] = held
        return held[1]

    def put(self, name: str, marks: list[int] | None, record: Record) -> None:
        """Remember ``record``, whose file had ``marks`` (see `marks`) before it was read."""
        self._new += 1
        if marks is not None:
            self._kept[name] = (marks, record)

    def marks(self, name: str) -> list[int] | None:
        return _marks(f"{self._folder}{os.sep}{name}")

    def save(self) -> None:
        """Write what was learnt, if it is worth it and the folder can be written."""
        if len(self._kept) < LEAST or not self._new:
            return
        text = _dumps(self._kept)
        temporary = self._path.with_name(f"{NAME}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
        try:
            temporary.write_text(f"{_digest(text)}\n{text}", encoding="ascii")
            os.replace(temporary, self._path)
        except OSError:  # a folder to read only: the next board takes as long as this one
            temporary.unlink(missing_ok=True)


def _read(path: Path) -> dict[str, tuple[list[int], Record]]:
    try:
        digest, _, text = path.read_text(encoding="ascii").partition("\n")
        if digest != _digest(text):
            return {}
        held = json.loads(text)
    except (OSError, ValueError):
        return {}
    shared = {name: held["shared"][name] for name in _SHARED}
    return {
        name: (marks, _record(values, shared)) for name, (marks, values) in held["files"].items()
    }  # whole, by its hash: this module wrote it


def _record(values: list[Any], shared: Mapping[str, list[Any]]) -> Record:
    body = dict(zip(_FIELDS, values, strict=True))
    for name in _SHARED:
        body[name] = shared[name][body[name]]
    body["curve"] = tuple(body["curve"])
    return Record(**body)


def _dumps(kept: Mapping[str, tuple[list[int], Record]]) -> str:
    shared: dict[str, list[Any]] = {name: [] for name in _SHARED}
    places: dict[str, dict[int, int]] = {name: {} for name in _SHARED}
    files = {}
    for file, (marks, record) in kept.items():
        values = [getattr(record, name) for name in _FIELDS]
        for name in _SHARED:
            value = getattr(record, name)
            if id(value) not in places[name]:
                places[name][id(value)] = len(shared[name])
                shared[name].append(value)
            values[_FIELDS.index(name)] = places[name][id(value)]
        files[file] = (marks, values)
    return json.dumps({"shared": shared, "files": files}, separators=(",", ":"))


def _digest(text: str) -> str:
    """Over the layout as well: another schema, or another order of fields, is another index."""
    return hashlib.sha256(f"{SCHEMA} {','.join(_FIELDS)}\n{text}".encode()).hexdigest()


def _marks(path: str) -> list[int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns]
