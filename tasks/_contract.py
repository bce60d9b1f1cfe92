"""What the file of a task has to define, checked when it is loaded: a mistake is told before anything is trained.

`tasks.load` calls `imported` and `check`, a run calls `check_headline` too. Whether the data fit is not looked at here.
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
"""Types of the fields of a `Task`. `_TUPLES` and `_FUNCTIONS` are further ones, all others are texts."""
_TUPLES = {"folders": str, "labels": str, "words": str, "answers": str, "downloads": Download, "metrics": object} | {
    "needs": str
}
_FUNCTIONS = {"read": 2, "ask": 1, "decide": 1, "predictions": 1}
"""How many arguments each takes."""
_OPTIONAL = ("ask", "decide", "predictions", "chance")


def imported(name: str, path: Path) -> ModuleType:
    """The module ``name``, whose source is ``path``; `BrokenTask` with the file, the line and the reason where it
    cannot be imported, also where it ends the program."""
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
    """``task``, which is called ``name`` and stands in the file ``path``; `BrokenTask` names all that is wrong."""
    found = list(_mistakes(task, name)) if isinstance(task, Task) else ["It has no TASK, a tasks.task.Task."]
    if found:
        raise BrokenTask(f"{path} does not define a task. {' '.join(found)}")
    return task


def check_headline(task: Task, path: Path) -> Task:
    """``task``; `BrokenTask` where its headline names a value that none of its metrics gives. Metrics tell the names of
    their values when they are asked about no examples; those that cannot are believed."""
    known: set[str] = set()
    for metric in task.metrics:
        try:
            known |= set(metric([], []))
        except Exception:  # it wants an example
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
    """What is wrong inside fields of the right types."""
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
    """Whether ``function`` takes ``count`` arguments by position; True where Python does not know."""
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:
        pass
    return True
