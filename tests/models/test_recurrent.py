"""Tests of the LSTM, the bidirectional language model and skip-gram against their equations in NumPy."""

import math
from functools import cache

import keras
import numpy as np
import pytest
import tensorflow as tf

from ptmbench import models
from ptmbench.models.architectures import word_vectors
from ptmbench.models.card import Size
from ptmbench.models.layers.recurrent_config import LstmConfig
from ptmbench.models.layers.vector_heads import NegativeSamplingConfig
from ptmbench.models.layers.vectors import built
from ptmbench.models.objectives import skipgram
from ptmbench.models.objectives.bilm import BiLm
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary

SIZE = Size(layers=2, width=8, inner=5, length=30)
TOKENS = np.array([[2, 40, 41, 42, 3], [2, 43, 3, 0, 0]], np.int32)


@cache
def elmo() -> BiLm:
    keras.utils.set_random_seed(1)
    loss = models.load("elmo").build(SIZE, Vocabulary(size=50)).loss
    loss.output_bias.assign(np.linspace(-0.5, 0.5, 50))
    for variable in loss.encoder.variables:  # away from 0, so that every term matters
        variable.assign(3 * np.asarray(variable))
    return loss


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def kernels(layer):
    """Returns W, b and U of an LSTM layer, and R if it has one."""
    own = [layer.gates.kernel, layer.gates.bias, layer.recurrent.kernel]
    return own + ([layer.projection.kernel] if layer.config.projection else [])


