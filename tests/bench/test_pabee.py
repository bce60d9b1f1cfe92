"""PABEE: its classifiers and loss, the rule by which texts leave, and what that costs."""

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


def spread(name):
    """A network with weights so large that its layers disagree."""
    own = settings.baked(OWN)
    found = built.traced.__wrapped__(name, SHAPE, TOKENIZER, Form.CLASSIFICATION, "pabee", 4, own, (), (), None)
    rng = np.random.default_rng(0)
    for variable in (*found.own, *found.network.encoder.trainable_variables):
        if len(variable.shape) >= 2:
            variable.assign(rng.normal(0.0, 0.6, variable.shape).astype(np.float32))
    found.weights_owner = "a test"
    return found


@pytest.fixture(scope="module", params=["bert", "gpt"])
def found(request):
    return spread(request.param)


def every(found):
    """The logits of all layers, [B, L, C]."""
    logits = found._outputs(tensors(stack(ROWS)), None)
    return tf.concat([logits.students, logits.teacher[:, None]], 1).numpy()


def test_a_classifier_reads_what_a_network_of_so_many_layers_pools(found):
    """The reference is a plain fine-tuned network that ends at this layer."""
    plain = dataclasses.replace(settings.baked(defaults(Form.CLASSIFICATION, "finetune")), dropout=0.0)
    logits, name = every(found), "gpt" if found.network.encoder.causal else "bert"
    shape = shapes.StackShape(layers=2, heads=(2, 2), inner=(16, 16))
    short = built.traced.__wrapped__(
        name, SHAPE, TOKENIZER, Form.CLASSIFICATION, "finetune", 4, plain, (), (), shape
    )  # fmt: skip
    weights = {k: v for k, v in found.arrays().items() if not k.startswith("adapted/")}
    short.assign(short.arrays() | {k: v for k, v in weights.items() if k in short.arrays()})
    students = found.head.students
    short.head.dense.kernel.assign(students.kernel[1])
    short.head.dense.bias.assign(students.bias[1])
    if name == "bert":  # GPT's last norm is after the last layer alone
        assert np.abs(short.forward(stack(ROWS))[:, :CLASSES] - logits[:, 1, :CLASSES]).max() <= 2e-5
    last = found.forward(stack(ROWS))
    assert np.abs(last[:, :CLASSES] - logits[:, -1, :CLASSES]).max() <= 2e-5 and set(last[:, -1]) == {4}


def test_the_loss_weighs_classifiers_by_their_layers(found):
    chances, batch = softmax(every(found).astype(np.float64)), stack(ROWS)
    each = [
        -np.mean([np.log(one[j][label]) for one, label in zip(chances, batch["label"], strict=True)]) for j in range(4)
    ]
    wanted = sum((j + 1) * one for j, one in enumerate(each)) / 10
    assert abs(float(found.losses(tensors(batch), None)["loss"]) - wanted) <= 2e-5 * wanted


def leave(answers, patience):
    """The layer, from 1, after which a text with these answers of its layers leaves."""
    counter = 0
    for layer in range(1, len(answers)):
        counter = counter + 1 if answers[layer] == answers[layer - 1] else 0
        if counter == patience:
            return layer + 1
    return len(answers)


def test_a_text_leaves_when_layers_in_a_row_agree(found):
    logits, seen = every(found), []
    for patience in (1, 2, 3, 4):
        found.set_prediction_settings(dataclasses.replace(OWN, unchanged=patience), 0)
        given = found.answered(stack(ROWS))
        left = np.array([leave(one.argmax(-1).tolist(), patience) for one in logits])
        assert given[:, -1].tolist() == left.tolist()
        assert np.allclose(given[:, :-1], logits[np.arange(len(ROWS)), left - 1], atol=1e-4, rtol=1e-5)
        seen.append(left)
    assert len(set(np.concatenate(seen))) >= 3 and set(seen[-1]) == {4}
    assert np.mean(seen[0]) < np.mean(seen[1])


def test_without_a_limit_and_while_it_learns_the_last_classifier_answers(found):
    found.set_prediction_settings(dataclasses.replace(OWN, unchanged=0), 0)
    assert set(found.answered(stack(ROWS))[:, -1]) == {4}
    found.set_prediction_settings(dataclasses.replace(OWN, unchanged=1), 0)
    found.weights_owner = None
    assert set(found.answered(stack(ROWS))[:, -1]) == {4}
    found.weights_owner = "a test"


def test_what_a_row_costs_depends_on_where_it_leaves(found):
    D, F, rows = SHAPE.width, SHAPE.inner, ROWS[:3]
    pooler = 0 if found.network.encoder.causal else 2 * D * D
    outputs = [np.array([0, 0, 0, 0, left]) for left in (2, 4, 3)]
    found.set_prediction_settings(dataclasses.replace(OWN, unchanged=1), 0)
    wanted = [
        left[-1] * (row.tokens * (8 * D * D + 4 * D * F + 4 * row.tokens * D) + pooler)
        for row, left in zip(rows, outputs, strict=True)
    ]
    assert [found.adaptation.flops(found, [a], [b]) for a, b in zip(rows, outputs, strict=True)] == wanted
    assert found.adaptation.extra_costs(found, rows, outputs) == {"mean_exit_layer": 3, "mean_flops": sum(wanted) / 3}
    assert found.training_flops(rows) == 3 * (sum(found.encoder_flops([row]) for row in rows) + 3 * 3 * pooler)


@pytest.mark.parametrize(("name", "layers", "told"), [("lm_lstm", 4, "no exit fits"), ("bert", 1, "no earlier exit")])
def test_where_no_text_can_leave_it_says_why(name, layers, told):
    shape = dataclasses.replace(SHAPE, layers=layers)
    with pytest.raises(NotApplicable, match=told):
        built.adapted(name, shape, TOKENIZER, Form.CLASSIFICATION, "pabee", 4, settings.baked(OWN))


@pytest.mark.slow
def test_a_cell_that_was_stopped_ends_the_same(context, monkeypatch):
    deep = dataclasses.replace(context, shape=Size(layers=3, width=32, heads=2, inner=64, length=96))
    cell = make("sst2", "bert", "pabee", epochs=2, batch=16, learning_rate=3e-3, unchanged=1)
    straight = check_resumed(cell, deep, 3, monkeypatch, "mean_exit_layer", "mean_flops")
    assert 2 <= straight.cost["mean_exit_layer"] <= 3
    result = cells.run(make("stsb", "bert", "pabee"), deep)
    assert (result.status, result.reason["code"]) == ("not_applicable", "no-head")
