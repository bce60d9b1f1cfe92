"""FastBERT cells: stopped or killed in both stages, kept, and evaluated at several speeds."""

import dataclasses
import gzip
import json
import signal
import subprocess
import sys

import numpy as np
import pytest

from ptmbench.bench.adapt import conditions, predictor, settings
from ptmbench.bench.adapt.built import traced
from ptmbench.bench.adapt.fastbert import Own
from ptmbench.bench.data import corpora
from ptmbench.bench.engine import checkpoint, packing
from ptmbench.bench.errors import OK
from ptmbench.bench.runs import cell as cells
from ptmbench.bench.runs.answers import Context
from ptmbench.leaderboard.records import record
from ptmbench.models.card import Size
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks import load
from tests.bench.cells import check_resumed, make
from tests.bench.processes import PATIENCE, ROOT, wait_for
from tests.bench.test_condition_cells import kept
from tests.bench.test_transform_cells import check_transform_resumed, transformed

DEEP = Size(layers=3, width=32, heads=2, inner=64, length=96)


def fastbert_cell(**changes):
    return make("sst2", "bert", "fastbert", **{"epochs": 4, "batch": 16, "learning_rate": 3e-3} | changes)


@pytest.mark.slow
@pytest.mark.parametrize("kill", [2, 9], ids=["first stage", "second stage"])
def test_a_cell_stopped_in_either_stage_resumes_to_the_same_record(context, kill, monkeypatch):
    deep = dataclasses.replace(context, shape=DEEP)
    uninterrupted = check_resumed(fastbert_cell(), deep, kill, monkeypatch, "mean_exit_layer")
    assert uninterrupted.cost["steps"] == 12 and len(uninterrupted.curve) == 4  # six steps of each stage


SCRIPT = """
import sys
from pathlib import Path
import tests.bench.test_fastbert_cells as here
here.alone(*map(Path, sys.argv[1:]))
"""


def alone(data, out):
    """Runs a cell in a separate process, which saves after every step, and writes its results to a file."""
    vocabulary = Tokenizer.load(corpora.tokenizer([data / "corpus"], "wordpiece", 400))
    given = Context(data=data, out=out, shape=DEEP, tokenizer=vocabulary, unfinished=out / "unfinished", save_every=0.0)
    result = cells.run(dataclasses.replace(fastbert_cell(), limit=48), given)
    kept = {"scores": dict(result.scores), "curve": list(result.curve), "sha": result.predictions["sha256"]}
    (out / "answers.json").write_text(json.dumps(kept | {"exit": result.cost["mean_exit_layer"]}))


@pytest.mark.slow
def test_a_cell_killed_in_both_stages_resumes_to_the_same_result(world, tmp_path):
    """The signal is SIGKILL, which cannot be caught: first in one stage, then in the other."""

    def start_process(out):
        out.mkdir(exist_ok=True)
        with open(tmp_path / "log", "a") as log:
            return subprocess.Popen([sys.executable, "-c", SCRIPT, world, out], cwd=ROOT, stderr=log, stdout=log)

    def last_saved_step(out):
        found = (out / "unfinished").glob("training-1/step-*/manifest.json")
        return max((int(path.parent.name.rpartition("-")[2]) for path in found), default=0)

    uninterrupted, killed = tmp_path / "straight", tmp_path / "killed"
    assert start_process(uninterrupted).wait(timeout=PATIENCE) == OK, (tmp_path / "log").read_text()
    for stage in (2, 8):
        process = start_process(killed)
        wait_for(lambda stage=stage, process=process: last_saved_step(killed) >= stage or process.poll() is not None)
        process.kill()
        assert process.wait() == -signal.SIGKILL, (tmp_path / "log").read_text()
        assert stage <= last_saved_step(killed) < (7 if stage == 2 else 12)
    assert start_process(killed).wait(timeout=PATIENCE) == OK, (tmp_path / "log").read_text()
    assert "The cell goes on at step" in (tmp_path / "log").read_text()
    assert (killed / "answers.json").read_text() == (uninterrupted / "answers.json").read_text()


