"""Tests of paragraph vectors: batches by brute force, and the losses and the descent for a new text in NumPy."""

import math

import numpy as np
import pytest
import tensorflow as tf

from ptmbench.models.architectures.word_vectors import paragraphs, paragraphs_in_context
from ptmbench.models.card import Size
from ptmbench.models.layers import vectors as tables
from ptmbench.models.layers.vector_heads import NoiseWordsConfig
from ptmbench.models.objectives import paragraph_vectors
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary

VOCABULARY = Vocabulary(size=50)
SIZE = Size(layers=1, width=6, inner=5, length=40)
BATCH = {
    "tokens": np.array([[40, 41, 42, 40, 43, 44, 45]], np.int32),
    "windows": np.array([[2, 1, 0, 3, 1, 5, 1]], np.int32),
    "documents": np.array([[1, 1, 1, 1, 1, 4, 4]], np.int32),
    "noise": np.array([[46, 47, 46]], np.int32),
}
AROUND = {0: (1,), 1: (0,), 3: (0, 1, 4), 4: (3,), 5: (6,), 6: (5,)}
"""The positions inside the window of each position. 42 was dropped, and a text ends after 43."""


def random_encoder(kind):
    """Returns an encoder with random weights, and these by name as float64."""
    encoder, rng = tables.built(kind(SIZE, VOCABULARY), name="encoder"), np.random.default_rng(0)
    encoder.dropout = 0.0
    weights = {"documents": encoder.documents.table, "answers": encoder.answers.table, "noise": encoder.noise}
    weights["table"] = encoder.table
    for weight in list(weights.values())[: 4 if kind is paragraphs_in_context else 3]:
        weight.assign(0.7 * rng.normal(size=weight.shape))
    return encoder, {name: np.asarray(weight, np.float64) for name, weight in weights.items()}


def logistic_loss(x):
    return np.log1p(np.exp(-x))


@pytest.mark.parametrize("kind", [paragraphs, paragraphs_in_context])
def test_loss_matches_the_paper(kind):
    encoder, weights = random_encoder(kind)
    loss = paragraph_vectors.ParagraphVectors.over(encoder, NoiseWordsConfig(width=encoder.width))
    tokens, u, each = BATCH["tokens"][0], weights["answers"], []
    for place, others in AROUND.items():
        h = weights["documents"][BATCH["documents"][0, place]]
        if kind is paragraphs_in_context:
            h = np.mean([h, *(weights["table"][tokens[other]] for other in others)], axis=0)
        each.append(logistic_loss(u[tokens[place]] @ h) + 5 * np.mean([logistic_loss(-u[n] @ h) for n in (46, 47, 46)]))
    with tf.GradientTape() as tape:
        value = loss(BATCH)["loss"]
    assert float(value) == pytest.approx(np.mean(each), rel=1e-5)
    # The gradient of the noise: its own share of each word, minus the share of the given noise words.
    shares = np.exp(weights["noise"]) / np.exp(weights["noise"]).sum()
    shares[[46, 47]] -= np.array([2, 1]) / 3
    assert np.allclose(tape.gradient(value, encoder.noise.value), shares, atol=1e-6)


@pytest.mark.parametrize("kind", [paragraphs, paragraphs_in_context])
def test_vector_of_a_new_text_is_found_by_gradient_descent(kind):
    """Compares with ten steps of gradient descent on L(d), with gradients from finite differences. Special tokens and
    padding are not words, except [UNK], which was one in training."""
    encoder, weights = random_encoder(kind)
    noise = encoder.quantiles().numpy()
    tokens = np.array([2, 40, 41, 3, 43, 1, 44, 45, 0, 0], np.int32)
    words = {place: word for place, word in enumerate(tokens) if word not in (0, 2, 3)}
    u = weights["answers"]

    def loss(d):
        each = []
        for place, word in words.items():
            h = d
            if kind is paragraphs_in_context:
                near = [weights["table"][w] for p, w in words.items() if 0 < abs(p - place) <= 3]
                h = (d + sum(near)) / (1 + len(near))
            each.append(logistic_loss(u[word] @ h) + 5 * np.mean(logistic_loss(-u[noise] @ h)))
        return np.mean(each)

    d, losses = np.zeros(6), []
    for _ in range(tables.STEPS):
        slope = [(loss(d + 1e-5 * e) - loss(d - 1e-5 * e)) / 2e-5 for e in np.eye(6)]
        d, losses = d - tables.RATE * np.array(slope), [*losses, loss(d)]
    result = encoder({"tokens": np.stack([tokens, np.roll(tokens, 1)])})
    assert np.allclose(result.pooled[0], d, atol=1e-4) and losses[-1] < losses[0]
    assert np.allclose(result.layers[1], np.repeat(result.pooled[:, None], 10, axis=1))
    assert np.allclose(result.layers[0][0], weights["table"][tokens], atol=1e-6)
    before = [np.array(v) for v in encoder.variables]
    encoder({"tokens": tokens[None]})
    assert all(np.array_equal(a, b) for a, b in zip(before, encoder.variables, strict=True))


def test_noise_for_new_texts_is_quantiles_of_its_distribution():
    encoder, _ = random_encoder(paragraphs)
    shares = np.full(50, 1e-9)
    shares[[40, 41, 44]] = 0.5, 0.125, 0.375
    encoder.noise.assign(np.log(shares))
    assert np.bincount(encoder.quantiles().numpy(), minlength=50)[[40, 41, 44]].tolist() == [32, 8, 24]
    encoder.noise.assign(np.where(np.arange(50) == 49, 40.0, 0.0))
    assert set(encoder.quantiles().numpy()) == {49}


def test_batches_contain_the_document_of_each_token():
    sizes = [7, 5, 9, 4, 6, 8]
    ids = np.random.default_rng(0).integers(37, 50, sum(sizes)).astype(np.int32)
    corpus = Corpus(ids, np.concatenate([[0], np.cumsum(sizes)]), np.array([0, 1, 3, 6]), np.ones(len(ids), bool))
    make = paragraph_vectors.batches(corpus, 2, 3, 11)
    owners = np.repeat([0, 1, 0], [7, 14, 18])  # documents 0, 1, 2 in two rows
    for step in range(8):
        batch = make(step, 3)
        for tokens, documents in zip(batch["tokens"], batch["documents"], strict=True):
            places = [at for at in range(39) if np.array_equal(np.take(ids, range(at, at + 11), mode="wrap"), tokens)]
            assert any(np.array_equal(np.take(owners, range(at, at + 11), mode="wrap"), documents) for at in places)
        assert batch["windows"].max() <= 5 and batch["noise"].shape == (3, 64)
    often = np.concatenate([np.full(6000, 40), np.arange(41, 50).repeat(400)]).astype(np.int32)
    corpus = Corpus(often, np.array([0, 9600]), np.array([0, 1]), np.ones(9600, bool))
    make = paragraph_vectors.batches(corpus, 2, 64, 64)
    rows = [make(step, 0) for step in range(4)]
    kept = np.mean(np.concatenate([row["windows"][row["tokens"] == 40] for row in rows]) > 0)
    assert kept == pytest.approx(math.sqrt(0.1 / 0.625), abs=0.03)  # with ten words, the threshold is at least a tenth
