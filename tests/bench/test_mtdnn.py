"""Distillation of several tasks at once: the loss by NumPy, whose teacher says what, plans, and cells on the board."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from ptmbench.bench.adapt import load as adaptation
from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.distil.targets import taught
from ptmbench.bench.adapt.heads import classification, stack
from ptmbench.bench.adapt.mtdnn import Own
from ptmbench.bench.adapt.mtdnn.targets import placed
from ptmbench.bench.adapt.multitask import head as multitask
from ptmbench.bench.engine import checkpoint
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.errors import OK
from ptmbench.bench.runs import cell as cells
from ptmbench.bench.runs.answers import Context
from ptmbench.bench.runs.artefacts import AdaptedModel, from_dict, to_dict
from ptmbench.bench.runs.estimate import cell_cost
from ptmbench.bench.runs.teachers import AdaptedTeacher
from ptmbench.leaderboard.records import record
from ptmbench.leaderboard.scores import compression
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks import load
from ptmbench.tasks.task import Example
from tests.bench import asking
from tests.bench.cells import SHAPE, SHORT, check_resumed, make
from tests.bench.test_distil import divergence, softmax
from tests.bench.test_schedule import cell as scheduled

TOKENIZER = Tokenizer.train("word", ["good bad film who what where is not a the"] * 3, 60)
QUESTIONS = ("who is", "what is", "where is", "is not", "a film", "bad film")


def asked_about_trec(labels=(3, 0, 5, 1, 1, 3)):
    """Rows of six questions as the student of SST-2 and TREC has them, and as the teacher of TREC has them."""
    own = Own(auxiliary="trec")
    task = load("trec")
    texts = zip(QUESTIONS, labels, strict=True)
    examples = [Example(id=text, inputs=(text,), gold=task.labels[label]) for text, label in texts]
    student = multitask.Codec(load("sst2"), TOKENIZER, own, ()).auxiliary_rows({"trec": examples})
    return student, classification.Codec(task, TOKENIZER, own, ()).rows(examples)


def said(rows, seed=0):
    """The logits of a teacher for ``rows`` of its own, with what is no answer pushed out."""
    rng = np.random.default_rng(seed)
    return [rng.normal(0, 3, len(row.arrays["unused"])).astype(np.float32) + row.arrays["unused"] for row in rows]


@pytest.mark.parametrize("alpha", [0.5, 1.0, 0.25])
@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_the_loss_of_a_task_is_over_its_own_classes(alpha, temperature):
    """alpha T^2 KL + (1 - alpha) cross-entropy over the six classes of TREC, which stand behind the two of SST-2."""
    rows, read = asked_about_trec()
    outputs = said(read)
    batch = stack(taught(rows, *placed(rows, read, outputs), "", 0))
    student = np.random.default_rng(1).normal(0, 3, (6, 16)).astype(np.float32)
    own = Own(alpha=alpha, temperature=temperature)
    adapted = type("Adapted", (), {"settings": own, "head": classification.Head(16)})
    numbers = tf.constant(student + batch["unused"])
    found = adaptation("mtdnn").loss(adapted, numbers, {k: tf.constant(v) for k, v in batch.items()}, None)

    z, v = student[:, 2:8].astype(float), np.array([output[:6] for output in outputs], float)
    hard = -np.log(softmax(z)[np.arange(6), [3, 0, 5, 1, 1, 3]])
    soft = divergence(z, v, temperature)
    assert abs(float(found) - np.mean(alpha * soft + (1 - alpha) * hard)) < 2e-5


def test_a_teacher_of_another_task_says_nothing_of_this_one():
    rows, read = asked_about_trec()
    for row, output in zip(taught(rows, *placed(rows, read, said(read)), "", 0), said(read), strict=True):
        assert np.array_equal(row.arrays["teacher"][2:8], output[:6])
        assert (np.delete(row.arrays["teacher"], range(2, 8)) <= -1e8).all()


@pytest.mark.parametrize("shuffle", ["examples", "labels"])
def test_shuffled_targets_stay_within_their_task(shuffle):
    rows, read = asked_about_trec()
    outputs = said(read)
    dealt = [row.arrays["teacher"][2:8] for row in taught(rows, *placed(rows, read, outputs), shuffle, 0)]
    source = [next(i for i, one in enumerate(outputs) if np.array_equal(one[:6], got)) for got in dealt]
    assert sorted(source) == list(range(6)) != source
    labels = [int(row.arrays["label"]) for row in rows]
    same = [labels[i] == labels[j] for i, j in enumerate(source)]
    assert all(same) if shuffle == "labels" else not all(same)


def test_without_an_example_there_is_nothing_to_place():
    assert placed([], [], []) == ([], [])


def test_settings():
    chosen = Own(auxiliary="sst2+cola", joint_epochs=7, epochs=2)
    assert (chosen.alpha, chosen.temperature, chosen.match) == (0.5, 1.0, "probabilities")
    assert chosen.of("sst2").others == ("cola",) and chosen.of("sst2").teacher == "bert-mini"
    alone = dataclasses.replace(chosen, alpha=0.0).of("cola")
    assert (alone.teacher, alone.others) == ("", ("sst2",)) and alone.joint().epochs == 7
    with pytest.raises(settings.SettingError, match="no texts are added"):
        settings.changed(Own(), {"augment": 2})


ASKED = "mtdnn:auxiliary=sst2+cola+teacher=bert-mini"


def test_every_task_has_its_own_teacher(planned):
    whole = planned(
        models=("bert",), sizes=("tiny",), tasks=("sst2", "cola"), adaptations=(ASKED, f"{ASKED}+alpha=0"), seeds=2
    )
    teachers = {one.key: one.cell for one in whole.artefacts if isinstance(one, AdaptedModel)}
    assert sorted((one.who, one.adaptation, one.task, one.seed) for one in teachers.values()) == [
        ("bert-mini", "finetune", task, seed) for task in ("cola", "sst2") for seed in (0, 1)
    ]
    for one in (one for one in whole.cells if "mtdnn" in one.adaptation):
        if "alpha=0" in one.adaptation:
            assert not one.teacher and not one.auxiliary_teachers and one.auxiliary
            continue
        (other,) = one.auxiliary_teachers
        assert (teachers[one.teacher].task, teachers[one.teacher].seed) == (one.task, one.seed)
        key = one.auxiliary_teachers[other]
        assert (teachers[key].task, teachers[key].seed) == (other, one.seed) and other != one.task
        assert {one.teacher, key} <= set(one.needs) and one.relation(key) == "The teacher of an auxiliary task"
        assert from_dict(to_dict(one)) == one


def test_cells_without_auxiliary_teachers_keep_their_keys():
    one = scheduled("random-bert", "sst2")
    assert dataclasses.replace(one, auxiliary_teachers={"cola": "x"}).key != one.key
    assert "auxiliary_teachers" in to_dict(one) and from_dict(to_dict(one)).key == one.key


def test_an_auxiliary_task_of_another_form_has_no_teacher(planned):
    asked = "mtdnn:auxiliary=stsb+teacher=random-bert-tiny"
    whole = planned(models=("random-bert",), sizes=("tiny",), tasks=("sst2",), adaptations=(asked,), baselines=False)
    assert [one.auxiliary_teachers for one in whole.cells] == [{}]


def test_the_estimate_counts_the_questions_to_all_teachers(world):
    def asking_costs(cell):
        alone = dataclasses.replace(cell, settings={**cell.settings, "teacher": ""})
        return cell_cost(cell, world, {}, None)[1] - cell_cost(alone, world, {}, None)[1]

    about = {"title": "CoLA", "version": 1, "data_sha256": "x"}
    joint = dataclasses.replace(make("sst2", "bert", "mtdnn", auxiliary="cola"), auxiliary={"cola": about})
    one, both = asking_costs(make("sst2", "bert", "distil")), asking_costs(joint)
    assert 1.3 * one < both < 3 * one  # the sentences of CoLA are asked about too


@pytest.mark.slow
def test_a_student_of_two_teachers_on_the_board(world, tmp_path):
    asked = "mtdnn:auxiliary=sst2+cola+teacher=random-bert-tiny"
    ways = (asked, f"{asked}+alpha=0")
    usual = {"suite": "demo", "data": world, "models": ("random-bert",), "baselines": False, "jobs": 1, "threads": 1}
    usual |= {"tasks": ("sst2", "cola"), "seeds": 1, "budget": Budget(steps=3), "out": tmp_path}
    usual |= {"settings": {"max_steps": 3, "length": 32}, "recipe": SHORT, "sizes": ("tiny",), "vocabulary": 300}
    assert asking.run_suite(**usual, adaptations=ways) == OK
    found = {}
    for one in map(record.read, (tmp_path / "records").glob("*.json")):
        assert one.status == "ok", one.reason
        found[one.task["name"], one.adaptation["name"]] = one
    assert len(found) == 2 * 2
    for task, other in (("sst2", "cola"), ("cola", "sst2")):
        taught_so, alone = (found[task, way] for way in ways)
        about = taught_so.adaptation["teacher"]
        assert list(about["auxiliary"]) == [other] and "teacher" not in alone.adaptation
        of_other = found[other, asked].adaptation["teacher"]
        assert about["auxiliary"][other]["weights_sha256"] == of_other["weights_sha256"] != about["weights_sha256"]
        assert taught_so.cost["flops"] == alone.cost["flops"] + taught_so.cost["flops_teacher"] > alone.cost["flops"]
        losses = [[point["loss"] for point in one.curve] for one in (taught_so, alone)]
        assert losses[0] != losses[1]
        assert taught_so.cost["steps"] == alone.cost["steps"] == 3 + 3  # jointly, then alone
        each = [about["cost"]["flops"], about["auxiliary"][other]["cost"]["flops"]]
        assert compression._taught(taught_so) == pytest.approx(sum(each))


@pytest.mark.slow
def test_a_student_that_is_stopped_in_the_joint_passes_goes_on(world, tokenizer, tmp_path, monkeypatch):
    usual = {"data": world, "shape": SHAPE, "tokenizer": tokenizer}

    def teacher(task):
        own = dataclasses.replace(make(task, "bert", "finetune", seed=7, max_steps=2), limit=48)
        cells.adapt(own, Context(**usual, out=tmp_path / task))
        (folder,) = (tmp_path / task / "adapted").iterdir()
        return AdaptedTeacher(adapted=checkpoint.read(folder), weights=None, about={"name": "random-bert"})

    about = {"title": "CoLA", "version": 1, "data_sha256": "x"}
    cell = make("sst2", "bert", "mtdnn", auxiliary="cola", joint_epochs=1, batch=16)
    cell = dataclasses.replace(cell, auxiliary={"cola": about})
    teachers = {"teacher": teacher("sst2"), "auxiliary_teachers": {"cola": teacher("cola")}}
    context = Context(**usual, out=tmp_path, **teachers)
    straight = check_resumed(cell, context, 4, monkeypatch, "flops_teacher")
    assert straight.cost["steps"] == (3 + 3) + 3 and list(straight.adaptation["teacher"]["auxiliary"]) == ["cola"]
