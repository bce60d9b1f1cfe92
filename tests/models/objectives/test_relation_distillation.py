"""Tests of MiniLM's loss: its equations in NumPy for networks of different widths, and which weights it does not
train."""

from dataclasses import replace

import numpy as np
import pytest

from ptmbench import models
from ptmbench.models.layers.states import NoInnerStates, inner_states
from tests.models.networks import VOCABULARY, build, seed, small

MINILM = models.load("minilm")
TOKENS = np.array([[2, 20, 21, 22, 3, 0, 0], [2, 30, 31, 32, 33, 34, 3]], np.int32)


def log_softmax(x):
    return x - x.max(-1, keepdims=True) - np.log(np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True))


def pair(layers=2):
    """A MiniLM student and its teacher, which is twice as wide and deep."""
    import keras

    keras.utils.set_random_seed(3)
    size = replace(small(MINILM), layers=layers)
    teacher = models.load("bert").build(MINILM.doubled(size), VOCABULARY)
    student = MINILM.build(size, VOCABULARY, teacher)
    rng = np.random.default_rng(3)
    for variable in (*teacher.loss.variables, *student.loss.variables):
        variable.assign_add(rng.normal(0, 0.2, variable.shape))
    return teacher, student


def test_loss_is_the_divergence_of_attention_and_value_relations():
    """Row by row without padding, in float64, from queries, keys and values."""
    teacher, student = pair()
    attentions = [inner_states(one.encoder, {"tokens": TOKENS}).attentions[-1] for one in (teacher, student)]
    assert attentions[0].values.shape[-1] == 2 * attentions[1].values.shape[-1]
    sums, tokens = {"attention_loss": 0.0, "relation_loss": 0.0}, 0
    for row, count in ((0, 5), (1, 7)):
        tokens += count
        parts = ([attention[part] for attention in attentions] for part in range(3))
        q, k, v = ([np.asarray(x, np.float64)[row, :, :count] for x in part] for part in parts)
        for name, left, right in (("attention_loss", q, k), ("relation_loss", v, v)):
            scores = [a @ b.transpose(0, 2, 1) for a, b in zip(left, right, strict=True)]  # queries are scaled already
            if name == "relation_loss":
                scores = [x / np.sqrt(a.shape[-1]) for x, a in zip(scores, left, strict=True)]
            p, s = map(log_softmax, scores)
            sums[name] += (np.exp(p) * (p - s)).sum() / len(p)
    values = student.loss({"tokens": TOKENS})
    for name, total in sums.items():
        assert abs(float(values[name]) - total / tokens) < 2e-5 and total / tokens > 1e-3
    assert float(values["loss"]) == pytest.approx(sum(sums.values()) / tokens, abs=2e-5)


def test_teacher_is_frozen_and_weights_after_the_last_attention_have_no_gradient():
    import tensorflow as tf

    teacher, student = pair()
    variables = student.loss.trainable_variables
    assert not teacher.loss.trainable_variables
    assert not {id(v) for v in teacher.loss.variables} & {id(v) for v in student.loss.variables}
    with tf.GradientTape() as tape:
        loss = student.loss({"tokens": TOKENS}, seed=seed())["loss"]
    gradients = tape.gradient(loss, [v.value for v in variables] + [v.value for v in teacher.loss.variables])
    own, theirs = gradients[: len(variables)], gradients[len(variables) :]
    assert all(gradient is None for gradient in theirs)
    without_gradient = [v.path for v, gradient in zip(variables, own, strict=True) if gradient is None]
    assert without_gradient and without_gradient == [
        v.path for v in variables if v.path.startswith(student.loss.unreached)
    ]
    assert all("/layer_1/" in path for path in without_gradient)


@pytest.mark.parametrize("name", ["minilm", "tinybert"])
def test_loss_without_a_teacher_raises_an_error(name):
    module = models.load(name)
    with pytest.raises(ValueError, match="needs a teacher, and the network was built without one"):
        module.build(small(module), VOCABULARY).loss({"tokens": TOKENS})


@pytest.mark.parametrize("name", ["minilm", "tinybert"])
def test_every_size_has_a_teacher_among_the_sizes_of_bert(name):
    sizes = models.load("bert").SIZES
    for size in models.load(name).SIZES.values():
        theirs = models.teacher(name).size(size)
        assert theirs in sizes.values() and theirs.heads == size.heads and theirs.layers % size.layers == 0


def test_encoders_without_one_self_attention_per_layer_are_rejected():
    module = models.load("elmo")
    with pytest.raises(NoInnerStates, match="has not one self-attention"):
        inner_states(build(module, small(module)).encoder, {"tokens": TOKENS})
