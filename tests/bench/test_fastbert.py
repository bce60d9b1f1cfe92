"""FastBERT: the paper's equations in NumPy, early exits against a pass through all layers, and FLOPs."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.built import adapted, random_weights
from ptmbench.bench.adapt.effort import Network
from ptmbench.bench.adapt.fastbert import Own
from ptmbench.bench.adapt.fastbert.head import Logits
from ptmbench.bench.adapt.fastbert.network import distilled, exit_logits, uncertainty
from ptmbench.bench.adapt.heads import InputRow, stack
from ptmbench.bench.errors import NotApplicable
from ptmbench.bench.runs import cell as cells
from ptmbench.models import load as model
from ptmbench.models.card import Size
from ptmbench.models.layers.blocks import Stack
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks.forms import Form
from tests.bench.cells import make

TOKENIZER = Tokenizer.train("word", ["one two three four five six seven eight nine ten"] * 3, 60)


SHAPE = Size(layers=4, width=12, heads=2, inner=16, length=16)


W = 6  # the width of a branch, three heads


CLASSES = 3  # of the head's four outputs


def row(label, *tokens):
    arrays = {"tokens": np.array(tokens, np.int32), "segments": np.zeros(len(tokens), np.int32)}
    return InputRow(arrays | {"label": np.int32(label), "unused": np.array([0, 0, 0, -1e9], np.float32)}, 0)


ROWS = [row(0, 1, 7, 8, 9, 2), row(1, 1, 10, 11, 2), row(2, 1, 12, 7, 13, 9, 2), row(1, 1, 14, 2)]


ROWS += [row(n % 3, 1, *np.random.default_rng(n).integers(5, 14, 2 + n % 5), 2) for n in range(12)]


OWN = Own(branch=W, branch_heads=3, length=16)


def made(name="bert", shape=SHAPE):
    found = adapted(name, shape, TOKENIZER, Form.CLASSIFICATION, "fastbert", 4, settings.baked(OWN))
    found.reset(random_weights(name, shape, TOKENIZER, 1), 0)
    found.set_prediction_settings(OWN, 0)
    return found


def spread(name="bert"):
    """A network with large random weights, whose branches differ and are more or less certain, as after training."""
    found, rng = made(name), np.random.default_rng(0)
    for variable in found.own:
        variable.assign(rng.normal(0.0, 0.9, variable.shape).astype(np.float32))
    for variable in found.network.encoder.trainable_variables:
        if len(variable.shape) == 2:
            variable.assign(rng.normal(0.0, 0.6, variable.shape).astype(np.float32))
    found.weights_owner = "a test"
    return found


@pytest.fixture
def bert():
    return spread()


def tensors(batch):
    return {name: tf.constant(value) for name, value in batch.items()}


# Equations -----------------------------------------------------------------------------------------------------------


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def linear(x, layer):
    return x @ layer.kernel.numpy().astype(np.float64) + layer.bias.numpy()


def branch(h, layer, place):
    """Section 3.1 for h [T, D]: a narrowing layer, full self-attention, the vector at ``place``, and one more layer."""
    h = np.tanh(linear(h, layer.narrow))
    q, k, v = np.split(linear(h, layer.attention.query_key_value), 3, axis=-1)
    heads = [
        softmax(one @ key.T / np.sqrt(one.shape[-1])) @ value
        for one, key, value in zip(*(np.split(part, 3, axis=-1) for part in (q, k, v)), strict=True)
    ]
    return np.tanh(linear(linear(np.concatenate(heads, -1), layer.attention.projection)[place], layer.dense))


def branch_probabilities(found, one):
    """The probabilities of the task's classes from each branch for the row ``one``, [L, N]."""
    batch = tensors(stack([one], multiple=1))
    layers = found.network.encoder({name: batch[name] for name in ("tokens", "segments")}).layers[1:]
    reading, head = found.reading, found.head
    place = len(one.arrays["tokens"]) - 1 if found.network.encoder.causal else 0
    branches = (*reading.students, reading.teacher)
    read = [branch(h[0].numpy().astype(np.float64), b, place) for h, b in zip(layers, branches, strict=True)]
    students = [
        x @ kernel + bias.numpy()
        for x, kernel, bias in zip(read[:-1], head.students.kernel.numpy(), head.students.bias, strict=True)
    ]
    return softmax(np.stack([*students, linear(read[-1], head.teacher)])[:, :CLASSES])