def lstm(x, w):
    """x [T, P] to h [T, P]: equations (1) to (6) of Sak et al. (2014), section 2, without peepholes."""
    w_input, bias, u, r = (np.asarray(v, np.float64) for v in kernels(w))
    h, c, result = np.zeros(r.shape[1]), np.zeros(r.shape[0]), []
    for x_t in x:
        g, i, f, o = np.split(x_t @ w_input + h @ u + bias, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = (sigmoid(o) * np.tanh(c)) @ r
        result.append(h)
    return np.array(result)


def layers_of(row, encoder):
    """Returns the embeddings and both layers [T, D] of one row without padding."""
    x = np.asarray(encoder.token_embedding, np.float64)[row]
    forward, backward = [x], [x]
    for index in range(2):
        new = lstm(forward[-1], encoder.forward_stack.members[index])
        forward.append(new + (forward[-1] if index else 0))
        new = lstm(backward[-1][::-1], encoder.backward_stack.members[index])[::-1]
        backward.append(new + (backward[-1] if index else 0))
    return [np.concatenate(pair, axis=1) for pair in zip(forward, backward, strict=True)]


def test_encoder_matches_the_paper():
    encoding = elmo().encoder({"tokens": TOKENS})
    for row, length in enumerate((5, 3)):
        expected = layers_of(TOKENS[row, :length], elmo().encoder)
        for got, want in zip(encoding.layers, expected, strict=True):
            assert np.allclose(got[row, :length], want, atol=1e-5)
        assert np.allclose(encoding.pooled[row], expected[-1].max(axis=0), atol=1e-5)
    assert np.array_equal(encoding.layers[0][:, :, :4], encoding.layers[0][:, :, 4:])


def test_each_direction_depends_on_its_own_side_only():
    encoder = elmo().encoder
    changed = TOKENS.copy()
    changed[0, 2] = 45
    before, after = (np.asarray(encoder({"tokens": t}).tokens)[0] for t in (TOKENS, changed))
    change = np.abs(before - after) > 1e-6
    assert not change[:2, :4].any() and change[2:, :4].any(axis=1).all()
    assert not change[3:, 4:].any() and change[:3, 4:].any(axis=1).all()


def log_softmax(x):
    return (
        x - x.max(axis=1, keepdims=True) - np.log(np.exp(x - x.max(axis=1, keepdims=True)).sum(axis=1, keepdims=True))
    )


def test_loss_and_likelihood_match_the_paper():
    loss = elmo()
    table, bias = np.asarray(loss.encoder.token_embedding, np.float64), np.asarray(loss.output_bias, np.float64)
    forward, backward, likelihood = [], [], np.zeros(TOKENS.shape)
    for row, length in enumerate((5, 3)):
        ids = TOKENS[row, :length]
        top = layers_of(ids, loss.encoder)[-1]
        steps = np.arange(length - 1)
        right = log_softmax(top[:-1, :4] @ table.T + bias)[steps, ids[1:]]
        left = log_softmax(top[1:, 4:] @ table.T + bias)[steps, ids[:-1]]
        forward += list(-right)
        backward += list(-left)
        likelihood[row, 1:length] = right
    values = loss({"tokens": TOKENS})
    assert float(values["forward_nll"]) == pytest.approx(np.mean(forward), abs=1e-5)
    assert float(values["backward_nll"]) == pytest.approx(np.mean(backward), abs=1e-5)
    assert float(values["loss"]) == pytest.approx((np.mean(forward) + np.mean(backward)) / 2, abs=1e-5)
    assert np.allclose(loss.log_likelihood({"tokens": TOKENS}), likelihood, atol=1e-5)


def test_gradient_through_the_loop_matches_finite_differences():
    """The gradients of the input and of every weight of a layer with a projection."""
    rng = np.random.default_rng(0)
    layer = built(LstmConfig(inputs=5, cells=3, projection=2), name="lstm")
    x = tf.Variable(rng.normal(size=(4, 2, 5)).astype(np.float32))
    tensors = [x, *(weight.value for weight in layer.trainable_variables)]
    for tensor in tensors:
        tensor.assign(rng.normal(size=tensor.shape))

    def value():
        return tf.reduce_sum(tf.sin(layer(x)[0]))

    with tf.GradientTape() as tape:
        result = value()
    for tensor, gradient in zip(tensors, tape.gradient(result, tensors), strict=True):
        direction = rng.normal(size=tensor.shape).astype(np.float32)
        before, ends = tensor.numpy(), []
        for sign in (1e-2, -1e-2):
            tensor.assign(before + sign * direction)
            ends.append(float(value()))
        tensor.assign(before)
        assert (ends[0] - ends[1]) / 2e-2 == pytest.approx(
            float(np.sum(direction * gradient.numpy())), rel=2e-2, abs=1e-3
        )


@pytest.mark.parametrize("name", ("elmo", "elmo_cnn", "flair", "lm_lstm", "ulmfit", "multifit", "cove", "skip_thought"))
def test_unused_layers_are_not_computed(name):
    """TensorFlow removes an unused loop without side effects. A loop that reads variables has side effects: it would
    cost as much as the top layer."""
    encoder = models.load(name).build(SIZE, Vocabulary(size=50)).encoder
    spec = {key: tf.TensorSpec([None, None], tf.int32) for key in ("tokens", "segments")}
    graph = tf.function(lambda batch: encoder(batch).layers[0], autograph=False).get_concrete_function(spec).graph
    assert {op.type for op in graph.get_operations() if "While" in op.type} == {"StatelessWhile"}


def test_forget_gates_have_an_initial_bias_of_one():
    keras.utils.set_random_seed(1)
    bias = np.asarray(elmo().encoder.forward_stack.layer_0.gates.bias) / 3
    assert bias.tolist() == [0] * 10 + [1] * 5 + [0] * 5


def test_odd_width_raises_an_error():
    with pytest.raises(ValueError, match="even width"):
        models.load("elmo").build(Size(layers=1, width=7, inner=5), Vocabulary(size=50))


def corpus(sizes, ids=None) -> Corpus:
    total = int(np.sum(sizes))
    ids = np.arange(37, 37 + total) if ids is None else np.asarray(ids)
    sentences = np.concatenate([[0], np.cumsum(sizes)])
    return Corpus(ids.astype(np.int32), sentences, np.array([0, len(sizes)]), np.ones(total, bool))


def words_loss(words) -> skipgram.SkipGram:
    encoder = built(word_vectors.words(Size(layers=0, width=6), words), name="encoder")
    return skipgram.SkipGram.over(encoder, NegativeSamplingConfig(width=6, words=words))


def test_skipgram_loss_matches_the_paper():
    """Pair by pair: every pair inside a window, none across the end of a sentence, none with a dropped token."""
    keras.utils.set_random_seed(2)
    loss = words_loss(60)
    encoder = loss.encoder
    encoder.table.assign(np.random.default_rng(0).normal(size=(60, 6)))
    loss.contexts.table.assign(np.random.default_rng(1).normal(size=(60, 6)))
    batch = {
        "tokens": np.array([[40, 41, 42, 43, 44, 45, 46]], np.int32),
        "windows": np.array([[2, 1, 0, 3, 1, 2, 1]], np.int32),  # 42 was dropped
        "places": np.array([[1, 2, 2, 3, 4, 65541, 65542]], np.int32),  # a sentence ends after 44
        "noise": np.array([[50, 51, 50]], np.int32),
    }
    pairs = [(40, 41), (40, 43), (41, 40), (41, 43), (43, 41), (43, 44), (43, 40), (44, 43), (45, 46), (46, 45)]
    v, u = np.asarray(encoder.table, np.float64), np.asarray(loss.contexts.table, np.float64)
    each = [
        -math.log(sigmoid(u[c] @ v[w])) - 5 * np.mean([math.log(sigmoid(-u[n] @ v[w])) for n in (50, 51, 50)])
        for w, c in pairs
    ]
    assert float(loss(batch)["loss"]) == pytest.approx(np.mean(each), rel=1e-5)


def test_skipgram_batches():
    rng = np.random.default_rng(0)
    ids = np.where(rng.random(40_000) < 0.3, 37, rng.integers(38, 1238, 40_000))
    make = skipgram.batches(corpus([10] * 4000, ids), 16, 64)
    batches = [make(step, 3) for step in range(39)]
    tokens, windows, places, noise = (
        np.concatenate([b[k] for b in batches]) for k in ("tokens", "windows", "places", "noise")
    )
    assert (tokens > 0).all() and (windows > 0).all()
    kept = 0.3 * math.sqrt(1e-3 / 0.3)  # of the frequent word, per token of text
    assert (tokens == 37).mean() == pytest.approx(kept / (kept + 0.7), abs=0.01)
    assert np.allclose(np.bincount(windows.flat)[1:] / windows.size, 0.2, atol=0.02)
    counts = np.bincount(ids).astype(float) ** 0.75
    assert (noise == 37).mean() == pytest.approx(counts[37] / counts.sum(), abs=0.02)
    assert noise.min() >= 37 and noise.shape[1] == 64
    steps = np.diff(places, axis=1)
    ends = (steps > 60_000).sum(axis=1)  # 64 tokens are left of about 90, in sentences of 10
    assert ends.mean() == pytest.approx(64 / (kept + 0.7) / 10, rel=0.05)
    assert set(np.unique(steps % 65_536)) == {1}


def test_skipgram_rows_are_the_text_without_dropped_tokens():
    """Ids that count upwards tell their position. Almost nothing is left of the frequent word. An epoch has all of the
    text once, except for the ends of stretches."""
    text = np.arange(100, 40_100)
    text[::2] = 37
    rare = Corpus(text.astype(np.int32), np.arange(0, 40_001, 8), np.array([0, 5000]), np.ones(40_000, bool))
    make = skipgram.batches(rare, 4, 32)
    share = 0.5 + 0.5 * math.sqrt(1e-3 / 0.5)
    rows = [{k: v[i] for k, v in make(step, 1).items()} for step in range(int(40_000 * share / 128)) for i in range(4)]
    for row in rows[::17]:
        numbers, places = row["tokens"][row["tokens"] != 37], row["places"][row["tokens"] != 37]
        assert (np.diff(numbers) == 2).all() or numbers.max() - numbers.min() > 30_000  # one row wraps around
        same = (numbers[1:] - 100) // 8 == (numbers[:-1] - 100) // 8
        assert np.array_equal(np.diff(places) < 100, same)
    seen = np.unique(np.concatenate([row["tokens"] for row in rows]))
    assert len(seen) > 0.9 * 20_000


def test_stretches_without_kept_tokens_are_empty_rows():
    """One repeated word is half of the text: often none of 15 consecutive tokens is kept."""
    ids = np.concatenate([np.full(5000, 37), np.random.default_rng(0).integers(38, 3000, 5000)])
    make = skipgram.batches(corpus([10] * 1000, ids), 4, 8)
    kept = [make(step, 0)["windows"].any(axis=1) for step in range(300)]
    assert any(not rows[-1] for rows in kept) and any(rows.all() for rows in kept)


def test_block_size_does_not_change_the_loss(monkeypatch):
    """Rows of 70 tokens in blocks of 32, of 7, and in one block have the same loss, and as many pairs as brute force
    finds."""
    loss = words_loss(90)
    batch = skipgram.batches(corpus([11] * 300, np.random.default_rng(0).integers(37, 90, 3300)), 3, 70)(2, 1)
    batch["windows"][1, 60:] = 0  # padding
    expected = sum(
        other != place and abs(places[other] - places[place]) <= windows[place] and windows[other] > 0
        for places, windows in zip(batch["places"].tolist(), batch["windows"].tolist(), strict=True)
        for place in range(70)
        for other in range(70)
    )
    values = []
    for size in (32, 7, 70):
        monkeypatch.setattr(skipgram, "BLOCK", size)
        assert int(loss.totals(batch)["pairs"]) == expected
        values.append(float(loss(batch)["loss"]))
    assert values == pytest.approx(values[:1] * 3, rel=1e-5)


def test_word_vectors_do_not_depend_on_the_context():
    keras.utils.set_random_seed(2)
    encoder = built(word_vectors.words(Size(layers=0, width=6), 60), name="encoder")
    encoding = encoder({"tokens": TOKENS})
    table = np.asarray(encoder.table)
    assert np.array_equal(encoding.tokens, table[TOKENS]) and len(encoding.layers) == 1
    assert np.allclose(encoding.pooled[1], table[[2, 43, 3]].mean(axis=0))


@pytest.mark.slow
def test_elmo_learns_both_directions():
    """A cyclic language: either neighbour determines the token."""
    module = models.load("elmo")
    keras.utils.set_random_seed(0)
    built = module.build(Size(layers=2, width=32, inner=48), Vocabulary(size=50))
    built.encoder.dropout = 0.0
    make = built.batches(corpus([2000], 37 + np.arange(2000) % 13), 8, 24)
    variables = built.loss.trainable_variables
    optimizer = keras.optimizers.Adam(1e-2)
    optimizer.build(variables)

    @tf.function
    def step(batch):
        with tf.GradientTape() as tape:
            values = built.loss(batch, seed=tf.constant([0, 0]))
        optimizer.apply(tape.gradient(values["loss"], [v.value for v in variables]), variables)
        return values

    for number in range(120):
        values = step({k: tf.constant(v) for k, v in make(number, 0).items()})
    assert float(values["forward_nll"]) < 0.3 and float(values["backward_nll"]) < 0.3
