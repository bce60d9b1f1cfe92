"""Distillation cells: the teacher in the record, and a student that is killed and resumed."""

import dataclasses
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ptmbench.bench.data import corpora
from ptmbench.bench.engine import checkpoint
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.errors import OK
from ptmbench.bench.runs import cell as cells
from ptmbench.bench.runs.answers import Context
from ptmbench.bench.runs.teachers import AdaptedTeacher
from ptmbench.leaderboard.records import record
from ptmbench.models.text.tokenizers import Tokenizer
from tests.bench import asking
from tests.bench.cells import SHAPE, SHORT, check_resumed, make
from tests.bench.processes import PATIENCE, ROOT, wait_for

TEACHER = "distil:teacher=random-bert-tiny"


@pytest.mark.slow
def test_the_record_of_a_student_describes_its_teacher(world, tmp_path):
    usual = {"suite": "demo", "data": world, "models": ("bert",), "baselines": False, "jobs": 1, "threads": 1}
    usual |= {"tasks": ("sst2", "conll2003"), "seeds": 1, "budget": Budget(steps=3), "out": tmp_path}
    usual |= {"settings": {"max_steps": 3, "length": 32}, "recipe": SHORT, "sizes": ("tiny",), "vocabulary": 300}
    adaptation_names = (TEACHER, f"{TEACHER}+shuffle=examples", "distil:alpha=0", "finetune")
    assert asking.run_suite(**usual, adaptations=adaptation_names) == OK
    found = {}
    for one in map(record.read, (tmp_path / "records").glob("*.json")):
        assert one.status == "ok", one.reason
        found[one.task["name"], one.adaptation["name"]] = one
    assert len(found) == 2 * 4
    for task in usual["tasks"]:
        taught, shuffled, alone, tuned = (found[task, way] for way in adaptation_names)
        assert (alone.scores, alone.curve, alone.cost["flops"]) == (tuned.scores, tuned.curve, tuned.cost["flops"])
        about = taught.adaptation["teacher"]
        assert about == shuffled.adaptation["teacher"] and "teacher" not in alone.adaptation
        assert (about["name"], about["size"], about["adaptation"]) == ("random-bert", "tiny", "finetune")
        assert len(about["weights_sha256"]) == 64 and about["pretraining"] is None and about["cost"]["steps"] == 3
        assert taught.cost["flops"] == alone.cost["flops"] + taught.cost["flops_teacher"] > alone.cost["flops"]
        assert [one["loss"] for one in taught.curve] != [one["loss"] for one in alone.curve]
        assert taught.key != shuffled.key and taught.cost["flops"] == shuffled.cost["flops"]
    assert not (tmp_path / "intermediate").exists()  # teachers are not stored


TWO_LAYERS = dataclasses.replace(SHAPE, layers=2)


def student(adaptation="distil", **changes):
    usual = {"epochs": 4, "batch": 8, "learning_rate": 3e-3} | ({"inner_epochs": 3} if adaptation == "tinybert" else {})
    return make("sst2", "bert", adaptation, **usual | changes)


def context_of(data, out, teacher=None, **more):
    vocabulary = Tokenizer.load(corpora.tokenizer([data / "corpus"], "wordpiece", 400))
    if teacher is not None:
        more["teacher"] = AdaptedTeacher(adapted=checkpoint.read(teacher), weights=None, about={"name": "random-bert"})
    return Context(data=data, out=out, shape=TWO_LAYERS, tokenizer=vocabulary, **more)


def summary(result):
    assert result.status == "ok", result.reason
    cost = {name: result.cost[name] for name in ("steps", "tokens", "flops", "flops_teacher", "flops_evaluate")}
    kept = {"scores": dict(result.scores), "curve": list(result.curve), "sha": result.predictions["sha256"]}
    return json.loads(json.dumps(kept | cost))


SCRIPT = """
import sys
from pathlib import Path
import tests.bench.test_distil_cells as here
here.alone(sys.argv[1], *map(Path, sys.argv[2:]))
"""


def alone(adaptation: str, data: Path, out: Path, teacher: Path):
    """Runs a student cell in a separate process, which saves its training state after every step."""
    result = cells.run(
        student(adaptation), context_of(data, out, teacher, unfinished=out / "unfinished", save_every=0.0)
    )
    (out / "answers.json").write_text(json.dumps(summary(result)))


@pytest.mark.slow
@pytest.mark.parametrize("adaptation", ["distil", "pkd", "tinybert"])
def test_a_killed_student_resumes_to_the_same_result(world, tmp_path, adaptation):
    """The signal is SIGKILL, which cannot be caught. After the resume, the teacher predicts the same targets again."""
    adapting = dataclasses.replace(make("sst2", "bert", "finetune", seed=7), limit=48)
    cells.adapt(adapting, context_of(world, tmp_path / "teacher"))
    (teacher,) = (tmp_path / "teacher" / "adapted").iterdir()
    uninterrupted = summary(cells.run(student(adaptation), context_of(world, tmp_path / "straight", teacher)))
    total = 24 + (18 if adaptation == "tinybert" else 0)
    assert uninterrupted["steps"] == total and uninterrupted["flops_teacher"] > 0

    def start_process():
        with open(tmp_path / "log", "a") as log:
            command = [sys.executable, "-c", SCRIPT, adaptation, world, killed, teacher]
            return subprocess.Popen(command, cwd=ROOT, stderr=log, stdout=log)

    def last_saved_step():
        found = (killed / "unfinished").glob("training-1/step-*/manifest.json")
        return max((int(path.parent.name.rpartition("-")[2]) for path in found), default=0)

    killed = tmp_path / "killed"
    killed.mkdir()
    process = start_process()
    wait_for(lambda: last_saved_step() >= 5 or process.poll() is not None)
    process.kill()
    assert process.wait() == -signal.SIGKILL, (tmp_path / "log").read_text()
    assert 5 <= last_saved_step() < 24
    assert start_process().wait(timeout=PATIENCE) == OK, (tmp_path / "log").read_text()
    assert "The cell goes on at step" in (tmp_path / "log").read_text()
    assert json.loads((killed / "answers.json").read_text()) == uninterrupted