def kl(p, q):
    """Equation 5."""
    return sum(p[c] * np.log(p[c] / q[c]) for c in range(CLASSES))


def normalised_entropy(p):
    """Equation 7."""
    return sum(p[c] * np.log(p[c]) for c in range(CLASSES)) / np.log(1 / CLASSES)


@pytest.mark.parametrize("name", ["bert", "gpt"])
def test_branches_losses_and_uncertainties_are_the_papers(name):
    found = spread(name)
    batch = tensors(stack(ROWS))
    logits = found._outputs(batch, None)
    wanted = np.stack([branch_probabilities(found, one) for one in ROWS])  # [B, L, N]
    given = tf.nn.softmax(tf.concat([logits.students, logits.teacher[:, None]], 1)).numpy()
    assert np.abs(given[:, :, :CLASSES] - wanted).max() <= 2e-5 and not given[:, :, CLASSES:].any()
    # Equation 6 as a mean over the batch, the divergence that the authors' code minimises, and the teacher's loss.
    students = np.mean([sum(kl(p, one[-1]) for p in one[:-1]) for one in wanted])
    assert abs(float(distilled(logits, "student")) - students) <= 2e-5 * students
    reverse = np.mean([sum(kl(one[-1], p) for p in one[:-1]) for one in wanted])
    assert abs(float(distilled(logits, "teacher")) - reverse) <= 2e-5 * reverse
    labels = [-np.log(one[-1][row.arrays["label"]]) for one, row in zip(wanted, ROWS, strict=True)]
    assert abs(float(found.head.loss(logits, batch)) - np.mean(labels)) <= 2e-5 * np.mean(labels)
    for place in range(SHAPE.layers - 1):
        shares = uncertainty(logits.students[:, place], logits.unused)
        assert np.abs(shares - [normalised_entropy(one[place]) for one in wanted]).max() <= 2e-5


def test_uncertainty_is_0_for_certain_and_1_for_uniform_predictions():
    unused = tf.constant([[0.0, 0.0, 0.0, -1e9]] * 3 + [[0.0, -1e9, -1e9, -1e9]])
    logits = tf.constant([[200.0, 0, 0, 0], [3.0, 3, 3, 0], [1.0, 1, -300, 0], [5.0, 0, 0, 0]]) + unused
    assert np.allclose(uncertainty(logits, unused), [0.0, 1.0, np.log(2) / np.log(3), 0.0], atol=1e-6)


def test_the_teacher_does_not_learn_from_its_students():
    students, teacher = tf.Variable(tf.ones([2, 3, 4])), tf.Variable([[1.0, 2.0, 0.0, 0.0]] * 2)
    for which in ("student", "teacher"):
        with tf.GradientTape() as tape:
            loss = distilled(Logits(students, teacher, None), which)
        at_students, at_teacher = tape.gradient(loss, [students, teacher])
        assert at_teacher is None and np.abs(at_students).max() > 0.01


# Training ------------------------------------------------------------------------------------------------------------


def test_encoder_and_teacher_are_trained_first_and_then_only_the_students():
    found, batch, steps = made(), stack(ROWS), 6
    variables = {v.path: v for v in (*found.network.encoder.trainable_variables, *found.own)}
    later = {v.path for v in found.adaptation.second(found.reading, found.head)}
    pooler = {path for path in variables if "pooler" in path}  # which FastBERT does not read
    assert len(later) == 3 * 8 + 4 and {"pooler"} == {path.split("/")[1] for path in pooler}
    assert found.second_stage_start(steps, OWN) == 3
    for stage, expected in enumerate((set(variables) - later - pooler, later)):
        before = {path: v.numpy() for path, v in variables.items()}
        for number in range(3 * stage, 3 * stage + 3):
            loss = found.step(batch, (0, number), found.rate(number, steps, OWN))["loss"]
            assert found.second == found.by_loss == bool(stage)
        moved = {path for path, v in variables.items() if not np.array_equal(before[path], v.numpy())}
        assert moved == expected and np.isfinite(loss)
    # The students' loss uses neither labels nor dropout, and it decreases.
    found.network.encoder.dropout = 0.5
    unlabelled = batch | {"label": batch["label"] * 0 - 1}
    losses = [float(found.step(unlabelled, (0, n), 1e-2)["loss"]) for n in range(20)]
    assert losses[-1] < 0.5 * losses[0] and abs(found.mean_loss(ROWS) - losses[-1]) < 0.5 * losses[-1]


