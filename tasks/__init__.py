"""The downstream benchmarks, one file per data set.

The folder is the registry: a file that defines ``TASK`` and ``read`` is a task with the name of the file. A file for a
data set in several languages defines ``TASKS`` instead, a dict whose keys, the tasks' names, are literals.
"""

import ast
import difflib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from ptmbench.tasks import few
from ptmbench.tasks.task import BrokenTask, Task, UnknownTask

_MACHINERY = {
    "__init__",
    "task",
    "forms",
    "files",
    "columns",
    "conllu",
    "aspects",
    "opinions",
    "triples",
    "parallel",
    "shapes",
    "few",
}

_added: list[Path] = []
"""Folders with users' own tasks."""
_checked_tasks: dict[int, Task] = {}
"""The tasks that were checked in this process, by ``id``. The dict keeps them alive, so that no id is used again."""


def extend(folder: Path) -> None:
    """Adds the tasks in the files of ``folder``. Their names must be new."""
    _added.append(folder)
    __path__.append(str(folder))
    _paths.cache_clear()
    names.cache_clear()


@cache
def names() -> tuple[str, ...]:
    """The names of all tasks, sorted. Reads the folder and imports nothing."""
    return tuple(sorted(_paths()))


def load(name: str) -> Task:
    """Loads the task called ``name``.

    A file may offer variants of its data set, such as the language pairs of Multi30k: "multi30k-de-fr" is
    ``variant("de-fr")`` of its file. For every task with a training set, "NAME-500" is the task with 500 training
    examples (`tasks.few`). If the file's own ``variant`` accepts the number, that meaning takes precedence.

    Raises `UnknownTask` with the nearest names if there is no such task, and `BrokenTask` if its file cannot be
    imported or breaks the contract that `tasks._contract` checks.
    """
    stem, dash, variant = name.partition("-")
    if dash and stem in names():
        own = getattr(_module(stem), "variant", None)
        try:
            if own is not None:
                return _checked(own(variant), None, path(stem))
        except UnknownTask:
            if _few(name) is None:
                raise
        if found := _few(name):
            return found
    if name not in names():
        near = ", ".join(difflib.get_close_matches(name.lower(), names(), n=3))
        nearest = f" Nearest: {near}." if near else ""
        raise UnknownTask(f"There is no task '{name}'.{nearest} `ptmbench ls tasks` shows all.")
    module = _module(name)
    found = module.TASKS.get(name) if hasattr(module, "TASKS") else getattr(module, "TASK", None)
    return _checked(found, name, path(name))


@cache
def _few(name: str) -> Task | None:
    """The task ``name`` if it ends with a number of training examples, otherwise None."""
    base, _, count = name.rpartition("-")
    if not few.is_example_count(count) or not few.has_training_split(task := load(base)):
        return None
    return _checked(few.variant(task, int(count)), None, path(name.partition("-")[0]))


def path(name: str) -> Path:
    """The file of the task ``name``, which must not be a variant."""
    return _paths()[name]


def load_all(tell: Callable[[str], None]) -> list[Task]:
    """Loads every task whose file is valid. Calls ``tell`` with the error message of each broken file."""
    found = []
    for name in names():
        try:
            found.append(load(name))
        except BrokenTask as error:
            tell(str(error))
    return found


def check_headline(task: Task) -> Task:
    """Returns ``task``. Raises `BrokenTask` if its headline is not a value of its metrics."""
    from ptmbench.tasks import _contract

    return _contract.check_headline(task, path(task.name.partition("-")[0]))


@cache
def _paths() -> dict[str, Path]:
    """The file of each task, by the task's name."""
    files = [file for file in Path(__file__).parent.glob("[!_.]*.py") if file.stem not in _MACHINERY]
    files += [file for folder in _added for file in sorted(folder.glob("[!_.]*.py"))]
    return {name: file for file in files for name in _task_names_in(file)}


def _task_names_in(file: Path) -> list[str]:
    """The names of the tasks in ``file``: the literal keys of its ``TASKS``, or the file's own name if it has none."""
    source = file.read_bytes()
    if b"\nTASKS = {" not in source:
        return [file.stem]
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):  # reported when the file is loaded
        return [file.stem]
    found = (one.value for one in body if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "TASKS")
    keys = [key for one in found if isinstance(one, ast.Dict) for key in one.keys]
    return [key.value for key in keys if isinstance(key, ast.Constant)] or [file.stem]


def _module(name: str) -> ModuleType:
    from ptmbench.tasks import _contract  # not needed to list the names

    return _contract.imported(f"ptmbench.tasks.{path(name).stem}", path(name))


def _checked(task: Any, name: str | None, path: Path) -> Task:
    """Checks ``task`` once per process and returns it. ``name`` is None for a variant, which keeps its own name."""
    from ptmbench.tasks import _contract

    if id(task) not in _checked_tasks:
        _checked_tasks[id(task)] = _contract.check(task, name or getattr(task, "name", ""), path)
    return task
