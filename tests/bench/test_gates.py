"""L0 gates of attention heads: their distribution, what training with them computes, and what is left."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from ptmbench import tasks
from ptmbench.bench.adapt import built, heads, predictor, transforms
from ptmbench.bench.adapt.heads import stack
from ptmbench.bench.adapt.settings import baked, defaults
from ptmbench.bench.runs import cell as cells
from ptmbench.leaderboard.records import record
from ptmbench.models.card import Size
from ptmbench.tasks.forms import Form
from tests.bench.cells import make
from tests.bench.test_condition_cells import kept
from tests.bench.test_shrinking import DEEP, exact, loss, open_gates
from tests.bench.test_transform_cells import check_transform_resumed

CLASSES = Form.CLASSIFICATION
SETTINGS = transforms.load("gates").settings
THREE = Size(layers=3, width=32, heads=4, inner=24, length=96)


@pytest.fixture(scope="module")
def rows(world, tokenizer):
    task = tasks.load("sst2")
    examples = task.examples(world, "train")[:4]
    return heads.of(CLASSES, "finetune").Codec(task, tokenizer, defaults(CLASSES, "finetune"), examples).rows(examples)


@pytest.fixture(scope="module")
def learner(tokenizer):
    """A training whose network has large weights and no dropout."""
    from ptmbench.bench.adapt.transforms.gates.network import Gating

    settings = dataclasses.replace(baked(defaults(CLASSES, "finetune")), dropout=0.0, head_dropout=0.0)
    found = built.traced.__wrapped__("bert", DEEP, tokenizer, CLASSES, "finetune", 2, settings, (), (), None)
    rng = np.random.default_rng(3)
    found.assign({name: rng.normal(name.endswith("scale"), 0.15, v.shape) for name, v in found.named_variables()})
    return Gating(found, SETTINGS(penalty=0.2), steps=10)


def test_gates_have_the_distribution_of_the_paper():
    """Shares of exact zeros and ones, and the expected number of open gates, against draws with NumPy's logarithms."""
    from ptmbench.bench.adapt.transforms.gates.network import drawn, open_probability

    u = (np.arange(100_000) + 0.5) / 100_000
    for log_a in (-3.0, -0.5, 0.0, 2.0):
        found = drawn(tf.constant(log_a), tf.constant(u, tf.float32)).numpy()
        s = 1 / (1 + np.exp(-(np.log(u) - np.log(1 - u) + log_a) / 0.33))
        assert np.abs(found - np.clip(1.2 * s - 0.1, 0, 1)).max() <= 2e-5
        zero, one = np.mean(found == 0), np.mean(found == 1)
        assert abs(float(open_probability(tf.constant(log_a))) - (1 - zero)) <= 2e-4
        assert (one > zero) == (log_a > 0) or log_a == 0
        assert log_a or abs(one - zero) <= 2e-4


def test_a_head_stays_if_its_gate_is_more_likely_open_and_one_always_does():
    from ptmbench.bench.adapt.transforms.gates.network import open_heads

    assert open_heads(np.array([1.0, -0.1, 0.3])).tolist() == [0, 2]
    assert open_heads(np.array([-2.0, -0.1, -0.3])).tolist() == [1]


def test_the_loss_is_that_of_the_gated_network_and_the_penalty(learner, rows, monkeypatch):
    """The reference is BERT in NumPy, with a factor for each head."""
    from ptmbench.bench.adapt.transforms.gates import network

    gates = open_gates()
    rng = np.random.default_rng(5)
    gates["heads"][:] = np.round(rng.random(gates["heads"].shape), 3)
    log_a = rng.normal(size=gates["heads"].shape).astype(np.float32)
    for variable, value in zip(learner.log_a, log_a, strict=True):
        variable.assign(value)
    factors = iter(gates["heads"])
    monkeypatch.setattr(network, "drawn", lambda *given: tf.constant(next(factors), tf.float32))
    batch = {name: tf.constant(array) for name, array in stack(rows, multiple=1).items()}
    found = float(learner.losses(batch, tf.constant([0, 0]))["loss"])
    weights = exact(learner.adapted)
    task = np.mean([loss(weights, row, gates) for row in rows])
    closed = 1 / (1 + np.exp(log_a - 0.33 * np.log(0.1 / 1.1)))
    assert abs(found - (task + 0.2 * np.sum(1 - closed))) <= 2e-5
    projections = [block.attention.projection for block in learner.adapted.network.encoder.stack.blocks]
    assert not any(one.extensions("input") for one in projections)  # outside of the training there are no gates


def test_scores_are_those_of_the_network_without_closed_heads(learner, rows):
    gates = open_gates()
    for number, variable in enumerate(learner.log_a):
        variable.assign([1.0, -1.0, 2.0, -3.0 if number else 3.0])
        gates["heads"][number] = [1, 0, 1, 0 if number else 1]
    weights, before = exact(learner.adapted), learner.adapted.forward(stack(rows))
    with learner.closed():
        inside = learner.adapted.forward(stack(rows))
    losses = np.log(np.exp(inside[:, :2]).sum(-1)) - inside[np.arange(len(rows)), [row.arrays["label"] for row in rows]]
    assert np.abs(losses - [loss(weights, row, gates) for row in rows]).max() <= 2e-5
    assert np.array_equal(learner.adapted.forward(stack(rows)), before) and np.abs(inside - before).max() > 1e-3


def test_gates_learn_faster_than_weights_and_only_the_end_counts(learner, rows):
    before, states = [one.numpy() for one in learner.log_a], learner.state()
    learner.step(stack(rows), (0, 1), 1e-4)
    moved = max(np.abs(one.numpy() - old).max() for one, old in zip(learner.log_a, before, strict=True))
    assert 5e-3 <= moved <= 1.01e-2  # Adam's first step is the rate, and the gates' is 100 times as high
    assert [step for step in range(1, 11) if learner.ready(step)] == [10]
    learner.restore(states)
    assert all(np.array_equal(a, b) for a, b in zip(learner.state(), states, strict=True))


@pytest.mark.slow
def test_a_cell_ends_smaller_and_goes_on_where_it_was_stopped(context, tmp_path, monkeypatch):
    given = dataclasses.replace(context, shape=THREE)
    cell = make("sst2", "bert", "finetune")
    ready = kept(cell, given)
    plain = cells.run(dataclasses.replace(cell, predictor="x"), ready)
    asked = "gates:penalty=10+gate_rate=3000+epochs=2"
    one, straight = check_transform_resumed(asked, cell, ready, 3, monkeypatch)
    found = record.read(record.write(tmp_path, cells.run(one, straight)))
    assert found.status == "ok", found.reason
    stored = predictor.load(straight.predictor)
    assert sum(stored.shape.heads) == found.cost["heads_kept"] < 12 and min(stored.shape.heads) >= 1
    assert found.cost["head_sparsity"] == round(1 - found.cost["heads_kept"] / 12, 4)
    assert found.cost["parameters"] < plain.cost["parameters"]
