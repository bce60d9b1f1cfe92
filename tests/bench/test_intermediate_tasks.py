"""Cells that start from a model adapted to an intermediate task."""

import dataclasses
import json
from dataclasses import replace

import numpy as np
import pytest

from ptmbench.bench.engine import checkpoint
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.errors import OK, UsageError
from ptmbench.bench.runs.artefacts import AdaptedModel
from ptmbench.bench.runs.execute import remove_unneeded
from ptmbench.bench.runs.job import Job
from ptmbench.bench.runs.plan import Plan
from ptmbench.bench.runs.results import intact
from ptmbench.bench.runs.schedule import Schedule
from ptmbench.bench.runs.work import Worker
from ptmbench.leaderboard.records import record
from tests.bench import asking, test_schedule
from tests.bench.cells import SHORT
from tests.bench.test_schedule import WORDS


def test_models_are_adapted_to_an_intermediate_task_once(planned):
    asked = ("finetune", "finetune:after=sst2", "features:layers=top+after=sst2")
    whole = planned(models=("bert",), tasks=("cola", "sst2", "wikitext2"), adaptations=asked, seeds=2)
    adapted = {one.key: one for one in whole.artefacts if isinstance(one, AdaptedModel)}
    names = sorted((one.cell.row.name, one.cell.adaptation, one.cell.seed) for one in adapted.values())
    rows = ("bert", "random-bert")
    assert names == sorted((row, way, n) for row in rows for way in ("finetune", "features:layers=top") for n in (0, 1))
    for cell in whole.cells:
        if cell.adaptation == "finetune:after=sst2" and cell.task == "cola":
            first = adapted[cell.adapted].cell
            assert (first.task, first.row, first.seed, first.adaptation) == ("sst2", cell.row, cell.seed, "finetune")
        elif cell.task != "cola" or cell.adaptation == "finetune":
            assert not cell.adapted  # a task is not its own intermediate task
    plain = planned(models=("bert",), tasks=("cola", "sst2", "wikitext2"), adaptations=("finetune",), seeds=2)
    assert {cell.key for cell in plain.cells} <= {cell.key for cell in whole.cells}
    with pytest.raises(UsageError, match="models are not trained on wikitext2"):
        planned(models=("bert",), adaptations=("finetune:after=wikitext2",))


def test_adapted_models_are_removed_when_no_cell_needs_them(tmp_path):
    first, second = (AdaptedModel(cell=test_schedule.cell("random-bert", task)) for task in ("sst2", "rte"))
    cells = [replace(test_schedule.cell("random-bert", "cola", seed), adapted=first.key) for seed in (0, 1)]
    cells += [replace(test_schedule.cell("random-bert", "rte"), predictor=second.key)]
    whole = Plan((WORDS, first, second, *cells))

    def left(*statuses):
        for one in (first, second):
            (one.checkpoint(tmp_path)).mkdir(parents=True, exist_ok=True)
        remove_unneeded(whole, tmp_path, {one.key: status for one, status in zip(cells, statuses, strict=False)})
        return [one.place(tmp_path).exists() for one in (first, second)]

    assert left() == [True, True] and left("ok") == [True, True]
    assert left("ok", "failed", "not_applicable") == [True, False], "--retry runs the failed cell again"
    assert left("ok", "diverged", "failed") == [True, True]
    assert left("ok", "not_applicable", "ok") == [False, False]
    assert not (tmp_path / "intermediate").exists()
    assert Schedule(whole.artefacts, {one.key for one in cells}).over, "they are not made again for what is done"


def test_the_next_run_finishes_a_removal_that_was_killed(tmp_path, monkeypatch):
    one = AdaptedModel(cell=test_schedule.cell("random-bert", "sst2"))
    asked = replace(test_schedule.cell("random-bert", "sst2"), predictor=one.key)
    whole, removed = Plan((WORDS, one, asked)), []
    one.checkpoint(tmp_path).mkdir(parents=True)
    monkeypatch.setattr("ptmbench.bench.runs.execute.shutil.rmtree", lambda path, **_: removed.append(path.name))
    remove_unneeded(whole, tmp_path, {asked.key: "ok"})  # killed before it deleted anything
    assert removed == [f".{one.key[:12]}"] and not one.place(tmp_path).exists()
    monkeypatch.undo()
    one.checkpoint(tmp_path).mkdir(parents=True)  # it was made again
    remove_unneeded(whole, tmp_path, {})
    assert [path.name for path in (tmp_path / "intermediate").iterdir()] == [one.key[:12]]
    remove_unneeded(whole, tmp_path, {asked.key: "ok"})
    assert not (tmp_path / "intermediate").exists()


@pytest.mark.slow
def test_a_cell_starts_from_the_model_of_its_intermediate_task(world, tmp_path):
    """The target task starts from the weights after the intermediate task. At a rate of 0, both encoders are equal."""
    usual = {"suite": "demo", "data": world, "models": ("bert",), "baselines": False, "jobs": 1, "threads": 1}
    usual |= {"tasks": ("cola",), "seeds": 1, "budget": Budget(steps=3), "out": tmp_path, "vocabulary": 300}
    usual |= {"settings": {"max_steps": 3, "length": 32}, "recipe": SHORT}
    assert asking.run_suite(**usual, adaptations=("finetune", "finetune:after=sst2")) == OK
    found = {one.adaptation["name"]: one for one in map(record.read, (tmp_path / "records").glob("*.json"))}
    plain, after = found["finetune"], found["finetune:after=sst2"]
    about = after.adaptation["intermediate"]
    assert about["task"] == "sst2" and about["cost"]["steps"] == 3 and "intermediate" not in plain.adaptation
    assert after.pretraining == plain.pretraining and after.curve != plain.curve
    whole = Plan.from_json((tmp_path / "plan.json").read_text())
    (adapted,) = (one for one in whole.artefacts if isinstance(one, AdaptedModel))
    assert not (tmp_path / "adapted").exists() and not (tmp_path / "intermediate").exists()  # no model is kept
    job = Job(**json.loads((tmp_path / "job.json").read_text()))
    assert Worker(tmp_path, whole, job).do(adapted.key).endswith(": done")  # it can be made again
    assert intact(tmp_path, adapted) and checkpoint.read(adapted.checkpoint(tmp_path)).about["task"] == "sst2"

    # The same cell with a learning rate of 0: its encoder's weights are those of the adapted model.
    (cell,) = (one for one in whole.cells if one.adapted)
    still = dataclasses.replace(cell, settings={**cell.settings, "learning_rate": 0.0, "max_steps": 1})
    job = dataclasses.replace(job, keep=True)
    plan = Plan((*(one for one in whole.artefacts if one.kind != "cell"), still))
    assert "failed" not in Worker(tmp_path, plan, job).do(still.key)
    (kept,) = (tmp_path / "adapted").iterdir()
    ours, theirs = checkpoint.read(kept).arrays(), checkpoint.read(adapted.checkpoint(tmp_path)).arrays()
    encoder = [name for name in ours if not name.startswith("adapted/")]
    assert encoder and all(np.array_equal(ours[name], theirs[name]) for name in encoder)
    given = checkpoint.read(whole.by_key[cell.pretraining].place(tmp_path)).arrays()
    assert any(not np.array_equal(ours[name], given[name]) for name in encoder)
