"""The sealed result of a cell: one JSON file, written once, that outlives the code that made it.

The board and all comparisons depend only on these files. So a record carries everything they need: card, task, budget
spent, scores with their intervals, versions and the command that repeats the cell. A record is complete or does not
exist: the file gets its name only after its bytes are on the disk. The seal is a SHA-256 over the canonical JSON
(sorted keys, no spaces) without the seal itself. It reveals accidental changes, but is not a signature.

JSON has no NaN, which diverged cells need. So non-finite floats are stored as "nan", "inf" and "-inf", and are read
back as floats in the places that hold numbers.
"""

import hashlib
import json
import math
import os
import re
import secrets
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ptmbench.leaderboard.records.layout import (
    AUXILIARY,
    SCHEMA,
    LayoutError,
    check,
    check_values,
    check_whole,
    plain,
    restore_part,
)
from ptmbench.leaderboard.records.pieces import Pieces
from ptmbench.leaderboard.text import clean

FOLDER = "records"
UNDER = "@"
"""Separator in ``task.name`` between a task and the condition under which it was answered: "sst2@misspellings"."""
THEN = ">"
"""Separator in ``adaptation.name`` between an adaptation and the transform of the adapted model:
"finetune>prune:sparsity=0.8"."""
_LARGEST = 32 * 2**20  # bytes; a real record has some kilobytes


class RecordError(ValueError):
    """Raised for a record that cannot be trusted or written. The message names the file and the next step."""


class RecordExists(RecordError):
    """Raised if the cell already has a record; records are never overwritten."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """The result of one cell. Its nested parts are plain dicts in the layout that `leaderboard.records.layout`
    checks."""

    key: str
    """Hex digest of everything that affects the result."""
    status: str
    row: Mapping[str, Any]
    task: Mapping[str, Any]
    adaptation: Mapping[str, Any]
    seed: int
    reason: Mapping[str, str] | None = None
    """{"code", "text"} if ``status`` is not "ok"."""
    pretraining: Mapping[str, Any] | None = None
    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """{name: {"value", "low", "high"}}, with the headline under "headline". ``low`` and ``high`` bound the 95 %
    interval over examples."""
    cost: Mapping[str, Any] = field(default_factory=dict)
    curve: tuple[Mapping[str, float], ...] = ()
    predictions: Mapping[str, str] | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    commit: str | None = None
    device: str | None = None
    command: str = ""
    finished: str = ""
    """ISO 8601, UTC."""
    schema: int = SCHEMA
    seal: str = ""

    @property
    def file_name(self) -> str:
        """``<task>.<row label>.<adaptation>.s<seed>.<key>.json``, each part reduced to harmless characters."""
        parts = (slug(self.task["name"]), slug(self.row["label"]), slug(self.adaptation["name"]))
        return f"{'.'.join(parts)}.s{self.seed}.{self.key[:12]}.json"

    @cached_property
    def headline(self) -> Mapping[str, float]:
        """{"value", "low", "high"} of the headline metric; NaN if the cell has none."""
        return {"value": math.nan, "low": math.nan, "high": math.nan} | dict(self.scores.get("headline", {}))


def write(folder: Path, record: Record) -> Path:
    """Seals ``record``, writes it below the run folder ``folder`` and returns its path.

    Raises `RecordExists` if the cell has a record, and `RecordError` if the record breaks the layout. A process killed
    at any moment leaves either no record or a complete one, and at worst a hidden temporary file that is never read.
    """
    try:
        body = _body(record)
        check(body)
    except LayoutError as error:
        raise RecordError(f"The record of {str(record.key)[:12]} cannot be written: {error}") from error
    body["seal"] = seal(body)
    records = Path(folder) / FOLDER
    records.mkdir(parents=True, exist_ok=True)
    path = records / record.file_name
    temporary = records / f".{record.key[:12]}.{os.getpid()}.{secrets.token_hex(4)}.tmp"
    try:
        with open(temporary, "x", encoding="utf-8") as file:
            json.dump(body, file, indent=1, allow_nan=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        _publish(temporary, path)
    except OSError as error:
        error.filename = error.filename or str(path)  # the error of a full disk does not name the file
        raise
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(records)
    return path


def read(path: Path, pieces: Pieces | None = None) -> Record:
    """Reads the record in ``path`` and verifies its seal and layout. Raises `RecordError` if it is unreadable or
    invalid.

    ``pieces`` is a cache of parts that records share, for callers that read many.
    """
    name = os.path.basename(path)
    try:
        with open(path, "rb", buffering=0) as file:
            content = file.read(_LARGEST + 1)
    except OSError as error:
        raise RecordError(f"{name} cannot be read: {error.strerror or error}.") from error
    return parse(name, content, pieces)


def parse(name: str, content: bytes, pieces: Pieces | None = None) -> Record:
    """Does the same as `read` for the ``content`` of a record file called ``name``."""
    if len(content) > _LARGEST:
        raise RecordError(f"{name} is larger than {_LARGEST >> 20} MiB, so it is not a record. Move it away.")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RecordError(f"{name} is not UTF-8 text: it was damaged after it was written. {_AGAIN}") from error
    body = (pieces or Pieces()).body(text) if f'"schema": {SCHEMA},' in text[:40] else None
    if body is None:
        return _parse_other_layout(name, text)
    try:
        check_whole(body)
    except LayoutError as error:
        raise RecordError(f"{name} breaks the layout of a record: {error} {_AGAIN}") from error
    return Record(**body)


def _parse_other_layout(name: str, text: str) -> Record:
    """Parses records that `write` did not lay out, and raises `RecordError` with the reason for texts that are not
    records."""
    try:
        body = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise RecordError(f"{name} is nested too deeply to be a record. {_AGAIN}") from error
    except ValueError as error:
        line = f" at line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise RecordError(f"{name} is incomplete JSON{line}: it was cut short or damaged. {_AGAIN}") from error
    if not isinstance(body, dict):
        raise RecordError(f"{name} holds no JSON object, so it is not a record. {_AGAIN}")
    schema = body.get("schema")
    if type(schema) is not int or schema != SCHEMA:
        newer = isinstance(schema, int) and schema > SCHEMA
        what = "Update ptmbench." if newer else f"No version of it wrote such a record. {_AGAIN}"
        raise RecordError(f"{name} has schema {clean(schema)!s:.20}; this version of ptmbench reads {SCHEMA}. {what}")
    try:
        for place, value in body.items():
            check_values(value, place)
    except LayoutError as error:
        raise RecordError(f"{name} breaks the layout of a record: {error} {_AGAIN}") from error
    try:
        sealed = body.get("seal") == seal(body)
    except (ValueError, RecursionError):
        sealed = False
    if not sealed:
        raise RecordError(f"{name} does not match its seal: it was changed after it was written. {_AGAIN}")
    try:
        check(body)
    except LayoutError as error:
        raise RecordError(f"{name} breaks the layout of a record: {error} {_AGAIN}") from error
    return Record(**{name: restore_part(name, value) for name, value in body.items()})


_AGAIN = "Delete it and run the same command again: only this cell is redone."


def extra_encoders(record: Record) -> list[tuple[str, Mapping[str, Any]]]:
    """Returns the extra encoders of the cell: the name of each model, and the record's part about its pre-training."""
    return _named(record.adaptation.get("neighbours"))


