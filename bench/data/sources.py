"""The source and the fingerprints of a data folder. Makes the microworld if no data folder is given."""

import json
import re
from pathlib import Path
from typing import Any

from ptmbench import tasks
from ptmbench.bench.console import say
from ptmbench.bench.engine.checkpoint import digest
from ptmbench.bench.errors import EnvironmentProblem
from ptmbench.tasks.task import MissingData, Task


def fingerprint(task: Task, data: Path) -> str:
    """The fingerprint of the data of ``task``. It covers missing files, so a file that is added makes a new cell."""
    data = data.resolve()  # all spellings of a folder are the same data
    try:
        return task.fingerprint(
            data,
            [name for name in ("train", "dev", "test") if name in task.files and name in (task.report, "train", "dev")],
        )
    except MissingData as error:
        # The message without the folder, because its place does not matter. "/data" may also be part of an address.
        missing = re.sub(rf"(?<![\w/:.-]){re.escape(str(data))}(?![\w-])", "", str(error))
        there = {split: found for split in task.files if (found := _of_split(task, data, split))}
        return digest({"missing": missing} | ({"there": there} if there else {}))


def _of_split(task: Task, data: Path, split: str) -> str:
    """The fingerprint of one split; "" if it is missing. Some baselines need only the reported split."""
    try:
        return task.fingerprint(data, [split])
    except MissingData:
        return ""


class Fingerprints(dict[str, str]):
    """The `fingerprint` of each task in the folder ``data``, by name. Computed at the first access."""

    def __init__(self, data: Path):
        super().__init__()
        self.data = data

    def __missing__(self, name: str) -> str:
        self[name] = fingerprint(tasks.load(name), self.data)
        return self[name]


def source_of(data: Path) -> dict[str, Any]:
    """The source of the data: the content of ``SOURCE.json`` at its root, or else the official data sets."""
    try:
        return json.loads((data / "SOURCE.json").read_text())
    except FileNotFoundError:
        return {"name": "official"}
    except (ValueError, OSError, RecursionError) as error:
        raise EnvironmentProblem(f"{data / 'SOURCE.json'} cannot be read: {error}. Make the data again.") from error


def embedded(out: Path) -> Path:
    """The folder of the microworld below the run folder ``out``. Makes the microworld if it does not exist."""
    from ptmbench.tasks import microworld

    folder = out / "data"
    if not (folder / "SOURCE.json").exists():
        say("Making the microworld ...")
        microworld.make(folder)
    return folder
