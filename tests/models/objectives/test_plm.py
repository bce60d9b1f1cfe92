"""Tests of permuted language modelling against Yang et al. (2019), sections 2.2 to 2.5: which tokens are predicted, in
which order, the attention masks, and the loss."""

import math

import numpy as np
import pytest

from ptmbench.models.card import Size
from ptmbench.models.objectives import plm
from ptmbench.models.permuted_language_modeling import xlnet
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary

VOCABULARY = Vocabulary(size=90)
FIRST = VOCABULARY.first
SIZE = Size(layers=2, width=16, heads=2, inner=24, length=40)
T, M, S = 12, 5, 4


@pytest.fixture(scope="module")
def built():
    """A network with random weights that are large enough for every term to matter."""
    network = xlnet.build(SIZE, VOCABULARY)
    rng = np.random.default_rng(0)
    for variable in network.loss.variables:
        start = 1.0 if variable.path.endswith("norm/scale") else 0.0
        variable.assign(start + 0.2 * rng.normal(size=variable.shape))
    return network


def drawn(seed: int) -> dict[str, np.ndarray]:
    """One row of two segments, with S targets at random positions in random order, and a memory with two empty
    positions."""
    rng = np.random.default_rng(seed)
    tokens, memory = (rng.integers(FIRST, VOCABULARY.size, (1, size)).astype(np.int32) for size in (T, M))
    positions = rng.permutation(np.arange(1, T))[:S].astype(np.int32)
    ranks = np.zeros((1, T), np.int32)
    ranks[0, positions] = np.arange(1, S + 1)
    memory[0, :2] = 0
    return {
        "tokens": tokens,
        "segments": (np.arange(T) >= 7).astype(np.int32)[None],
        "ranks": ranks,
        "memory": memory,
        "predicted_positions": positions[None],
        "predicted_labels": tokens[:, positions],
        "predicted_weights": np.ones((1, S), np.float32),
    }


