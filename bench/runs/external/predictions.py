"""``ptmbench record``: predictions that were made elsewhere, as a sealed record."""

import hashlib
import os
import shlex
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ptmbench import tasks
from ptmbench.bench.console import say
from ptmbench.bench.data import sources
from ptmbench.bench.errors import UsageError
from ptmbench.bench.runs import examples
from ptmbench.bench.runs.answers import Context, Outcome
from ptmbench.bench.runs.execute import locked_folder
from ptmbench.bench.runs.external.options import RecordOptions
from ptmbench.bench.runs.external.records import System, listed, same_seed, score_line
from ptmbench.bench.scoring import score, score_files
from ptmbench.leaderboard.records import record as records
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import DataError, Example, MissingData, Task


def record(options: RecordOptions) -> Path:
    """Scores a file of predictions on the reported split of a task, writes a record to a run folder, and returns the
    record's path.

    Everything is checked before the first file is written. Raises `UsageError` for a wrong name or a second record of a
    seed, and `DataError` for predictions that do not fit the task.
    """
    task, predictions, out = tasks.load(options.task), options.predictions, options.out
    source = {"made": "predictions", "file": predictions.name, "sha256": _sha256(predictions)}
    system = System(name=options.name, source=source, fixed=options.fixed, declared=options.declared)
    _check_name_of(task, predictions)
    with ExitStack() as stack:
        folder = options.data or _embedded(out, stack)
        cell = system.cell(task, sources.fingerprint(task, folder), options.seed)
        _check_first(out, cell)
        asked = examples.read(task, folder, task.report)
        answers = _answers(task, folder, predictions, asked)
        outcome = Outcome(examples=len(asked), scores=score.scores(task, asked, answers))
        outcome.signatures = score.signatures(task, asked)
        context = Context(
            data=folder,
            out=out,
            source=sources.source_of(folder),
            command=shlex.join(["ptmbench", "record", *options.arguments()]),
        )
        with locked_folder(out):
            _check_first(out, cell)
            if options.data is None:
                _keep(folder, out)
            outcome.predictions = score.keep_predictions(out, system.key(cell), asked, answers)
            made = system.record(cell, context, task, outcome)
            say(score_line(made))
            return records.write(out, made)


def _answers(task: Task, data: Path, predictions: Path, asked: Sequence[Example]) -> list[Any]:
    """Reads the predictions, one for each of the examples ``asked``. Raises `DataError` if they do not fit."""
    try:
        found = score_files.predictions_of(task, data, predictions)
        if len(found) != len(asked):
            raise DataError(f"{predictions} has {len(found)} predictions.")
        if task.form is Form.TAGGING:
            _check_tags(task, predictions, asked, found)
    except DataError as error:
        raise type(error)(f"{error} {_advice(task, data, len(asked))}") from error
    return found


def _check_tags(task: Task, predictions: Path, asked: Sequence[Example], found: Sequence[Sequence[str]]) -> None:
    for example, tags in zip(asked, found, strict=True):
        if unknown := next((tag for tag in tags if tag not in task.labels), ""):
            raise DataError(
                f"{predictions}: the tag {unknown!r:.60} of {example.id} is not one of {listed(task.labels)}."
            )


def _advice(task: Task, data: Path, count: int) -> str:
    """Returns the end of an error message about the predictions: what was expected, and what to do next."""
    others = {split: len(_examples(task, data, split)) for split in task.files if split not in ("train", task.report)}
    told = "".join(f"; the {split} split has {number:,}" for split, number in others.items() if number)
    return (
        f"`record` takes predictions of the {task.report} split of {task.title}, which has {count:,} examples{told}. "
        f"`ptmbench info {task.name}` shows the format. Nothing was recorded."
    )


def _examples(task: Task, data: Path, split: str) -> Sequence[Example]:
    try:
        return task.examples(data, split)
    except (DataError, MissingData):
        return ()


def _check_name_of(task: Task, predictions: Path) -> None:
    """Raises `UsageError` for a file that `predict` wrote for another split."""
    split = predictions.name.removeprefix(f"{task.name}.").removesuffix(".jsonl")
    if split in task.files and split != task.report and predictions.name == f"{task.name}.{split}.jsonl":
        raise UsageError(
            f"{predictions} has predictions of the {split} split, as its name says. `record` takes predictions of the "
            f"{task.report} split of {task.title}: make them with `ptmbench predict --split {task.report}`."
        )


def _check_first(out: Path, cell: Any) -> None:
    """Raises `UsageError` if the system has a record of this seed already."""
    if there := same_seed(out, cell):
        raise UsageError(
            f"{out} has a record of {cell.row.name} on {cell.task} with seed {cell.seed} already ({there.file_name}). "
            "A seed is recorded once: give another --seed, another --name or another --out, or delete that record."
        )


def _embedded(out: Path, stack: ExitStack) -> Path:
    """Returns the microworld of the run folder ``out``, or a temporary one that ``stack`` deletes. So predictions that
    do not fit leave no files behind."""
    if (out / "data" / "SOURCE.json").exists():
        return out / "data"
    return sources.embedded(Path(stack.enter_context(tempfile.TemporaryDirectory())))


def _keep(made: Path, out: Path) -> None:
    """Copies the microworld in ``made`` to the run folder ``out``, for the next record."""
    if not (out / "data").exists():
        partial = out / f".data.{os.getpid()}"
        shutil.copytree(made, partial)
        partial.rename(out / "data")


def _sha256(path: Path) -> str:
    if path.is_dir():
        raise UsageError(f"{path} is a folder. Give the file of predictions.")
    return hashlib.sha256(path.read_bytes()).hexdigest()
