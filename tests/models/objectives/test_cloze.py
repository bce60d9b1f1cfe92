"""Tests of the cloze objective: a prediction does not depend on its own token; the two towers and the layer over them,
computed position by position; and the loss by hand."""

import math
from functools import cache

import keras
import numpy as np
import pytest
import tensorflow as tf

from ptmbench.models.card import Size
from ptmbench.models.masked_language_modeling import cloze
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary
from tests.models.weights import numbers

VOCABULARY = Vocabulary(size=90)
SIZE = Size(layers=2, width=16, heads=2, inner=24, length=20)
TOKENS = np.array([[2, 40, 41, 42, 43, 3, 2, 44, 45, 46]], np.int32)
DOCUMENTS = np.array([[1, 1, 1, 1, 1, 1, 2, 2, 2, 2]], np.int32)


@cache
def built() -> Pretrainable:
    """A small model with random weights everywhere, including norms and biases."""
    keras.utils.set_random_seed(1)
    model = cloze.build(SIZE, VOCABULARY)
    rng = np.random.default_rng(2)
    for variable in model.loss.variables:
        variable.assign_add(0.2 * rng.normal(size=variable.shape))
    return model


def replace_each_token(tokens: np.ndarray) -> np.ndarray:
    """Returns one copy of the row for each of its tokens. Copy t has another word at position t."""
    copies = np.repeat(tokens, tokens.shape[1], axis=0)
    np.fill_diagonal(copies, 80)
    return copies


def token_influence(see_itself: bool, documents: np.ndarray | None = None) -> np.ndarray:
    """[T, T]: the change of the vector at position t (row) when token u (column) changes."""

    def vectors(tokens):
        packed = None if documents is None else tf.constant(np.repeat(documents, len(tokens), axis=0))
        last = built().encoder.hidden(tf.constant(tokens), documents=packed, see_itself=see_itself)[-1]
        return np.asarray(last).reshape(*tokens.shape, -1)

    return np.abs(vectors(replace_each_token(TOKENS)) - vectors(np.repeat(TOKENS, TOKENS.size, axis=0))).max(axis=-1).T


def test_prediction_does_not_depend_on_its_own_token():
    influence = token_influence(see_itself=False)
    own = np.eye(len(influence), dtype=bool)
    assert influence[own].max() < 1e-6
    assert influence[~own].min() > 1e-4  # it depends on every other token, on either side


def test_encoding_depends_on_the_token_itself():
    assert token_influence(see_itself=True).min() > 1e-4
    encoder = built().encoder
    whole = np.asarray(encoder({"tokens": TOKENS}).tokens)
    assert np.array_equal(whole[0], encoder.hidden(tf.constant(TOKENS))[-1])
    assert np.allclose(encoder({"tokens": np.pad(TOKENS, [(0, 0), (0, 3)])}).pooled, (whole[:, 0] + whole[:, -1]) / 2)


@pytest.mark.parametrize("see_itself", [False, True])
def test_documents_in_one_row_do_not_attend_to_each_other(see_itself):
    influence = token_influence(see_itself, DOCUMENTS)
    together = DOCUMENTS[0][:, None] == DOCUMENTS[0]
    seen = together & (see_itself | ~np.eye(len(influence), dtype=bool))
    assert influence[~seen].max() < 1e-6
    assert influence[seen].min() > 1e-4


def norm(x, w, name):
    centred = x - x.mean()
    return centred / math.sqrt((centred**2).mean() + 1e-5) * getattr(w, f"{name}_scale") + getattr(w, f"{name}_bias")


def attend(query, keys, values):
    """Multi-head attention for one position: a softmax over the keys in each head, with the heads concatenated."""
    parts = []
    for head in range(SIZE.heads):
        part = slice(head * 8, head * 8 + 8)
        score = np.array([query[part] @ key[part] / math.sqrt(8) for key in keys])
        weight = np.exp(score - score.max())
        parts.append((weight / weight.sum()) @ np.array([value[part] for value in values]))
    return np.concatenate(parts)


def feed_forward(x, w):
    inner = np.maximum(norm(x, w, "norm") @ w.inner_kernel + w.inner_bias, 0)
    return x + inner @ w.outer_kernel + w.outer_bias


