"""One trial of a tuning: an artefact like others (`bench.runs.artefacts.Artefact`), and the sealed record it leaves.

A trial is a pre-training that holds documents out. Its record keeps their loss and what it cost; the weights go.
"""

import datetime
import math
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from ptmbench import models
from ptmbench.bench import environment
from ptmbench.bench.engine import checkpoint, place
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.engine.checkpoint import Checkpoint, CheckpointError, digest
from ptmbench.bench.engine.networks import sized
from ptmbench.bench.engine.recipe import recipe_of, resolved
from ptmbench.bench.errors import Diverged
from ptmbench.bench.runs.trainings import Pretraining
from ptmbench.bench.runs.tuning import sealed
from ptmbench.models.text.tokenizers import Vocabulary

KIND = "trial"
AGAIN = "Delete it and give the same command again: only this trial is trained anew."


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A pre-training with one recipe and the budget of one rung."""

    kind: ClassVar[str] = KIND
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
    """Have ``train`` leave the checkpoint of ``trial`` in a folder, write the record below ``out``, and remove the
    folder. A training that diverges is a result too. ``vocabulary`` is what the network reads."""
    home = out / "unfinished" / trial.key[:12]
    diverged = None
    try:
        about: Mapping[str, Any] = _there(home) or train(trial.pretraining, home).about
    except Diverged as error:
        diverged = str(error)
        about = _until(trial.pretraining, error.step, vocabulary)
    held_out = dict(about.get("held_out", {}))
    if diverged is None and not math.isfinite(held_out["loss"]):
        diverged = "The loss on the held-out documents is not finite."
    sealed.write(trial.place(out), KIND, _body(trial, about, held_out, diverged))
    shutil.rmtree(home, ignore_errors=True)
    shutil.rmtree(place.states_of(home), ignore_errors=True)


def read(path: Path) -> dict[str, Any]:
    """The record at ``path``; `RecordError` where it is missing or damaged."""
    return sealed.read(path, KIND, AGAIN)


def loss_of(record: Mapping[str, Any]) -> float:
    """The loss on the held-out documents; infinity for a trial that diverged."""
    return record["loss"] if record["status"] == "ok" else math.inf


def flops_of(record: Mapping[str, Any]) -> float:
    """FLOPs of the training, and of measuring its loss."""
    return record["flops"] + record["held_out"].get("flops", 0.0)


def told(trial: Trial, out: Path) -> str:
    """How ``trial`` ended below ``out``, in words."""
    record = read(trial.place(out))
    return f"held-out loss {record['loss']:.4f}" if record["status"] == "ok" else f"diverged: {record['reason']}"


def _there(home: Path) -> Mapping[str, Any] | None:
    """What a worker left that died before it wrote the record."""
    with suppress(CheckpointError):
        return checkpoint.read(home).about
    return None


def _until(pretraining: Pretraining, step: int, vocabulary: Vocabulary) -> dict[str, Any]:
    """What is known of a training that diverged at ``step``."""
    recipe, module = recipe_of(pretraining.recipe), models.load(pretraining.model)
    shape = sized(module, pretraining.size, recipe.length)
    recipe = resolved(recipe, module, shape, pretraining.budget, vocabulary)
    each = recipe.batch * module.describe(shape, vocabulary).training_flops(recipe.length)
    tokens = step * recipe.batch * recipe.length
    return {"recipe": asdict(recipe), "steps": step, "tokens": tokens, "flops": step * each}


def _body(trial: Trial, about: Mapping[str, Any], held_out: Mapping[str, Any], diverged: str | None) -> dict[str, Any]:
    one = trial.pretraining
    known = ("steps", "tokens", "flops", "seconds", "energy", "threads", "device", "parameters", "tokenizer")
    # A loss that is not finite has no place in JSON; the reason says so.
    finite = {name: value for name, value in held_out.items() if not isinstance(value, float) or math.isfinite(value)}
    return {
        "key": trial.key,
        "status": "diverged" if diverged else "ok",
        "reason": diverged,
        "model": one.model,
        "size": one.size,
        "seed": one.seed,
        "budget": asked(one.budget),
        "recipe": about["recipe"],
        "corpus": one.corpus_name,
        "corpus_sha256": one.corpus_sha256,
        "loss": finite.get("loss"),
        "held_out": finite,
        "training_loss": about.get("loss"),
        **{name: about.get(name) for name in known},
        "versions": environment.versions(),
        "commit": environment.commit(),
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def asked(budget: Budget) -> dict[str, float]:
    """``budget`` as a dict of its one unit."""
    return {budget.unit: budget.amount}
