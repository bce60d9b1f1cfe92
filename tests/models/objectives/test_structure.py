"""Tests of StructBERT's two objectives: which trigrams are shuffled, which texts are paired, and the losses by hand."""

import math

import numpy as np
import pytest

from ptmbench.models.layers.heads import ClassifierConfig, MaskedLmConfig
from ptmbench.models.objectives import mlm, sampling, sentence_order, word_structure
from ptmbench.models.pretrainable import Encoding
from tests.models.objectives.test_masking import FIRST, VOCABULARY, corpus


def shuffled(length: int = 128, count: int = 40):
    """Yields (masked rows, the same rows with shuffled trigrams). Every piece of text is unique."""
    texts = sampling.FullSentences(corpus(), VOCABULARY, length)
    for step in range(count):
        rng = sampling.generator(1, step)
        masked = mlm.noise(texts(step, 16, 1)[0], rng, VOCABULARY)
        yield masked, word_structure.shuffle(masked, rng, VOCABULARY)


def test_five_percent_of_the_visible_trigrams_are_shuffled():
    orders, moved, seen = [], 0, 0
    for masked, batch in shuffled():
        tokens, used = masked["tokens"], batch["shuffled_weights"] > 0
        positions, labels = batch["shuffled_positions"], batch["shuffled_labels"]
        assert positions.dtype == labels.dtype == np.int32
        assert batch["shuffled_weights"].dtype == np.float32
        assert positions.shape == (16, 3 * word_structure.slots(128)) == (16, 9)
        hidden = np.zeros(tokens.shape, bool)
        counted = masked["masked_weights"] > 0
        hidden[np.nonzero(counted)[0], masked["masked_positions"][counted]] = True
        free = (tokens >= FIRST) & ~hidden
        wanted = np.rint(0.05 * free.sum(axis=1) / 3)
        assert np.array_equal(used.sum(axis=1), 3 * np.maximum(wanted, 1))
        row = np.nonzero(used)[0]
        assert free[row, positions[used]].all()  # neither hidden nor special
        assert np.array_equal(tokens[row, positions[used]], labels[used])
        touched = np.zeros(tokens.shape, bool)
        touched[row, positions[used]] = True
        assert touched.sum() == used.sum()  # no trigram overlaps another
        assert np.array_equal(batch["tokens"][~touched], tokens[~touched])
        for line in range(16):
            for trigram in positions[line][used[line]].reshape(-1, 3):
                assert (np.diff(trigram) == 1).all()
                now = batch["tokens"][line, trigram].tolist()
                orders.append(tuple(now.index(piece) for piece in tokens[line, trigram]))
        moved, seen = moved + used.sum(), seen + free.sum()
    assert moved / seen == pytest.approx(0.05, abs=0.01)
    counts = np.array([orders.count(order) for order in sorted(set(orders))])
    assert len(counts) == 6
    assert counts / len(orders) == pytest.approx(1 / 6, abs=4 * math.sqrt(5 / 36 / len(orders)))


def test_rows_without_a_trigram_are_unchanged():
    tokens = np.array([[2, 60, 61, 3, 62, 63, 3], [2, 70, 71, 72, 3, 0, 0]], np.int32)
    masked = {
        "tokens": tokens,
        "masked_positions": np.array([[1], [0]], np.int32),
        "masked_weights": np.array([[1.0], [0.0]], np.float32),
    }
    batch = word_structure.shuffle(masked, np.random.default_rng(0), VOCABULARY)
    assert batch["shuffled_weights"].tolist() == [[0, 0, 0], [1, 1, 1]]
    assert batch["shuffled_positions"].tolist() == [[0, 0, 0], [1, 2, 3]]
    assert batch["shuffled_labels"].tolist() == [[0, 0, 0], [70, 71, 72]]
    assert sorted(batch["tokens"][1, 1:4]) == [70, 71, 72]
    assert np.array_equal(batch["tokens"][0], tokens[0])


