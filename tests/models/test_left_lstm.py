"""Tests of LM-LSTM, SA-LSTM, AWD-LSTM and QRNN against their equations in NumPy, and against torch's LSTM."""

from dataclasses import replace
from functools import cache

import keras
import numpy as np
import pytest
import tensorflow as tf

from ptmbench import models
from ptmbench.models.architectures import recurrent_decoders
from ptmbench.models.card import Size
from ptmbench.models.layers.core import Drop
from ptmbench.models.layers.operations import dropout
from ptmbench.models.layers.recurrent import Lstm, locked_dropout
from ptmbench.models.layers.recurrent_networks import built
from ptmbench.models.objectives import awd_lm
from ptmbench.models.objectives.lm import CausalLm
from ptmbench.models.objectives.sequence_autoencoder import SequenceAutoencoder
from ptmbench.models.text.tokenizers import Vocabulary
from tests.models.test_recurrent import corpus, kernels, log_softmax, sigmoid

SIZE = Size(layers=2, width=6, inner=10, length=30)
TOKENS = np.array([[2, 40, 41, 42, 3], [2, 43, 3, 0, 0]], np.int32)
SEED = tf.constant([4, 5])


@cache
def encoder(kind="lstm", **changes):
    """Returns a network of `recurrent_decoders`, with ``changes`` to its configuration."""
    keras.utils.set_random_seed(1)
    made = built(replace(getattr(recurrent_decoders, kind)(SIZE, 50), **changes), name="encoder")
    for variable in made.variables:  # away from 0, so that every term matters
        variable.assign(2 * np.asarray(variable))
    made.dropout = 0.0
    return made


