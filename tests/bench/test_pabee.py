"""PABEE: classifiers, loss, the exit rule, and its FLOPs."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from ptmbench.bench.adapt import built, settings, shapes
from ptmbench.bench.adapt.heads import stack
from ptmbench.bench.adapt.pabee import Own
from ptmbench.bench.adapt.settings import defaults
from ptmbench.bench.errors import NotApplicable
from ptmbench.bench.runs import cell as cells
from ptmbench.models.card import Size
from ptmbench.tasks.forms import Form
from tests.bench.cells import check_resumed, make
from tests.bench.test_fastbert import ROWS, TOKENIZER, softmax, tensors

SHAPE = Size(layers=4, width=12, heads=2, inner=16, length=16)
CLASSES = 3  # of the four outputs
OWN = Own(length=16, dropout=0.0, head_dropout=0.0)


def make_network(name):
    """A network with weights large enough that its layers disagree."""
    own = settings.baked(OWN)
    adapted = built.traced.__wrapped__(name, SHAPE, TOKENIZER, Form.CLASSIFICATION, "pabee", 4, own, (), (), None)
    rng = np.random.default_rng(0)
    for variable in (*adapted.own, *adapted.network.encoder.trainable_variables):
        if len(variable.shape) >= 2:
            variable.assign(rng.normal(0.0, 0.6, variable.shape).astype(np.float32))
    adapted.weights_owner = "a test"
    return adapted


@pytest.fixture(scope="module", params=["bert", "gpt"])
def adapted(request):
    return make_network(request.param)


def logits_of_layers(adapted):
    """The logits of all layers, [B, L, C]."""
    logits = adapted._outputs(tensors(stack(ROWS)), None)
    return tf.concat([logits.students, logits.teacher[:, None]], 1).numpy()


def test_a_classifier_equals_a_shallower_network_that_ends_at_its_layer(adapted):
    """The reference is a plain fine-tuned network that ends at this layer."""
    plain = dataclasses.replace(settings.baked(defaults(Form.CLASSIFICATION, "finetune")), dropout=0.0)
    logits, name = logits_of_layers(adapted), "gpt" if adapted.network.encoder.causal else "bert"
    shape = shapes.StackShape(layers=2, heads=(2, 2), inner=(16, 16))
    short = built.traced.__wrapped__(
        name, SHAPE, TOKENIZER, Form.CLASSIFICATION, "finetune", 4, plain, (), (), shape
    )  # fmt: skip
    weights = {k: v for k, v in adapted.arrays().items() if not k.startswith("adapted/")}
    short.assign(short.arrays() | {k: v for k, v in weights.items() if k in short.arrays()})
    students = adapted.head.students
    short.head.dense.kernel.assign(students.kernel[1])
    short.head.dense.bias.assign(students.bias[1])
    if name == "bert":  # GPT applies its final norm only after the last layer
        assert np.abs(short.forward(stack(ROWS))[:, :CLASSES] - logits[:, 1, :CLASSES]).max() <= 2e-5
    last = adapted.forward(stack(ROWS))
    assert np.abs(last[:, :CLASSES] - logits[:, -1, :CLASSES]).max() <= 2e-5 and set(last[:, -1]) == {4}


def test_the_loss_weights_classifiers_by_layer_number(adapted):
    probabilities, batch = softmax(logits_of_layers(adapted).astype(np.float64)), stack(ROWS)
    losses_of_layers = [
        -np.mean([np.log(one[j][label]) for one, label in zip(probabilities, batch["label"], strict=True)])
        for j in range(4)
    ]
    expected = sum((j + 1) * one for j, one in enumerate(losses_of_layers)) / 10
    assert abs(float(adapted.losses(tensors(batch), None)["loss"]) - expected) <= 2e-5 * expected


def exit_layer(answers, patience):
    """The layer, from 1, at which a text exits, given the prediction of each layer."""
    counter = 0
    for layer in range(1, len(answers)):
        counter = counter + 1 if answers[layer] == answers[layer - 1] else 0
        if counter == patience:
            return layer + 1
    return len(answers)


def test_a_text_exits_when_consecutive_layers_agree(adapted):
    logits, seen = logits_of_layers(adapted), []
    for patience in (1, 2, 3, 4):
        adapted.set_prediction_settings(dataclasses.replace(OWN, unchanged=patience), 0)
        predictions = adapted.answered(stack(ROWS))
        exits = np.array([exit_layer(one.argmax(-1).tolist(), patience) for one in logits])
        assert predictions[:, -1].tolist() == exits.tolist()
        assert np.allclose(predictions[:, :-1], logits[np.arange(len(ROWS)), exits - 1], atol=1e-4, rtol=1e-5)
        seen.append(exits)
    assert len(set(np.concatenate(seen))) >= 3 and set(seen[-1]) == {4}
    assert np.mean(seen[0]) < np.mean(seen[1])


def test_without_patience_and_during_training_the_last_classifier_predicts(adapted):
    adapted.set_prediction_settings(dataclasses.replace(OWN, unchanged=0), 0)
    assert set(adapted.answered(stack(ROWS))[:, -1]) == {4}
    adapted.set_prediction_settings(dataclasses.replace(OWN, unchanged=1), 0)
    adapted.weights_owner = None
    assert set(adapted.answered(stack(ROWS))[:, -1]) == {4}
    adapted.weights_owner = "a test"


def test_flops_of_a_row_depend_on_its_exit_layer(adapted):
    D, F, rows = SHAPE.width, SHAPE.inner, ROWS[:3]
    pooler = 0 if adapted.network.encoder.causal else 2 * D * D
    outputs = [np.array([0, 0, 0, 0, exits]) for exits in (2, 4, 3)]
    adapted.set_prediction_settings(dataclasses.replace(OWN, unchanged=1), 0)
    expected = [
        exits[-1] * (row.tokens * (8 * D * D + 4 * D * F + 4 * row.tokens * D) + pooler)
        for row, exits in zip(rows, outputs, strict=True)
    ]
    assert [adapted.adaptation.flops(adapted, [a], [b]) for a, b in zip(rows, outputs, strict=True)] == expected
    assert adapted.adaptation.extra_costs(adapted, rows, outputs) == {
        "mean_exit_layer": 3,
        "mean_flops": sum(expected) / 3,
    }
    assert adapted.training_flops(rows) == 3 * (sum(adapted.encoder_flops([row]) for row in rows) + 3 * 3 * pooler)


@pytest.mark.parametrize(("name", "layers", "told"), [("lm_lstm", 4, "no exit fits"), ("bert", 1, "no earlier exit")])
def test_models_without_an_earlier_exit_are_not_applicable(name, layers, told):
    shape = dataclasses.replace(SHAPE, layers=layers)
    with pytest.raises(NotApplicable, match=told):
        built.adapted(name, shape, TOKENIZER, Form.CLASSIFICATION, "pabee", 4, settings.baked(OWN))


@pytest.mark.slow
def test_a_resumed_cell_ends_the_same(context, monkeypatch):
    deep = dataclasses.replace(context, shape=Size(layers=3, width=32, heads=2, inner=64, length=96))
    cell = make("sst2", "bert", "pabee", epochs=2, batch=16, learning_rate=3e-3, unchanged=1)
    uninterrupted = check_resumed(cell, deep, 3, monkeypatch, "mean_exit_layer", "mean_flops")
    assert 2 <= uninterrupted.cost["mean_exit_layer"] <= 3
    result = cells.run(make("stsb", "bert", "pabee"), deep)
    assert (result.status, result.reason["code"]) == ("not_applicable", "no-head")
