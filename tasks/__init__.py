"""The downstream benchmarks, one file per data set. Nothing here imports TensorFlow.

The folder is the registry: a file that defines ``TASK`` and ``read`` is a task under its own name.
"""

import difflib
import importlib
from functools import cache
from pathlib import Path

from tasks.task import Task, UnknownTask

_MACHINERY = {"__init__", "task", "forms", "files", "columns", "aspects", "opinions", "triples", "parallel"}


@cache
def names() -> tuple[str, ...]:
    """Every task's name, sorted; reads the folder and imports nothing."""
    files = Path(__file__).parent.glob("[!_]*.py")
    return tuple(sorted(file.stem for file in files if file.stem not in _MACHINERY))


def load(name: str) -> Task:
    """The task called ``name``; `UnknownTask` with the nearest names when there is none.

    A file may offer variants of its data set (the language pairs of Multi30k): "multi30k-de-fr" is
    ``variant("de-fr")`` of its file.
    """
    stem, dash, variant = name.partition("-")
    if dash and stem in names() and hasattr(module := importlib.import_module(f"tasks.{stem}"), "variant"):
        return module.variant(variant)
    if name not in names():
        near = difflib.get_close_matches(name.lower(), names(), n=3) or names()
        raise UnknownTask(
            f"There is no task '{name}'. Nearest: {', '.join(near)}. `python -m bench ls tasks` shows all."
        )
    return importlib.import_module(f"tasks.{name}").TASK
