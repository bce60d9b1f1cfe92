"""DualTrain in the harness: a student with its own vocabulary, from the plan to the scores."""

from types import SimpleNamespace

import numpy as np
import pytest

from ptmbench import models
from ptmbench.bench.data import corpora
from ptmbench.bench.engine import checkpoint, networks
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.engine.checkpoint import CheckpointError
from ptmbench.bench.engine.step import TrainStep
from ptmbench.bench.engine.tensor_parallel import layouts
from ptmbench.bench.errors import OK, UsageError
from ptmbench.bench.runs import keras_model
from ptmbench.bench.runs.artefacts import Given
from ptmbench.leaderboard.records import record
from ptmbench.models.text.pieces import CorpusUnfit
from ptmbench.models.text.tokenizers import Tokenizer
from tests.bench import asking
from tests.bench.cells import SHORT, train
from tests.bench.processes import PATIENCE, check_killed_again_and_again, made_text, start


@pytest.fixture(scope="module")
def teacher(text, tmp_path_factory):
    return train("bert", text, tmp_path_factory.mktemp("teacher") / "teacher")


@pytest.fixture(scope="module")
def small(text):
    """The text, tokenized with a vocabulary of 200."""
    tokenizer = Tokenizer.load(corpora.tokenizer(text.files, "wordpiece", 200))
    return SimpleNamespace(
        files=text.files, tokenizer=tokenizer, corpus=corpora.load(tuple(map(str, text.files)), tokenizer)
    )


@pytest.fixture(scope="module")
def student(small, teacher, tmp_path_factory):
    return train("dualtrain", small, tmp_path_factory.mktemp("student") / "student", teacher=teacher)


# Planning ------------------------------------------------------------------------------------------------------------


def test_a_run_plans_two_vocabularies(planned):
    whole = planned(models=("bert", "dualtrain"), vocabulary=3000)
    first, second = whole.pretrainings
    assert (first.model, first.vocabulary, first.teacher_vocabulary) == ("bert", 3000, 0)
    assert (second.model, second.vocabulary, second.teacher_vocabulary) == ("dualtrain", 500, 3000)
    assert second.teacher == first.key and second.tokenizer_key != first.tokenizer_key
    assert second.words.teacher.size == 3000 and first.words.teacher is None
    for row, pretraining in (("bert", first), ("dualtrain", second), ("random-dualtrain", second)):
        cells = [cell for cell in whole.cells if cell.row.name == row]
        assert all(cell.tokenizer == pretraining.tokenizer_key for cell in cells)
    alone = planned(models=("bert",), vocabulary=3000).pretrainings
    assert alone == (first,)  # a student with another vocabulary does not change it


def test_a_given_teacher_keeps_its_vocabulary(planned, teacher, student):
    usual = {"models": ("dualtrain",), "vocabulary": None, "recipe": SHORT}
    whole = planned(**usual, teachers=(teacher.folder,))
    (only,) = whole.pretrainings
    assert (
        isinstance(whole.by_key[only.teacher], Given) and only.teacher_vocabulary == teacher.about["tokenizer"]["size"]
    )
    assert only.vocabulary == min(256, only.teacher_vocabulary)
    further = planned(**usual, teachers=(teacher.folder,), bases=(student.folder,))
    (only,) = further.pretrainings
    assert only.tokenizer_key == student.about["tokenizer"]["sha256"] != teacher.about["tokenizer"]["sha256"]


def test_a_dry_run_lists_the_student(world, tmp_path, capsys):
    usual = {"suite": "demo", "data": world, "models": ("dualtrain",), "tasks": ("sst2",), "out": tmp_path}
    usual |= {"budget": Budget(steps=5), "recipe": SHORT, "vocabulary": 300, "dry_run": True}
    assert asking.run_suite(**usual) == OK
    assert "dualtrain-tiny" in capsys.readouterr().out


# Training ------------------------------------------------------------------------------------------------------------


def test_the_checkpoint_contains_only_the_student(student, small, text, teacher):
    about, module = student.about, models.load("dualtrain")
    assert about["tokenizer"] == small.tokenizer.about
    assert about["teacher"]["tokenizer"] == teacher.about["tokenizer"] == text.tokenizer.about
    assert Tokenizer.load(student.path("tokenizer.json")).fingerprint == small.tokenizer.fingerprint
    shape = networks.sized(module, "tiny", 32)
    network = networks.build("dualtrain", shape, small.tokenizer, 0)
    arrays = student.arrays()
    assert arrays.keys() == {variable.path for variable in network.loss.variables}
    assert about["parameters"] == sum(array.size for array in arrays.values())
    assert arrays["encoder/embeddings/tokens/table"].shape == (small.tokenizer.vocabulary.size, 64)
    assert checkpoint.read(teacher.folder).weights_sha256 == teacher.weights_sha256  # a copy of it is trained


def test_training_flops_count_student_and_teacher(student, small, teacher):
    module = models.load("dualtrain")
    words = small.tokenizer.with_teacher(Tokenizer.load(teacher.path("tokenizer.json")).vocabulary).vocabulary
    described = module.describe(networks.sized(module, "tiny", 32), words)
    rows = described.forward_flops(32) + described.teacher.forward_flops(32)
    assert student.about["flops"] == pytest.approx(3 * 3 * (4 * rows + described.weight_flops))
    assert described.teacher.heads[0].vocabulary == teacher.about["tokenizer"]["size"] + words.size - 37
    including = student.about["including"]
    assert (
        including["flops"] == pytest.approx(student.about["flops"] + teacher.about["flops"]) and including["steps"] == 6
    )


