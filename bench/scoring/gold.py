"""Reads gold files of any name with the task's own reader, for `bench.scoring.score_files`, and matches ids."""

import json
import tempfile
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from ptmbench.tasks.files import json_document, lines
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import DataError, Example, Task


class Content(Enum):
    """The kinds of content of a file, whatever its name."""

    DOCUMENT = "one JSON object or list, on several lines or one"
    OBJECTS = "a JSON object a line"
    TEXT = "text"


_SUFFIXES = {Content.DOCUMENT: (".json",), Content.OBJECTS: (".jsonl", ".json"), Content.TEXT: ()}


def first_line(path: Path) -> str:
    """The first line of ``path``, plain or gzipped, that is not blank; "" if there is none."""
    return next((text for _, text in lines(path) if text.strip()), "")


def content_of(path: Path) -> Content:
    """The kind of content of ``path``, plain or gzipped.

    A text may begin with a bracket, such as "[ applause ]" or "{ laughs }", so only valid JSON counts as JSON. A list
    counts only if it contains objects, lists or strings, so the line "[1]" is text.
    """
    first = first_line(path).strip()
    if first[:1] not in ("{", "["):
        return Content.TEXT
    try:
        value = json.loads(first)
        if isinstance(value, dict):
            return Content.OBJECTS
    except (ValueError, RecursionError):
        try:
            value = json_document(path)
        except DataError:
            return Content.TEXT
    structured = isinstance(value, dict) or any(isinstance(part, dict | list | str) for part in value)
    return Content.DOCUMENT if structured else Content.TEXT


def labelled(task: Task, gold: Path) -> list[Example]:
    """Reads the examples of a gold file of any name with the task's own reader.

    Readers take a folder and a split, so ``gold`` is linked under an official name. The split is the one with a file of
    this name, because the layouts of splits may differ. Otherwise it is "all" if the reported split is only a part of
    an official file, and else the reported split. Of several official names, the one with a suffix that fits the
    content is taken. A folder with all official files of the reported split is read as it is. Raises `DataError` if an
    answer is missing.
    """
    if whole_folder(task, gold):
        return _answered(list(task.read(gold, task.report)), task, gold)
    usual = "all" if "all" in task.files else task.report
    called = gold.name.removesuffix(".gz")
    split = next((split for split in task.files if {gold.name, called} & names_of(task, split)), usual)
    known = task.files[split][0].split("|")
    told = _SUFFIXES[content_of(gold)] if len(known) > 1 and gold.is_file() else ()
    suffixes = (*told, gold.suffix, Path(called).suffix)
    fitting = (name for suffix in suffixes for name in known if suffix and name.endswith(suffix))
    name = next(fitting, official(task, split))
    with tempfile.TemporaryDirectory() as folder:
        stand_in = Path(folder) / name
        stand_in.parent.mkdir(parents=True, exist_ok=True)
        stand_in.symlink_to(gold.resolve(), target_is_directory=gold.is_dir())
        try:
            examples = list(task.read(Path(folder), split))
        except DataError as error:
            raise type(error)(str(error).replace(str(stand_in), str(gold))) from error
    return _answered(examples, task, gold)


def _answered(examples: list[Example], task: Task, gold: Path) -> list[Example]:
    """Returns ``examples`` of ``gold``. Raises `DataError` unless there are some and all have an answer."""
    if not examples:
        raise DataError(f"{gold} holds no example of {task.title}.")
    for example in examples:
        if example.gold is None:
            raise DataError(f"{gold} has no answer for {example.id}. Score a split with public answers.")
    return examples


def matched(examples: Sequence[Example], found: dict[str, Any], gold: Path, predictions: Path) -> tuple[list, list]:
    """Gold and predictions in the order of ``examples``. Raises `DataError` for the first id that only one side has."""
    for example in examples:
        if example.id not in found:
            raise DataError(
                f"{predictions} has no prediction for the example {example.id} of {gold} (predictions: {len(found):,}, "
                f"examples: {len(examples):,})."
            )
    known = {example.id for example in examples}
    if extra := next((key for key in found if key not in known), None):
        raise DataError(f"{predictions} has a prediction for {extra}, which {gold} does not hold.")
    return [example.gold for example in examples], [found[example.id] for example in examples]


def names_of(task: Task, split: str) -> set[str]:
    """The official file names of ``split``, without their folders."""
    return {Path(name).name for names in task.files[split] for name in names.split("|")}


def official(task: Task, split: str) -> str:
    """The official file with the gold of ``split``. For generation, source texts stand before target texts."""
    return task.files[split][-1 if task.form is Form.GENERATION else 0].split("|")[0]


def whole_folder(task: Task, gold: Path) -> bool:
    """Whether ``gold`` is a folder with all the official files of the reported split."""
    parts = task.files[task.report]
    return gold.is_dir() and all(any((gold / name).exists() for name in part.split("|")) for part in parts)
