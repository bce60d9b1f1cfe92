"""Trials of pre-trainings: the artefact (`bench.runs.artefacts.Artefact`) and its sealed record.

A trial is a pre-training that does not train on some documents. Its record has the loss on these documents and the
cost. The weights are removed.
"""

import math
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from ptmbench import models
from ptmbench.bench.engine import checkpoint, place
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.engine.checkpoint import Checkpoint, CheckpointError, digest
from ptmbench.bench.engine.networks import sized
from ptmbench.bench.engine.recipe import recipe_of, resolved
from ptmbench.bench.errors import Diverged
from ptmbench.bench.runs.trainings import Pretraining
from ptmbench.bench.runs.tuning import records
from ptmbench.models.text.tokenizers import Vocabulary


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A pre-training with one recipe and the budget of one rung."""

    kind: ClassVar[str] = "trial"
    pretraining: Pretraining
    weight: ClassVar[float] = 1.0

    @property
    def key(self) -> str:
        return digest({"trial": self.pretraining.key})

    @property
    def title(self) -> str:
        recipe = self.pretraining.recipe
        changed = [f"{name} {recipe[name]:g}" for name in ("learning_rate", "batch", "warmup") if name in recipe]
        return f"Trial of {self.pretraining.model}-{self.pretraining.size} ({', '.join(changed) or 'own recipe'})"

    @property
    def needs(self) -> tuple[str, ...]:
        return self.pretraining.needs

    def relation(self, key: str) -> str:
        return self.pretraining.relation(key)

    @property
    def group(self) -> str:
        return self.key

    def place(self, out: Path) -> Path:
        return out / "trials" / f"{self.pretraining.model}-{self.pretraining.size}.{self.key[:12]}.json"


def make(trial: Trial, out: Path, train: Callable[[Pretraining, Path], Checkpoint], vocabulary: Vocabulary) -> None:
    """Calls ``train``, which writes the checkpoint of ``trial`` to a folder, writes the record below ``out``, and
    removes the folder. A training that diverges has a record too. ``vocabulary`` belongs to the network's
    tokenizer."""
    home = out / "unfinished" / trial.key[:12]
    diverged = None
    try:
        about: Mapping[str, Any] = _finished(home) or train(trial.pretraining, home).about
    except Diverged as error:
        diverged = str(error)
        about = _spent_until(trial.pretraining, error.step, vocabulary)
    held_out = dict(about.get("held_out", {}))
    if diverged is None and not math.isfinite(held_out["loss"]):
        diverged = "The loss on the held-out documents is not finite."
    records.write(trial.place(out), _body(trial, about, held_out), diverged)
    shutil.rmtree(home, ignore_errors=True)
    shutil.rmtree(place.states_of(home), ignore_errors=True)


def outcome(trial: Trial, out: Path) -> str:
    """How ``trial`` ended below ``out``, in words."""
    record = records.read(trial.place(out))
    return f"held-out loss {record['loss']:.4f}" if record["status"] == "ok" else f"diverged: {record['reason']}"


def _finished(home: Path) -> Mapping[str, Any] | None:
    """The manifest of a finished training in ``home``, if a worker died before it wrote the record."""
    with suppress(CheckpointError):
        return checkpoint.read(home).about
    return None


def _spent_until(pretraining: Pretraining, step: int, vocabulary: Vocabulary) -> dict[str, Any]:
    """The recipe and the cost of a training that diverged at ``step``."""
    recipe, module = recipe_of(pretraining.recipe), models.load(pretraining.model)
    shape = sized(module, pretraining.size, recipe.length)
    recipe = resolved(recipe, module, shape, pretraining.budget, vocabulary)
    each = module.describe(shape, vocabulary).step_flops(recipe.batch, recipe.length)
    tokens = step * recipe.batch * recipe.length
    return {"recipe": asdict(recipe), "steps": step, "tokens": tokens, "flops": step * each}


def _body(trial: Trial, about: Mapping[str, Any], held_out: Mapping[str, Any]) -> dict[str, Any]:
    one = trial.pretraining
    known = ("steps", "tokens", "flops", "seconds", "energy", "threads", "device", "parameters", "tokenizer")
    # A loss that is not finite has no place in JSON; the reason says so.
    finite = {name: value for name, value in held_out.items() if not isinstance(value, float) or math.isfinite(value)}
    return {
        "key": trial.key,
        "model": one.model,
        "size": one.size,
        "seed": one.seed,
        "budget": amount_of(one.budget),
        "recipe": about["recipe"],
        "corpus": one.corpus_name,
        "corpus_sha256": one.corpus_sha256,
        "loss": finite.get("loss"),
        "held_out": finite,
        "training_loss": about.get("loss"),
        **{name: about.get(name) for name in known},
    }


def amount_of(budget: Budget) -> dict[str, float]:
    """``budget`` as a dict of its one unit."""
    return {budget.unit: budget.amount}
