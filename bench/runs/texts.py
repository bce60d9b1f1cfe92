"""Reads the texts of predicted examples for the board. They come from the data, because records contain no texts."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ptmbench import tasks
from ptmbench.bench.data.sources import Fingerprints
from ptmbench.leaderboard.records.record import UNDER
from ptmbench.tasks.task import DataError, Task, UnknownTask

EMBEDDED = "data"
"""The folder of the microworld in a run folder, if the run made it (`bench.data.sources.embedded`)."""


def reader(folders: Sequence[Path], data: Path | None = None) -> Callable[[Mapping[str, Any]], dict[str, Any] | None]:
    """Returns a function from the part ``task`` of a record to {"labels": {label: words}, "texts": {id: inputs}}.

    The function reads the microworld of the run ``folders``. It reads other data only from the folder ``data``, because
    not everyone who may see a board may copy official data. It returns None if there are no data with the fingerprint
    in the record, and for a task under a condition, which changes the texts.
    """
    made = [Fingerprints(home) for folder in folders for home in _embedded(folder)]
    given = [Fingerprints(data)] if data is not None else []

    def read(part: Mapping[str, Any]) -> dict[str, Any] | None:
        name = str(part["name"])
        if UNDER in name:
            return None
        try:
            task = tasks.load(name)
            for known in [*given, *(made if part.get("source") == "microworld" else ())]:
                if known[name] == part.get("data_sha256"):
                    return {"labels": _labels(task), "texts": _texts(task, known.data)}
        except (UnknownTask, DataError):
            return None
        return None

    return read


def _embedded(folder: Path) -> list[Path]:
    """The data folders in the run ``folder``, or in the runs below it."""
    return [path for path in (folder / EMBEDDED, *folder.glob(f"*/{EMBEDDED}")) if (path / "SOURCE.json").is_file()]


def _labels(task: Task) -> dict[str, str]:
    """The words that explain the labels, by label; {} if the task has none."""
    return dict(zip(task.labels, task.words, strict=True)) if len(task.words) == len(task.labels) else {}


def _texts(task: Task, data: Path) -> dict[str, list[str]]:
    return {one.id: [str(text) for text in one.inputs] for one in task.examples(data, task.report)}
