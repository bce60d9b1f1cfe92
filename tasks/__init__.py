"""The downstream benchmarks, one file per data set. Nothing here imports TensorFlow.

The folder is the registry: a file that defines ``TASK`` and ``read`` is a task under its own name.
"""

import difflib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from ptmbench.tasks.task import BrokenTask, Task, UnknownTask

_MACHINERY = {"__init__", "task", "forms", "files", "columns", "conllu", "aspects", "opinions", "triples", "parallel"}

_sound: dict[int, Task] = {}
"""Tasks that were checked in this process, by identity; they are held, so that no other object gets it."""


@cache
def names() -> tuple[str, ...]:
    """Every task's name, sorted; reads the folder and imports nothing."""
    files = Path(__file__).parent.glob("[!_.]*.py")
    return tuple(sorted(file.stem for file in files if file.stem not in _MACHINERY))


def load(name: str) -> Task:
    """The task called ``name``; `UnknownTask` with the nearest names when there is none, `BrokenTask` when its file
    cannot be imported or breaks the contract that `tasks._contract` checks.

    A file may offer variants of its data set (the language pairs of Multi30k): "multi30k-de-fr" is
    ``variant("de-fr")`` of its file.
    """
    stem, dash, variant = name.partition("-")
    if dash and stem in names() and hasattr(module := _module(stem), "variant"):
        return _checked(module.variant(variant), None, _path(stem))
    if name not in names():
        near = difflib.get_close_matches(name.lower(), names(), n=3) or names()
        raise UnknownTask(f"There is no task '{name}'. Nearest: {', '.join(near)}. `ptmbench ls tasks` shows all.")
    return _checked(getattr(_module(name), "TASK", None), name, _path(name))


def load_all(tell: Callable[[str], None]) -> list[Task]:
    """Every task, without those whose files are broken: ``tell`` hears of these."""
    found = []
    for name in names():
        try:
            found.append(load(name))
        except BrokenTask as error:
            tell(str(error))
    return found


def check_headline(task: Task) -> Task:
    """``task``; `BrokenTask` where its headline is none of its metrics' values, which is looked up before training."""
    from ptmbench.tasks import _contract

    return _contract.check_headline(task, _path(task.name.partition("-")[0]))


def _path(stem: str) -> Path:
    return Path(__file__).parent / f"{stem}.py"


def _module(stem: str) -> ModuleType:
    from ptmbench.tasks import _contract  # what lists names does without

    return _contract.imported(f"ptmbench.tasks.{stem}", _path(stem))


def _checked(task: Any, name: str | None, path: Path) -> Task:
    """``task`` after its first check in this process; a variant (``name`` None) has a name of its own."""
    from ptmbench.tasks import _contract

    if id(task) not in _sound:
        _sound[id(task)] = _contract.check(task, name or getattr(task, "name", ""), path)
    return task
