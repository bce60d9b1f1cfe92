"""Tests of BiSkip: its rows by brute force over the texts, its loss in NumPy, and two languages in one vector space."""

import math

import numpy as np
import pytest
import tensorflow as tf

from ptmbench.models.architectures import word_vectors
from ptmbench.models.card import Size
from ptmbench.models.layers.vector_heads import BiSkipConfig
from ptmbench.models.layers.vectors import built
from ptmbench.models.objectives import biskip
from ptmbench.models.objectives.skipgram import FAR
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.pieces import CorpusUnfit
from ptmbench.models.text.tokenizers import Vocabulary
from tests.models.test_recurrent import sigmoid

VOCABULARY = Vocabulary(size=60)


def corpus(texts, documents=None):
    return Corpus(
        ids=np.concatenate(texts).astype(np.int32),
        sentences=np.cumsum([0, *map(len, texts)]),
        documents=np.arange(0, len(texts) + 1, 2) if documents is None else documents,
        heads=np.ones(sum(map(len, texts)), bool),
    )


def pairs(count=300, seed=0):
    """Texts of 3 to 9 words with ids from 37 on, each followed by a translation of equal or double length with ids from
    1000 on."""
    rng, texts = np.random.default_rng(seed), []
    for number in range(count):
        size = rng.integers(3, 10)
        texts += [rng.integers(37, 400, size), rng.integers(1000, 1400, size * (1 + number % 2))]
    return corpus(texts)


def contexts_by_definition(row):
    """Returns which tokens of a row are contexts of which, computed from their places as in the docstring of the
    objective."""
    contexts = set()
    for c in np.flatnonzero(row["windows"]):
        for o in np.flatnonzero(row["windows"]):
            language = row["languages"][o]
            if 0 < abs(row["places"][o, language] - row["places"][c, language]) <= row["windows"][c]:
                contexts.add((c, o))
    return contexts


def test_contexts_are_near_the_word_or_near_the_aligned_word(monkeypatch):
    """No word is dropped, so the places can be compared with the texts themselves."""
    monkeypatch.setattr(biskip, "subsampling", lambda counts: (np.ones(len(counts), np.float32), 1.0))
    text = pairs()
    where = {}
    for place, word in enumerate(text.ids):
        where.setdefault(int(word), []).append(place)
    make, checked = biskip.batches(text, Vocabulary(size=1400), 4, 48), 0
    for step in range(4):
        batch = make(step, 5)
        flat = text.ids.tolist()
        for r in range(4):
            row = {name: value[r] for name, value in batch.items()}
            assert (row["languages"] == (row["tokens"] >= 1000)).all()
            contexts = contexts_by_definition(row)
            documents = row["places"][np.arange(48), row["languages"]] // FAR
            for document in np.unique(documents)[1:-1]:  # those at the ends of the row may be truncated
                inside = np.flatnonzero((documents == document) & (row["windows"] > 0))
                first, second = (row["tokens"][inside[row["languages"][inside] == side]].tolist() for side in (0, 1))
                whole = [k for k in where[first[0]] if flat[k : k + len(first + second)] == first + second]
                assert whole and whole[0] in text.sentences  # a pair, whole and in order
                place = {k: n for side in (0, 1) for n, k in enumerate(inside[row["languages"][inside] == side])}
                sizes = len(first), len(second)
                for c in inside:
                    for o in inside:
                        own, other = row["languages"][c], row["languages"][o]
                        centre = place[c] if own == other else place[c] * sizes[other] // sizes[own]
                        expected = 0 < abs(place[o] - centre) <= row["windows"][c]
                        assert ((c, o) in contexts) == expected
                        checked += expected
    assert checked > 2000


def test_band_contains_every_context():
    """The graph finds the same contexts as the places, in rows of several blocks."""
    batch = biskip.batches(pairs(), Vocabulary(size=1400), 3, 100)(2, 1)
    contexts = biskip.contexts_of(batch).numpy()
    number, size = contexts.shape[1:3]
    for r in range(3):
        row = {name: value[r] for name, value in batch.items()}
        in_band = {(n * size + s, n * size + k - biskip.BAND) for n, s, k in zip(*np.nonzero(contexts[r]), strict=True)}
        assert in_band == contexts_by_definition(row) and len(in_band) > 500
    assert number == 4 and biskip.contexts_of(batch).shape[3] == size + 2 * biskip.BAND


