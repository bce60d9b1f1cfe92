"""Tests of TinyBERT's layer losses: the equations in NumPy, the map of layers, and padding."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from ptmbench.models.layers.operations import HIDDEN
from ptmbench.models.objectives import layer_distillation
from ptmbench.models.objectives.layer_distillation import TeacherOutputs, map_layers

B, T, D, WIDE, H = 2, 5, 6, 8, 3
PRESENT = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])


def test_layer_maps():
    assert map_layers(4, 12, "uniform") == [0, 3, 6, 9, 12]
    assert map_layers(4, 12, "top") == [0, 9, 10, 11, 12] and map_layers(4, 12, "bottom") == [0, 1, 2, 3, 4]
    assert map_layers(2, 3, "top") == [0, 2, 3]
    for student, teacher, way in ((2, 3, "uniform"), (4, 2, "top"), (4, 2, "uniform")):
        with pytest.raises(ValueError, match="no multiple"):
            map_layers(student, teacher, way)


def random_states(seed=0):
    """Random vectors and scores of a student with two layers and of its teacher, a projection, and the attention
    mask."""
    rng = np.random.default_rng(seed)
    hidden = np.where(PRESENT[:, None, None, :] == 1, 0.0, HIDDEN)
    ours = {"layers": rng.normal(0, 1, (3, B, T, D)), "scores": rng.normal(0, 2, (2, B, H, T, T))}
    theirs = {"layers": rng.normal(0, 1, (3, B, T, WIDE)), "scores": rng.normal(0, 2, (2, B, H, T, T))}
    return ours, theirs, rng.normal(0, 1, (D, WIDE)), rng.normal(0, 1, WIDE), hidden


def losses(ours, theirs, kernel, bias, hidden):
    states = SimpleNamespace(
        layers=[tf.constant(x, tf.float32) for x in ours["layers"]],
        attentions=[SimpleNamespace(scores=tf.constant(x + hidden, tf.float32)) for x in ours["scores"]],
    )
    teacher_outputs = TeacherOutputs(
        [tf.constant(x, tf.float32) for x in theirs["layers"]],
        [tf.constant(x + hidden, tf.float32) for x in theirs["scores"]],
    )

    def fit(x):
        return x @ tf.constant(kernel, tf.float32) + tf.constant(bias, tf.float32)

    present = tf.constant(PRESENT, tf.float32)
    shares = (one / tf.reduce_sum(one) for one in (present, layer_distillation.pairs(present)))
    return layer_distillation.layer_losses(states, teacher_outputs, fit, *shares)


def test_losses_are_means_over_tokens_and_pairs_without_padding():
    ours, theirs, kernel, bias, hidden = random_states()
    values = losses(ours, theirs, kernel, bias, hidden)
    seen = PRESENT == 1
    fitted = ours["layers"] @ kernel + bias  # [M + 1, B, T, D']
    expected = sum(((fitted[m] - theirs["layers"][m])[seen] ** 2).mean() for m in range(3))
    assert abs(values["hidden_loss"] - expected) < 2e-5 * expected
    both = seen[:, :, None] & seen[:, None, :]
    differences = np.moveaxis(ours["scores"] - theirs["scores"], 2, -1)  # [M, B, T, T, H]
    expected = sum((differences[m][both] ** 2).mean() for m in range(2))
    assert abs(values["attention_loss"] - expected) < 2e-5 * expected


def test_padding_has_no_gradient_and_no_effect_on_the_losses():
    ours, theirs, *rest = random_states()
    before = losses(ours, theirs, *rest)
    for one in (ours, theirs):
        one["layers"][:, PRESENT == 0] += 100.0
        one["scores"][:, 1, :, 3:] -= 50.0
        one["scores"][:, 1, :, :, 3:] += 50.0
    after = losses(ours, theirs, *rest)
    assert all(abs(before[name] - after[name]) < 1e-6 for name in before)
    scores = tf.constant(ours["scores"][0] + rest[-1], tf.float32)
    share = layer_distillation.pairs(tf.constant(PRESENT, tf.float32)) / 34.0
    with tf.GradientTape() as tape:
        tape.watch(scores)
        value = layer_distillation.scores_loss(scores, tf.zeros_like(scores), share)
    gradient = tape.gradient(value, scores).numpy()
    assert np.isfinite(gradient).all() and not gradient[1, :, :, 3:].any() and gradient[1, :, :3, :3].all()


def test_student_equal_to_its_teacher_has_zero_loss():
    _, theirs, _, _, hidden = random_states()
    values = losses(theirs, theirs, np.eye(WIDE), np.zeros(WIDE), hidden)
    assert float(values["hidden_loss"]) < 1e-10 and float(values["attention_loss"]) == 0
