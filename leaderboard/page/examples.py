"""Gold label and prediction of every example, in small script files that the board's page loads on demand.

A page that was opened from a file may not read files, but it may load scripts. So each record's predictions become one
call of `ptmbenchExamples` with plain JSON. Each file is first checked against the hash in its record, so that
predictions of another run are never shown with a score.
"""

import gzip
import hashlib
import json
import os
import secrets
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ptmbench.leaderboard.records.record import Record
from ptmbench.leaderboard.records.store import runs_below

EXAMPLES_FOLDER = "examples"
_LONG = 2000  # characters of a text
_LARGEST = 64 * 2**20  # bytes of one file when unpacked


def file_of(record: Record) -> str:
    """Returns the path of the script of one record. Its name comes from the seal, so it is safe and unique."""
    return f"{EXAMPLES_FOLDER}/{record.seal[:24]}.js"


Texts = Callable[[Mapping[str, Any]], Mapping[str, Any] | None]
"""Maps the part ``task`` of a record to {"labels": {label: words}, "texts": {id: inputs}}; None if they are not
known."""


def text_key(task: Mapping[str, Any]) -> str:
    """Returns the key of the texts of ``task`` in the names of scripts. Other data have another key."""
    return hashlib.sha256(f"{task['name']} {task.get('data_sha256')}".encode()).hexdigest()[:24]


def write_all(
    records: Iterable[Record], folders: Sequence[Path], out: Path, texts: Texts | None = None
) -> tuple[dict[str, str], list[str]]:
    """Writes the scripts. Returns {seal: script below ``out``} for every record whose predictions are there and valid,
    and notes on the others. With ``texts``, the tasks whose texts are known are added as {`text_key`: script}."""
    found: dict[str, str] = {}
    notes: list[str] = []
    requested: set[str] = set()
    runs = list(dict.fromkeys(run for folder in folders for run in runs_below(Path(folder))))
    for record in records:
        if record.status != "ok" or not record.predictions:
            continue
        script = out / file_of(record)
        rows, fault = _rows(record, runs)
        if fault:
            notes.append(fault)
        elif rows is not None:
            _write(script, f"ptmbenchExamples({_literal(record.seal[:24])},{_literal(rows)});\n")
            found[record.seal] = file_of(record)
            key = text_key(record.task)
            if texts and key not in requested:
                requested.add(key)
                if task_texts := texts(record.task):
                    found[key] = f"{EXAMPLES_FOLDER}/text-{key}.js"
                    _write(
                        out / found[key], f"ptmbenchExamples({_literal(f'text-{key}')},{_literal(_cut(task_texts))});\n"
                    )
    return found, sorted(set(notes))


def _rows(record: Record, runs: Sequence[Path]) -> tuple[list | None, str]:
    name = record.predictions["file"]
    for path in (run / name for run in runs if (run / name).is_file()):
        try:
            content = path.read_bytes()
            if hashlib.sha256(content).hexdigest() != record.predictions.get("sha256"):
                continue
            with gzip.open(path) as file:
                text = file.read(_LARGEST + 1)
            if len(text) > _LARGEST:
                return None, f"{name} is larger than {_LARGEST >> 20} MiB unpacked, so its examples are not shown."
            lines = [json.loads(line) for line in text.decode().split("\n") if line]  # texts may hold U+2028
            return [[line["id"], line["gold"], line["prediction"]] for line in lines], ""
        except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError, RecursionError):
            return None, f"{name} cannot be read, so its examples are not shown. Run the cell again to have them."
    if any((run / name).is_file() for run in runs):
        return None, f"{name} is not the file that its record names (its hash differs), so its examples are not shown."
    return None, ""


def _cut(task_texts: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the same with long texts cut to `_LONG` characters."""
    texts = {
        name: [one if len(one) <= _LONG else f"{one[:_LONG]}…" for one in inputs]
        for name, inputs in task_texts["texts"].items()
    }
    return {"labels": dict(task_texts["labels"]), "texts": texts}


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.write_text(text, encoding="ascii", newline="\n")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _literal(value: object) -> str:
    """Returns JSON in ASCII, which is a valid JavaScript literal and contains no tag."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")
