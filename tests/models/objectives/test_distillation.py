"""Tests of distillation: the equations in NumPy, the student's initial weights, the choice of masked words, and the
frozen teacher."""

from dataclasses import replace

import numpy as np
import pytest

from ptmbench import models
from ptmbench.models.objectives import distillation, mlm
from tests.models.networks import LENGTH, ROWS, VOCABULARY, build, corpus, made, seed, small

BERT, DISTILBERT = models.load("bert"), models.load("distilbert")


def softmax(scores, axis=-1):
    exact = np.exp(np.asarray(scores, np.float64) - scores.max(axis, keepdims=True))
    return exact / exact.sum(axis, keepdims=True)


def pair(layers=1, seed=3):
    """A small teacher and a small student with different weights."""
    import keras

    keras.utils.set_random_seed(seed)
    size = replace(small(DISTILBERT), layers=layers)
    teacher = BERT.build(DISTILBERT.doubled(size), VOCABULARY)
    rng = np.random.default_rng(seed)
    for variable in teacher.loss.variables:
        variable.assign_add(rng.normal(0, 0.1, variable.shape))
    return teacher, DISTILBERT.build(size, VOCABULARY, teacher)


@pytest.mark.parametrize("temperature", [1.0, 2.0, 8.0])
def test_divergence_is_the_kl_of_the_softened_distributions(temperature):
    rng = np.random.default_rng(0)
    targets, logits = rng.normal(0, 3, (2, 5, 40)).astype(np.float32)
    p, q = softmax(targets / temperature), softmax(logits / temperature)
    expected = temperature**2 * (p * np.log(p / q)).sum(-1)
    assert np.allclose(distillation.divergence(targets, logits, temperature), expected, rtol=2e-5, atol=2e-5)
    assert np.abs(distillation.divergence(targets, targets + 7.0, temperature)).max() < 2e-5


def test_pieces_with_zero_probability_do_not_change_the_divergence():
    targets, logits = np.random.default_rng(0).normal(0, 3, (2, 5, 40)).astype(np.float32)
    some = np.asarray(distillation.divergence(targets[:, 4:], logits[:, 4:]))
    targets[:, :4] = logits[:, :4] = -1e9
    assert np.allclose(distillation.divergence(targets, logits), some, atol=2e-5)


def test_gradient_of_soft_targets_is_t_times_the_difference_of_probabilities():
    import tensorflow as tf

    targets, logits = (tf.constant(x, tf.float32) for x in np.random.default_rng(0).normal(0, 3, (2, 5, 40)))
    with tf.GradientTape() as tape:
        tape.watch(logits)
        value = distillation.divergence(targets, logits)
    expected = 2.0 * (softmax(logits.numpy() / 2) - softmax(targets.numpy() / 2))
    assert np.allclose(tape.gradient(value, logits), expected, atol=2e-5)


def test_angle_is_one_minus_the_cosine():
    g, h = np.random.default_rng(0).normal(0, 1, (2, 6, 9)).astype(np.float32)
    cosine = (g * h).sum(-1) / np.linalg.norm(g, axis=-1) / np.linalg.norm(h, axis=-1)
    assert np.allclose(distillation.angle(g, h), 1 - cosine, atol=2e-5)
    assert np.allclose(distillation.angle(g, -3 * g), 2, atol=2e-5) and np.allclose(
        distillation.angle(g, 5 * g), 0, atol=2e-5
    )


def test_loss_is_the_weighted_sum_over_positions_without_padding():
    teacher, student = pair()
    batch = student.batches(corpus(), ROWS, LENGTH)(0, 1)
    batch["tokens"] = batch["tokens"].copy()
    batch["tokens"][2, 6:] = 0
    batch["masked_weights"][2] = 0.0
    present = batch["tokens"] > 0
    head = student.loss.heads[0]
    h, g = (np.asarray(one.encoder({"tokens": batch["tokens"]}).tokens)[present] for one in (student, teacher))
    y, z = (np.asarray(one.logits_of(x)) for one, x in ((head, h), (distillation.masked_lm(teacher), g)))
    p, q = softmax(z / 2), softmax(y / 2)
    soft = 4 * (p * np.log(p / q)).sum(-1).mean()
    cosine = (1 - (g * h).sum(-1) / np.linalg.norm(g, axis=-1) / np.linalg.norm(h, axis=-1)).mean()
    values = {name: float(value) for name, value in student.loss(batch).items()}
    encoding = student.encoder(batch)
    hard = float(head(encoding, batch, head.totals(batch))["mlm_loss"])
    assert values["soft_loss"] == pytest.approx(soft, abs=2e-5) and soft > 0.01
    assert values["cosine_loss"] == pytest.approx(cosine, abs=2e-5) and cosine > 0.01
    assert values["mlm_loss"] == pytest.approx(hard, abs=2e-5)
    assert values["loss"] == pytest.approx(5 * soft + 2 * hard + cosine, abs=1e-4)


@pytest.mark.parametrize(("layers", "chosen"), [(1, [0]), (2, [0, 3]), (6, [0, 2, 4, 7, 9, 11])])
def test_student_is_initialised_with_equally_spaced_layers_of_its_teacher(layers, chosen):
    teacher, student = pair(layers)
    theirs = {variable.path: variable.numpy() for variable in teacher.loss.variables}
    for variable in student.loss.variables:
        path = variable.path
        if path.startswith("encoder/stack/layer_"):
            index, _, rest = path.removeprefix("encoder/stack/layer_").partition("/")
            path = f"encoder/stack/layer_{chosen[int(index)]}/{rest}"
        assert np.array_equal(variable.numpy(), theirs[path]), path


