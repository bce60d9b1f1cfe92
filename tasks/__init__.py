"""The downstream benchmarks, one file per data set. Nothing here imports TensorFlow.

The folder is the registry: a file that defines ``TASK`` and ``read`` is a task under its own name. A file that holds a
data set in several languages defines ``TASKS`` instead, a dict that has each task's name as a literal.
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
"""Folders with tasks of users."""
_sound: dict[int, Task] = {}
"""Tasks that were checked in this process, by identity; they are held, so that no other object gets it."""


def extend(folder: Path) -> None:
    """Adds the tasks in the files of ``folder``, whose names are new."""
    _added.append(folder)
    __path__.append(str(folder))
    _paths.cache_clear()
    names.cache_clear()


@cache
def names() -> tuple[str, ...]:
    """Every task's name, sorted; reads the folder and imports nothing."""
    return tuple(sorted(_paths()))


def load(name: str) -> Task:
    """The task called ``name``; `UnknownTask` with the nearest names when there is none, `BrokenTask` when its file
    cannot be imported or breaks the contract that `tasks._contract` checks.

    A file may offer variants of its data set (the language pairs of Multi30k): "multi30k-de-fr" is
    ``variant("de-fr")`` of its file. Of every task that is learnt, "NAME-500" is the one with 500 training examples
    (`tasks.few`); a number that the file's own ``variant`` knows means what it says there.
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
    """The task ``name`` if it ends with a number of training examples, else None."""
    base, _, count = name.rpartition("-")
    if not few.counts(count) or not few.able(task := load(base)):
        return None
    return _checked(few.variant(task, int(count)), None, path(name.partition("-")[0]))


def path(name: str) -> Path:
    """The file of the task ``name``, which is no variant."""
    return _paths()[name]


def load_all(tell: Callable[[str], None]) -> list[Task]:
    """Every task whose file can be loaded. ``tell`` is called with a sentence for each broken file."""
    found = []
    for name in names():
        try:
            found.append(load(name))
        except BrokenTask as error:
            tell(str(error))
    return found


def check_headline(task: Task) -> Task:
    """``task``; raises `BrokenTask` if its headline is not a value of its metrics."""
    from ptmbench.tasks import _contract

    return _contract.check_headline(task, path(task.name.partition("-")[0]))


@cache
def _paths() -> dict[str, Path]:
    """The file of each task, by the task's name."""
    files = [file for file in Path(__file__).parent.glob("[!_.]*.py") if file.stem not in _MACHINERY]
    files += [file for folder in _added for file in sorted(folder.glob("[!_.]*.py"))]
    return {name: file for file in files for name in _held(file)}


def _held(file: Path) -> list[str]:
    """The names of the tasks in ``file``: the literal keys of its ``TASKS``, without one its own name."""
    source = file.read_bytes()
    if b"\nTASKS = {" not in source:
        return [file.stem]
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):  # which is told when it is loaded
        return [file.stem]
    found = (one.value for one in body if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "TASKS")
    keys = [key for one in found if isinstance(one, ast.Dict) for key in one.keys]
    return [key.value for key in keys if isinstance(key, ast.Constant)] or [file.stem]


def _module(name: str) -> ModuleType:
    from ptmbench.tasks import _contract  # what lists names does without

    return _contract.imported(f"ptmbench.tasks.{path(name).stem}", path(name))


def _checked(task: Any, name: str | None, path: Path) -> Task:
    """``task`` after its first check in this process; a variant (``name`` None) has a name of its own."""
    from ptmbench.tasks import _contract

    if id(task) not in _sound:
        _sound[id(task)] = _contract.check(task, name or getattr(task, "name", ""), path)
    return task
