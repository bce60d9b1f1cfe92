"""BERT-of-Theseus: what the hybrid of predecessor and successor computes, what is trained, and what it costs."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from ptmbench import models, tasks
from ptmbench.bench.adapt import built, heads, predictor, shapes, transforms
from ptmbench.bench.adapt.heads import stack
from ptmbench.bench.adapt.settings import baked, defaults
from ptmbench.bench.errors import NotApplicable
from ptmbench.bench.runs import cell as cells
from ptmbench.leaderboard.records import record
from ptmbench.models.card import Size
from ptmbench.tasks.forms import Form
from tests.bench.cells import make
from tests.bench.test_condition_cells import kept
from tests.bench.test_transform_cells import check_transform_resumed, transformed

FOUR = Size(layers=4, width=32, heads=4, inner=24, length=96)
CLASSES = Form.CLASSIFICATION
SETTINGS = transforms.load("theseus").settings


def adapted(tokenizer, layers):
    """Returns a new classifier with ``layers`` layers, and weights large enough for its layers to differ."""
    settings = dataclasses.replace(baked(defaults(CLASSES, "finetune")), dropout=0.0, head_dropout=0.0)
    shape = shapes.StackShape(layers=layers, heads=(4,) * layers, inner=(24,) * layers)
    found = built.traced.__wrapped__("bert", FOUR, tokenizer, CLASSES, "finetune", 2, settings, (), (), shape)
    rng = np.random.default_rng(layers)
    found.assign({name: rng.normal(name.endswith("scale"), 0.15, v.shape) for name, v in found.named_variables()})
    return found


@pytest.fixture(scope="module")
def rows(world, tokenizer):
    task = tasks.load("sst2")
    examples = task.examples(world, "train")[:4]
    return heads.of(CLASSES, "finetune").Codec(task, tokenizer, defaults(CLASSES, "finetune"), examples).rows(examples)


@pytest.fixture(scope="module")
def old(tokenizer):
    return adapted(tokenizer, 4)


@pytest.fixture(scope="module")
def learner(tokenizer, old):
    """The training of a two-layer successor for a four-layer predecessor."""
    from ptmbench.bench.adapt.transforms.theseus.network import Replacing

    return Replacing(adapted(tokenizer, 2), old, SETTINGS(), steps=10)


def layer(found, number):
    """Returns the weights of the layer ``number``, in their order."""
    return [variable.numpy() for variable in found.network.encoder.stack.blocks[number].variables]


def test_the_replacement_probability_rises_to_1_and_stays_there():
    linear = SETTINGS(replacing=0.2, ramp=0.5)
    assert np.allclose([linear.probability(t, 8) for t in range(8)], [0.2, 0.4, 0.6, 0.8, 1, 1, 1, 1])
    constant = SETTINGS(replacing=0.2, ramp=0.5, schedule="constant")
    assert [constant.probability(t, 8) for t in range(8)] == [0.2] * 4 + [1] * 4
    assert {SETTINGS(replacing=1.0).probability(t, 8) for t in range(8)} == {1}


def test_no_layer_of_the_hybrid_is_left_out(learner, old, rows):
    batch = {name: tf.constant(array) for name, array in stack(rows).items()}
    learner.chosen.assign([True, False])
    wanted = float(learner.losses(batch, None)["loss"])
    left_out = lambda block, x, *_: x  # noqa: E731
    with learner.adapted.network.encoder.stack.detoured(left_out), old.network.encoder.stack.detoured(left_out):
        assert float(learner.losses(batch, None)["loss"]) == wanted
        assert abs(float(learner.adapted.losses(batch, None)["loss"]) - wanted) > 1e-3


@pytest.mark.parametrize("chosen", [(True, False), (False, True)])
def test_the_hybrid_equals_a_network_of_the_chosen_layers(learner, old, rows, tokenizer, chosen):
    new, layers = learner.adapted, []
    for module, replaced in enumerate(chosen):
        layers += [layer(new, module)] if replaced else [layer(old, 2 * module), layer(old, 2 * module + 1)]
    plain = adapted(tokenizer, len(layers))
    plain.assign(plain.arrays() | {name: array for name, array in new.arrays().items() if "/stack/" not in name})
    for block, weights in zip(plain.network.encoder.stack.blocks, layers, strict=True):
        for variable, value in zip(block.variables, weights, strict=True):
            variable.assign(value)
    batch = {name: tf.constant(array) for name, array in stack(rows).items()}
    learner.chosen.assign(chosen)
    ours, theirs = (float(one.losses(batch, None)["loss"]) for one in (learner, plain))
    assert abs(ours - theirs) <= 1e-5
    alone = float(new.losses(batch, None)["loss"])  # as it predicts outside of training
    assert abs(ours - alone) > 1e-3
    learner.chosen.assign([True, True])
    assert abs(float(learner.losses(batch, None)["loss"]) - alone) <= 1e-5


def test_only_the_layers_of_the_successor_are_trained(learner, old, rows):
    new = learner.adapted
    before = [one.arrays() for one in (old, new)]
    for number in range(2):
        learner.make(rows, defaults(CLASSES, "finetune"), (0, number))
        learner.step(stack(rows), (0, number), 1e-2)
    after = [one.arrays() for one in (old, new)]
    moved = [{name for name in a if not np.array_equal(a[name], b[name])} for a, b in zip(before, after, strict=True)]
    assert moved == [set(), {name for name in new.arrays() if name.startswith("encoder/stack/")}]


def test_draws_depend_only_on_seed_and_step(learner, rows):
    def drawn(seed, step):
        learner.make(rows, defaults(CLASSES, "finetune"), (seed, step))
        return tuple(learner.chosen.numpy())

    found = [[drawn(seed, step) for step in range(10)] for seed in range(30)]
    assert found[3] == [drawn(3, step) for step in range(10)] and found[3] != found[4]
    share = np.mean(np.array(found), axis=(0, 2))
    assert abs(share[0] - 0.3) < 0.2 and share[0] < share[3] and set(share[5:]) == {1.0}


def test_flops_count_only_the_chosen_layers(learner, rows):
    T, D, F = np.array([row.tokens for row in rows]), FOUR.width, FOUR.inner
    one = float(np.sum(2 * T * (4 * D * D + 2 * D * F) + 4 * T * T * D))
    pooler = 2 * D * D * len(rows)
    for chosen, layers in (((0, 0), 4), ((1, 0), 3 + 4), ((0, 1), 2 + 3), ((1, 1), 6)):
        learner.chosen.assign(np.array(chosen, bool))
        assert learner.training_flops(rows) == pytest.approx(layers * one + (2 if any(chosen) else 1) * pooler)


def test_layers_that_do_not_form_modules_are_rejected():
    with pytest.raises(NotApplicable, match="because the model has 4 layers, which do not form modules of 3 layers"):
        SETTINGS(replaced=3).modules(4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "adaptation", "asked", "told"),
    [
        ("albert", "finetune", "theseus", "because its layers share their weights, so none of them can be replaced."),
        ("bert", "features:layers=top", "theseus", "because the adaptation features trains no layer."),
    ],
)
def test_models_without_replaceable_layers_give_the_reason(context, model, adaptation, asked, told):
    name, _, changes = adaptation.partition(":")
    cell = make("sst2", model, name, **dict([changes.split("=")] if changes else []))
    given = kept(cell, dataclasses.replace(context, shape=FOUR))
    with pytest.raises(NotApplicable) as raised:
        transformed(asked, cell, given)
    assert str(raised.value).startswith(told)


@pytest.mark.slow
def test_a_cell_ends_with_the_successor_and_resumes_after_an_interruption(context, tmp_path, monkeypatch):
    given = dataclasses.replace(context, shape=FOUR)
    cell = make("sst2", "bert", "finetune")
    ready = kept(cell, given)
    plain = cells.run(dataclasses.replace(cell, predictor="x"), ready)
    asked = "theseus:epochs=2"
    one, straight = check_transform_resumed(asked, cell, ready, 3, monkeypatch)
    found = record.read(record.write(tmp_path, cells.run(one, straight)))
    assert found.status == "ok", found.reason
    about = found.adaptation["transform"]
    assert (about["name"], about["compression"]) == (asked, "replacing")
    stored = predictor.load(straight.predictor)
    assert stored.shape.layers == 2
    small = shapes.described(models.load("bert").describe(FOUR, given.tokenizer.vocabulary), stored.shape)
    assert found.cost["parameters"] == small.parameters().total < plain.cost["parameters"]
    assert found.cost["disk_bytes"] < plain.cost["disk_bytes"] and len(found.curve) > len(plain.curve)
    # A control whose successor starts from random weights.
    _, twin = transformed("theseus:start=random+epochs=2", cell, dataclasses.replace(ready, out=tmp_path / "twin"))
    assert predictor.load(twin.predictor).shape == stored.shape
    assert twin.predictor.weights_sha256 != straight.predictor.weights_sha256
