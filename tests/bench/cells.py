"""Small cells, and small pre-trainings for them."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from ptmbench.bench.adapt import settings as adaptation_settings
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.engine.checkpoint import Checkpoint
from ptmbench.bench.engine.recipe import recipe_of
from ptmbench.bench.engine.step import TrainStep
from ptmbench.bench.runs import cell as cells
from ptmbench.bench.runs import pretrain
from ptmbench.bench.runs.answers import Context
from ptmbench.bench.runs.plan import Cell, Row
from ptmbench.leaderboard.records.record import Record
from ptmbench.models.card import Size
from ptmbench.tasks import load

SHAPE = Size(layers=1, width=32, heads=2, inner=64, length=96)
SHORT = {"batch": 4, "length": 32}
"""A recipe of pre-training."""


def make(task: str, model: str, adaptation: str, seed: int = 0, kind: str = "random", **changes: Any) -> Cell:
    """A cell of 48 examples and one epoch; ``changes`` are to its settings."""
    found = load(task)
    settings = adaptation_settings.defaults(found.form, adaptation)
    settings = adaptation_settings.changed(settings, {"epochs": 1, "length": 64, "stride": 32} | changes)
    return Cell(
        row=Row(name=f"random-{model}" if kind == "random" else model, kind=kind, model=model, size="tiny"),
        task=task,
        task_version=found.version,
        form=found.form,
        data_sha256="x",
        adaptation=adaptation,
        settings=adaptation_settings.recorded(settings),
        seed=seed,
        tokenizer="x",
        limit=48,
    )


def train(model: str, text: Any, out: Path, **changes: Any) -> Checkpoint:
    """Pre-trains ``model`` at size tiny for three steps on the fixture ``text``."""
    options = {"corpus": text.corpus, "tokenizer": text.tokenizer, "budget": Budget(steps=3)}
    return pretrain.pretrain(model, "tiny", out=out, **(options | {"recipe": recipe_of(SHORT)} | changes))


def check_resumed(cell: Cell, context: Context, kill: int, monkeypatch: pytest.MonkeyPatch, *costs: str) -> Record:
    """Runs ``cell`` straight, and again stopped before its step ``kill`` and resumed: both end with the same record, of
    whose cost also the numbers called ``costs``. Returns the straight one."""
    straight = cells.run(cell, context)
    assert straight.status == "ok", straight.reason
    taken, step = [], TrainStep.__call__

    def killing(self, *given):
        if len(taken) == kill:
            taken.append("killed")
            raise KeyboardInterrupt
        taken.append("step")
        return step(self, *given)

    monkeypatch.setattr(TrainStep, "__call__", killing)
    stoppable = dataclasses.replace(context, unfinished=context.out / "unfinished", save_every=0.0)
    with pytest.raises(KeyboardInterrupt):
        cells.run(cell, stoppable)
    assert list(stoppable.unfinished.rglob("learnt.safetensors"))
    again = cells.run(cell, stoppable)
    assert taken.count("step") == straight.cost["steps"]
    assert (again.scores, again.curve) == (straight.scores, straight.curve)
    assert again.predictions == straight.predictions
    for name in ("steps", "tokens", "flops", "flops_evaluate", "parameters", *costs):
        assert again.cost[name] == straight.cost[name], name
    return straight