def test_teacher_shares_no_weights_with_the_student_and_is_frozen():
    import tensorflow as tf

    teacher, student = pair()
    inside = {id(variable.value) for variable in teacher.loss.variables}
    assert not inside & {id(variable.value) for variable in student.loss.variables}
    assert not teacher.loss.trainable_variables and len(student.loss.trainable_variables) == len(student.loss.variables)
    batch = student.batches(corpus(), ROWS, LENGTH)(0, 1)
    weights = [[variable.value for variable in network.loss.variables] for network in (teacher, student)]
    with tf.GradientTape() as tape:
        value = student.loss(batch, seed=seed())["loss"]
    theirs, own = tape.gradient(value, weights)
    assert all(gradient is None for gradient in theirs) and all(gradient is not None for gradient in own)


def test_dropout_applies_to_the_student_only():
    """The soft targets are the same at every step: dropout changes the student's outputs, not the teacher's."""
    teacher, student = pair()
    batch = student.batches(corpus(), ROWS, LENGTH)(0, 1)
    teacher_calls = []
    original = teacher.encoder.call
    teacher.encoder.call = lambda *given, **named: teacher_calls.append((given, named)) or original(*given, **named)
    values = [float(student.loss(batch, seed=seed(1, n))["soft_loss"]) for n in (2, 3)]
    assert (
        values[0] != values[1]
        and len(teacher_calls) == 2
        and all(named.get("seed") is None for _, named in teacher_calls)
    )


def test_loss_without_a_teacher_raises_an_error():
    student = DISTILBERT.build(small(DISTILBERT), VOCABULARY)
    batch = student.batches(corpus(), ROWS, LENGTH)(0, 1)
    with pytest.raises(ValueError, match="needs a teacher, and the network was built without one"):
        student.loss(batch)
    places = np.full(ROWS, 3, np.int32)
    assert student.fill({"tokens": batch["tokens"], "places": places}).shape == (ROWS, VOCABULARY.size)


def test_rare_pieces_are_masked_more_often():
    """The masking weights of a corpus are its counts to the power -0.7. A piece with weight 0.05 is masked 0.05 times
    as often as one with weight 1."""
    rare = distillation.rarity(corpus(), VOCABULARY)
    counts = np.maximum(np.bincount(corpus().ids, minlength=VOCABULARY.size), 1)
    assert rare.shape == (VOCABULARY.size,) and np.allclose(rare, counts**-0.7)
    tokens = np.full((400, 22), VOCABULARY.first, np.int32)
    tokens[:, 11:21] = VOCABULARY.first + 1
    tokens[:, 0], tokens[:, 21] = VOCABULARY.cls, VOCABULARY.sep
    masking_weights = np.ones(VOCABULARY.size)
    masking_weights[VOCABULARY.first] = 0.05
    noisy = mlm.noise({"tokens": tokens}, np.random.default_rng(0), VOCABULARY, rate=0.05, readily=masking_weights)
    used = noisy["masked_weights"] > 0
    assert (used.sum(1) == 1).all()  # one of twenty in each row
    hidden = noisy["masked_labels"][used]
    assert np.mean(hidden == VOCABULARY.first) == pytest.approx(0.05 / 1.05, abs=0.03)
    uniform = mlm.noise({"tokens": tokens}, np.random.default_rng(0), VOCABULARY, rate=0.05)
    assert np.mean(uniform["masked_labels"][uniform["masked_weights"] > 0] == VOCABULARY.first) == pytest.approx(
        0.5, abs=0.08
    )


@pytest.mark.parametrize("size", ["tiny", "mini", "small", "base"])
def test_described_teacher_matches_the_description_of_its_model(size):
    teacher = models.teacher("distilbert")
    described = DISTILBERT.describe(DISTILBERT.SIZES[size], VOCABULARY).teacher
    theirs = models.load(teacher.model).describe(teacher.size(DISTILBERT.SIZES[size]), VOCABULARY)
    assert described.encoder == replace(theirs.encoder, pooler=None)  # the student never reads the pooled vector
    assert replace(described.heads[0], rate=0.15) == theirs.heads[0]
    assert teacher.size(DISTILBERT.SIZES[size]) == BERT.SIZES[size]


def test_student_built_without_a_teacher_has_the_same_weights_and_outputs():
    """Adaptations build the student without its teacher."""
    with_teacher, without_teacher = made("distilbert").built, DISTILBERT.build(small(DISTILBERT), VOCABULARY)
    assert [v.path for v in with_teacher.loss.variables] == [v.path for v in without_teacher.loss.variables]
    for variable, weight in zip(without_teacher.loss.variables, with_teacher.loss.variables, strict=True):
        variable.assign(weight)
    tokens = np.random.default_rng(0).integers(VOCABULARY.first, VOCABULARY.size, (2, 9)).astype(np.int32)
    assert np.array_equal(
        without_teacher.encoder({"tokens": tokens}).tokens, with_teacher.encoder({"tokens": tokens}).tokens
    )
    assert build(BERT, small(BERT)).loss.trainable_variables
