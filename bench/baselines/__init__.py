"""Rows without a network: what a constant answer, a linear model over words, or the text itself reach. No TensorFlow.

A benchmark number means little without its floor. One file is one row, named like it with "_" for "-", and defines

    LABEL               its name on the board
    PREDICTORS          for each form that it can do, (task, training examples, examples to predict) to predictions
    beside(task)        whether a run with ``task`` brings the row by itself; without it, the row is asked for by name
    TRAINING            what its predictors do with training examples (`Training`), by form where that is not NEEDED

`names` only looks into the folder, so that listing costs no import.
"""

from collections.abc import Iterable, Sequence
from enum import Enum
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from bench.adapt import NotApplicable
from tasks.forms import Form
from tasks.task import Example, Task


class Training(Enum):
    """What a row does with training examples."""

    NEEDED = "without the file the cell is not applicable"
    REPLACEABLE = "without the file it learns from the dev split, or else from the reported one, and its label says so"
    UNUSED = "the file is not read"


@cache
def names() -> tuple[str, ...]:
    """The rows that there are, sorted."""
    files = (path.stem for path in Path(__file__).parent.glob("[!_]*.py"))
    return tuple(sorted(name.replace("_", "-") for name in files))


def label(name: str) -> str:
    """What the board calls the row ``name``."""
    return _module(name).LABEL


def beside(tasks: Iterable[Task]) -> tuple[str, ...]:
    """The rows that a run with ``tasks`` brings by itself."""
    found = list(tasks)
    own = {name: getattr(_module(name), "beside", None) for name in names()}
    return tuple(name for name, wanted in own.items() if wanted and any(wanted(task) for task in found))


def training(name: str, form: Form) -> Training:
    """What the row ``name`` does with training examples of tasks of ``form``."""
    return getattr(_module(name), "TRAINING", {}).get(form, Training.NEEDED)


def predict(name: str, task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[Any]:
    """Predictions of the row ``name``; `NotApplicable` where it has no meaning for the form or the task."""
    predictor = _module(name).PREDICTORS.get(task.form)
    if predictor is None:
        raise NotApplicable("no-baseline", f"because {name} has no meaning for a {task.form} task.")
    return predictor(task, train, examples)


def _module(name: str) -> ModuleType:
    return import_module(f"{__name__}.{name.replace('-', '_')}")
