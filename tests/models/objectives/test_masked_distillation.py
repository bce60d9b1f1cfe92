"""Tests of LightPAFF's loss: its equations in NumPy, which weights are trained, and the frozen teacher."""

import numpy as np
import pytest

from ptmbench import models
from ptmbench.models.objectives import distillation, masked_distillation
from tests.models.networks import LENGTH, ROWS, VOCABULARY, corpus, seed, small
from tests.models.objectives.test_distillation import softmax

BERT, LIGHTPAFF = models.load("bert"), models.load("lightpaff")


def pair():
    """A small teacher and a small student with different weights."""
    import keras

    keras.utils.set_random_seed(3)
    teacher = BERT.build(LIGHTPAFF.doubled(small(LIGHTPAFF)), VOCABULARY)
    rng = np.random.default_rng(3)
    for variable in teacher.loss.variables:
        variable.assign_add(rng.normal(0, 0.1, variable.shape))
    return teacher, LIGHTPAFF.build(small(LIGHTPAFF), VOCABULARY, teacher)


def padded(student):
    """A batch whose third row has padding and no hidden words."""
    batch = student.batches(corpus(), ROWS, LENGTH)(0, 1)
    batch["tokens"] = batch["tokens"].copy()
    batch["tokens"][2, 6:] = 0
    batch["masked_weights"][2] = 0.0
    return batch


def test_loss_is_the_mean_of_mlm_and_soft_targets():
    teacher, student = pair()
    batch = padded(student)
    used = batch["masked_weights"] > 0
    rows = np.broadcast_to(np.arange(ROWS)[:, None], used.shape)[used]
    places, labels = batch["masked_positions"][used], batch["masked_labels"][used]

    def probabilities(network, head):
        vectors = np.asarray(network.encoder(batch).tokens)[rows, places]  # [N, D]
        return softmax(np.asarray(head.logits_of(vectors)))

    p = probabilities(teacher, distillation.masked_lm(teacher))
    q = probabilities(student, student.loss.heads[0])
    hard = -np.log(q[np.arange(len(labels)), labels]).mean()
    soft = (p * np.log(p / q)).sum(-1).mean()
    values = {name: float(value) for name, value in student.loss(batch).items()}
    assert values["mlm_loss"] == pytest.approx(hard, abs=2e-5)
    assert values["soft_loss"] == pytest.approx(soft, abs=2e-5) and soft > 0.01
    assert values["loss"] == pytest.approx(0.5 * hard + 0.5 * soft, abs=2e-5)


def test_lambda_is_the_weight_of_the_soft_targets(monkeypatch):
    _, student = pair()
    batch = padded(student)
    for weight in (0.0, 0.25, 1.0):
        monkeypatch.setattr(masked_distillation, "LAMBDA", weight)
        values = {name: float(value) for name, value in student.loss(batch).items()}
        expected = (1 - weight) * values["mlm_loss"] + weight * values["soft_loss"]
        assert values["loss"] == pytest.approx(expected, abs=2e-5)


def test_student_starts_with_random_weights_and_teacher_is_frozen():
    import tensorflow as tf

    teacher, student = pair()
    theirs = {variable.path: variable for variable in teacher.loss.variables}
    assert all(tuple(theirs[v.path].shape) != tuple(v.shape) for v in student.loss.variables if "mlm/" not in v.path)
    assert not teacher.loss.trainable_variables and not {id(v) for v in theirs.values()} & set(
        map(id, student.loss.variables)
    )
    batch = padded(student)
    weights = [[variable.value for variable in network.loss.variables] for network in (teacher, student)]
    with tf.GradientTape() as tape:
        value = student.loss(batch, seed=seed())["loss"]
    frozen, own = tape.gradient(value, weights)
    assert all(gradient is None for gradient in frozen) and all(gradient is not None for gradient in own)


def test_loss_without_a_teacher_raises_an_error():
    student = LIGHTPAFF.build(small(LIGHTPAFF), VOCABULARY)
    with pytest.raises(ValueError, match="needs a teacher, and the network was built without one"):
        student.loss(padded(student))


@pytest.mark.parametrize("size", ["tiny", "mini", "small", "base"])
def test_teacher_has_twice_the_depth_width_and_heads(size):
    teacher, own = models.teacher("lightpaff"), LIGHTPAFF.SIZES[size]
    assert teacher.size(own) == BERT.SIZES[size]
    theirs = BERT.describe(BERT.SIZES[size], VOCABULARY)
    described = LIGHTPAFF.describe(own, VOCABULARY).teacher
    assert described.encoder.stack == theirs.encoder.stack and described.heads[0] == theirs.heads[0]
    assert (own.layers, own.width // own.heads) == (BERT.SIZES[size].layers // 2, 64)
