"""Trials of pre-trainings: the artefact (`bench.runs.artefacts.Artefact`) and its sealed record.

A trial is a pre-training that holds some documents out. Its record has the loss on these documents, the scores of its
probes if there are any, and the cost. The weights are deleted.
"""

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar

from ptmbench import models, tasks
from ptmbench.bench.engine import checkpoint, place
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.engine.checkpoint import Checkpoint, CheckpointError, digest
from ptmbench.bench.engine.networks import sized
from ptmbench.bench.engine.recipe import recipe_of, resolved
from ptmbench.bench.errors import Diverged
from ptmbench.bench.runs.trainings import Pretraining
from ptmbench.bench.runs.tuning import records
from ptmbench.models.text.tokenizers import Vocabulary

if TYPE_CHECKING:
    from ptmbench.bench.runs.answers import Context
    from ptmbench.bench.runs.artefacts import Cell

HELD_OUT = 1000
"""Number of held-out training examples that a probe is scored on; at most a fifth of the training set."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A pre-training with one recipe and the budget of one rung."""

    kind: ClassVar[str] = "trial"
    pretraining: Pretraining
    probes: tuple["Cell", ...] = ()
    """Cells of the pre-trained model, scored on held-out training examples. Their mean score compares the trials; () if
    the loss does."""
    weight: ClassVar[float] = 1.0

    @property
    def key(self) -> str:
        matters: dict[str, Any] = {"trial": self.pretraining.key}
        if self.probes:
            matters |= {"probes": [cell.key for cell in self.probes], "held_out": HELD_OUT}
        return digest(matters)

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


def make(
    trial: Trial,
    out: Path,
    train: Callable[[Pretraining, Path], Checkpoint],
    vocabulary: Vocabulary,
    context: Callable[["Cell", Path, Checkpoint], "Context"],
) -> None:
    """Pre-trains ``trial``, scores its probes and writes the record below ``out``. A training that diverges has a
    record too.

    ``train`` writes the checkpoint to a folder, which is deleted. ``context`` makes the context of a probe from its
    cell, a folder for its training states, and this checkpoint. ``vocabulary`` belongs to the network's tokenizer.
    """
    home = out / "unfinished" / trial.key[:12]
    probing, diverged = home.with_name(f"{home.name}-probes"), None
    probes: list[dict[str, Any]] = []
    try:
        found = _finished(home) or train(trial.pretraining, home)
        about: Mapping[str, Any] = found.about
    except Diverged as error:
        diverged = str(error)
        about = _spent_until(trial.pretraining, error.step, vocabulary)
    held_out = dict(about.get("held_out", {}))
    if diverged is None and not math.isfinite(held_out["loss"]):
        diverged = "The loss on the held-out documents is not finite."
    if diverged is None:
        try:
            probes = [_run_probe(cell, context(cell, probing, found)) for cell in trial.probes]
        except Diverged as error:
            diverged = f"A probe diverged: {error}"
        if not all(math.isfinite(probe["score"]) for probe in probes):
            probes, diverged = [], "The score of a probe is not a number."
    records.write(trial.place(out), _body(trial, about, held_out, probes), diverged)
    for folder in (home, place.states_of(home), probing):
        shutil.rmtree(folder, ignore_errors=True)


def outcome(trial: Trial, out: Path) -> str:
    """Describes the result of ``trial`` in the folder ``out``."""
    record = records.read(trial.place(out))
    if record["status"] != "ok":
        return f"diverged: {record['reason']}"
    return f"mean score {-record['loss']:.2f}" if trial.probes else f"held-out loss {record['loss']:.4f}"


def _finished(home: Path) -> Checkpoint | None:
    """Returns the finished training in ``home`` if a worker died before it wrote the record, else None."""
    with suppress(CheckpointError):
        return checkpoint.read(home)
    return None


def _run_probe(cell: "Cell", context: "Context") -> dict[str, Any]:
    """Adapts the model in ``context`` to the task of ``cell``, and returns its entry in the record."""
    from ptmbench.bench.runs.cell import score_on_held_out

    score, examples, cost = score_on_held_out(cell, context, HELD_OUT)
    return {
        "task": cell.task,
        "task_version": cell.task_version,
        "data_sha256": cell.data_sha256,
        "adaptation": cell.adaptation,
        "seed": cell.seed,
        "metric": tasks.load(cell.task).headline,
        "score": score,
        "examples": examples,
        "flops": cost["flops"] + cost["flops_evaluate"],
        "seconds": cost["seconds"]["total"],
    }


def _spent_until(pretraining: Pretraining, step: int, vocabulary: Vocabulary) -> dict[str, Any]:
    """Returns the recipe and the cost of a training that diverged at ``step``."""
    recipe, module = recipe_of(pretraining.recipe), models.load(pretraining.model)
    shape = sized(module, pretraining.size, recipe.length)
    recipe = resolved(recipe, module, shape, pretraining.budget, vocabulary)
    each = module.describe(shape, vocabulary).step_flops(recipe.batch, recipe.length)
    tokens = step * recipe.batch * recipe.length
    return {"recipe": asdict(recipe), "steps": step, "tokens": tokens, "flops": step * each}


def _body(
    trial: Trial, about: Mapping[str, Any], held_out: Mapping[str, Any], probes: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    one, loss = trial.pretraining, held_out.get("loss")
    if trial.probes:  # what the tuning minimises
        loss = -fmean(probe["score"] for probe in probes) if probes else None
    known = ("steps", "tokens", "flops", "seconds", "energy", "threads", "device", "parameters", "tokenizer")
    # JSON cannot hold a loss that is not finite; the reason of the record reports it.
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
        "loss": loss if loss is not None and math.isfinite(loss) else None,
        "held_out": finite,
        **({"probes": list(probes)} if trial.probes else {}),
        "training_loss": about.get("loss"),
        **{name: about.get(name) for name in known},
    }


def amount_of(budget: Budget) -> dict[str, float]:
    """Returns ``budget`` as a dict of its unit and amount."""
    return {budget.unit: budget.amount}
