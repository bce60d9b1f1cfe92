"""Named runs as Python: one file per suite, each with a ``SUITE``. The folder is the registry; nothing here imports
TensorFlow."""

import difflib
import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.budget import Budget
from bench.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Suite:
    """What a run does when no option says otherwise."""

    summary: str
    models: tuple[str, ...]
    tasks: tuple[str, ...]
    sizes: tuple[str, ...] = ("tiny",)
    seeds: int = 3
    adaptations: tuple[str, ...] = ("finetune",)
    budget: Budget = field(default_factory=lambda: Budget(tokens=20_000_000))
    budgets: Mapping[str, Budget] = field(default_factory=dict)
    """Those of models for which the common one makes no sense; one from the command line is for all."""
    corpus: tuple[str, ...] = ()
    """Unlabelled text, as patterns below the data folder."""
    tokenizer: str = "wordpiece"
    vocabulary: int = 8000
    recipe: Mapping[str, float] = field(default_factory=dict)
    """Changes to `bench.engine.recipe.Recipe`."""
    settings: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Changes to the adaptations' settings, the general before the particular: under "" for all, by form, by
    "<form>/<adaptation>", by task, by "<task>/<adaptation>"."""
    embedded: bool = False
    """Runs on the microworld when no data folder is given."""


def names() -> tuple[str, ...]:
    """Every suite's name, sorted."""
    return tuple(sorted(file.stem for file in Path(__file__).parent.glob("[!_]*.py")))


def load(name: str) -> Suite:
    """The suite called ``name``; `UsageError` with the nearest names when there is none."""
    if name not in names():
        near = difflib.get_close_matches(name.lower(), names(), n=3) or names()
        raise UsageError(
            f"There is no suite '{name}'. Nearest: {', '.join(near)}. `python -m bench ls suites` shows all."
        )
    return importlib.import_module(f"bench.suites.{name}").SUITE