def auxiliary_tasks(record: Record) -> list[tuple[str, Mapping[str, Any]]]:
    """Returns the auxiliary tasks of the cell: the name of each, and the record's part about it."""
    return [pair for name in AUXILIARY for pair in _named(record.task.get(name))]


def _named(part: Any) -> list[tuple[str, Mapping[str, Any]]]:
    return [pair for pair in part.items() if isinstance(pair[1], Mapping)] if isinstance(part, Mapping) else []


Draw = tuple[tuple[str, ...], int]
"""The random draws behind a record: the seeds of its pre-trainings, and its own seed."""


def draw_of(record: Record) -> Draw:
    """Returns the seeds behind ``record``. Records of one cell and recipe with different seeds are draws of the same
    cell. If the pre-training failed, its planned seed is used."""
    made = [about for _, about in sorted(extra_encoders(record))]
    made = [one for one in (record.pretraining or planned(record), *made) if one]
    return tuple(json.dumps(about.get("seed")) for about in made), record.seed


def planned(record: Record) -> Mapping[str, Any]:
    """Returns the planned pre-training of a record without one, as far as it is known: "budget", "seed", "corpus" and
    "corpus_sha256"; {} if nothing is known."""
    found = record.row.get("planned")
    return found if isinstance(found, Mapping) and not record.pretraining else {}


def method_of(adaptation: str) -> str:
    """Returns the adaptation in a record's ``adaptation.name``, without its settings and without a transform."""
    return adaptation.partition(THEN)[0].partition(":")[0]


def slug(text: str) -> str:
    """Returns ``text`` as a part of a file name: lower-case ASCII letters, digits and hyphens, never empty, never a
    path."""
    plain = unicodedata.normalize("NFKD", str(text)).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:48].strip("-") or "unnamed"


def _publish(temporary: Path, path: Path) -> None:
    """Gives the finished file its name. Unlike a rename, a hard link does not replace an existing file."""
    try:
        os.link(temporary, path)
    except FileExistsError as error:
        raise RecordExists(
            f"{path} already exists. Records are written once; delete it to run the cell again."
        ) from error
    except OSError:  # a file system without hard links
        if os.path.lexists(path):
            raise RecordExists(
                f"{path} already exists. Records are written once; delete it to run the cell again."
            ) from None
        os.replace(temporary, path)


def _sync_folder(folder: Path) -> None:
    """Makes the new name survive a power cut, if the system supports it."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)


def seal(body: Mapping[str, Any]) -> str:
    """Returns the SHA-256 of a JSON object without its seal: of a record, or of a manifest of
    `bench.engine.checkpoint`."""
    unsealed = {name: value for name, value in body.items() if name != "seal"}
    return hashlib.sha256(json.dumps(unsealed, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _body(record: Record) -> dict[str, Any]:
    order = (
        "schema",
        "key",
        "status",
        "reason",
        "row",
        "pretraining",
        "task",
        "adaptation",
        "seed",
        "scores",
        "cost",
        "curve",
    )
    order += ("predictions", "versions", "commit", "device", "command", "finished")
    return {name: plain(getattr(record, name), name) for name in order}
