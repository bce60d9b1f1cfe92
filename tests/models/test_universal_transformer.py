"""Tests of the Universal Transformer: its steps and its halting against a loop over single tokens, and the ponder cost
by hand."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from ptmbench.models.card import Size
from ptmbench.models.layers.universal import UniversalEncoder
from ptmbench.models.masked_language_modeling import universal_transformer
from ptmbench.models.objective import Part
from ptmbench.models.objectives import _ponder
from ptmbench.models.pretrainable import Encoding
from ptmbench.models.text.tokenizers import Vocabulary
from tests.models.weights import numbers

VOCABULARY = Vocabulary(size=90)
SIZE = Size(layers=5, width=16, heads=2, inner=24, length=20)
TOKENS = [2, 40, 41, 42, 43, 44, 45, 3]


def encoder(steps: int = SIZE.layers) -> UniversalEncoder:
    """A network with random weights everywhere, whose tokens halt at different steps."""
    keras.utils.set_random_seed(1)
    model = universal_transformer.build(Size(layers=steps, width=16, heads=2, inner=24, length=20), VOCABULARY).encoder
    rng = np.random.default_rng(2)
    for variable in model.variables:
        variable.assign_add(0.2 * rng.normal(size=variable.shape))
    model.halt.bias.assign([-1.0])
    return model


def norm(x, scale, bias):
    centred = x - x.mean()
    return centred / math.sqrt((centred**2).mean() + 1e-6) * scale + bias


def step_by_hand(states, w):
    """Returns H^t of all tokens from their Z, one token and one head at a time, in float64 (section 2.1)."""
    qkv = [z @ w.qkv_kernel + w.qkv_bias for z in states]
    new = []
    for t, z in enumerate(states):
        context = []
        for part in (slice(0, 8), slice(8, 16)):
            score = np.array([qkv[t][:16][part] @ other[16:32][part] / math.sqrt(8) for other in qkv])
            weight = np.exp(score - score.max())
            context.append((weight / weight.sum()) @ np.array([other[32:][part] for other in qkv]))
        a = z + np.concatenate(context) @ w.output_kernel + w.output_bias
        a = norm(a, w.attention_norm_scale, w.attention_norm_bias)
        h = np.maximum(a @ w.inner_kernel + w.inner_bias, 0) @ w.outer_kernel + w.outer_bias
        new.append(norm(a + h, w.norm_scale, w.norm_bias))
    return new


def by_hand(model: UniversalEncoder, tokens: list[int]):
    """Returns the states after each step, and for each token the weighted mean of its states, its N and its R."""
    w = numbers(model.block)
    halt, bias = np.asarray(model.halt.kernel, np.float64)[:, 0], float(model.halt.bias[0])
    states = [np.asarray(model.token_embedding, np.float64)[token] * 4 for token in tokens]
    layers, count = [list(states)], len(tokens)
    taken, given = [[] for _ in tokens], [[] for _ in tokens]  # of each token, its states and their weights
    for step in range(1, model.config.steps + 1):
        signalled = []
        for place, state in enumerate(states, start=1):
            signal = np.zeros(16)
            for j in range(8):
                rate = 10_000 ** (-2 * j / 16)
                signal[2 * j] = math.sin(place * rate) + math.sin(step * rate)
                signal[2 * j + 1] = math.cos(place * rate) + math.cos(step * rate)
            signalled.append(state + signal)
        new = step_by_hand(signalled, w)
        for t in range(count):
            if sum(given[t]) > 0.9999:
                continue  # halted: its state does not change
            p = 1 / (1 + math.exp(-(signalled[t] @ halt + bias)))
            if sum(given[t]) + p > 0.99 or step == model.config.steps:
                p = 1 - sum(given[t])
            taken[t].append(new[t])
            given[t].append(p)
            states[t] = new[t]
        layers.append(list(states))
    mean = [sum(p * state for p, state in zip(given[t], taken[t], strict=True)) for t in range(count)]
    return layers, mean, [len(part) for part in given], [part[-1] for part in given]


def test_each_token_is_computed_until_it_halts():
    model = encoder()
    layers, mean, steps, remainders = by_hand(model, TOKENS)
    assert len(set(steps)) >= 3, steps  # some early, some in the last step
    assert max(steps) == SIZE.layers
    padded = np.array([TOKENS + [0, 0]], np.int32)
    encoding, cost = model.pondered({"tokens": padded})
    for ours, theirs in zip(encoding.layers, [*layers, mean], strict=True):
        assert np.allclose(ours[0, : len(TOKENS)], theirs, atol=2e-5)
    assert np.allclose(cost[0, : len(TOKENS)], np.add(steps, remainders), atol=1e-5)
    assert np.array_equal(encoding.pooled, encoding.tokens[:, 0])


@pytest.mark.parametrize(
    ("p", "most", "weights"),
    [
        (0.4, 5, [0.4, 0.4, 0.2]),  # 0.8 + 0.4 is above the threshold: the third step gets the rest
        (0.4, 2, [0.4, 0.6]),  # the last step gets the rest
        (0.3, 5, [0.3, 0.3, 0.3, 0.1]),  # 0.9 is below the threshold
        (0.995, 5, [1.0]),  # above the threshold at once
        (0.985, 5, [0.985, 0.015]),
    ],
)
def test_halting_by_hand(p, most, weights):
    model = encoder(most)
    model.halt.kernel.assign(np.zeros((16, 1)))
    model.halt.bias.assign([math.log(p / (1 - p))])
    encoding, cost = model.pondered({"tokens": np.array([TOKENS], np.int32)})
    mean = sum(w * np.asarray(state) for w, state in zip(weights, encoding.layers[1:], strict=False))
    assert np.allclose(encoding.tokens, mean, atol=1e-5)
    assert np.allclose(cost, len(weights) + weights[-1], atol=1e-5)
    for state in encoding.layers[len(weights) + 1 : -1]:
        assert np.array_equal(state, encoding.layers[len(weights)])  # states do not change after halting


def test_ponder_cost_falls_with_the_halting_bias():
    model = encoder()
    with tf.GradientTape() as tape:
        cost = tf.reduce_sum(model.pondered({"tokens": np.array([TOKENS], np.int32)})[1])
    assert float(tape.gradient(cost, model.halt.bias.value)[0]) < 0


def test_loss_by_hand():
    """Two rows of three and two tokens. The cost of padding does not count."""

    class Fake(keras.layers.Layer):
        def pondered(self, batch, seed=None):
            return Encoding(tokens=None, pooled=None, layers=()), tf.constant([[2.5, 3.0, 1.5], [4.0, 2.0, 99.0]])

    class Head(Part, keras.layers.Layer):
        reports = ("mlm_loss", "mlm_accuracy")

        def totals(self, batch):
            return {"masked": tf.constant(1)}

        def call(self, encoding, batch, totals):
            return {"mlm_loss": tf.constant(7.0), "mlm_accuracy": tf.constant(0.5)}

    loss = _ponder.Ponder(Fake(), Head())
    batch = {"tokens": np.array([[2, 40, 3], [2, 3, 0]], np.int32)}
    assert loss.reports == ("mlm_loss", "mlm_accuracy", "ponder")
    assert {name: int(total) for name, total in loss.totals(batch).items()} == {"tokens": 5, "masked": 1}
    values = {name: float(value) for name, value in loss(batch).items()}
    assert values == pytest.approx({"loss": 7 + 0.01 * 13 / 5, "mlm_loss": 7, "mlm_accuracy": 0.5, "ponder": 13 / 5})
    assert float(loss(batch, totals={"tokens": tf.constant(10), "masked": tf.constant(1)})["ponder"]) == pytest.approx(
        1.3
    )