@pytest.fixture
def taught(world, tmp_path):
    """The arguments of `context_of` for a student of a fine-tuned teacher."""
    cells.adapt(dataclasses.replace(make("sst2", "bert", "finetune", seed=7), limit=48), context_of(world, tmp_path))
    (teacher,) = (tmp_path / "adapted").iterdir()
    return world, tmp_path, teacher


@pytest.mark.slow
def test_tinybert_resumes_in_its_second_stage(taught, monkeypatch):
    """It is stopped after 6 steps of the first stage and 3 of the second."""
    cell = student("tinybert", inner_epochs=1, epochs=1)
    record = check_resumed(cell, context_of(*taught), 9, monkeypatch, "flops_teacher")
    assert record.cost["steps"] == 12


@pytest.mark.slow
def test_controls_of_hidden_layer_distillation(taught):
    """With alpha=0, a student equals plain fine-tuning in both adaptations. A shuffled teacher changes the training."""
    world, out, teacher = taught
    few, one = {"epochs": 1, "max_steps": 3}, {"inner_epochs": 1}
    tuned = cells.run(student("finetune", **few), context_of(world, out))
    for adaptation, more in (("pkd", {}), ("tinybert", one)):
        alone = cells.run(student(adaptation, alpha=0, **few, **more), context_of(world, out))
        assert (alone.scores, alone.curve) == (tuned.scores, tuned.curve) and "flops_teacher" not in alone.cost
    plain, shuffled = (
        cells.run(student("tinybert", shuffle=shuffle, **few, **one), context_of(world, out, teacher))
        for shuffle in ("", "examples")
    )
    assert {plain.status, shuffled.status} == {"ok"}, (plain.reason, shuffled.reason)
    assert plain.curve != shuffled.curve and plain.cost["steps"] == 3 + 3
    assert plain.cost["flops"] > plain.cost["flops_teacher"] + alone.cost["flops"] > alone.cost["flops"]


@pytest.mark.slow
def test_a_recurrent_student_is_trained_on_the_logits_of_a_transformer(taught):
    """BERT-to-LSTM (Tang et al., 2019)."""
    found = {
        alpha: cells.run(make("sst2", "elmo", "distil", match="logits", alpha=alpha, max_steps=3), context_of(*taught))
        for alpha in (1.0, 0.5)
    }
    assert {one.status for one in found.values()} == {"ok"}, [one.reason for one in found.values()]
    losses = [one.curve[0]["loss"] for one in found.values()]
    assert losses[0] != losses[1] and all(one.cost["flops_teacher"] > 0 for one in found.values())


@pytest.mark.slow
def test_lightpaff_learns_from_a_teacher_in_both_stages(world, tmp_path):
    """Song et al. (2020): both stages have a teacher. That of fine-tuning is the teacher of pre-training,
    fine-tuned."""
    way = "distil:teacher=bert-tiny+temperature=1"
    usual = {"suite": "demo", "data": world, "models": ("lightpaff",), "baselines": False, "jobs": 1, "threads": 1}
    usual |= {"tasks": ("sst2",), "seeds": 1, "budget": Budget(steps=3), "out": tmp_path, "sizes": ("tiny",)}
    usual |= {"settings": {"max_steps": 3, "length": 32}, "recipe": SHORT, "vocabulary": 300}
    assert asking.run_suite(**usual, adaptations=(way,)) == OK
    (found,) = map(record.read, (tmp_path / "records").glob("*.json"))
    assert found.status == "ok", found.reason
    first, second = found.pretraining["teacher"], found.adaptation["teacher"]
    assert first["weights_sha256"] == second["pretraining"]["weights_sha256"] != second["weights_sha256"]
    assert found.cost["flops_teacher"] > 0 and found.adaptation["settings"]["temperature"] == 1.0


@pytest.mark.slow
def test_a_convolutional_student_is_trained_on_the_logits_of_a_transformer(taught):
    """Transformer-to-CNN (Chia et al., 2019)."""
    given = {"match": "logits", "max_steps": 3}
    both, alone = (
        cells.run(make("sst2", "blend_cnn", "distil", alpha=a, **given), context_of(*taught)) for a in (1, 0)
    )
    assert {both.status, alone.status} == {"ok"}, (both.reason, alone.reason)
    assert both.curve[0]["loss"] != alone.curve[0]["loss"] and both.cost["flops_teacher"] > 0
    tags = cells.run(make("conll2003", "blend_cnn", "finetune", max_steps=2), context_of(*taught[:2]))
    assert tags.status == "ok", tags.reason
