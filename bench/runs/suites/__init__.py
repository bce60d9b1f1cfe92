"""Named runs as Python: one file per suite, each with a ``SUITE``. The folder is the registry; nothing here imports
TensorFlow."""

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
    """What a run does when no option says otherwise."""

    summary: str
    models: tuple[str, ...]
    tasks: tuple[str, ...]
    sizes: tuple[str, ...] = ("tiny",)
    seeds: int = 3
    adaptations: tuple[str, ...] = ("finetune",)
    conditions: tuple[str, ...] = ()
    """Each cell is also scored under each of these."""
    transforms: tuple[str, ...] = ()
    """Each adapted model is also scored after each of these."""
    budget: Budget | tuple[Budget, ...] = field(default_factory=lambda: Budget(tokens=20_000_000))
    """One, or several: every model is pre-trained once with each."""
    budgets: Mapping[str, Budget | tuple[Budget, ...]] = field(default_factory=dict)
    """Budgets of models ("bert"), or of one size of a model ("bert-tiny"), for which the common ones make no sense; a
    budget of the command line is for all models."""
    pretraining_seeds: int = 1
    """How often every model is pre-trained with each budget."""
    pretrainings: Mapping[str, int] = field(default_factory=dict)
    """The same for single models, in place of ``pretraining_seeds``; a number from the command line is for all."""
    corpus: tuple[str, ...] = ()
    """Unlabelled text, as patterns below the data folder."""
    tokenizer: str = "wordpiece"
    vocabulary: int = 8000
    recipe: Mapping[str, float] = field(default_factory=dict)
    """Changes to `bench.engine.recipe.Recipe`."""
    settings: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Changes to the adaptations' settings, the general before the particular: under "" for all, by form, by
    "<form>/<adaptation>", by task, by "<task>/<adaptation>"."""
    keeps: Callable[["Cell"], bool] = lambda cell: True
    """Which of the combinations of models, sizes, adaptations and transforms are run."""
    base: Stage | None = None
    """Where the models continue from; None for random weights."""
    profile: bool = False
    """Measure what compressed models are compared by: latency and memory of each stored model, which take ten seconds
    or more of each cell, and replicates of its score."""
    embedded: bool = False
    """Runs on the microworld when no data folder is given."""


def names() -> tuple[str, ...]:
    """Every suite's name, sorted."""
    return tuple(sorted(file.stem for file in Path(__file__).parent.glob("[!_.]*.py")))


def load(name: str) -> Suite:
    """The suite called ``name``; `UsageError` with the nearest names when there is none, `BrokenFile` when its file
    cannot be imported or has no sound ``SUITE``."""
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
    """What is wrong with ``suite``, in sentences. Names of models and tasks are looked up by the run."""
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
    """Whether ``budget`` is one that has a unit, or a tuple of such."""
    several = budget if isinstance(budget, tuple) else (budget,)
    return all(isinstance(one, Budget) for one in several) and len(rungs(several)) == len(several) > 0
