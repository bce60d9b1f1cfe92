"""Tests of masked and permuted language modelling against Song et al. (2020), sections 2.2 and 2.3. Each prediction is
compared with a plain encoder that reads exactly what the prediction may see."""

import math

import numpy as np
import pytest

from ptmbench.models.card import Size
from ptmbench.models.layers.embeddings import distance_buckets
from ptmbench.models.objectives import masked_permuted
from ptmbench.models.permuted_language_modeling import mpnet
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary

VOCABULARY = Vocabulary(size=90)
FIRST, MASK = VOCABULARY.first, VOCABULARY.mask
SIZE = Size(layers=2, width=16, heads=2, inner=24, length=160)
T, S = 12, 4


@pytest.fixture(scope="module")
def built():
    """A network with random weights that are large enough for every term to matter."""
    network = mpnet.build(SIZE, VOCABULARY)
    rng = np.random.default_rng(0)
    for variable in network.loss.variables:
        start = 1.0 if variable.path.endswith("norm/scale") else 0.0
        variable.assign(start + 0.2 * rng.normal(size=variable.shape))
    return network


def drawn(seed: int) -> dict[str, np.ndarray]:
    """One row whose last two positions are padding. S hidden tokens are in random order; the second one is shown
    unchanged."""
    rng = np.random.default_rng(seed)
    original = rng.integers(FIRST, VOCABULARY.size, (1, T)).astype(np.int32)
    original[0, 10:] = 0
    positions = rng.permutation(np.arange(1, 10))[:S].astype(np.int32)
    tokens = original.copy()
    tokens[0, positions] = MASK
    tokens[0, positions[1]] = original[0, positions[1]]
    return {
        "tokens": tokens,
        "masked_positions": positions[None],
        "masked_labels": original[:, positions],
        "masked_weights": np.ones((1, S), np.float32),
    }


def norm(x, scale, bias):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale + bias


def gelu(x):
    return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2


def by_hand(built, batch: dict[str, np.ndarray]) -> np.ndarray:
    """Returns the queries [S, D] of a network with three kinds of nodes. Each node has a list of the nodes that it may
    see.

    A node is (token, place). The nodes are the row as shown, then the content of each hidden token, then its query.
    """
    w = {v.path.removeprefix("encoder/"): np.asarray(v, np.float64) for v in built.encoder.variables}
    shown, positions, labels = batch["tokens"][0], batch["masked_positions"][0], batch["masked_labels"][0]
    H, K = SIZE.heads, SIZE.width // SIZE.heads
    row = [(int(shown[j]), j) for j in range(T) if shown[j]]
    nodes = row + [(int(labels[s]), int(positions[s])) for s in range(S)]
    nodes += [(int(shown[positions[s]]), int(positions[s])) for s in range(S)]
    sees = [list(range(len(row))) for _ in row]
    for itself in (True, False):  # contents, then queries
        for s in range(S):
            known = [t for t in range(S) if t < s or (itself and t == s)]
            masks = [j for j, (_, place) in enumerate(row) if place not in positions[known]]
            sees.append(masks + [len(row) + t for t in known])
    assert all(len(nodes_seen) == len(row) for nodes_seen in sees)  # every position is visible exactly once

    buckets = distance_buckets(16)
    x = norm(
        np.array(
            [w["embeddings/tokens/table"][token] + w["embeddings/positions/table"][place] for token, place in nodes]
        ),
        w["embeddings/norm/scale"],
        w["embeddings/norm/bias"],
    )
    for index in range(SIZE.layers):
        place = f"stack/layer_{index}/"
        p = {name.removeprefix(place): value for name, value in w.items() if name.startswith(place)}
        q, k, v = np.split(x @ p["attention/query_key_value/kernel"] + p["attention/query_key_value/bias"], 3, axis=1)
        context = np.zeros_like(x)
        for i, (_, place) in enumerate(nodes):
            for h in range(H):
                part, scores = slice(h * K, (h + 1) * K), []
                for j in sees[i]:
                    ahead = nodes[j][1] - place
                    bucket = buckets[min(abs(ahead), 128)] + (16 if ahead > 0 else 0)
                    scores.append(q[i, part] @ k[j, part] / math.sqrt(K) + w["distances/table"][bucket, h])
                weights = np.exp(scores) / np.exp(scores).sum()
                context[i, part] = weights @ v[sees[i]][:, part]
        update = context @ p["attention/projection/kernel"] + p["attention/projection/bias"]
        x = norm(x + update, p["attention_norm/scale"], p["attention_norm/bias"])
        inner = gelu(x @ p["feed_forward/inner/kernel"] + p["feed_forward/inner/bias"])
        inner = inner @ p["feed_forward/outer/kernel"] + p["feed_forward/outer/bias"]
        x = norm(x + inner, p["norm/scale"], p["norm/bias"])
    return x[-S:]