def lstm(x, layer, recurrent=None, state=None):
    """x [T, C'] to h [T, C] and the last (h, c): Zaremba et al. (2014), section 3.1."""
    w, b, u = (np.asarray(v, np.float64) for v in kernels(layer))
    u = u if recurrent is None else recurrent
    h, c = state or (np.zeros(len(u)), np.zeros(len(u)))
    result = []
    for x_t in x:
        g, i, f, o = np.split(x_t @ w + h @ u + b, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        result.append(h)
    return np.array(result), (h, c)


def run_layers(ids, network, states=None):
    """Returns the top layer [T, D] of a row, and the final state of each layer."""
    x, final_states = np.asarray(network.token_embedding, np.float64)[ids], []
    for layer, state in zip(network.stack, states or [None] * len(network.stack), strict=True):
        x, state = lstm(x, layer, state=state)
        final_states.append(state)
    return x, final_states


@pytest.mark.parametrize("kind", ("lstm", "awd_lstm"))
def test_encoder_matches_the_paper(kind):
    network = encoder(kind)
    encoding = network({"tokens": TOKENS})
    for row, length in enumerate((5, 3)):
        top, _ = run_layers(TOKENS[row, :length], network)
        assert np.allclose(encoding.tokens[row, :length], top, atol=1e-5)
        assert np.allclose(encoding.pooled[row], top[-1], atol=1e-5)
    assert np.array_equal(encoding.layers[0], np.asarray(network.token_embedding)[TOKENS])


def test_autoencoder_generates_from_the_last_state():
    """Reads each row by itself, then reads it again from the final state. The loss is -ln p of all tokens except
    [CLS]."""
    network = encoder()
    table, each = np.asarray(network.token_embedding, np.float64), []
    for row, length in enumerate((5, 3)):
        ids = TOKENS[row, :length]
        top, _ = run_layers(ids[:-1], network, run_layers(ids, network)[1])
        each += list(-log_softmax(top @ table.T)[np.arange(length - 1), ids[1:]])
    assert float(SequenceAutoencoder(network)({"tokens": TOKENS})["loss"]) == pytest.approx(np.mean(each), abs=1e-5)


def test_language_model_loss_matches_the_paper():
    network = encoder()
    table, each = np.asarray(network.token_embedding, np.float64), []
    for row, length in enumerate((5, 3)):
        top, _ = run_layers(TOKENS[row, : length - 1], network)
        each += list(-log_softmax(top @ table.T)[np.arange(length - 1), TOKENS[row, 1:length]])
    assert float(CausalLm(network)({"tokens": TOKENS})["loss"]) == pytest.approx(np.mean(each), abs=1e-5)


def test_awd_loss_matches_the_paper():
    """Term by term, from the states before and after dropout."""
    network = encoder("awd_lstm")
    network.dropout = 0.4
    try:
        values = awd_lm.AwdLm(network)({"tokens": TOKENS}, seed=SEED)
        raw, dropped = (np.asarray(x, np.float64) for x in network.outputs(tf.constant(TOKENS), SEED))
        plain = awd_lm.AwdLm(network)({"tokens": TOKENS})
    finally:
        network.dropout = 0.0
    places = [(0, t) for t in range(4)] + [(1, t) for t in range(2)]
    table = np.asarray(network.token_embedding, np.float64)
    nll = [-log_softmax(dropped[b, t][None] @ table.T)[0, TOKENS[b, t + 1]] for b, t in places]
    activation_term = np.mean([np.mean(dropped[p] ** 2) for p in places])
    temporal_term = np.mean([np.mean((raw[b, t] - raw[b, t + 1]) ** 2) for b, t in places])
    assert activation_term > 0 and temporal_term > 0
    assert float(values["nll"]) == pytest.approx(np.mean(nll), abs=1e-5)
    assert float(values["loss"]) == pytest.approx(np.mean(nll) + 2 * activation_term + temporal_term, abs=1e-5)
    assert float(plain["loss"]) == float(plain["nll"])


def test_awd_dropout_has_the_rates_and_masks_of_the_paper(monkeypatch):
    """Words are dropped at all their positions, entries of U once per batch, and entries of states for all steps of a
    row, each at its own rate."""
    network, wide = encoder("awd_lstm"), 400
    network.dropout = 0.4
    try:
        kinds = ("weights", "embedding", "input", "hidden", "output")
        assert [network.drop(what, None, 0).rate for what in kinds] == pytest.approx([0.5, 0.05, 0.4, 0.3, 0.4])
        mask = np.asarray(locked_dropout(tf.ones([7, 3, wide]), network.drop("hidden", SEED, 1), axis=0))
        assert (mask == mask[:1]).all() and not (mask[0, 0] == mask[0, 1]).all()
        assert (mask == 0).mean() == pytest.approx(0.3, abs=0.05)
        seen, call = [], Lstm.call
        monkeypatch.setattr(
            Lstm, "call", lambda layer, x, drop: (seen.append((layer, drop)), call(layer, x, drop=drop))[1]
        )
        network.run(tf.constant([[40, 40], [41, 40]]), SEED, None)
    finally:
        network.dropout = 0.0
    assert [layer for layer, _ in seen] == network.stack.members
    for index, (layer, drop) in enumerate(seen):
        recurrent = drop(layer.recurrent.whole())
        expected = dropout(layer.recurrent.kernel.value, 0.5, SEED, 100 + index)
        assert np.array_equal(recurrent, expected) and (np.asarray(recurrent) == 0).mean() > 0.3


def test_embedding_dropout_drops_all_occurrences_of_a_word():
    network = encoder("awd_lstm", embedding_rate=1.0, input_rate=0.0)
    network.dropout = 0.5
    try:
        ids = np.tile(np.arange(5, 50), (2, 2)).T  # each word four times
        words = np.asarray(network.run(tf.constant(ids), SEED, None)[0][0])
    finally:
        network.dropout = 0.0
    is_dropped = (words == 0).all(axis=2)
    assert (is_dropped == is_dropped[:45, :1].repeat(2, 1)[np.arange(90) % 45]).all() and 0.2 < is_dropped.mean() < 0.8
    table = np.asarray(network.token_embedding)
    assert np.allclose(words[~is_dropped], 2 * table[ids[~is_dropped]])


def test_qrnn_matches_the_paper():
    """Step by step from the equations, with window 2 in the first layer and 1 in the second."""
    network = encoder("qrnn")
    encoding = network({"tokens": TOKENS})
    for row, length in enumerate((5, 3)):
        x = np.asarray(network.token_embedding, np.float64)[TOKENS[row, :length]]
        for index, layer in enumerate(network.stack):
            gates, c, result = layer.gates, 0.0, []
            kernel, bias = np.asarray(gates.kernel, np.float64), np.asarray(gates.bias)
            for t in range(length):
                before = x[t - 1] if t else np.zeros_like(x[0])
                z, f, o = np.split((x[t] if index else np.concatenate([before, x[t]])) @ kernel + bias, 3)
                c = sigmoid(f) * c + (1 - sigmoid(f)) * np.tanh(z)
                result.append(sigmoid(o) * c)
            x = np.array(result)
        assert np.allclose(encoding.tokens[row, :length], x, atol=1e-5)
        assert np.allclose(encoding.pooled[row], x[-1], atol=1e-5)


@pytest.mark.reference
def test_awd_matches_torchs_lstm_with_dropped_weights():
    """torch's own LSTM, layer by layer, with the recurrent matrix after our dropout mask."""
    torch = pytest.importorskip("torch")
    network = encoder("awd_lstm")
    network.dropout = 0.4
    try:
        x = np.random.default_rng(0).normal(size=(9, 2, 6)).astype(np.float32)
        for index, layer in enumerate(network.stack):
            drop = Drop(0.5, SEED, 100 + index)
            u = np.asarray(dropout(layer.recurrent.kernel.value, 0.5, SEED, 100 + index))
            got, _ = layer(tf.constant(x), drop=drop)
            peer = torch.nn.LSTM(x.shape[-1], len(u))
            with torch.no_grad():
                order = [1, 2, 0, 3]  # torch has i, f, g, o
                for target, array in zip(
                    ("weight_ih_l0", "bias_ih_l0", "weight_hh_l0"), (*kernels(layer)[:2], u), strict=True
                ):
                    parts = np.split(np.asarray(array), 4, axis=-1)
                    value = np.concatenate([parts[i] for i in order], axis=-1)
                    getattr(peer, target).copy_(torch.from_numpy(np.ascontiguousarray(value.T)))
                peer.bias_hh_l0.zero_()
                expected, _ = peer(torch.tensor(x))
            assert np.allclose(got, expected.numpy(), atol=2e-5)
            x = np.asarray(got)
    finally:
        network.dropout = 0.0


@pytest.mark.slow
@pytest.mark.parametrize("name", ("lm_lstm", "ulmfit"))
def test_models_learn_a_cyclic_language(name):
    """Each token determines the next one."""
    keras.utils.set_random_seed(0)
    built = models.load(name).build(Size(layers=1 + (name == "ulmfit"), width=32, inner=32), Vocabulary(size=50))
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

    for number in range(120):
        step({k: tf.constant(v) for k, v in make(number, 0).items()})
    assert float(built.loss(make(0, 1))["loss"]) < 0.5


@pytest.mark.parametrize("model", ["ulmfit", "multifit"])
def test_output_layer_of_an_awd_lstm_has_a_bias(model):
    """As in the authors' code and in fastai's: p(x) is the softmax of E h + b, and b is trained."""
    network = models.load(model).build(Size(layers=2, width=8, inner=12, length=32), Vocabulary(size=50))
    tokens = np.array([[2, 40, 41, 42]], np.int32)
    before = network.log_likelihood({"tokens": tokens}).numpy()
    bias = np.random.default_rng(0).normal(size=50).astype(np.float32)
    network.loss.output_bias.assign(bias)
    hidden = network.encoder({"tokens": tokens}).tokens.numpy()[0, :-1]
    logits = hidden @ network.encoder.token_embedding.numpy().T + bias
    expected = (logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True))[range(3), tokens[0, 1:]]
    after = network.log_likelihood({"tokens": tokens}).numpy()
    np.testing.assert_allclose(after[0, 1:], expected, atol=1e-5)
    assert np.abs(after - before).max() > 0.1
    assert network.loss.output_bias in network.loss.trainable_variables