def test_each_stage_has_its_own_learning_rates():
    found, own = made(), dataclasses.replace(OWN, warmup=0.5, learning_rate=1.0, student_rate=4.0)
    assert [found.rate(n, 8, own) for n in range(8)] == [0.5, 1.0, 1.0, 0.5, 2.0, 4.0, 4.0, 2.0]
    assert [found.adaptation.second_stage_start(n, OWN) for n in (1, 2, 3, 8)] == [1, 1, 1, 4]
    assert found.adaptation.second_stage_start(8, dataclasses.replace(OWN, distilling=0.0)) == 8


# Early exit ----------------------------------------------------------------------------------------------------------


def exits_after_all_layers(found, speed):
    """Computes all layers and branches, then chooses the exits. Returns logits, exit layers and uncertainties."""
    logits = found._outputs(tensors(stack(ROWS)), None)
    everything = tf.concat([logits.students, logits.teacher[:, None]], 1).numpy()
    shares = np.stack([uncertainty(everything[:, n], logits.unused) for n in range(SHAPE.layers)], 1)
    shares[:, -1] = -1  # all remaining rows exit at the teacher
    left = np.argmax(shares < speed, axis=1)
    return everything[np.arange(len(ROWS)), left], left + 1, shares[:, :-1]


SPEEDS = (0.15, 0.5, 0.65, 0.85)


@pytest.mark.parametrize("name", ["bert", "albert", "gpt", pytest.param("t5", marks=pytest.mark.slow)])
def test_early_exits_give_the_logits_of_a_pass_through_all_layers(name):
    found, seen = spread(name), []
    for speed in SPEEDS:
        logits, left, shares = exits_after_all_layers(found, speed)
        assert np.abs(shares - speed).min() > 1e-5  # no uncertainty is at the threshold
        found.set_prediction_settings(dataclasses.replace(OWN, speed=speed), 0)
        given = found.answered(stack(ROWS))
        assert np.array_equal(given[:, -1], left) and np.allclose(given[:, :-1], logits, atol=1e-4, rtol=1e-5)
        seen.append(left)
    assert len(set(np.concatenate(seen))) >= (SHAPE.layers if name == "bert" else 2)
    means = [left.mean() for left in seen]
    assert means == sorted(means, reverse=True) and means[-1] < means[0]