def test_word_structure_loss_by_hand():
    class Known(mlm.MaskedLm):
        def logits(self, tokens, positions):
            return np.log(np.array([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.3, 0.3, 0.4]], np.float32))

    import keras

    owner = keras.layers.Layer(name="owner")
    owner.token_embedding = owner.add_weight((3, 2), "zeros", name="tokens")
    head = word_structure.WordStructure(Known(MaskedLmConfig(width=2, inner=2, vocabulary=3), owner))
    batch = {
        "shuffled_positions": np.zeros((2, 2), np.int32),
        "shuffled_labels": np.array([[0, 1], [0, 0]], np.int32),
        "shuffled_weights": np.array([[1, 1], [1, 0]], np.float32),
    }
    x = np.zeros((2, 4, 2), np.float32)
    values = head(Encoding(tokens=x, pooled=x[:, 0], layers=()), batch, head.totals(batch))
    by_hand = -(math.log(0.5) + math.log(0.8) + math.log(0.2)) / 3
    assert float(values["word_structure_loss"]) == pytest.approx(by_hand, abs=1e-6)
    assert float(values["word_structure_accuracy"]) == pytest.approx(2 / 3)


def test_shuffled_words_are_predicted_by_the_mlm_head():
    from ptmbench.models.card import Size
    from ptmbench.models.masked_language_modeling import structbert

    built = structbert.build(Size(layers=1, width=16, heads=2, inner=32, length=64), VOCABULARY)
    batch = built.batches(corpus(), 4, 64)(0, 1)
    x = built.encoder(batch)
    words, order, _ = built.loss.heads
    values = order(x, batch, order.totals(batch))
    scores = np.asarray(words.logits(x.tokens, batch["shuffled_positions"]), np.float64)
    used = batch["shuffled_weights"].reshape(-1) > 0
    log_p = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    by_hand = -log_p[np.arange(len(scores)), batch["shuffled_labels"].reshape(-1)][used].mean()
    assert float(values["word_structure_loss"]) == pytest.approx(by_hand, rel=1e-5)
    whole = built.loss(batch)
    parts = [float(whole[name]) for name in ("mlm_loss", "word_structure_loss", "sentence_order_loss")]
    assert float(whole["loss"]) == pytest.approx(sum(parts), rel=1e-6)


def test_second_texts_are_next_previous_or_from_other_documents():
    text, orders, whole = corpus(), [], []
    starts = set(text.sentences.tolist())
    document = np.repeat(np.arange(40), np.diff(text.sentences[text.documents]))  # of each token
    texts = sampling.Pairs(text, VOCABULARY, 64, 0.0)
    for step in range(40):
        rows, _ = sentence_order.pairs(texts, step, 16, 1)
        for tokens, segments, order in zip(rows["tokens"], rows["segments"], rows["order"], strict=True):
            marks = np.flatnonzero(tokens == VOCABULARY.sep)
            assert tokens[0] == VOCABULARY.cls
            assert len(marks) == 2
            assert segments.tolist() == [0] * (marks[0] + 1) + [1] * (63 - marks[0])
            first, second = tokens[1 : marks[0]] - FIRST, tokens[marks[0] + 1 : 63] - FIRST
            assert int(first[0]) in starts
            assert int(second[0]) in starts
            if order == sentence_order.NEXT:
                assert second[0] == (first[-1] + 1) % text.tokens
                assert document[second[0]] == document[first[0]]
            elif order == sentence_order.PREVIOUS:
                # The second text is truncated with the row. Its end was between the two.
                assert len(second) <= (first[0] - second[0]) % text.tokens < 61
                assert document[second[0]] == document[first[0]]
                whole.append(int(first[-1]) + 1 in starts)
            else:
                assert document[second[0]] != document[first[0]]
            orders.append(int(order))
    assert np.bincount(orders) / 640 == pytest.approx(1 / 3, abs=4 * math.sqrt(2 / 9 / 640))
    assert np.mean(whole) > 0.8  # as in the other orders, except in short documents


def test_sentence_order_loss_by_hand():
    head = sentence_order.SentenceStructure(ClassifierConfig(width=3, classes=3))
    head.build()
    head.scores.kernel.assign(np.eye(3, dtype=np.float32))
    pooled = np.log(np.array([[0.2, 0.3, 0.5], [0.9, 0.05, 0.05], [0.25, 0.5, 0.25]], np.float32))
    batch = {"order": np.array([2, 0, 0], np.int32)}
    values = head(Encoding(tokens=pooled, pooled=pooled, layers=()), batch, head.totals(batch))
    by_hand = -(math.log(0.5) + math.log(0.9) + math.log(0.25)) / 3
    assert float(values["sentence_order_loss"]) == pytest.approx(by_hand, abs=1e-6)
    assert float(values["sentence_order_accuracy"]) == pytest.approx(2 / 3)
