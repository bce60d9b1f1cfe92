"""Tests of language modelling with segment recurrence and relative positions: against the equations of Dai et al.
(2019), section 3.3, with the vector of every distance computed explicitly, and of what the memory may affect."""

import math

import numpy as np
import pytest
import tensorflow as tf

from ptmbench.models.card import Size
from ptmbench.models.language_modeling import transformer_xl
from ptmbench.models.layers.operations import relative_shift, waves
from ptmbench.models.objectives import sampling, segment_lm
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary

VOCABULARY = Vocabulary(size=90)
SIZE = Size(layers=3, width=16, heads=2, inner=24, length=40)
T, M = 7, 5


@pytest.fixture(scope="module")
def built():
    """A network with random weights that are large enough for every term to matter."""
    network = transformer_xl.build(SIZE, VOCABULARY)
    rng = np.random.default_rng(0)
    for variable in network.loss.variables:
        start = 1.0 if variable.path.endswith("norm/scale") else 0.0
        variable.assign(start + 0.3 * rng.normal(size=variable.shape))
    return network


def ids(rows: int, length: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(VOCABULARY.first, VOCABULARY.size, (rows, length)).astype(np.int32)


def wave(distance: int, width: int) -> np.ndarray:
    """R of one distance: the sines of all frequencies, then the cosines."""
    frequency = [10_000 ** (-2 * i / width) for i in range(width // 2)]
    return np.array([math.sin(distance * f) for f in frequency] + [math.cos(distance * f) for f in frequency])


def by_hand(built, tokens: np.ndarray, memory: np.ndarray | None = None) -> list[np.ndarray]:
    """Returns the layers [T, D] of one row, computed for one query, one head and one key at a time."""
    w = {v.path.removeprefix("encoder/"): np.asarray(v, np.float64) for v in built.encoder.variables}
    D, H = SIZE.width, SIZE.heads
    K = D // H

    def norm(x, scale, bias):
        return (x - x.mean()) / np.sqrt(x.var() + 1e-5) * scale + bias

    old = [None] * SIZE.layers if memory is None else by_hand(built, memory)
    x = w["embeddings/tokens/table"][tokens] * math.sqrt(D)
    layers = [x]
    for index in range(SIZE.layers):
        p = {name.removeprefix(f"stack/layer_{index}/"): value for name, value in w.items()}
        whole = x if old[index] is None else np.concatenate([old[index], x])
        before, new = len(whole) - len(x), []
        for i, own in enumerate(x):
            context = np.zeros(D)
            for h in range(H):
                part = slice(h * K, (h + 1) * K)
                q = (own @ p["attention/query/kernel"])[part]
                u, v = w["content_bias"][h, 0], w["position_bias"][h, 0]
                scores, values = [], []
                for j in range(before + i + 1):  # no key after the query
                    key, value = np.split(whole[j] @ p["attention/key_value/kernel"], 2)
                    place = (wave(before + i - j, D) @ p["attention/distance/kernel"])[part]
                    terms = q @ key[part], q @ place, u @ key[part], v @ place  # (a), (b), (c), (d) of the paper
                    scores.append(sum(terms) / math.sqrt(K))
                    values.append(value[part])
                weights = np.exp(scores) / np.exp(scores).sum()
                context[part] = weights @ np.array(values)
            update = context @ p["attention/projection/kernel"]
            a = norm(own + update, p["attention_norm/scale"], p["attention_norm/bias"])
            f = np.maximum(a @ p["feed_forward/inner/kernel"] + p["feed_forward/inner/bias"], 0)
            f = f @ p["feed_forward/outer/kernel"] + p["feed_forward/outer/bias"]
            new.append(norm(a + f, p["norm/scale"], p["norm/bias"]))
        x = np.array(new)
        layers.append(x)
    return layers


def test_layers_match_the_equations_term_by_term(built):
    tokens, memory = ids(2, T), ids(2, M, 2)
    alone, with_memory = built.encoder.hidden(tokens), built.encoder.hidden(tokens, memory=memory)
    for row in range(2):
        for ours, old in ((alone, None), (with_memory, memory[row])):
            for x, expected in zip(ours, by_hand(built, tokens[row], old), strict=True):
                assert np.allclose(np.reshape(x, (2, T, -1))[row], expected, atol=2e-5)


@pytest.mark.parametrize("ahead", [1, T])
def test_relative_shift_aligns_each_distance_with_its_key(ahead):
    keys = M + T
    distance = np.arange(keys, keys - (keys + ahead), -1, dtype=np.float32)  # U, U - 1, ... down to 1 - ahead
    shifted = relative_shift(tf.constant(np.tile(distance, (2, 3, T, 1))), keys).numpy()
    for i in range(T):
        for j in range(keys if ahead == T else M + i + 1):
            assert (shifted[:, :, i, j] == M + i - j).all()


def test_waves_are_sines_and_cosines():
    assert np.allclose(waves(tf.constant([3, 0, -2]), 8), [wave(d, 8) for d in (3, 0, -2)], atol=1e-6)


def test_memory_acts_as_the_preceding_text(built):
    """A segment with its memory has the same likelihoods as at the end of the whole text."""
    text = ids(2, M + T)
    whole = built.log_likelihood({"tokens": text})
    segmented = built.log_likelihood({"tokens": text[:, M:], "memory": text[:, :M]})
    assert np.allclose(whole[:, M + 1 :], segmented[:, 1:], atol=1e-5)


def test_tokens_attend_to_themselves_and_earlier_ones_of_their_document(built):
    rng, tokens, memory = np.random.default_rng(3), ids(1, T), ids(1, M, 2)
    documents = np.array([[0] * 3 + [1] * (M + 4 - 3) + [2] * (T - 4)], np.int32)
    before = np.asarray(built.encoder.hidden(tokens, memory=memory, documents=documents)[-1])
    for _ in range(8):
        text = np.concatenate([memory, tokens], axis=1)
        place = int(rng.integers(M + T))
        text[0, place] = VOCABULARY.first + (text[0, place] + 1 - VOCABULARY.first) % 40
        after = np.asarray(built.encoder.hidden(text[:, M:], memory=text[:, :M], documents=documents)[-1])
        change = np.abs(after - before).max(axis=1)
        for i in range(T):
            sees = documents[0, place] == documents[0, M + i] and place <= M + i
            assert change[i] > 1e-4 if sees else change[i] < 1e-6


def test_no_gradient_reaches_the_memory(built):
    table = built.encoder.token_embedding.value
    tokens, memory = ids(1, T), ids(1, M, 2)
    memory[:] = VOCABULARY.first + 50
    tokens = np.minimum(tokens, VOCABULARY.first + 49)
    with tf.GradientTape() as tape:
        x = tf.reduce_sum(built.encoder.hidden(tokens, memory=memory)[-1] ** 3)
    gradient = tf.convert_to_tensor(tape.gradient(x, table)).numpy()
    assert np.abs(gradient[VOCABULARY.first + 50]).max() == 0
    assert np.abs(gradient[tokens[0]]).min(axis=0).max() > 0


def test_loss_by_hand(built):
    tokens, memory = ids(2, T), ids(2, M, 2)
    tokens[1, 5:] = 0
    bias, table = np.asarray(built.loss.bias, np.float64), np.asarray(built.encoder.token_embedding, np.float64)
    nll = []
    for row, size in enumerate((T, 5)):
        logits = by_hand(built, tokens[row, :size], memory[row])[-1] @ table.T + bias
        log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        nll += [-log_p[t, tokens[row, t + 1]] for t in range(size - 1)]
    assert float(built.loss({"tokens": tokens, "memory": memory})["loss"]) == pytest.approx(np.mean(nll), abs=2e-5)


def test_decoding_continues_where_each_source_ends(built):
    tokens, targets = ids(2, 6), ids(2, 4, 2)
    tokens[1, 4:] = 0
    logits = np.asarray(built.decode({"tokens": tokens, "targets": targets}), np.float64)
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    for row, size in enumerate((6, 4)):
        joined = np.concatenate([tokens[row, :size], targets[row]])[None]
        scores = np.asarray(built.log_likelihood({"tokens": joined}))[0, size + 1 :]
        assert np.allclose(np.take_along_axis(log_p[row, :-1], targets[row, 1:, None], axis=1)[:, 0], scores, atol=2e-5)


def corpus() -> Corpus:
    """12 documents of 30 tokens that count upwards."""
    ends = np.arange(0, 361, 10)
    return Corpus(
        ids=np.arange(37, 397, dtype=np.int32), sentences=ends, documents=ends[:13] // 10 * 3, heads=np.ones(360, bool)
    )


def test_memory_of_a_row_is_the_text_before_it():
    vocabulary = Vocabulary(size=500)
    make, text = segment_lm.batches(corpus(), vocabulary, 4, 16), sampling.stream(corpus(), vocabulary)
    place = {int(token): where for where, token in enumerate(text) if token >= vocabulary.first}
    for step in range(12):
        batch = make(step, 1)
        assert all(np.array_equal(value, make(step, 1)[name]) for name, value in batch.items())
        both = np.concatenate([batch["memory"], batch["tokens"]], axis=1)
        assert both.shape == (4, 32) == batch["documents"].shape
        assert np.array_equal(batch["documents"], np.cumsum(both == vocabulary.cls, axis=1))
        for row in both:
            first = int(np.argmax(row >= vocabulary.first))
            begin = place[int(row[first])] - first
            assert np.array_equal(row, np.take(text, begin + np.arange(32), mode="wrap"))
