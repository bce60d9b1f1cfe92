"""Writes predictions of GLUE's test sets as the zip file that the GLUE server (gluebenchmark.com/submit) accepts.

The server requires eleven files at the top level of one archive: nine tasks (MNLI as two files) and the diagnostic set.
Each file has the header ``index<TAB>prediction`` and a line for every row of the official test file, with indices from
0. A task without predictions gets a file with placeholder answers, and `Report` names it. The placeholder of a
classification task is one label for all rows. For STS-B, it is the scores 0 to 5 in turn, because the correlation with
a constant is undefined.

The same predictions give the same bytes: entries have a fixed order and a fixed date.
"""

import difflib
import math
import os
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptmbench import tasks
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import DataError, Task, UnknownTask

GLUE = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "mnli_mm", "qnli", "rte", "wnli", "ax")
"""The tasks of a submission, in the order of the server's table."""
NAME = "submission.zip"


@dataclass(frozen=True, kw_only=True)
class Report:
    """What was written: ``predicted`` and ``filled`` are task names; ``notes`` are sentences for the user."""

    path: Path
    predicted: tuple[str, ...]
    filled: tuple[str, ...]
    notes: tuple[str, ...]


def write_glue(predictions: Mapping[str, Sequence[str | float]], out: Path) -> Report:
    """Writes ``out``/submission.zip from {task name: predictions in the order of the official test file}.

    Predictions are labels for a classification task, and floats for STS-B. These are clipped to [0, 5], because the
    server accepts no others. Raises `UnknownTask` or `DataError`, and then leaves the files in ``out`` unchanged.
    """
    check_names(predictions, GLUE, "GLUE")
    files: dict[str, str] = {}
    notes: list[str] = []
    for name in GLUE:
        task = tasks.load(name)
        wanted = task.extra["submission"]
        if name in predictions:
            found = predictions[name]
            if len(found) != wanted["rows"]:
                official = task.files["test"][0].split("|")[0]
                raise DataError(
                    f"{task.title}: {len(found)} predictions, but the GLUE server wants one for each of the "
                    f"{wanted['rows']} rows of the official {official}. Predict that file, whole and in its order."
                )
            cells, note = _cells(task, found)
            notes += note
        else:
            cells, note = _placeholder(task)
            notes.append(note)
        files[wanted["file"]] = _table(cells)
    path = archive(files, Path(out) / NAME)
    return Report(
        path=path,
        predicted=tuple(name for name in GLUE if name in predictions),
        filled=tuple(name for name in GLUE if name not in predictions),
        notes=tuple(notes),
    )


def check_names(predictions: Mapping[str, Any], entered: Sequence[str], benchmark: str) -> None:
    """Raises `UnknownTask` for a name that is not one of ``entered``, and `DataError` if there are no predictions."""
    for name in predictions:
        if name not in entered:
            near = difflib.get_close_matches(name, entered, n=3) or entered
            raise UnknownTask(f"'{name}' is not a task of a {benchmark} submission. Nearest: {', '.join(near)}.")
    if not predictions:
        raise DataError(f"There are no predictions to submit. Predict the test split of any of {', '.join(entered)}.")


def _cells(task: Task, predictions: Sequence[str | float]) -> tuple[list[str], list[str]]:
    """The predictions as the server spells them, and a note if any had to be changed."""
    if task.form is Form.REGRESSION:
        return _scores(task, predictions)
    for row, value in enumerate(predictions):
        if value not in task.labels:
            known = ", ".join(map(repr, task.labels))
            raise DataError(f"{task.title}: prediction {row} is {value!r:.60}, but the labels are {known}.")
    return [str(value) for value in predictions], []


def _scores(task: Task, predictions: Sequence[str | float]) -> tuple[list[str], list[str]]:
    low, high = task.extra["submission"]["range"]
    cells, clipped = [], 0
    for row, value in enumerate(predictions):
        try:
            score = math.nan if isinstance(value, str) else float(value)  # Python would read "1_0" as 10
        except (OverflowError, TypeError, ValueError):
            score = math.nan
        if not math.isfinite(score):
            raise DataError(f"{task.title}: prediction {row} is {value!r:.60}, not a finite number; train again.")
        clipped += not low <= score <= high
        cells.append(f"{min(max(low, score), high):.3f}")
    note = f"{task.title}: {clipped} of {len(cells)} predictions lay outside {low:g} to {high:g} and were clipped."
    return cells, [note] if clipped else []


def _placeholder(task: Task) -> tuple[list[str], str]:
    wanted = task.extra["submission"]
    if task.form is Form.REGRESSION:
        low, high = wanted["range"]
        cells = [f"{low + row % (round(high - low) + 1):.3f}" for row in range(wanted["rows"])]
        answer = f"the scores {low:g} to {high:g} in turn, because the correlation with a constant is undefined"
    else:
        cells = [wanted["constant"]] * wanted["rows"]
        answer = f"'{wanted['constant']}' in every row"
    return cells, f"{task.title}: no predictions; {wanted['file']} is a placeholder with {answer}."


def _table(cells: Sequence[str]) -> str:
    return "index\tprediction\n" + "".join(f"{index}\t{cell}\n" for index, cell in enumerate(cells))


def archive(files: Mapping[str, str], path: Path) -> Path:
    """Writes {member: text} as a zip file, whole or not at all: a rename within one folder is atomic."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            with zipfile.ZipFile(file, "w") as archive:
                for member, text in files.items():
                    info = zipfile.ZipInfo(member, date_time=(1980, 1, 1, 0, 0, 0))
                    info.create_system, info.external_attr = 3, 0o100644 << 16  # as on Unix, wherever it is written
                    archive.writestr(info, text, compress_type=zipfile.ZIP_DEFLATED)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)  # with mkstemp's 0600, other users could not read the file
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return path
