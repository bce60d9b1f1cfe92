"""JSON files with a seal: a SHA-256 over the canonical JSON without the seal. It detects accidental changes; it is not
a signature."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ptmbench.bench.engine.checkpoint import digest, write_text
from ptmbench.leaderboard.records.record import RecordError

SCHEMA = 1


def write(path: Path, kind: str, content: Mapping[str, Any]) -> None:
    """Writes ``content`` to ``path``, whole or not at all."""
    body = {"schema": SCHEMA, "kind": kind, **content}
    write_text(path, json.dumps(body | {"seal": digest(body)}, indent=1, allow_nan=False) + "\n")


def result(given: Path, name: str, kind: str) -> tuple[Path, dict[str, Any]]:
    """Returns the path and the content of a tuning's result: the file ``given``, or ``name`` in the folder ``given``.
    Raises `RecordError` as `read` does."""
    path = given / name if given.is_dir() else given
    return path, read(path, kind, "Run the command again that made it: its trials are kept.")


def read(path: Path, kind: str, advice: str) -> dict[str, Any]:
    """Reads the content at ``path``. Raises `RecordError` if the file is missing or damaged, with ``advice``, or if it
    is of another kind or schema."""
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        seal = body.pop("seal")
        known = body["schema"], body["kind"]
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror or error}. {advice}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RecordError(f"{path} is damaged: it is not sealed JSON. {advice}") from error
    if seal != digest(body):
        raise RecordError(f"{path} does not match its seal: it was changed after it was written. {advice}")
    if known != (SCHEMA, kind):
        raise RecordError(f"{path} is a file of kind {known[1]}, schema {known[0]}, not {kind}, schema {SCHEMA}.")
    return body