def test_a_stopped_training_resumes_to_the_same_weights(student, small, teacher, tmp_path, monkeypatch):
    """The training state contains the teacher and the projections."""
    calls, step = [], TrainStep.__call__

    def interrupted_step(self, *given):
        if len(calls) == 2:
            calls.append("killed")
            raise KeyboardInterrupt
        calls.append("step")
        return step(self, *given)

    monkeypatch.setattr(TrainStep, "__call__", interrupted_step)
    with pytest.raises(KeyboardInterrupt):
        train("dualtrain", small, tmp_path / "out", teacher=teacher, save_every=0.0)
    _, found = checkpoint.newest_intact(tmp_path / "out.training", print)
    assert {path.partition("/")[0] for path in found["weights"]} >= {"encoder", "mlm", "teacher", "projections"}
    again = train("dualtrain", small, tmp_path / "out", teacher=teacher)
    assert calls.count("step") == 3
    uninterrupted = student.arrays()
    assert all(np.array_equal(array, uninterrupted[path]) for path, array in again.arrays().items())


@pytest.mark.slow
def test_pretraining_continues_from_a_student_checkpoint(student, small, teacher, tmp_path):
    second = train("dualtrain", small, tmp_path / "second", teacher=teacher, base=student, budget=Budget(steps=1))
    assert second.about["including"]["steps"] == 3 + 3 + 1 and second.arrays().keys() == student.arrays().keys()


def test_the_student_is_loaded_with_its_own_vocabulary(student, small):
    encoder = keras_model.load(student.folder)
    assert encoder.tokenizer.fingerprint == small.tokenizer.fingerprint


def test_unsuitable_teachers_tokenizers_and_strategies_raise_errors(text, small, teacher, student, tmp_path):
    usual = {"model": "dualtrain", "corpus": text.files, "budget": Budget(steps=2), "recipe": SHORT}
    usual |= {"out": tmp_path / "out"}
    with pytest.raises(UsageError, match="dualtrain tiny learns from a teacher, bert tiny. Pre-train that first"):
        asking.pretrain(**usual)
    with pytest.raises(UsageError, match="it is dualtrain, and the teacher is bert"):
        asking.pretrain(**usual, teachers=(student.folder,))
    with pytest.raises(CheckpointError, match="dualtrain tiny learns from a teacher, bert tiny. Give its checkpoint"):
        train("dualtrain", small, tmp_path / "out")
    described = models.load("dualtrain").describe(models.load("dualtrain").SIZES["tiny"], small.tokenizer.vocabulary)
    with pytest.raises(UsageError, match="its loss compares whole weights with those of its teacher. Use --strategy"):
        layouts.check(described, 2, "DualTrain tiny")
    with pytest.raises(CorpusUnfit, match="has no pieces that begin with '##'"):
        asking.pretrain(**usual, teachers=(teacher.folder,), tokenizer="word")
    assert not (tmp_path / "out").exists()


def test_pretrain_trains_the_smaller_tokenizer_of_the_student(text, teacher, tmp_path):
    usual = {"model": "dualtrain", "corpus": text.files, "budget": Budget(steps=1), "recipe": SHORT}
    assert asking.pretrain(**usual, teachers=(teacher.folder,), vocabulary=180, out=tmp_path / "out") == OK
    about = checkpoint.read(tmp_path / "out").about
    assert about["tokenizer"]["size"] <= 180 < about["teacher"]["tokenizer"]["size"]


@pytest.mark.slow
def test_a_training_killed_repeatedly_ends_with_the_same_weights(tmp_path):
    text = made_text(tmp_path / "corpus.txt")
    assert start(text, tmp_path / "teacher", "--steps", "20").wait(timeout=PATIENCE) == 0
    more = ("--teacher", str(tmp_path / "teacher"), "--steps", "60", "--vocabulary", "200")

    def start_student(out, *further):
        return start(text, out, *more, *further, model="dualtrain")

    check_killed_again_and_again(start_student, tmp_path, 2)


@pytest.mark.slow
def test_a_run_scores_the_student_and_its_random_twin(world, tmp_path):
    usual = {"suite": "demo", "data": world, "models": ("dualtrain", "random-dualtrain"), "baselines": False}
    usual |= {"tasks": ("sst2",), "seeds": 1, "budget": Budget(steps=3), "out": tmp_path, "jobs": 1, "threads": 1}
    usual |= {"settings": {"max_steps": 3, "length": 32}, "recipe": SHORT, "vocabulary": 400}
    assert asking.run_suite(**usual) == OK
    found = {one.row["name"]: one for one in map(record.read, (tmp_path / "records").glob("*.json"))}
    assert {one.status for one in found.values()} == {"ok"}, [one.reason for one in found.values()]
    about = found["dualtrain"].pretraining
    assert about["tokenizer"]["size"] < about["teacher"]["tokenizer"]["size"]
