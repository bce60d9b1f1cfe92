"""Tests of skip-thought: rows by brute force, and the GRU and the loss in NumPy, sentence by sentence."""

import numpy as np
import pytest
import tensorflow as tf

from ptmbench import models
from ptmbench.models.card import Size
from ptmbench.models.layers.recurrent import states_of_gru
from ptmbench.models.objectives import skip_thought
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary

VOCABULARY = Vocabulary(size=50)
WIDTH = 4
LENGTHS, DOCUMENTS = [3, 2, 4, 3, 2], [0, 3, 5]


def corpus():
    ids = np.random.default_rng(0).integers(37, 50, sum(LENGTHS)).astype(np.int32)
    return Corpus(ids, np.concatenate([[0], np.cumsum(LENGTHS)]), np.array(DOCUMENTS), np.ones(len(ids), bool))


def build_loss():
    loss = models.load("skip_thought").build(Size(layers=1, width=WIDTH, length=40), VOCABULARY).loss
    loss.encoder.dropout, rng = 0.0, np.random.default_rng(1)
    for weight in loss.variables:
        weight.assign(rng.normal(size=weight.shape))
    return loss


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def step(gru, h, x, c=None):
    """The paper's equations, gate by gate."""
    w, u, uc = (np.asarray(v, np.float64) for v in (gru.gates.kernel, gru.recurrent.kernel, gru.candidate.kernel))
    condition = np.zeros(3 * WIDTH) if c is None else c @ np.asarray(gru.condition.kernel, np.float64)
    part = {name: slice(WIDTH * i, WIDTH * (i + 1)) for i, name in enumerate(("r", "z", "new"))}
    r = sigmoid(x @ w[:, part["r"]] + h @ u[:, part["r"]] + condition[part["r"]])
    z = sigmoid(x @ w[:, part["z"]] + h @ u[:, part["z"]] + condition[part["z"]])
    new = np.tanh(x @ w[:, part["new"]] + (r * h) @ uc + condition[part["new"]])
    return (1 - z) * h + z * new


def encode_sentence(loss, words):
    h = np.zeros(WIDTH)
    for word in words:
        h = step(loss.encoder.gru, h, np.asarray(loss.encoder.token_embedding, np.float64)[word])
    return h


def test_small_updates_accumulate_in_bfloat16():
    """A nearly closed gate passes 1/1097 of the difference. If the state were rounded after each step, it would stay at
    1/4. The recurrence has a closed form: 1 - (1 - z)^T, times the candidate."""
    steps = 2000
    sums = np.zeros((steps, 1, 3), np.float32)
    sums[:, :, 1], sums[:, :, 2] = -7.0, 3.0
    fresh, present = tf.zeros([steps, 1, 1], tf.bool), tf.ones([steps, 1, 1], tf.bool)
    gates, candidate = (tf.zeros([1, width], tf.bfloat16) for width in (2, 1))
    states = states_of_gru(tf.constant(sums, tf.bfloat16), gates, candidate, fresh, present)
    assert states.dtype == tf.bfloat16
    expected = np.tanh(3.0) * (1 - (1 - sigmoid(-7.0)) ** steps)
    assert float(states[-1, 0, 0]) == pytest.approx(expected, rel=0.02)


def test_encoder_ignores_special_tokens():
    encoder = build_loss().encoder
    tokens = np.array([[2, 40, 41, 3, 1, 44, 3, 0, 0]], np.int32)  # [UNK] is a word
    result = encoder({"tokens": tokens})
    h, table = np.zeros(WIDTH), np.asarray(encoder.token_embedding, np.float64)
    for place, token in enumerate(tokens[0]):
        if token in (40, 41, 1, 44):
            h = step(encoder.gru, h, table[token])
        assert np.allclose(result.tokens[0, place], h, atol=1e-5)
    assert np.allclose(result.pooled[0], h, atol=1e-5)


def test_loss_predicts_the_neighbours_of_each_sentence():
    """Triples by hand: a row of three sentences of one document, and one of the next, which has no neighbour in the
    row."""
    loss = build_loss()
    sentences = [[40, 41, 42], [43, 44], [45, 46, 47, 48], [49, 37]]
    places = np.cumsum([0, 3, 2, 4, 2])
    batch = {"tokens": np.array([sum(sentences, [])], np.int32), "inputs": [], "before": [], "after": []}
    total, count = 0.0, 0
    table, output = (np.asarray(v, np.float64) for v in (loss.encoder.token_embedding, loss.logits.kernel))
    for i, words in enumerate(sentences):
        batch["inputs"] += [2, *words[:-1]]
        for side, other in (("before", i - 1), ("after", i + 1)):
            has_neighbour = 0 <= other < 3 and i < 3
            batch[side] += [places[other + 1] - 1 if has_neighbour else -1] * len(words)
            if not has_neighbour:
                continue
            h, c = np.zeros(WIDTH), encode_sentence(loss, sentences[other])
            for last, word in zip([2, *words[:-1]], words, strict=True):
                h = step(loss.decoders[side], h, table[last], c)
                total += np.log(np.exp(h @ output).sum()) - (h @ output)[word]
                count += 1
    batch = {name: np.array(value, np.int32).reshape(1, -1) for name, value in batch.items()}
    assert float(loss(batch)["loss"]) == pytest.approx(total / count, rel=1e-4)
    assert int(loss.totals(batch)["words"]) == count == 3 + 2 * 2 + 4


def test_rows_contain_the_ends_of_neighbouring_sentences():
    text = corpus()
    make = skip_thought.batches(text, VOCABULARY, 2, 8)
    owner = np.repeat(np.arange(5), LENGTHS)  # the sentence of each token
    for number in range(6):
        batch = make(number, 3)
        for tokens, inputs, before, after in zip(*batch.values(), strict=True):
            begins = [
                at for at in text.sentences[:-1]
                if np.array_equal(np.take(text.ids, range(at, at + 8), mode="wrap"), tokens)
            ]  # fmt: skip
            assert begins
            sentence = np.take(owner, range(begins[0], begins[0] + 8), mode="wrap")
            for place in range(8):
                first = place == 0 or sentence[place] != sentence[place - 1]
                assert inputs[place] == (2 if first else tokens[place - 1])
                for result, other in ((before, sentence[place] - 1), (after, sentence[place] + 1)):
                    near = [p for p in range(8) if sentence[p] == other and abs(p - place) < 8]
                    same = {sentence[place], other} <= {0, 1, 2} or {sentence[place], other} <= {3, 4}
                    near = [p for p in near if (p < place) == (other < sentence[place])]
                    assert result[place] == (near[-1] if near and same else -1)