@pytest.mark.parametrize(
    "asked", ["prune:epochs=4+frequency=1", pytest.param("qat:epochs=4+calibration=1", marks=pytest.mark.slow)]
)
def test_transforms_train_the_students_after_the_encoder_and_the_teacher(context, asked):
    cell = fastbert_cell(epochs=2)
    given = kept(cell, dataclasses.replace(context, shape=DEEP))
    before = packing.unpacked(given.predictor.arrays())
    network = predictor.load(given.predictor).learning
    second = {id(variable) for variable in network.adaptation.second(network.reading, network.head)}
    students = [name for name, variable in network.named_variables() if id(variable) in second]
    _, ready = transformed(asked, cell, given)
    after = packing.unpacked(ready.predictor.arrays())
    assert students and not any(np.array_equal(before[name], after[name]) for name in students)
    assert ready.spent["transform"]["steps"] == 12 and len(ready.predictor.about["curve"]) == 2 + 4
    if asked.startswith("prune"):
        kernel = "encoder/stack/layer_0/attention/projection/kernel"
        assert np.mean(after[kernel] == 0) == 0.5 and np.mean(before[kernel] == 0) == 0


@pytest.mark.slow
def test_pruning_resumes_in_the_second_stage(context, monkeypatch):
    cell = fastbert_cell(epochs=2)
    given = kept(cell, dataclasses.replace(context, shape=DEEP))
    check_transform_resumed("prune:epochs=4+frequency=1", cell, given, 9, monkeypatch)


@pytest.mark.slow
def test_higher_speeds_need_fewer_flops_and_a_kept_model_predicts_as_before(context, world, tokenizer):
    """One network is adapted, kept, and evaluated at several speeds and on misspelt texts."""
    deep = dataclasses.replace(context, shape=DEEP, keep=True)
    cell = fastbert_cell(speed=0.5)
    result = cells.run(cell, deep)
    assert result.status == "ok", result.reason
    plain = cells.run(make("sst2", "bert", "finetune"), dataclasses.replace(deep, keep=False))
    size = Own().branch_width(DEEP.width)
    added = DEEP.layers * (DEEP.width * size + size + 5 * (size * size + size))
    assert result.cost["parameters"] - plain.cost["parameters"] == added
    record.write(context.out, result)

    (folder,) = (context.out / "adapted").iterdir()
    traced.cache_clear()  # as in a new process
    kept = predictor.load(checkpoint.read(folder))
    task = load("sst2")
    examples = task.examples(world, task.report)[:48]
    answers = kept.answer(examples)
    recorded_predictions = [line["prediction"] for line in lines(context.out, result)]
    assert answers.predictions == recorded_predictions
    assert answers.extra_costs == {name: result.cost[name] for name in ("mean_exit_layer", "mean_flops")}

    means, spent = [], []
    for speed in (0.0, 0.3, 0.6, 0.9, 0.99, 1.0):
        kept.settings = settings.changed(kept.settings, {"speed": speed})
        answers = kept.answer(examples)
        means.append(answers.extra_costs["mean_exit_layer"])
        each = kept.flops(examples)
        assert abs(sum(each) - answers.flops) <= 1e-9 * answers.flops
        spent.append(answers.flops)
        if speed in (0.0, 1.0):
            assert means[-1] == (DEEP.layers if speed == 0.0 else 1)
    assert means == sorted(means, reverse=True) and spent[1:] == sorted(spent[1:], reverse=True)
    assert spent[-1] < 0.5 * spent[0] < spent[1] and min(answers.probabilities[0].values()) > 0

    # The gradients are the teacher's at every speed.
    (found,) = kept.gradients(examples[:1])
    assert found.shape[1] == DEEP.width and np.abs(found).max() > 0

    chosen = conditions.choose("misspellings:share=1.0")
    changes = {"share": 1.0, "kinds": "insert+delete+swap+mistype"}
    other = dataclasses.replace(
        cell, predictor="x", condition=chosen.title, condition_settings=changes, condition_version=1
    )
    given = dataclasses.replace(deep, keep=False, predictor=checkpoint.read(folder), spent=dict(result.cost))
    misspelt = cells.run(other, given)
    assert misspelt.status == "ok", misspelt.reason
    assert 1 <= misspelt.cost["mean_exit_layer"] <= DEEP.layers


def lines(out, result):
    with gzip.open(out / result.predictions["file"], "rt") as file:
        return [json.loads(line) for line in file]
