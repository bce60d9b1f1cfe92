"""BERT-PKD: the patience loss against NumPy, the teacher layers, and the targets of a student."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.heads import InputRow
from ptmbench.bench.adapt.pkd import Own, network
from ptmbench.bench.errors import NotApplicable
from tests.bench.test_distil import GOLD, classified


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def test_the_patience_loss_is_a_mean_square_between_unit_vectors():
    rng = np.random.default_rng(0)
    ours, teacher_states = rng.normal(0, 2, (2, 5, 3, 8))  # [B, M - 1, D]
    result = network.patience(tf.constant(ours, tf.float32), tf.constant(teacher_states, tf.float32))
    squares = ((unit(ours) - unit(teacher_states)) ** 2).sum(-1)
    assert abs(result - squares.mean() / 8) < 1e-6
    assert abs(network.patience(tf.constant(ours), tf.constant(7 * ours))) < 1e-6, "lengths do not count"
    assert abs(network.patience(tf.constant(ours), tf.constant(-ours)) - 4 / 8) < 1e-6
    assert np.isfinite(network.patience(tf.zeros([1, 1, 8]), tf.constant(teacher_states[:1, :1])))


def test_teacher_layers_are_those_of_the_paper():
    assert network.layers(6, 12, "skip") == [2, 4, 6, 8, 10] and network.layers(6, 12, "last") == [7, 8, 9, 10, 11]
    assert network.layers(3, 12, "skip") == [4, 8] and network.layers(3, 12, "last") == [10, 11]
    assert network.layers(2, 2, "skip") == [1] == network.layers(2, 2, "last")
    assert network.layers(2, 3, "last") == [2]
    for student, teacher, message in ((1, 12, "no inner layer"), (2, 3, "no multiple"), (4, 2, "no multiple")):
        with pytest.raises(NotApplicable, match=message):
            network.layers(student, teacher, "skip")


@pytest.mark.parametrize("causal", [False, True])
def test_inner_states_are_those_of_the_classification_token(causal):
    layers = [tf.fill([2, 3, 4], float(10 * index)) + tf.range(3.0)[None, :, None] for index in range(4)]
    encoding = SimpleNamespace(layers=layers)
    adapted = SimpleNamespace(network=SimpleNamespace(encoder=SimpleNamespace(causal=causal)))
    result = network.inner(adapted, encoding, tf.constant([[5, 6, 7], [5, 6, 0]])).numpy()
    assert result.shape == (2, 2, 4)
    last = [2, 1] if causal else [0, 0]
    assert (result == 10 * np.array([1, 2])[None, :, None] + np.array(last)[:, None, None]).all()


def networks(width=8, depth=2):
    return SimpleNamespace(width=width, depth=depth)


def student(width=8, depth=2):
    return SimpleNamespace(network=SimpleNamespace(encoder=networks(width, depth)))


class Teacher:
    """A fake teacher. Row i has the logits (i, i) and, in layer j from 1, a vector filled with 100 j + i."""

    def __init__(self, rows, **more):
        self.network, self.rows = student(**more), rows

    def read(self, examples, during, function):
        inner = range(1, self.network.network.encoder.depth)
        states = [np.array([[100 * layer + i] * 8 for layer in inner], np.float32) for i, _ in enumerate(self.rows)]
        outputs = [{"numbers": np.full(2, i, np.float32), "states": states[i]} for i, _ in enumerate(self.rows)]
        return self.rows, outputs, 1e3


@pytest.mark.parametrize("shuffle", ["", "examples", "labels"])
def test_logits_and_states_are_shuffled_together(shuffle):
    rows = [classified(i % 2, i) for i in range(30)]
    for chosen, expected in (("skip", [2]), ("last", [3])):
        own = Own(shuffle=shuffle, chosen=chosen)
        result, flops = network.taught(Teacher(rows, depth=4), student(), rows, GOLD, own, 0)
        outputs = [int(row.arrays["teacher"][0]) for row in result]
        assert flops == 1e3 and sorted(outputs) == list(range(30)) and (outputs == list(range(30))) == (not shuffle)
        for row, i in zip(result, outputs, strict=True):
            assert (row.arrays["states"] == [[100 * layer + i] * 8 for layer in expected]).all()
    assert "states" not in rows[0].arrays


def test_unsuitable_teachers_are_not_applicable():
    rows = [classified(0, 0), classified(1, 1)]
    with pytest.raises(NotApplicable, match="8 dimensions and the teacher's have 16"):
        network.taught(Teacher(rows, width=16, depth=4), student(), rows, GOLD, Own(), 0)
    with pytest.raises(NotApplicable, match="no inner layer"):
        network.taught(Teacher(rows, depth=4), student(depth=1), rows, GOLD, Own(), 0)
    scores = [InputRow({"tokens": np.ones(2, np.int32), "score": np.float32(i)}, i) for i in range(2)]
    with pytest.raises(NotApplicable, match="no labels to shuffle by"):
        network.taught(Teacher(scores, depth=4), student(), scores, GOLD, Own(shuffle="labels"), 0)


def test_settings_and_their_bounds():
    assert Own(alpha=0.0).of("sst2").teacher == "" and Own().of("sst2").teacher == "bert-mini"
    for wrong in ({"beta": -1}, {"chosen": "first"}, {"alpha": 2}):
        with pytest.raises(settings.SettingError):
            settings.changed(Own(), wrong)
