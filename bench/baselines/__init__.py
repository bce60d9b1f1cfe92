"""Baselines without a pre-trained model: a constant answer, a linear model over words, or the source text itself.

Each file is one baseline, with "_" in place of "-" in its name. It defines

    LABEL               its name on the board
    PREDICTORS          for each form that it supports, a function (task, train, examples) that returns predictions
    by_default(task)    optional: whether a run with ``task`` has the baseline by default; if missing, never
    TRAINING            optional: how it uses training examples (`Training`), for each form where this is not NEEDED

`names` only lists the folder, so that listing imports nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from ptmbench.bench.console import say
from ptmbench.bench.errors import BrokenFile, NotApplicable
from ptmbench.models._importing import fits, imported
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Example, Task


class Training(Enum):
    """How a baseline uses training examples."""

    NEEDED = "without the file the cell is not applicable"
    REPLACEABLE = "without the file it learns from the dev split, or else from the reported one, and its label says so"
    UNUSED = "the file is not read"


@cache
def names() -> tuple[str, ...]:
    """The names of all baselines, sorted."""
    files = (path.stem for path in Path(__file__).parent.glob("[!_.]*.py"))
    return tuple(sorted(name.replace("_", "-") for name in files))


def label(name: str) -> str:
    """The label of the baseline ``name`` on the board."""
    return _module(name).LABEL


def by_default(tasks: Iterable[Task]) -> tuple[str, ...]:
    """The baselines that a run with ``tasks`` has by default. Broken files are named on stderr and left out."""
    found, chosen = list(tasks), []
    for name in names():
        try:
            wanted = getattr(_module(name), "by_default", None)
        except BrokenFile as error:
            say(str(error))
            continue
        if wanted and any(wanted(task) for task in found):
            chosen.append(name)
    return tuple(chosen)


def training(name: str, form: Form) -> Training:
    """How the baseline ``name`` uses training examples of tasks of ``form``."""
    return getattr(_module(name), "TRAINING", {}).get(form, Training.NEEDED)


def predict(name: str, task: Task, train: Sequence[Example], examples: Sequence[Example]) -> list[Any]:
    """The predictions of the baseline ``name``. Raises `NotApplicable` if it does not apply to the form or the task."""
    predictor = _module(name).PREDICTORS.get(task.form)
    if predictor is None:
        raise NotApplicable("no-baseline", f"because {name} does not apply to {task.form} tasks.")
    return predictor(task, train, examples)


def _module(name: str) -> ModuleType:
    """Imports the baseline ``name``. Raises `BrokenFile` if its file cannot be imported or does not define one."""
    path = Path(__file__).parent / f"{name.replace('-', '_')}.py"
    module = imported(f"{__name__}.{path.stem}", path, BrokenFile)
    found, predictors = [], getattr(module, "PREDICTORS", None)
    if not isinstance(getattr(module, "LABEL", None), str):
        found.append("It has no LABEL, a text.")
    if not isinstance(predictors, Mapping) or not all(
        form in tuple(Form) and callable(one) and fits(one, 3) for form, one in predictors.items()
    ):
        found.append("It has no PREDICTORS, a dict from forms to functions (task, train, examples).")
    wanted = getattr(module, "by_default", None)
    if wanted is not None and not (callable(wanted) and fits(wanted, 1)):
        found.append("by_default is a function (task).")
    if found:
        raise BrokenFile(f"{path} does not define a baseline. {' '.join(found)}")
    return module
