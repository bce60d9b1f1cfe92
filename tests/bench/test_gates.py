"""L0 gates of attention heads: their distribution, the training with them, and the heads that are kept."""

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
def gating(tokenizer):
    """A `Gating` whose network has large weights and no dropout."""
    from ptmbench.bench.adapt.transforms.gates.network import Gating

    settings = dataclasses.replace(baked(defaults(CLASSES, "finetune")), dropout=0.0, head_dropout=0.0)
    found = built.traced.__wrapped__("bert", DEEP, tokenizer, CLASSES, "finetune", 2, settings, (), (), None)
    rng = np.random.default_rng(3)
    found.assign({name: rng.normal(name.endswith("scale"), 0.15, v.shape) for name, v in found.named_variables()})
    return Gating(found, SETTINGS(penalty=0.2), steps=10, rate=1e-4)


def test_gates_have_the_distribution_of_the_paper():
    """The gates, their shares of exact zeros and ones, and the probability that one is open, against draws in NumPy."""
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


def test_heads_whose_gates_are_probably_open_are_kept_and_at_least_one():
    from ptmbench.bench.adapt.transforms.gates.network import open_heads

    assert open_heads(np.array([1.0, -0.1, 0.3])).tolist() == [0, 2]
    assert open_heads(np.array([-2.0, -0.1, -0.3])).tolist() == [1]


def test_the_loss_is_that_of_the_gated_network_plus_the_penalty(gating, rows, monkeypatch):
    """The reference is BERT in NumPy, with a factor for each head."""
    from ptmbench.bench.adapt.transforms.gates import network

    gates = open_gates()
    rng = np.random.default_rng(5)
    gates["heads"][:] = np.round(rng.random(gates["heads"].shape), 3)
    log_a = rng.normal(size=gates["heads"].shape).astype(np.float32)
    for variable, value in zip(gating.log_a, log_a, strict=True):
        variable.assign(value)
    factors = iter(gates["heads"])
    monkeypatch.setattr(network, "drawn", lambda *given: tf.constant(next(factors), tf.float32))
    batch = {name: tf.constant(array) for name, array in stack(rows, multiple=1).items()}
    found = float(gating.losses(batch, tf.constant([0, 0]))["loss"])
    weights = exact(gating.adapted)
    task = np.mean([loss(weights, row, gates) for row in rows])
    closed = 1 / (1 + np.exp(log_a - 0.33 * np.log(0.1 / 1.1)))
    assert abs(found - (task + 0.2 * np.mean(1 - closed))) <= 2e-5
    projections = [block.attention.projection for block in gating.adapted.network.encoder.stack.blocks]
    assert not any(one.extensions("input") for one in projections)  # gates exist only during training


def test_scores_are_those_of_the_network_without_closed_heads(gating, rows):
    gates = open_gates()
    for number, variable in enumerate(gating.log_a):
        variable.assign([1.0, -1.0, 2.0, -3.0 if number else 3.0])
        gates["heads"][number] = [1, 0, 1, 0 if number else 1]
    weights, before = exact(gating.adapted), gating.adapted.forward(stack(rows))
    with gating.closed():
        inside = gating.adapted.forward(stack(rows))
    losses = np.log(np.exp(inside[:, :2]).sum(-1)) - inside[np.arange(len(rows)), [row.arrays["label"] for row in rows]]
    assert np.abs(losses - [loss(weights, row, gates) for row in rows]).max() <= 2e-5
    assert np.array_equal(gating.adapted.forward(stack(rows)), before) and np.abs(inside - before).max() > 1e-3


def test_gates_have_their_own_rate_and_only_the_last_step_is_eligible(gating, rows):
    before, states = [one.numpy() for one in gating.log_a], gating.state()
    peak = gating.rate(1, 10, dataclasses.replace(defaults(CLASSES, "finetune"), learning_rate=1e-4, warmup=0.1))
    gating.step(stack(rows), (0, 1), peak)
    moved = max(np.abs(one.numpy() - old).max() for one, old in zip(gating.log_a, before, strict=True))
    assert 0.025 <= moved <= 0.0505  # Adam's first step equals the rate, which is 0.05 at the peak
    assert [step for step in range(1, 11) if gating.ready(step)] == [10]
    gating.restore(states)
    assert all(np.array_equal(a, b) for a, b in zip(gating.state(), states, strict=True))


def test_gates_move_at_their_rate_if_the_weights_learn_slowly_or_not_at_all(gating, rows):
    from ptmbench.bench.adapt.transforms.gates.network import Gating

    states, found = gating.adapted.state(), {}
    for rate in (0.0, 1e-7):
        learner = Gating(gating.adapted, SETTINGS(penalty=0.2), steps=10, rate=rate)
        training = dataclasses.replace(defaults(CLASSES, "finetune"), learning_rate=rate)
        for step in range(10):
            learner.step(stack(rows), (0, step), learner.rate(step, 10, training))
        found[rate] = np.stack([one.numpy() for one in learner.log_a])
        unchanged = [np.array_equal(a, b) for a, b in zip(gating.adapted.state(), states, strict=True)]
        assert all(unchanged) == (rate == 0)
        gating.adapted.restore(states)
    assert np.abs(found[0.0] - 2).max() > 0.05 and np.abs(found[1e-7] - found[0.0]).max() < 1e-4


@pytest.mark.slow
def test_a_cell_loses_heads_and_parameters_and_resumes_after_a_stop(context, tmp_path, monkeypatch):
    given = dataclasses.replace(context, shape=THREE)
    cell = make("sst2", "bert", "finetune")
    ready = kept(cell, given)
    plain = cells.run(dataclasses.replace(cell, predictor="x"), ready)
    transform = "gates:penalty=100+gate_rate=0.9+epochs=2"
    one, uninterrupted = check_transform_resumed(transform, cell, ready, 3, monkeypatch)
    found = record.read(record.write(tmp_path, cells.run(one, uninterrupted)))
    assert found.status == "ok", found.reason
    stored = predictor.load(uninterrupted.predictor)
    assert sum(stored.shape.heads) == found.cost["heads_kept"] < 12 and min(stored.shape.heads) >= 1
    assert found.cost["head_sparsity"] == round(1 - found.cost["heads_kept"] / 12, 4)
    assert found.cost["parameters"] < plain.cost["parameters"]

    # During training, the network with all heads is scored.
    before, curve = (len(one.predictor.about["curve"]) for one in (ready, uninterrupted))
    each = ready.spent["flops_evaluate"] / before
    assert uninterrupted.spent["transform"]["flops_evaluate"] == (curve - before) * each
