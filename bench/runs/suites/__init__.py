"""Suites, which are named runs: one file each, with a ``SUITE``. Every file in this folder is registered."""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ptmbench.bench.engine.budget import Budget, rungs
from ptmbench.bench.errors import BrokenFile, UsageError
from ptmbench.models._importing import imported

if TYPE_CHECKING:
    from ptmbench.bench.runs.artefacts import Cell


@dataclass(frozen=True, kw_only=True)
class Stage:
    """An earlier stage of pre-training, whose checkpoints the models of a suite continue from."""

    budget: Budget
    corpus: tuple[str, ...]
    """Unlabelled text, as patterns below the data folder. The tokenizer of both stages is trained on it."""
    recipe: Mapping[str, float] = field(default_factory=dict)
    """Changes to the suite's recipe."""


@dataclass(frozen=True, kw_only=True)
class Suite:
    """The defaults of a run. Options of the command line override them."""

    summary: str
    models: tuple[str, ...]
    tasks: tuple[str, ...]
    sizes: tuple[str, ...] = ("tiny",)
    seeds: int = 3
    adaptations: tuple[str, ...] = ("finetune",)
    conditions: tuple[str, ...] = ()
    """Conditions under which each cell is also scored."""
    transforms: tuple[str, ...] = ()
    """Transforms after which each adapted model is also scored."""
    budget: Budget | tuple[Budget, ...] = field(default_factory=lambda: Budget(tokens=20_000_000))
    """One budget or several; every model is pre-trained with each of them."""
    budgets: Mapping[str, Budget | tuple[Budget, ...]] = field(default_factory=dict)
    """Budgets of single models ("bert"), or of one size of a model ("bert-tiny"), in place of ``budget``. A budget from
    the command line applies to all models."""
    pretraining_seeds: int = 1
    """Number of pre-trainings of each model with each budget."""
    pretrainings: Mapping[str, int] = field(default_factory=dict)
    """The same for single models, in place of ``pretraining_seeds``. The command line's number applies to all."""
    corpus: tuple[str, ...] = ()
    """Unlabelled text, as patterns below the data folder."""
    tokenizer: str = "wordpiece"
    vocabulary: int = 8000
    recipe: Mapping[str, float] = field(default_factory=dict)
    """Changes to `bench.engine.recipe.Recipe`."""
    settings: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Changes to the settings of adaptations. The keys, from general to specific, are "" for all, a form,
    "<form>/<adaptation>", a task, and "<task>/<adaptation>". Specific changes override general ones."""
    keeps: Callable[["Cell"], bool] = lambda cell: True
    """Whether to run a cell: selects combinations of models, sizes, adaptations and transforms."""
    base: Stage | None = None
    """The stage that the models continue from; None for random weights."""
    profile: bool = False
    """Whether to record what compressed models are compared by: replicates of each score, sizes after compression,
    and, unless --no-profile is given, latency and memory. These two take ten seconds or more per cell."""
    embedded: bool = False
    """Whether the suite runs on the microworld if no data folder is given."""


def names() -> tuple[str, ...]:
    """Returns the sorted names of all suites."""
    return tuple(sorted(file.stem for file in Path(__file__).parent.glob("[!_.]*.py")))


def load(name: str) -> Suite:
    """Returns the suite ``name``. Raises `UsageError` with the nearest names if there is none, and `BrokenFile` if its
    file cannot be imported or has no valid ``SUITE``."""
    if name not in names():
        near = ", ".join(difflib.get_close_matches(name.lower(), names(), n=3))
        nearest = f" Nearest: {near}." if near else ""
        raise UsageError(f"There is no suite '{name}'.{nearest} `ptmbench ls suites` shows all.")
    path = Path(__file__).parent / f"{name}.py"
    suite = getattr(imported(f"ptmbench.bench.runs.suites.{name}", path, BrokenFile), "SUITE", None)
    if found := _mistakes(suite):
        raise BrokenFile(f"{path} does not define a suite. {' '.join(found)}")
    return suite


def _mistakes(suite: object) -> list[str]:
    """Returns what is wrong with ``suite``, in sentences. Names of models and tasks are checked by the run."""
    if not isinstance(suite, Suite):
        return ["It has no SUITE, a bench.runs.suites.Suite."]
    found = []
    for name in ("models", "tasks", "sizes", "adaptations", "conditions", "transforms", "corpus"):
        value = getattr(suite, name)
        if not isinstance(value, tuple) or not all(isinstance(one, str) for one in value):
            found.append(f"SUITE.{name} is a tuple of texts, not {value!r:.80}.")
    for name in ("budgets", "pretrainings", "recipe", "settings"):
        if not isinstance(getattr(suite, name), Mapping):
            found.append(f"SUITE.{name} is a dict, not {getattr(suite, name)!r:.80}.")
    counts = {name: getattr(suite, name) for name in ("seeds", "vocabulary", "pretraining_seeds")}
    if isinstance(suite.pretrainings, Mapping):
        counts |= {f"pretrainings[{name!r}]": value for name, value in suite.pretrainings.items()}
    for name, value in counts.items():
        if type(value) is not int or value < 1:
            found.append(f"SUITE.{name} is a whole number of at least 1, not {value!r}.")
    budgets = [suite.budget, *(suite.budgets.values() if isinstance(suite.budgets, Mapping) else ())]
    if not all(map(_sound, budgets)):
        found.append("SUITE.budget and SUITE.budgets hold a bench.engine.budget.Budget with a unit.")
    if not (suite.base is None or (isinstance(suite.base, Stage) and suite.base.budget.unit)):
        found.append("SUITE.base is a bench.runs.suites.Stage whose budget has a unit, or None.")
    return found


def _sound(budget: object) -> bool:
    """Whether ``budget`` is a budget with a unit, or a tuple of different ones."""
    several = budget if isinstance(budget, tuple) else (budget,)
    return all(isinstance(one, Budget) for one in several) and len(rungs(several)) == len(several) > 0