def replace_each_token(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the row unchanged, then one row for each position of the text and of the memory, with another token
    there."""
    rows = {name: np.repeat(value, 1 + T + M, axis=0) for name, value in batch.items()}
    for name, begin, size in (("tokens", 1, T), ("memory", 1 + T, M)):
        row = np.arange(begin, begin + size)
        old = rows[name][row, row - begin]
        rows[name][row, row - begin] = FIRST + (old + 1 - FIRST) % (VOCABULARY.size - FIRST)
    return rows


# targets


def test_one_token_in_six_is_predicted_in_spans():
    count = np.repeat([120, 119, 63, 30, 7, 3, 1], 300)
    chosen = plm.spans(count, 128, np.random.default_rng(0))
    assert (chosen.sum(axis=1) == np.maximum(np.rint(count / 6), 1)).all()
    assert not chosen[np.arange(128) >= count[:, None]].any()
    full = chosen[:300]
    edges = np.diff(np.pad(full.astype(int), [(0, 0), (1, 1)]), axis=1)
    sizes = np.nonzero(edges == -1)[1] - np.nonzero(edges == 1)[1]
    # Spans of 1 ... 5 that may touch: 20 targets in about 20 / 3 spans.
    assert sizes.max() <= 10
    assert (sizes <= 5).mean() > 0.9
    assert len(sizes) / 300 == pytest.approx(20 / 3, abs=0.6)
    # A span may be anywhere in its window, so no position is rare. 300 / 6 = 50 targets are expected at each; the
    # bounds are more than 5 standard deviations of a binomial away.
    assert full[:, 5:110].sum(axis=0).min() > 15
    assert full[:, 5:110].sum(axis=0).max() < 100


def test_only_targets_have_ranks():
    rng = np.random.default_rng(1)
    tokens = rng.integers(FIRST, VOCABULARY.size, (400, 64)).astype(np.int32)
    tokens[:, 0], tokens[:, 20], tokens[:, -1] = VOCABULARY.cls, VOCABULARY.sep, VOCABULARY.sep
    tokens[::2, 50:] = 0
    ordered = plm.add_prediction_order({"tokens": tokens.copy()}, rng, VOCABULARY)
    assert np.array_equal(ordered["tokens"], tokens)  # nothing is masked
    assert ordered["predicted_positions"].shape == (400, 11)
    firsts = []
    for row in range(400):
        used = ordered["predicted_weights"][row] > 0
        positions = ordered["predicted_positions"][row, used]
        assert used.sum() == round((tokens[row] >= FIRST).sum() / 6)
        assert (np.diff(positions) > 0).all()
        assert (tokens[row, positions] >= FIRST).all()
        assert np.array_equal(ordered["predicted_labels"][row, used], tokens[row, positions])
        assert np.array_equal(np.flatnonzero(ordered["ranks"][row]), positions)
        assert np.array_equal(np.sort(ordered["ranks"][row, positions]), np.arange(1, used.sum() + 1))
        firsts.append(int(np.argmin(ordered["ranks"][row, positions])) / (used.sum() - 1))
    assert np.mean(firsts) == pytest.approx(0.5, abs=0.08)  # the order does not go from left to right


def corpus() -> Corpus:
    """30 documents of 8 sentences of 9 tokens. An id tells the position of its token."""
    ends = np.arange(0, 2161, 9)
    ids = np.arange(FIRST, FIRST + 2160, dtype=np.int32)
    return Corpus(ids=ids, sentences=ends, documents=np.arange(0, 241, 8), heads=np.ones(2160, bool))


def test_memory_is_the_text_before_the_row():
    vocabulary = Vocabulary(size=2200)
    make, whole = plm.batches(corpus(), vocabulary, 8, 32), 0
    for step in range(20):
        batch = make(step, 1)
        assert all(np.array_equal(value, make(step, 1)[name]) for name, value in batch.items())
        assert batch["memory"].shape == (8, 16)
        for tokens, memory in zip(batch["tokens"], batch["memory"], strict=True):
            begin = int(tokens[1]) - FIRST
            inside = begin % 72  # of its document
            expected = np.where(np.arange(-16, 0) + inside >= 0, FIRST + begin + np.arange(-16, 0), 0)
            assert np.array_equal(memory, expected)
            whole += inside >= 16
    assert whole > 60


# attention


@pytest.mark.parametrize("seed", range(6))
def test_streams_attend_only_to_what_they_may_see(built, seed):
    batch = drawn(seed)
    ranks = batch["ranks"][0]
    rows = replace_each_token(batch)
    contents, queries = (np.reshape(x[-1], (1 + T + M, -1, SIZE.width)) for x in built.encoder.predict(rows))
    content_moved, query_moved = (np.abs(x[1:] - x[:1]).max(axis=2) for x in (contents, queries))
    for place in range(T):
        for i in range(T):  # content stream: the context, earlier targets, and itself
            sees = ranks[place] == 0 or ranks[place] < ranks[i] or place == i
            assert content_moved[place, i] > 1e-5 if sees else content_moved[place, i] < 1e-6, (place, i)
        for s, position in enumerate(batch["predicted_positions"][0]):  # query stream: without itself
            sees = ranks[place] == 0 or ranks[place] < ranks[position]
            assert query_moved[place, s] > 1e-5 if sees else query_moved[place, s] < 1e-6, (place, position)
    for change in (content_moved, query_moved):  # all positions attend to the memory
        assert change[T + 2 :].min() > 1e-5


def test_empty_positions_of_the_memory_are_masked(built):
    batch = drawn(0)
    shorter = batch | {"memory": batch["memory"][:, 2:]}
    for ours, other in zip(built.encoder.predict(batch), built.encoder.predict(shorter), strict=True):
        assert np.allclose(ours[-1], other[-1], atol=1e-5)


def test_arrangement_of_the_slots_does_not_matter(built):
    batch = drawn(0)
    reversed_slots = {name: value[:, ::-1] if name.startswith("predicted") else value for name, value in batch.items()}
    assert np.allclose(built.loss.logits(batch), np.asarray(built.loss.logits(reversed_slots))[::-1], atol=1e-5)


def test_left_to_right_order_gives_a_language_model(built):
    """With every token a target, query t depends only on the tokens before it, so the rest can be cut off."""
    batch = drawn(0) | {"ranks": np.arange(1, T + 1, dtype=np.int32)[None]}
    for size in (4, 8):
        cut = {name: batch[name][:, :size] for name in ("tokens", "segments", "ranks")}
        query = {"predicted_positions": np.array([[size - 1]], np.int32), "memory": batch["memory"]}
        ours, other = built.encoder.predict(batch | query)[1][-1], built.encoder.predict(cut | query)[1][-1]
        assert np.allclose(ours, other, atol=1e-5)


def test_no_gradient_reaches_the_memory(built):
    import tensorflow as tf

    batch, table = drawn(0), built.encoder.token_embedding.value
    batch["memory"][0, 2:] = FIRST + 50
    batch["tokens"] = np.minimum(batch["tokens"], FIRST + 49)
    with tf.GradientTape() as tape:
        x = tf.reduce_sum(built.encoder.predict(batch)[1][-1] ** 3)
    gradient = tf.convert_to_tensor(tape.gradient(x, table)).numpy()
    assert np.abs(gradient[FIRST + 50]).max() == 0
    seen = batch["tokens"][batch["ranks"] < S]  # all but the last one of the order
    assert np.abs(gradient[seen]).max(axis=1).min() > 0


# the loss


def test_plm_loss_by_hand(built):
    batch = drawn(0)
    batch["predicted_weights"][0, 2] = 0.0
    table, bias = np.asarray(built.encoder.token_embedding, np.float64), np.asarray(built.loss.bias, np.float64)
    logits = np.asarray(built.encoder.predict(batch)[1][-1], np.float64) @ table.T + bias  # [S, V]
    nll = [math.log(np.exp(logits[s]).sum()) - logits[s, batch["predicted_labels"][0, s]] for s in (0, 1, 3)]
    values = built.loss(batch)
    assert float(values["loss"]) == pytest.approx(np.mean(nll), abs=1e-5)
    hits = [logits[s].argmax() == batch["predicted_labels"][0, s] for s in (0, 1, 3)]
    assert float(values["plm_accuracy"]) == pytest.approx(np.mean(hits))


def test_losses_of_parts_of_a_batch_add_up_to_the_whole(built):
    rows = [drawn(seed) for seed in range(3)]
    rows[1]["predicted_weights"][0, 1:] = 0.0
    whole = {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}
    totals = built.loss.totals(whole)
    parts = [built.loss(row, totals=totals) for row in rows]
    for name, value in built.loss(whole).items():
        assert float(value) == pytest.approx(sum(float(part[name]) for part in parts), abs=1e-5)
