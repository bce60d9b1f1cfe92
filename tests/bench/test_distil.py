"""Distillation: losses against NumPy, teacher outputs of rows, shuffled controls, and plans with teachers."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.distil import Own, network
from ptmbench.bench.adapt.distil.targets import permute_within_keys, taught
from ptmbench.bench.adapt.heads import InputRow, stack
from ptmbench.bench.errors import NotApplicable, UsageError
from ptmbench.bench.runs import plan
from ptmbench.bench.runs.artefacts import AdaptedModel, from_dict, to_dict
from ptmbench.bench.runs.combinations import Combinations
from ptmbench.bench.runs.estimate import cell_cost
from ptmbench.tasks import load
from ptmbench.tasks.task import Example
from tests.bench.cells import make
from tests.bench.test_schedule import cell

NONE = np.float32(-1e9)
GOLD = [Example(id=str(i), inputs=("a",), gold="x") for i in range(30)]
"""Examples with gold answers, whatever these are."""


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def divergence(student, teacher, temperature):
    """T^2 sum_i p_i log(p_i / q_i), float64 [...]."""
    p, q = softmax(teacher / temperature), softmax(student / temperature)
    return temperature**2 * (p * np.log(p / q)).sum(-1)


@pytest.mark.parametrize("temperature", [1.0, 2.0, 10.0])
def test_the_soft_target_loss_of_texts_is_hintons(temperature):
    """Outputs that are not answers of the task do not count."""
    rng = np.random.default_rng(0)
    student, teacher = rng.normal(0, 3, (2, 5, 4))
    unused = np.zeros((5, 4), np.float32)
    unused[:, 3] = NONE
    batch = {"unused": unused, "teacher": tf.constant((teacher + unused).astype(np.float32))}
    numbers = tf.constant((student + unused).astype(np.float32))
    found = network.soft(numbers, batch, temperature, "probabilities")
    assert abs(found - divergence(student[:, :3], teacher[:, :3], temperature).mean()) < 2e-5
    found = network.soft(numbers, batch, temperature, "logits")
    assert abs(found - ((student - teacher)[:, :3] ** 2).sum(-1).mean()) < 2e-4  # 1e9 leaves the logits few digits
    assert network.soft(tf.constant(batch["teacher"]), batch, temperature, "probabilities") == 0


def test_a_high_temperature_matches_logits():
    """Hinton et al., section 2.1: with logits of mean 0, T^2 times the gradient tends to (z - v) / N."""
    rng = np.random.default_rng(1)
    student, teacher = (x - x.mean(-1, keepdims=True) for x in rng.normal(0, 1, (2, 1, 4)))
    z = tf.Variable(student.astype(np.float32))
    with tf.GradientTape() as tape:
        batch = {"unused": np.zeros((1, 4), np.float32), "teacher": tf.constant(teacher.astype(np.float32))}
        loss = network.soft(z, batch, 1e2, "probabilities")
    assert np.allclose(tape.gradient(loss, z), (student - teacher) / 4, atol=0.02)


def test_the_loss_of_a_score_is_the_squared_error():
    batch = {"score": np.zeros(2, np.float32), "teacher": np.array([1.0, -1.0], np.float32)}
    for match in ("probabilities", "logits"):
        assert network.soft(tf.constant([[3.0], [0.0]]), batch, 2.0, match) == (4 + 1) / 2


def tagged(tags, example=0):
    """Returns the row of a sentence. Its first and last tokens are not words."""
    tags = np.array([-1, *tags, -1], np.int32)
    arrays = {"tokens": np.ones(len(tags), np.int32), "tags": tags, "places": np.flatnonzero(tags >= 0)}
    return InputRow(arrays | {"unused": np.array([0, 0, 0, NONE], np.float32)}, example, note=(0, arrays["places"]))


def test_the_soft_target_loss_of_tags_is_a_mean_over_words():
    rng = np.random.default_rng(2)
    rows = [tagged([0, 2, 1, -1, 1]), tagged([1], example=1)]
    outputs = [rng.normal(0, 2, (8, 4)).astype(np.float32) + rows[0].arrays["unused"] for _ in rows]
    batch = stack(taught(rows, rows, outputs, GOLD, "", 0))
    assert batch["teacher"].shape == (2, 4, 8) and batch["tags"].shape == (2, 8)
    student = rng.normal(0, 2, (2, 8, 4))
    found = network.soft(tf.constant((student + [0, 0, 0, NONE]).astype(np.float32)), batch, 2.0, "probabilities")
    words = [(row, place) for row in (0, 1) for place in rows[row].arrays["places"]]
    each = [divergence(student[row, place, :3], outputs[row][place, :3].astype(float), 2.0) for row, place in words]
    assert len(each) == 5 and abs(found - np.mean(each)) < 2e-5


def test_permutations_stay_within_equal_keys():
    keys = [i % 3 for i in range(60)]
    order = permute_within_keys(keys, 0)
    assert sorted(order) == list(range(60)) and [keys[i] for i in order] == keys
    assert (order != np.arange(60)).sum() > 40
    assert (permute_within_keys(keys, 0) == order).all() and (permute_within_keys(keys, 1) != order).any()


def classified(label, example, offered=(0, 1)):
    arrays = {"tokens": np.ones(3, np.int32), "label": np.int32(label), "unused": np.zeros(4, np.float32)}
    return InputRow(arrays, example, note=list(offered))


def test_a_shuffled_teacher_gives_its_outputs_to_other_rows():
    rows = [classified(i % 2, i, (0, 1) if i < 20 else (2, 3)) for i in range(30)]
    outputs = [np.full(4, i, np.float32) for i in range(30)]

    def teacher_outputs(shuffle):
        return [int(row.arrays["teacher"][0]) for row in taught(rows, rows, outputs, GOLD, shuffle, 0)]

    assert teacher_outputs("") == list(range(30))
    for shuffle in ("examples", "labels"):
        assert sorted(teacher_outputs(shuffle)) == list(range(30)) != teacher_outputs(shuffle)
        assert all((i < 20) == (one < 20) for i, one in enumerate(teacher_outputs(shuffle))), (
            "other answers are on offer there"
        )
    assert all(i % 2 == one % 2 for i, one in enumerate(teacher_outputs("labels")))
    assert any(i % 2 != one % 2 for i, one in enumerate(teacher_outputs("examples")))
    assert "teacher" not in rows[0].arrays


def test_words_and_not_sentences_are_shuffled_for_tagging():
    rows = [tagged([0, 1, 1, 0]), tagged([1, 0], example=1), tagged([0, 0, 0], example=2)]
    outputs = [np.arange(32, dtype=np.float32).reshape(8, 4) + 100 * i for i in range(3)]
    for shuffle in ("examples", "labels"):
        words, tags = [], []
        for row in taught(rows, rows, outputs, GOLD, shuffle, 3):
            places = row.arrays["places"]
            words += row.arrays["teacher"].T[places].tolist()
            tags += row.arrays["tags"][places].tolist()
            assert not row.arrays["teacher"].T[0].any(), "nothing is said of what is no word"
        plain = [(o[p].tolist(), r.arrays["tags"][p]) for r, o in zip(rows, outputs, strict=True) for p in r.note[1]]
        assert sorted(words) == sorted(word for word, _ in plain) and words != [word for word, _ in plain]
        if shuffle == "labels":
            gold = {tuple(word): tag for word, tag in plain}
            assert [gold[tuple(word)] for word in words] == tags


def test_different_rows_of_teacher_and_student_are_rejected():
    one, other = [classified(0, 0), classified(1, 1)], [classified(0, 0), classified(0, 1)]
    teacher_outputs = [np.zeros(4, np.float32)] * 2
    for read in (other, one[:1], [one[1], one[0]], [tagged([0, 1]), tagged([1, 0], 1)]):
        with pytest.raises(NotApplicable, match="see different training examples"):
            taught(one, read, teacher_outputs, GOLD, "", 0)
    scores = [InputRow({"score": np.float32(i)}, i) for i in range(2)]
    assert [row.arrays["teacher"] for row in taught(scores, scores, [[0.5], [2.5]], GOLD, "", 0)] == [0.5, 2.5]
    with pytest.raises(NotApplicable, match="no labels to shuffle by"):
        taught(scores, scores, [[0.5], [2.5]], GOLD, "labels", 0)


def test_alpha_zero_means_no_teacher_and_invalid_settings_are_rejected():
    assert Own(teacher="bert-mini", alpha=0.0).of("sst2").teacher == ""
    assert Own(teacher="bert-mini").of("sst2").teacher == "bert-mini"
    for wrong in (
        {"teacher": "bert mini"},
        {"teacher": ""},
        {"alpha": 1.5},
        {"temperature": 0},
        {"match": "both"},
        {"crf": 1},
    ):
        with pytest.raises(settings.SettingError):
            settings.changed(Own(), wrong)


def test_a_teacher_changes_the_key_and_the_dependencies_of_a_cell():
    one = cell("random-bert", "sst2")
    other = dataclasses.replace(one, teacher="x")
    assert other.key != one.key and other.needs == (*one.needs, "x") and other.relation("x") == "Its teacher"
    assert from_dict(to_dict(other)) == other


def test_a_teacher_is_adapted_once_for_all_its_students(planned):
    adaptations = ("finetune", "distil:teacher=bert-mini", "distil:teacher=bert-mini+shuffle=labels", "distil:alpha=0")
    common = {"tasks": ("sst2", "conll2003", "wikitext2"), "seeds": 2}
    whole = planned(models=("bert",), sizes=("tiny",), adaptations=adaptations, **common)
    teachers = {one.key: one.cell for one in whole.artefacts if isinstance(one, AdaptedModel)}
    assert sorted((one.who, one.adaptation, one.task, one.seed) for one in teachers.values()) == [
        ("bert-mini", "finetune", task, seed) for task in ("conll2003", "sst2") for seed in (0, 1)
    ]
    for one in whole.cells:
        assert bool(one.teacher) == ("teacher" in one.adaptation), one.title
        if one.teacher:
            teacher_cell = teachers[one.teacher]
            assert (teacher_cell.task, teacher_cell.seed) == (one.task, one.seed)
            assert teacher_cell.pretraining != one.pretraining and teacher_cell.tokenizer == one.tokenizer
    assert {one.size for one in whole.pretrainings} == {"tiny", "mini"}

    both = planned(models=("bert",), sizes=("tiny", "mini"), adaptations=adaptations[:2], **common)
    shared = {one.key for one in both.artefacts if isinstance(one, AdaptedModel)}
    assert shared == set(teachers), "a teacher with a row of its own is trained for both"
    rows = [one for one in both.cells if one.who == "bert-mini" and one.adaptation == "finetune"]
    assert {one.predictor for one in rows} - {""} == shared

    with pytest.raises(UsageError, match="names the baseline majority"):
        planned(models=("bert",), adaptations=("distil:teacher=majority-mini",))
    with pytest.raises(UsageError, match="teacher=bert names no size. Name a model and its size"):
        planned(models=("bert",), adaptations=("distil:teacher=bert",))
    with pytest.raises(UsageError, match="teacher=all-minilm is neither a model and its size, such as bert-mini, nor"):
        planned(models=("bert",), adaptations=("distil:teacher=all-minilm",))
    with pytest.raises(Exception, match="no size 'huge'"):
        planned(models=("bert",), adaptations=("distil:teacher=bert-huge",))


def test_a_teacher_with_random_weights_is_not_pretrained(planned):
    whole = planned(models=("random-bert",), adaptations=("distil:teacher=random-bert-mini",), baselines=False)
    assert not whole.pretrainings and {one.teacher for one in whole.cells} == {
        one.key for one in whole.artefacts if isinstance(one, AdaptedModel)
    }


def test_only_run_and_evaluate_train_teachers(world):
    row = plan.Row.parse("random-bert", "tiny")
    with pytest.raises(UsageError, match="only `ptmbench run` and `evaluate` train"):
        Combinations(
            adaptations=("distil:teacher=bert-mini",),
            seeds=(0,),
            data_sha256={"sst2": "x"},
            pretraining_of={},
            tokenizer="x",
        ).cells([row], [load("sst2")])


def test_the_estimate_counts_the_predictions_of_the_teacher(world):
    taught = make("sst2", "bert", "distil", teacher="bert-mini")
    alone = dataclasses.replace(taught, settings={**taught.settings, "teacher": ""})
    (_, flops, note), (_, more, _) = (cell_cost(one, world, {}, None) for one in (alone, taught))
    assert not note and flops < more < 5 * flops