@pytest.mark.parametrize("seed", range(4))
def test_queries_by_hand(built, seed):
    batch = drawn(seed)
    assert np.allclose(built.encoder.predict(batch)[0], by_hand(built, batch), atol=2e-5)


def test_loss_by_hand(built):
    batch = drawn(5)
    w = {v.path.removeprefix("mlm/"): np.asarray(v, np.float64) for v in built.loss.mlm.variables}
    table = np.asarray(built.encoder.token_embedding, np.float64)
    h = by_hand(built, batch) @ w["transform/kernel"] + w["transform/bias"]
    x = norm(gelu(h), w["norm/scale"], w["norm/bias"])
    logits = x @ table.T + w["output_bias"]
    nll = [math.log(np.exp(z).sum()) - z[label] for z, label in zip(logits, batch["masked_labels"][0], strict=True)]
    assert float(built.loss(batch)["loss"]) == pytest.approx(np.mean(nll), abs=2e-5)
    batch["masked_weights"][0, 3] = 0.0
    assert float(built.loss(batch)["loss"]) == pytest.approx(np.mean(nll[:3]), abs=2e-5)


@pytest.mark.parametrize("seed", range(6))
def test_queries_do_not_see_their_own_token_or_later_ones(built, seed):
    """One row for each change: the content of each hidden token, and the shown token at each position."""
    batch = drawn(seed)
    rows = {name: np.repeat(value, 1 + S + 10, axis=0) for name, value in batch.items()}
    for s in range(S):
        rows["masked_labels"][1 + s, s] = FIRST + (batch["masked_labels"][0, s] + 1 - FIRST) % 40
    for place in range(10):
        old = batch["tokens"][0, place]
        rows["tokens"][1 + S + place, place] = FIRST if old < FIRST else FIRST + (old + 1 - FIRST) % 40
    queries = np.asarray(built.encoder.predict(rows))
    change = np.abs(queries[1:] - queries[:1]).max(axis=2)  # [S + 10, S]
    positions = batch["masked_positions"][0].tolist()
    for changed in range(S):
        for s in range(S):
            assert change[changed, s] > 1e-5 if changed < s else change[changed, s] < 1e-6, (changed, s)
    # Every shown token affects every query. If the position of a query shows the true token, this token affects it
    # through the other tokens of the row.
    assert change[S:].min() > 1e-6
    assert change[[S + positions[s] for s in range(S)], range(S)].min() > 1e-4  # above all its own mask


def test_unused_slots_do_not_change_the_output(built):
    batch = drawn(1)
    short = {name: value[:, :2] if name.startswith("masked") else value for name, value in batch.items()}
    wide = batch | {name: batch[name].copy() for name in masked_permuted.SLOTS}
    for name in masked_permuted.SLOTS:
        wide[name][:, 2:] = 0
    assert np.allclose(built.encoder.predict(short), built.encoder.predict(wide)[:, :2], atol=1e-5)
    assert float(built.loss(short)["loss"]) == pytest.approx(float(built.loss(wide)["loss"]), abs=1e-5)


def test_batches_hide_whole_words_in_random_order():
    vocabulary, rng = Vocabulary(size=4000), np.random.default_rng(0)
    ends = np.arange(0, 3601, 12)
    heads = rng.random(3600) < 0.6
    heads[ends[:-1]] = True
    ids = np.arange(vocabulary.first, vocabulary.first + 3600, dtype=np.int32)
    corpus = Corpus(ids=ids, sentences=ends, documents=np.arange(0, 301, 10), heads=heads)
    make, rising, shown = masked_permuted.batches(corpus, vocabulary, 16, 64), [], []
    for step in range(12):
        batch = make(step, 1)
        assert all(np.array_equal(value, make(step, 1)[name]) for name, value in batch.items())
        assert batch["masked_positions"].shape == (16, 10)
        for row in range(16):
            used = batch["masked_weights"][row] > 0
            assert (np.diff(used.astype(int)) <= 0).all()  # unused slots are last
            positions, labels = batch["masked_positions"][row, used], batch["masked_labels"][row, used]
            original = batch["tokens"][row].copy()
            original[positions] = labels
            hidden = np.isin(np.arange(64), positions)
            text = original >= vocabulary.first
            assert 0 < used.sum() <= round(0.15 * text.sum())
            assert not hidden[~text].any()
            inside = np.zeros(64, bool)
            inside[1:] = text[1:] & text[:-1] & ~heads[np.maximum(original[1:] - vocabulary.first, 0)]
            assert np.array_equal(hidden[1:][inside[1:]], hidden[:-1][inside[1:]])  # words are hidden as a whole
            rising.append((np.diff(positions) > 0).mean())
            shown.append(np.stack([batch["tokens"][row, positions], labels]))
    assert np.mean(rising) == pytest.approx(0.5, abs=0.06)
    seen, labels = np.concatenate(shown, axis=1)
    assert (seen == vocabulary.mask).mean() == pytest.approx(0.8, abs=0.04)
    assert (seen == labels).mean() == pytest.approx(0.1, abs=0.03)