def by_hand(tokens: list[int], see_itself: bool) -> list[np.ndarray]:
    """Section 3 of the paper, one position at a time, in float64."""
    encoder = built().encoder
    table = np.asarray(encoder.token_embedding, np.float64)
    x = []
    for place, token in enumerate(tokens):
        angle = [place / 10_000 ** (i / 7) for i in range(8)]
        x.append(table[token] * 4 + np.array([math.sin(a) for a in angle] + [math.cos(a) for a in angle]))
    forward, backward = list(x), list(x)
    for blocks, towards in ((encoder.forward, -1), (encoder.backward, 1)):
        stream = list(x)
        for w in map(numbers, blocks):
            qkv = [norm(h, w, "attention_norm") @ w.qkv_kernel + w.qkv_bias for h in stream]
            read = []
            for t, h in enumerate(stream):
                seen = qkv[: t + 1] if towards < 0 else qkv[t:]
                context = attend(qkv[t][:16], [s[16:32] for s in seen], [s[32:] for s in seen])
                read.append(feed_forward(h + context @ w.output_kernel + w.output_bias, w))
            stream = read
        forward, backward = (stream, backward) if towards < 0 else (forward, stream)
    w, outputs = numbers(encoder.both), []
    forward = [norm(h, w, "forward_norm") for h in forward]
    backward = [norm(h, w, "backward_norm") for h in backward]
    for t in range(len(tokens)):
        query = np.zeros(16)
        query += forward[t - 1] if t > 0 else 0
        query += backward[t + 1] if t + 1 < len(tokens) else 0
        seen = forward[: t + see_itself] + backward[t + 1 - see_itself :]
        kv = [h @ w.kv_kernel + w.kv_bias for h in seen]
        context = attend(query @ w.q_kernel + w.q_bias, [s[:16] for s in kv], [s[16:] for s in kv])
        outputs.append(feed_forward(context @ w.output_kernel + w.output_bias, w))
    return outputs


@pytest.mark.parametrize("see_itself", [False, True])
def test_network_by_hand(see_itself):
    padded = tf.constant(np.pad(TOKENS[:, :7], [(0, 0), (0, 2)]))
    ours = built().encoder.hidden(padded, see_itself=see_itself)[-1][:7]
    assert np.allclose(ours, by_hand(TOKENS[0, :7].tolist(), see_itself), atol=2e-5)


def test_document_in_a_shared_row_by_hand():
    """A document in a shared row is encoded like a row of its own, except for its positions. Only the first document
    has the positions of a row."""
    row, documents = tf.constant(TOKENS), tf.constant(DOCUMENTS)
    ours = built().encoder.hidden(row, documents=documents, see_itself=False)[-1][:6]
    assert np.allclose(ours, by_hand(TOKENS[0, :6].tolist(), False), atol=2e-5)


def test_loss_by_hand():
    """Four tokens, the last one alone in its document, followed by padding."""
    loss = cloze.build(SIZE, VOCABULARY).loss
    p = np.full((5, VOCABULARY.size), 1e-9)
    p[0, 2], p[1, 40], p[2, 41], p[3, 42], p[4, 0] = 0.5, 0.2, 0.25, 0.9, 1.0
    p[1, 50] = 0.8
    p[:, 60] += 1 - p.sum(axis=1)
    loss.logits = lambda batch, seed=None: tf.constant(np.log(np.maximum(p, 1e-9)), tf.float32)
    batch = {"tokens": np.array([[2, 40, 41, 42, 0]], np.int32), "documents": np.array([[1, 1, 1, 2, 2]], np.int32)}
    assert int(loss.totals(batch)["tokens"]) == 3
    values = loss(batch)
    expected = -(math.log(0.5) + math.log(0.2) + math.log(0.25)) / 3
    assert float(values["loss"]) == pytest.approx(expected, abs=1e-5)
    assert float(values["cloze_accuracy"]) == pytest.approx(1 / 3)
    part = loss(batch, totals={"tokens": tf.constant(12)})
    assert float(part["loss"]) == pytest.approx(expected / 4, abs=1e-5)


def test_every_token_is_predicted_and_the_untrained_loss_is_near_chance():
    ids = np.random.default_rng(0).integers(VOCABULARY.first, VOCABULARY.size, 600).astype(np.int32)
    ends = np.arange(0, 601, 10)
    corpus = Corpus(ids=ids, sentences=ends, documents=np.arange(0, 61, 6), heads=np.ones(600, bool))
    keras.utils.set_random_seed(3)
    model = cloze.build(Size(layers=2, width=32, heads=2, inner=64, length=48), VOCABULARY)
    batch = model.batches(corpus, 4, 24)(0, 1)
    cut = [row[0] != row[1] or row[-1] != row[-2] for row in batch["documents"]]
    assert int(model.loss.totals(batch)["tokens"]) == batch["tokens"].size - sum(cut)
    assert math.log(90) - 0.7 < float(model.loss(batch)["loss"]) < math.log(90) + 1.2
