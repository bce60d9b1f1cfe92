"""LayerDrop: the layers that a training step drops, its FLOPs, and the removal of layers after training."""

import dataclasses
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf

from ptmbench import tasks
from ptmbench.bench.adapt import built, heads, predictor
from ptmbench.bench.adapt.heads import stack
from ptmbench.bench.adapt.layerdrop import Own
from ptmbench.bench.adapt.settings import baked, defaults
from ptmbench.bench.errors import NotApplicable
from ptmbench.bench.runs import cell as cells
from ptmbench.models.card import Size
from ptmbench.tasks.forms import Form
from tests.bench.cells import check_resumed, make
from tests.bench.test_condition_cells import kept
from tests.bench.test_transform_cells import transformed

TWO = Size(layers=2, width=32, heads=4, inner=24, length=96)
CLASSES = Form.CLASSIFICATION


def adapted(tokenizer, model="bert", **changes):
    settings = baked(dataclasses.replace(Own(dropout=0.0, head_dropout=0.0), **changes))
    return built.traced.__wrapped__(model, TWO, tokenizer, CLASSES, "layerdrop", 2, settings, (), (), None)


@pytest.fixture(scope="module")
def rows(world, tokenizer):
    task = tasks.load("sst2")
    examples = task.examples(world, "train")[:4]
    return heads.of(CLASSES, "finetune").Codec(task, tokenizer, defaults(CLASSES, "finetune"), examples).rows(examples)


@pytest.fixture(scope="module")
def found(tokenizer):
    made, rng = adapted(tokenizer, drop=0.25), np.random.default_rng(3)
    made.assign({name: rng.normal(name.endswith("scale"), 0.15, v.shape) for name, v in made.named_variables()})
    return made


def test_each_step_drops_its_own_layers_and_predictions_use_all_layers(found, rows):
    batch = {name: tf.constant(array) for name, array in stack(rows).items()}
    network, own = found.network.encoder.stack, found.network.encoder.stack.detour
    losses = {}
    for left in ((), (0,), (1,), (0, 1)):
        network.detour = lambda block, x, index, *given, left=left: x if index in left else block(x)
        losses[left] = float(found.losses(batch, None)["loss"])
    network.detour = own
    assert abs(float(found.losses(batch, None)["loss"]) - losses[()]) <= 1e-6
    step = tf.function(lambda seed: found.losses(batch, seed)["loss"], autograph=False)
    drawn = [float(step(tf.constant([7, number]))) for number in range(200)]
    assert drawn[:5] == [float(step(tf.constant([7, number]))) for number in range(5)]
    counts = Counter(min(losses, key=lambda left: abs(losses[left] - one)) for one in drawn)
    assert max(min(abs(one - known) for known in losses.values()) for one in drawn) <= 1e-5
    for left, wanted in {(): 112.5, (0,): 37.5, (1,): 37.5, (0, 1): 12.5}.items():  # of 200
        assert abs(counts[left] - wanted) <= 4 * wanted**0.5, (left, counts)


def test_training_flops_count_the_layers_computed_on_average(found, rows):
    T, D, F = np.array([row.tokens for row in rows]), TWO.width, TWO.inner
    layers = 2 * float(np.sum(2 * T * (4 * D * D + 2 * D * F) + 4 * T * T * D))
    pooler = 2 * D * D * len(rows)
    assert found.training_flops(rows) == pytest.approx(3 * (0.75 * layers + pooler))
    assert found.forward_flops(rows) == layers + pooler


@pytest.mark.parametrize("model", ["lm_lstm", "xlnet"])
def test_models_whose_layers_cannot_be_dropped_are_not_applicable(tokenizer, model):
    with pytest.raises(NotApplicable, match="computed one at a time, so none of them can be left out"):
        adapted(tokenizer, model)


@pytest.mark.slow
def test_a_stopped_cell_resumes_and_its_layers_can_be_removed(context, monkeypatch):
    given = dataclasses.replace(context, shape=TWO)
    cell = make("sst2", "bert", "layerdrop", epochs=2)
    uninterrupted = check_resumed(cell, given, 3, monkeypatch)
    ready = kept(cell, given)
    one, after = transformed("layers:by=alternate", cell, ready)
    assert cells.run(one, after).cost["parameters"] < uninterrupted.cost["parameters"]
    assert predictor.load(after.predictor).shape.layers == 1


@pytest.mark.slow
def test_layerdrop_does_not_apply_to_decoders(context):
    result = cells.run(make("multi30k-en-mw", "t5", "layerdrop"), context)
    assert (result.status, result.reason["code"]) == ("not_applicable", "decoder")
