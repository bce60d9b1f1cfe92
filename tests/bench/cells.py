"""Makes and runs small cells, and small pre-trainings for them."""

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
"""A recipe for short pre-trainings."""


def make(task: str, model: str, adaptation: str, seed: int = 0, kind: str = "random", **changes: Any) -> Cell:
    """Returns a cell with 48 examples and one epoch. ``changes`` override its settings."""
    loaded = load(task)
    settings = adaptation_settings.defaults(loaded.form, adaptation)
    settings = adaptation_settings.changed(settings, {"epochs": 1, "length": 64, "stride": 32} | changes)
    return Cell(
        row=Row(name=f"random-{model}" if kind == "random" else model, kind=kind, model=model, size="tiny"),
        task=task,
        task_version=loaded.version,
        form=loaded.form,
        data_sha256="x",
        adaptation=adaptation,
        settings=adaptation_settings.recorded(settings),
        seed=seed,
        tokenizer="x",
        limit=48,
    )


def train(model: str, text: Any, out: Path, size: str = "tiny", **changes: Any) -> Checkpoint:
    """Pre-trains ``model`` for three steps on the fixture ``text``."""
    options = {"corpus": text.corpus, "tokenizer": text.tokenizer, "budget": Budget(steps=3)}
    return pretrain.pretrain(model, size, out=out, **(options | {"recipe": recipe_of(SHORT)} | changes))


def check_resumed(cell: Cell, context: Context, kill: int, monkeypatch: pytest.MonkeyPatch, *costs: str) -> Record:
    """Checks that ``cell`` ends with the same record if it is interrupted before step ``kill`` and resumed.

    The costs named ``costs`` must also be equal. Returns the record of the uninterrupted run."""
    uninterrupted = cells.run(cell, context)
    assert uninterrupted.status == "ok", uninterrupted.reason
    events, step = [], TrainStep.__call__

    def interrupting_step(self, *arguments):
        if len(events) == kill:
            events.append("killed")
            raise KeyboardInterrupt
        events.append("step")
        return step(self, *arguments)

    monkeypatch.setattr(TrainStep, "__call__", interrupting_step)
    resumable = dataclasses.replace(context, unfinished=context.out / "unfinished", save_every=0.0)
    with pytest.raises(KeyboardInterrupt):
        cells.run(cell, resumable)
    assert list(resumable.unfinished.rglob("learnt.safetensors"))
    resumed = cells.run(cell, resumable)
    assert events.count("step") == uninterrupted.cost["steps"]
    assert (resumed.scores, resumed.curve) == (uninterrupted.scores, uninterrupted.curve)
    assert resumed.predictions == uninterrupted.predictions
    for name in ("steps", "tokens", "flops", "flops_evaluate", "parameters", *costs):
        assert resumed.cost[name] == uninterrupted.cost[name], name
    return uninterrupted
