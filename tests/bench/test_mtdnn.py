"""Multi-task distillation: the loss against NumPy, the targets of each teacher, plans, records and resumption."""

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
from tests.bench.test_distil import GOLD, divergence, softmax
from tests.bench.test_schedule import cell as scheduled

TOKENIZER = Tokenizer.train("word", ["good bad film who what where is not a the"] * 3, 60)
QUESTIONS = ("who is", "what is", "where is", "is not", "a film", "bad film")


def trec_rows(labels=(3, 0, 5, 1, 1, 3)):
    """Rows of six questions, for the student of SST-2 and TREC and for the teacher of TREC."""
    own = Own(auxiliary="trec")
    task = load("trec")
    texts = zip(QUESTIONS, labels, strict=True)
    examples = [Example(id=text, inputs=(text,), gold=task.labels[label]) for text, label in texts]
    student = multitask.Codec(load("sst2"), TOKENIZER, own, ()).auxiliary_rows({"trec": examples})
    return student, classification.Codec(task, TOKENIZER, own, ()).rows(examples)


def teacher_logits(rows, seed=0):
    """Random teacher logits for ``rows``, with unused classes masked."""
    rng = np.random.default_rng(seed)
    return [rng.normal(0, 3, len(row.arrays["unused"])).astype(np.float32) + row.arrays["unused"] for row in rows]


@pytest.mark.parametrize("alpha", [0.5, 1.0, 0.25])
@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_the_loss_of_a_task_uses_only_its_own_classes(alpha, temperature):
    """alpha T^2 KL + (1 - alpha) cross-entropy over the six classes of TREC, which follow the two of SST-2."""
    rows, teacher_rows = trec_rows()
    outputs = teacher_logits(teacher_rows)
    batch = stack(taught(rows, *placed(rows, teacher_rows, outputs), GOLD, "", 0))
    student = np.random.default_rng(1).normal(0, 3, (6, 16)).astype(np.float32)
    own = Own(alpha=alpha, temperature=temperature)
    adapted = type("Adapted", (), {"settings": own, "head": classification.Head(16)})
    numbers = tf.constant(student + batch["unused"])
    result = adaptation("mtdnn").loss(adapted, numbers, {k: tf.constant(v) for k, v in batch.items()}, None)

    z, v = student[:, 2:8].astype(float), np.array([output[:6] for output in outputs], float)
    hard = -np.log(softmax(z)[np.arange(6), [3, 0, 5, 1, 1, 3]])
    soft = divergence(z, v, temperature)
    assert abs(float(result) - np.mean(alpha * soft + (1 - alpha) * hard)) < 2e-5


def test_teacher_logits_are_masked_outside_the_teachers_task():
    rows, teacher_rows = trec_rows()
    for row, output in zip(
        taught(rows, *placed(rows, teacher_rows, teacher_logits(teacher_rows)), GOLD, "", 0),
        teacher_logits(teacher_rows),
        strict=True,
    ):
        assert np.array_equal(row.arrays["teacher"][2:8], output[:6])
        assert (np.delete(row.arrays["teacher"], range(2, 8)) <= -1e8).all()


@pytest.mark.parametrize("shuffle", ["examples", "labels"])
def test_shuffled_targets_stay_within_their_task(shuffle):
    rows, teacher_rows = trec_rows()
    outputs = teacher_logits(teacher_rows)
    shuffled = [
        row.arrays["teacher"][2:8] for row in taught(rows, *placed(rows, teacher_rows, outputs), GOLD, shuffle, 0)
    ]
    source = [next(i for i, one in enumerate(outputs) if np.array_equal(one[:6], got)) for got in shuffled]
    assert sorted(source) == list(range(6)) != source
    labels = [int(row.arrays["label"]) for row in rows]
    same = [labels[i] == labels[j] for i, j in enumerate(source)]
    assert all(same) if shuffle == "labels" else not all(same)


def test_placed_accepts_no_examples():
    assert placed([], [], []) == ([], [])


def test_settings_of_each_stage_and_task():
    chosen = Own(auxiliary="sst2+cola", joint_epochs=7, epochs=2)
    assert (chosen.alpha, chosen.temperature, chosen.match) == (0.5, 1.0, "probabilities")
    assert chosen.of("sst2").others == ("cola",) and chosen.of("sst2").teacher == "bert-mini"
    alone = dataclasses.replace(chosen, alpha=0.0).of("cola")
    assert (alone.teacher, alone.others) == ("", ("sst2",)) and alone.joint().epochs == 7
    with pytest.raises(settings.SettingError, match="no texts are added"):
        settings.changed(Own(), {"augment": 2})


