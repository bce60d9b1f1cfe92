"""Gold files for `bench.scoring.score_files`: read by the task's own reader under any name, and matched by id."""

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
    """What a file holds, whatever it is called."""

    DOCUMENT = "one JSON object or list, on several lines or one"
    OBJECTS = "a JSON object a line"
    TEXT = "text"


_SUFFIXES = {Content.DOCUMENT: (".json",), Content.OBJECTS: (".jsonl", ".json"), Content.TEXT: ()}


def first_line(path: Path) -> str:
    """The first line of ``path``, plain or gzipped, with anything on it; "" when there is none."""
    return next((text for _, text in lines(path) if text.strip()), "")


def content_of(path: Path) -> Content:
    """What ``path`` holds, by its content; gzip is recognised as well.

    A text may begin with a bracket, such as "[ applause ]" or "{ laughs }": only what parses counts as JSON. A list
    counts if it has objects, lists or texts in it, so that the line "[1]" is text.
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
    """The examples of a gold file of any name, read by the task's own reader.

    Readers take a folder and a split, so ``gold`` is shown to them under an official name: the split whose file is
    called like it (the layouts of a data set's splits may differ), or else the one that is reported; "all" where that
    is only a part of an official file. Of several official names the one counts whose suffix fits the content. A folder
    with all official files of the reported split is read as it is.
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
    """``examples`` of ``gold``; `DataError` unless all have an answer."""
    if not examples:
        raise DataError(f"{gold} holds no example of {task.title}.")
    for example in examples:
        if example.gold is None:
            raise DataError(f"{gold} has no answer for {example.id}. Score a split with public answers.")
    return examples


def matched(examples: Sequence[Example], found: dict[str, Any], gold: Path, predictions: Path) -> tuple[list, list]:
    """Gold and predictions in the order of ``examples``; `DataError` for the first id that only one side has."""
    for example in examples:
        if example.id not in found:
            raise DataError(f"{predictions} has no prediction for {example.id} of {gold}.")
    known = {example.id for example in examples}
    if extra := next((key for key in found if key not in known), None):
        raise DataError(f"{predictions} has a prediction for {extra}, which {gold} does not hold.")
    return [example.gold for example in examples], [found[example.id] for example in examples]


def names_of(task: Task, split: str) -> set[str]:
    """The official file names of ``split``, without their folders."""
    return {Path(name).name for names in task.files[split] for name in names.split("|")}


def official(task: Task, split: str) -> str:
    """The official file with the gold of ``split``: texts stand before what is to be made of them."""
    return task.files[split][-1 if task.form is Form.GENERATION else 0].split("|")[0]


def whole_folder(task: Task, gold: Path) -> bool:
    """Whether ``gold`` is a folder with all the official files of the reported split."""
    parts = task.files[task.report]
    return gold.is_dir() and all(any((gold / name).exists() for name in part.split("|")) for part in parts)