def test_dropped_words_are_not_aligned_and_rows_are_full():
    rng, texts = np.random.default_rng(3), []
    for _ in range(2000):
        texts += [np.where(rng.random(8) < 0.5, 37, rng.integers(38, 600, 8)), rng.integers(1000, 1600, 8)]
    batch = biskip.batches(corpus(texts), Vocabulary(size=1600), 16, 64)(0, 0)
    own, other = (np.take_along_axis(batch["places"], s[..., None], 2)[..., 0] for s in _sides(batch))
    real = batch["windows"] > 0
    assert real.mean() > 0.99 and (batch["tokens"][~real] == 0).all()
    share = (batch["tokens"] == 37).sum() / (batch["tokens"] < 600).sum()
    assert share < 0.1  # almost nothing is left of the word that is every second one
    linked = (other - own // FAR * FAR >= 0)[real]
    second = (batch["languages"] == 1)[real]
    assert 0.4 < linked[second].mean() < 0.65 and linked[~second].mean() > 0.8


def _sides(batch):
    return batch["languages"], 1 - batch["languages"]


def build_loss(width, words) -> biskip.BiSkip:
    encoder = built(word_vectors.words(Size(layers=0, width=width), words), name="encoder")
    return biskip.BiSkip.over(encoder, BiSkipConfig(width=width, words=words))


def test_loss_matches_the_equation():
    loss = build_loss(6, 60)
    encoder = loss.encoder
    encoder.table.assign(np.random.default_rng(0).normal(size=(60, 6)))
    loss.contexts.table.assign(np.random.default_rng(1).normal(size=(60, 6)))
    batch = {
        "tokens": np.array([[40, 50, 41, 51, 42, 43]], np.int32),  # 40 41 42 with 50 51; 43 is of another pair
        "languages": np.array([[0, 1, 0, 1, 0, 0]], np.int32),
        "places": np.array([[[1, 4], [1, 4], [2, 4], [2, 5], [3, 5], [FAR + 6, FAR + 7]]], np.int32),
        "windows": np.array([[1, 2, 1, 1, 1, 3]], np.int32),
        "noise": np.array([[[44, 45], [55, 55]]], np.int32),
    }
    first = [(40, 41), (41, 40), (41, 42), (42, 41), (50, 41), (50, 42), (51, 40), (51, 42)]
    second = [(40, 51), (41, 51), (42, 50), (50, 51), (51, 50)]
    v, u = np.asarray(encoder.table, np.float64), np.asarray(loss.contexts.table, np.float64)
    each = [
        -math.log(sigmoid(u[c] @ v[w])) - 5 * np.mean([math.log(sigmoid(-u[n] @ v[w])) for n in noise])
        for contexts, noise in ((first, (44, 45)), (second, (55,)))
        for w, c in contexts
    ]
    assert float(loss(batch)["loss"]) == pytest.approx(np.mean(each), rel=1e-5)


def test_documents_other_than_pairs_raise_an_error():
    with pytest.raises(CorpusUnfit, match="document 2 of the corpus has not two texts but 3"):
        biskip.batches(corpus([[40, 41]] * 5, np.array([0, 2, 5])), VOCABULARY, 2, 16)


def test_trained_words_are_nearest_to_translations_of_the_same_topic():
    """Ten topics of three words. The other language says the same in reverse order, with ids that are 30 higher."""
    rng, texts = np.random.default_rng(0), []
    for _ in range(3000):
        topics = rng.choice(10, 2)
        sentence = np.concatenate([37 + 3 * topic + rng.permutation(3) for topic in topics])
        texts += [sentence, sentence[::-1] + 30]
    loss = build_loss(16, 100)
    encoder = loss.encoder
    encoder.dropout = 0.0
    make, optimizer = biskip.batches(corpus(texts), Vocabulary(size=100), 16, 128), tf.keras.optimizers.Adam(0.02)

    @tf.function
    def step(batch):
        with tf.GradientTape() as tape:
            value = loss(batch)["loss"]
        gradients = tape.gradient(value, [v.value for v in loss.trainable_variables])
        optimizer.apply(gradients, loss.trainable_variables)
        return value

    for number in range(150):
        step({name: tf.constant(value) for name, value in make(number, 0).items()})
    vectors = encoder.table.numpy()[37:97]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    nearest = (vectors[:30] @ vectors[30:].T).argmax(axis=1)
    assert (nearest // 3 == np.arange(30) // 3).mean() > 0.9  # the topic, if not the word
