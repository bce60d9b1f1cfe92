"""What a data folder is: whose data, which bytes, and the microworld where there is none."""

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
    """What the data of ``task`` is, or that it is not there: a file that turns up later makes a new cell."""
    data = data.resolve()  # the same data, however their folder is spelled
    try:
        return task.fingerprint(
            data,
            [name for name in ("train", "dev", "test") if name in task.files and name in (task.report, "train", "dev")],
        )
    except MissingData as error:
        # Without the folder, wherever it lies; "/data" may be a part of an address as well.
        missing = re.sub(rf"(?<![\w/:.-]){re.escape(str(data))}(?![\w-])", "", str(error))
        there = {split: found for split in task.files if (found := _of_split(task, data, split))}
        return digest({"missing": missing} | ({"there": there} if there else {}))


def _of_split(task: Task, data: Path, split: str) -> str:
    """The fingerprint of one split; "" where it is missing. Some baselines need no more than the reported one."""
    try:
        return task.fingerprint(data, [split])
    except MissingData:
        return ""


class Fingerprints(dict[str, str]):
    """`fingerprint` of every task in the folder ``data``, by name, made when it is asked for."""

    def __init__(self, data: Path):
        super().__init__()
        self.data = data

    def __missing__(self, name: str) -> str:
        self[name] = fingerprint(tasks.load(name), self.data)
        return self[name]


def source_of(data: Path) -> dict[str, Any]:
    """Whose data this is: what ``SOURCE.json`` at its root says, or the official data sets."""
    try:
        return json.loads((data / "SOURCE.json").read_text())
    except FileNotFoundError:
        return {"name": "official"}
    except (ValueError, OSError, RecursionError) as error:
        raise EnvironmentProblem(f"{data / 'SOURCE.json'} cannot be read: {error}. Make the data again.") from error


def embedded(out: Path) -> Path:
    """The microworld, made below the run folder when it is not there yet."""
    from ptmbench.tasks import microworld

    folder = out / "data"
    if not (folder / "SOURCE.json").exists():
        say("Making the microworld ...")
        microworld.make(folder)
    return folder
