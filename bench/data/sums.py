"""The downloads of a data folder: ``downloads.json``, with SHA-256 sums that reveal changed files.

    {address: {"size": bytes, "sha256": sum, "files": {path below the data folder: sum}}}

``files`` has the files that an archive was unpacked into. A file that is no archive has only the sum of its download.
`bench.data.fetch` writes the list, and `check` reads it whenever examples are read. Files that were not fetched are not
in the list and are not checked.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ptmbench.bench.engine.checkpoint import write_text
from ptmbench.tasks.task import DataError, MissingData, Task

LOCK = "downloads.json"


def sum_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read(data: Path) -> dict[str, Any]:
    """Reads the downloads of the folder ``data`` by address; {} if nothing was fetched."""
    path = data / LOCK
    if not path.exists():
        return {}
    try:
        found = dict(json.loads(path.read_text(encoding="utf-8")))
        for one in found.values():
            texts = (one["sha256"], *one.get("files", {}).values())
            if not isinstance(one["size"], int) or not all(isinstance(text, str) for text in texts):
                raise TypeError("types")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DataError(f"{path} is not the JSON that an earlier fetch wrote. Correct or remove it.") from error
    return found


def note(data: Path, url: str, found: Mapping[str, Any]) -> None:
    """Adds the download ``found`` from ``url`` to the list. A lock makes parallel fetches take turns."""
    folder = os.open(data, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        known, files = read(data), found.get("files", {})
        if "files" in known.get(url, {}) and files:
            found = {**found, "files": known[url]["files"] | files}
        for other in known.values():  # if two archives have the same file, the later one counts
            if "files" in other:
                other["files"] = {name: value for name, value in other["files"].items() if name not in files}
        write_text(data / LOCK, json.dumps(known | {url: dict(found)}, indent=1, sort_keys=True) + "\n")
    finally:
        os.close(folder)


def check(task: Task, data: Path, split: str) -> None:
    """Raises `DataError` for the first file of ``split`` that was fetched and has changed since."""
    if not task.downloads or not (data / LOCK).exists():
        return
    known, sums = read(data), {}
    for one in task.downloads:
        if one.url in known:
            sums |= known[one.url].get("files", {}) if one.unpack else {one.to: known[one.url]["sha256"]}
    if not sums:
        return
    try:
        paths = task.paths(data, split)
    except MissingData:  # the reader reports this
        return
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            expected = sums.get(str(file.relative_to(data)))
            if expected is not None and file.is_file() and (found := sum_of(file)) != expected:
                raise DataError(
                    f"{file} has changed since it was fetched: its SHA-256 is {found}, but {data / LOCK} has "
                    f"{expected}. Fetch it again with `data fetch {task.name} --again`, or remove its sum from the "
                    "list to read it as it is."
                )
