"""Checks the definitions of a task file when it is loaded, so that a mistake is reported before any training.

`tasks.load` calls `imported` and `check`. A run also calls `check_headline`. The data themselves are not checked here.
"""

import importlib
import inspect
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import BrokenTask, Download, Source, Task

_KINDS = {"form": Form, "source": Source, "files": Mapping, "extra": Mapping, "scored": bool} | {
    "higher_is_better": bool,
    "version": int,
    "train_examples": int,
    "decimals": int,
}
"""Types of the fields of a `Task`. `_TUPLES` and `_FUNCTIONS` have further fields. All other fields except ``chance``
are texts."""
_TUPLES = {"folders": str, "labels": str, "words": str, "answers": str, "downloads": Download, "metrics": object} | {
    "needs": str
}
_FUNCTIONS = {"read": 2, "ask": 1, "decide": 1, "predictions": 1}
"""The number of arguments of each function."""
_OPTIONAL = ("ask", "decide", "predictions", "chance")


def imported(name: str, path: Path) -> ModuleType:
    """Imports the module ``name``, whose source file is ``path``.

    Raises `BrokenTask` with the file, the line and the reason if the import fails, also if it ends the program.
    """
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
        line = frames[-1].lineno if frames else None
        if isinstance(error, SyntaxError) and error.filename and Path(error.filename) == path:
            line = error.lineno
        place = f"{path}, line {line}," if line else str(path)
        reason = f"{type(error).__name__}: {error}".rstrip(": ")
        raise BrokenTask(f"{place} cannot be run: {reason}. Correct the file, or move it out of its folder.") from error


def check(task: Any, name: str, path: Path) -> Task:
    """Returns ``task``, which has the name ``name`` and is defined in ``path``. Raises `BrokenTask`, which lists all
    mistakes."""
    found = list(_mistakes(task, name)) if isinstance(task, Task) else ["It has no TASK, a tasks.task.Task."]
    if found:
        raise BrokenTask(f"{path} does not define a task. {' '.join(found)}")
    return task


def check_headline(task: Task, path: Path) -> Task:
    """Returns ``task``. Raises `BrokenTask` if its headline names a value that none of its metrics returns.

    Each metric is called without examples to learn the names of its values. If one of them fails on empty input, the
    headline is not checked.
    """
    known: set[str] = set()
    for metric in task.metrics:
        try:
            known |= set(metric([], []))
        except Exception:  # this metric needs an example
            return task
    if unknown := [name for name in task.headline.split("+") if name not in known]:
        raise BrokenTask(
            f"{path}: the headline of {task.name} names {', '.join(unknown)}, which no metric gives. "
            f"Its metrics give {', '.join(sorted(known))}."
        )
    return task


def _mistakes(task: Task, name: str) -> Iterator[str]:
    if task.name != name:
        yield f"TASK.name is {task.name!r}, but the file makes it {name!r}."
    for field in fields(Task):
        value, kind = getattr(task, field.name), _KINDS.get(field.name, str)
        if field.name in _OPTIONAL and value is None:
            continue
        if field.name in _FUNCTIONS:
            count = _FUNCTIONS[field.name]
            if not callable(value) or not _fits(value, count):
                yield f"TASK.{field.name} is a function of {count} arguments, not {value!r}."
        elif field.name in _TUPLES:
            kind = _TUPLES[field.name]
            if not isinstance(value, tuple) or not all(isinstance(one, kind) for one in value):
                yield f"TASK.{field.name} is a tuple, not {value!r:.80}."
        elif field.name == "chance":
            if isinstance(value, bool) or not isinstance(value, int | float):
                yield f"TASK.chance is a number or None, not {value!r}."
        elif not isinstance(value, kind):
            yield f"TASK.{field.name} is a {kind.__name__}, not {value!r:.80}."
    yield from _contents(task)


def _contents(task: Task) -> Iterator[str]:
    """Yields the mistakes inside fields that have the right types."""
    if not task.folders or not task.metrics or not task.headline:
        yield "TASK needs at least one of folders, one of metrics, and a headline."
    if isinstance(task.metrics, tuple) and not all(callable(one) and _fits(one, 2) for one in task.metrics):
        yield "TASK.metrics are functions of gold and predictions."
    if isinstance(task.files, Mapping):
        for split, names in task.files.items():
            if not isinstance(names, tuple) or not names or not all(isinstance(one, str) for one in names):
                yield f"TASK.files[{split!r}] is a tuple of file names, not {names!r:.80}."
        if task.report not in task.files:
            yield f"TASK.report is {task.report!r}, which is not one of the splits {', '.join(map(str, task.files))}."
    if isinstance(task.labels, tuple):
        if len(set(task.labels)) < len(task.labels):
            yield "TASK.labels has a label twice."
        if task.form in (Form.CLASSIFICATION, Form.TAGGING) and len(task.labels) < 2:
            yield f"A {task.form} task needs two labels or more."
        if task.words and len(task.words) != len(task.labels):
            yield f"TASK.words has {len(task.words)} words for {len(task.labels)} labels."


def _fits(function: Any, count: int) -> bool:
    """Returns whether ``function`` takes ``count`` positional arguments. True if it has no signature to inspect."""
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:
        pass
    return True
