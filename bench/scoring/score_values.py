"""Scores predictions given as Python values, by the rules for files of predictions (`bench.scoring.score_files`)."""

import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ptmbench import tasks
from ptmbench.bench.errors import UsageError
from ptmbench.bench.scoring import score_files
from ptmbench.bench.scoring.gold import labelled, whole_folder
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import DataError, Task

_KEYS = ("id", "prediction")


def score(task_name: str, predictions: Any, gold: Path | None, data: Path | None, split: str | None) -> dict[str, Any]:
    """Returns the result of `score_files.score` for the official file ``gold``, or for ``split`` of the task in
    ``data``.

    ``predictions`` are a file, a frame of `ptmbench.predict`, {id: prediction}, lines with "id" and "prediction", or
    predictions in the order of the gold.
    """
    task = tasks.load(task_name)
    if (gold is None) == (data is None):
        raise UsageError("Give either gold, the official file with the answers, or data, the data folder with it.")
    if split is not None and data is None:
        raise UsageError("split names a split below data. Leave it out, or give data in place of gold.")
    gold = gold or _gold(task, data, split or task.report)
    if isinstance(predictions, str | Path):
        return score_files.score(task_name, gold, Path(predictions))
    lines = _lines(task, predictions, gold)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "predictions.jsonl"
        file.write_text("\n".join(json.dumps(line, ensure_ascii=False, default=_plain) for line in lines) + "\n")
        try:
            return score_files.score(task_name, gold, file)
        except DataError as error:
            raise type(error)(str(error).replace(str(file), "predictions")) from error


def _gold(task: Task, data: Path, split: str) -> Path:
    """The official file with the answers of ``split``, or the folder for tasks that need all of its files."""
    paths, folder = task.paths(data, split), task.folder(data)
    folders = (Form.CLOZE, Form.RANKING, Form.ANALOGY, Form.MINIMAL_PAIR)
    if task.form in folders or task.extra.get("gold") == "folder":
        return folder
    if task.form is Form.GENERATION:
        return folder if split == task.report and whole_folder(task, folder) else paths[-1]
    return paths[0]


def _lines(task: Task, predictions: Any, gold: Path) -> list[dict[str, Any]]:
    """``predictions`` as the lines that `predict` writes."""
    if hasattr(predictions, "to_dict") and hasattr(predictions, "columns"):
        if "task" in predictions.columns:
            predictions = predictions[predictions["task"] == task.name]
        lines = [{name: value for name, value in line.items() if name != "task" and not _missing(value)}
                 for line in predictions.to_dict("records")]  # fmt: skip
    elif isinstance(predictions, Mapping):
        lines = [{"id": str(key), "prediction": value} for key, value in predictions.items()]
    else:
        lines = list(predictions)
        if not all(isinstance(line, Mapping) and set(_KEYS) <= set(line) for line in lines):
            ids = _ids(task, gold)
            if len(ids) != len(lines):
                raise DataError(f"There are {len(lines)} predictions for the {len(ids)} examples of {gold}.")
            lines = [dict(zip(_KEYS, pair, strict=True)) for pair in zip(ids, lines, strict=True)]
    if not lines:
        raise DataError(f"There is no prediction for {task.title}.")
    if wrong := next((line for line in lines if not set(_KEYS) <= set(line)), None):
        raise DataError(f"A prediction has an 'id' and a 'prediction', but this one has {', '.join(map(str, wrong))}.")
    return lines


def _ids(task: Task, gold: Path) -> Sequence[str]:
    examples = task.read(gold, task.report) if gold.is_dir() else labelled(task, gold)
    return [example.id for example in examples]


def _missing(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)