ASKED = "mtdnn:auxiliary=sst2+cola+teacher=bert-mini"


def test_the_plan_has_a_teacher_for_each_task(planned):
    run_plan = planned(
        models=("bert",), sizes=("tiny",), tasks=("sst2", "cola"), adaptations=(ASKED, f"{ASKED}+alpha=0"), seeds=2
    )
    teachers = {one.key: one.cell for one in run_plan.artefacts if isinstance(one, AdaptedModel)}
    assert sorted((one.who, one.adaptation, one.task, one.seed) for one in teachers.values()) == [
        ("bert-mini", "finetune", task, seed) for task in ("cola", "sst2") for seed in (0, 1)
    ]
    for one in (one for one in run_plan.cells if "mtdnn" in one.adaptation):
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
    adaptation_name = "mtdnn:auxiliary=stsb+teacher=random-bert-tiny"
    run_plan = planned(
        models=("random-bert",), sizes=("tiny",), tasks=("sst2",), adaptations=(adaptation_name,), baselines=False
    )
    assert [one.auxiliary_teachers for one in run_plan.cells] == [{}]


def test_the_estimate_counts_the_predictions_of_all_teachers(world):
    def teacher_flops(cell):
        alone = dataclasses.replace(cell, settings={**cell.settings, "teacher": ""})
        return cell_cost(cell, world, {}, None)[1] - cell_cost(alone, world, {}, None)[1]

    about = {"title": "CoLA", "version": 1, "data_sha256": "x"}
    joint = dataclasses.replace(make("sst2", "bert", "mtdnn", auxiliary="cola"), auxiliary={"cola": about})
    one, both = teacher_flops(make("sst2", "bert", "distil")), teacher_flops(joint)
    assert 1.3 * one < both < 3 * one  # the teacher of CoLA predicts too


@pytest.mark.slow
def test_records_of_a_student_of_two_teachers(world, tmp_path):
    adaptation_name = "mtdnn:auxiliary=sst2+cola+teacher=random-bert-tiny"
    adaptation_names = (adaptation_name, f"{adaptation_name}+alpha=0")
    usual = {"suite": "demo", "data": world, "models": ("random-bert",), "baselines": False, "jobs": 1, "threads": 1}
    usual |= {"tasks": ("sst2", "cola"), "seeds": 1, "budget": Budget(steps=3), "out": tmp_path}
    usual |= {"settings": {"max_steps": 3, "length": 32}, "recipe": SHORT, "sizes": ("tiny",), "vocabulary": 300}
    assert asking.run_suite(**usual, adaptations=adaptation_names) == OK
    result = {}
    for one in map(record.read, (tmp_path / "records").glob("*.json")):
        assert one.status == "ok", one.reason
        result[one.task["name"], one.adaptation["name"]] = one
    assert len(result) == 2 * 2
    for task, other in (("sst2", "cola"), ("cola", "sst2")):
        distilled, alone = (result[task, way] for way in adaptation_names)
        about = distilled.adaptation["teacher"]
        assert list(about["auxiliary"]) == [other] and "teacher" not in alone.adaptation
        of_other = result[other, adaptation_name].adaptation["teacher"]
        assert about["auxiliary"][other]["weights_sha256"] == of_other["weights_sha256"] != about["weights_sha256"]
        assert distilled.cost["flops"] == alone.cost["flops"] + distilled.cost["flops_teacher"] > alone.cost["flops"]
        losses = [[point["loss"] for point in one.curve] for one in (distilled, alone)]
        assert losses[0] != losses[1]
        assert distilled.cost["steps"] == alone.cost["steps"] == 3 + 3  # jointly, then alone
        each = [about["cost"]["flops"], about["auxiliary"][other]["cost"]["flops"]]
        assert compression._teacher_flops(distilled) == pytest.approx(sum(each))


@pytest.mark.slow
def test_a_student_resumes_after_a_stop_in_joint_training(world, tokenizer, tmp_path, monkeypatch):
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
    uninterrupted = check_resumed(cell, context, 4, monkeypatch, "flops_teacher")
    assert uninterrupted.cost["steps"] == (3 + 3) + 3 and list(uninterrupted.adaptation["teacher"]["auxiliary"]) == [
        "cola"
    ]