def test_a_layer_computes_only_the_rows_that_have_not_exited(bert, monkeypatch):
    read, step = [], Stack.step

    def recording_step(self, index, x, bias, rows, *given):
        read.append((index, x.shape[0] // int(rows.tokens), int(rows.batch)))
        return step(self, index, x, bias, rows, *given)

    monkeypatch.setattr(Stack, "step", recording_step)
    batch = tensors(stack(ROWS))
    for speed in (0.5, 1.1):
        read.clear()
        left = exit_logits(bert, batch, tf.constant(speed))[:, -1].numpy()
        here = [int((left > index).sum()) for index in range(SHAPE.layers)]
        assert read == [(index, n, n) for index, n in enumerate(here)]
        assert len(set(here)) > 1
    assert here == [len(ROWS), 0, 0, 0]


def test_speed_0_is_the_teacher(bert):
    bert.set_prediction_settings(dataclasses.replace(OWN, speed=0.0), 0)
    given = bert.answered(stack(ROWS))
    assert np.array_equal(given[:, :-1], bert.forward(stack(ROWS))[:, :-1]) and set(given[:, -1]) == {SHAPE.layers}
    teacher = bert._outputs(tensors(stack(ROWS)), None).teacher
    assert np.allclose(given[:, :-1], teacher, atol=1e-4)


def test_the_teacher_predicts_during_training(bert):
    bert.set_prediction_settings(dataclasses.replace(OWN, speed=1.0), 0)
    assert set(bert.answered(stack(ROWS))[:, -1]) == {1}
    bert.weights_owner = None
    assert set(bert.answered(stack(ROWS))[:, -1]) == {SHAPE.layers}


# Cost ----------------------------------------------------------------------------------------------------------------


def by_hand(n):
    """FLOPs for n tokens of the network, of a layer and of a branch."""
    D, F = SHAPE.width, SHAPE.inner
    layer = n * (8 * D * D + 4 * D * F + 4 * n * D)
    narrow, pair = 2 * n * D * W, 2 * n * W * 2 * W
    branch = narrow + pair + 2 * W * W + 4 * n * W + 2 * W * W + 2 * W * W  # query, attention, projection, one layer
    return SHAPE.layers * layer + 2 * D * D, layer, branch  # with BERT's pooler


def test_the_flops_of_a_row_depend_on_its_exit_layer(bert):
    rows = ROWS[:4]
    outputs = [np.array([0, 0, 0, 0, left]) for left in (1, 3, 4, 2)]
    bert.set_prediction_settings(dataclasses.replace(OWN, speed=0.5), 0)
    wanted = []
    for one, output in zip(rows, outputs, strict=True):
        whole, layer, branch = by_hand(one.tokens)
        left = output[-1]
        wanted.append(whole - (SHAPE.layers - left) * layer + left * branch)
    assert [bert.adaptation.flops(bert, [a], [b]) for a, b in zip(rows, outputs, strict=True)] == wanted
    assert bert.adaptation.flops(bert, rows, outputs) == sum(wanted)
    assert bert.adaptation.extra_costs(bert, rows, outputs) == {"mean_exit_layer": 2.5, "mean_flops": sum(wanted) / 4}
    bert.set_prediction_settings(dataclasses.replace(OWN, speed=0.0), 0)
    whole, _, branch = by_hand(5)
    assert bert.adaptation.flops(bert, rows[:1], [np.array([0, 0, 0, 0, 4])]) == whole + branch


def test_parameters_of_branches_and_training_flops_by_hand():
    found = made()
    D = SHAPE.width
    assert found.added == SHAPE.layers * (D * W + W + 3 * W * W + 3 * W + W * W + W + W * W + W)
    sums = np.sum([by_hand(one.tokens) for one in ROWS], axis=0)
    assert found.training_flops(ROWS) == 3 * (sums[0] + sums[2])
    found.rate(3, 6, OWN)
    assert found.second and found.training_flops(ROWS) == sums[0] + sums[2] + 3 * (SHAPE.layers - 1) * sums[2]


def test_the_flops_estimate_has_both_stages_and_no_early_exits():
    whole, _, branch = by_hand(16)
    network = Network(model("bert"), SHAPE, TOKENIZER.vocabulary)
    learning, answering = dataclasses.replace(OWN, distilling=0.25).flops(network, Form.CLASSIFICATION)
    assert learning == 0.75 * 3 * (whole + branch) + 0.25 * (whole + branch + 9 * branch)
    assert answering == whole + 4 * branch
    assert dataclasses.replace(OWN, speed=0.0).flops(network, Form.CLASSIFICATION)[1] == whole + branch


def test_a_branch_has_a_sixth_of_the_width_which_its_heads_divide():
    assert [Own().branch_width(width) for width in (768, 512, 256, 128, 4)] == [128, 86, 42, 22, 2]
    assert Own(branch=64, branch_heads=3).branch_width(768) == 63


# Errors --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "changes", "told"),
    [
        ("lm_lstm", {}, "not a stack of blocks computed one at a time"),
        ("word2vec", {}, "not a stack of blocks computed one at a time"),
        ("universal_transformer", {}, "not a stack of blocks computed one at a time"),
        ("bert", {"layers": 1}, "of one layer has no earlier exit"),
    ],
)
def test_models_without_early_exits_are_not_applicable(name, changes, told):
    with pytest.raises(NotApplicable, match=told):
        made(name, dataclasses.replace(SHAPE, **changes))


@pytest.mark.parametrize("task", ["stsb", "conll2003"])
def test_other_forms_are_not_applicable(context, task):
    result = cells.run(make(task, "bert", "fastbert"), context)
    assert (result.status, result.reason["code"]) == ("not_applicable", "no-head")
    assert "is for classification tasks" in result.reason["text"]


@pytest.mark.parametrize("speed", ["1.1", "-0.1"])
def test_speed_is_a_threshold_from_0_to_1(speed):
    with pytest.raises(settings.SettingError, match="from 0 to 1"):
        settings.changed(OWN, {"speed": speed})
