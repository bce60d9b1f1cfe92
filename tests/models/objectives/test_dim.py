"""Tests of Deep InfoMax: which n-gram is hidden, which negatives it is compared with, and the loss by hand."""

import math

import numpy as np
import pytest

from ptmbench.models.card import Size
from ptmbench.models.contrastive_learning import infoword
from ptmbench.models.objectives import dim, sampling
from tests.models.objectives.test_masking import FIRST, VOCABULARY, corpus

SIZE = Size(layers=1, width=16, heads=2, inner=32, length=128)


def test_ngram_lengths_are_normal_with_mean_five():
    free = np.ones((20000, 40), bool)
    first, size = dim.draw(free, np.random.default_rng(0))
    shares = np.bincount(size, minlength=11)[1:] / len(size)

    def normal_cdf(x):
        return 0.5 * (1 + math.erf((x - 5) / math.sqrt(2)))

    expected = [normal_cdf(n + 0.5) - normal_cdf(n - 0.5) for n in range(1, 11)]
    assert shares == pytest.approx(expected, abs=0.015)
    assert (first + size <= 40).all()
    fives = np.bincount(first[size == 5], minlength=40)[:36] / (size == 5).sum()
    assert fives == pytest.approx(1 / 36, abs=0.01)  # all positions are equally likely


def test_ngrams_are_shorter_in_rows_with_little_space():
    free = np.array([[0, 1, 1, 0, 1, 0], [0, 0, 0, 0, 1, 0]], bool)
    for seed in range(5):
        first, size = dim.draw(free, np.random.default_rng(seed))
        assert first.tolist() == [1, 4]
        assert size.tolist() == [2, 1]


def test_true_ngram_is_masked_and_negatives_are_not_from_the_row():
    text = corpus()
    batches, texts = dim.batches(text, VOCABULARY, 16, 64), sampling.FullSentences(text, VOCABULARY, 64)
    for step in range(20):
        batch, (rows, where) = batches(step, 1), texts(step, 16, 1)
        tokens, ngrams = rows["tokens"], batch["ngrams"]
        assert ngrams.shape == (16, 4, 12)
        assert ngrams.dtype == np.int32
        assert (ngrams[:, :, 0] == VOCABULARY.cls).all()
        sizes = (ngrams >= FIRST).sum(axis=2)
        assert (sizes == sizes[:, :1]).all()  # the length does not reveal the true one
        assert np.array_equal((ngrams == VOCABULARY.sep).argmax(axis=2), sizes + 1)
        assert ((ngrams > 0).sum(axis=2) == sizes + 2).all()
        hidden = np.zeros(tokens.shape, bool)
        used = batch["masked_weights"] > 0
        hidden[np.nonzero(used)[0], batch["masked_positions"][used]] = True
        assert np.array_equal(
            tokens[np.nonzero(used)[0], batch["masked_positions"][used]], batch["masked_labels"][used]
        )
        for row in range(16):
            size = sizes[row, 0]
            true = ngrams[row, 0, 1 : size + 1]
            (place,) = np.flatnonzero(tokens[row] == true[0])  # every piece of the corpus is unique
            assert tokens[row, place : place + size].tolist() == true.tolist()
            assert (batch["tokens"][row, place : place + size] == VOCABULARY.mask).all()
            outside = ~hidden[row]
            outside[place : place + size] = False
            assert np.array_equal(batch["tokens"][row][outside], tokens[row][outside])
            assert not np.isin(ngrams[row, 1:, 1:11], tokens[row][tokens[row] >= FIRST]).any()
            assert where[row, place] >= 0


def test_dim_loss_by_hand():
    """Four candidates for each of two rows, each encoded alone, and their inner products with the first token."""
    built = infoword.build(SIZE, VOCABULARY)
    batch = dim.batches(corpus(), VOCABULARY, 2, 64)(0, 1)
    values = built.loss(batch)
    nll = []
    for row in range(2):
        whole = np.asarray(built.encoder({"tokens": batch["tokens"][[row]]}).tokens, np.float64)[0, 0]
        scores = []
        for ngram in batch["ngrams"][row]:
            alone = ngram[ngram > 0][None]  # without its padding
            scores.append(
                np.asarray(built.encoder({"tokens": alone}).tokens, np.float64)[0, 0] @ whole / SIZE.width**0.5
            )
        nll.append(np.log(np.exp(np.array(scores) - scores[0]).sum()))
    assert float(values["dim_loss"]) == pytest.approx(np.mean(nll), rel=1e-4)
    assert float(values["loss"]) == pytest.approx(float(values["mlm_loss"]) + float(values["dim_loss"]), rel=1e-6)


def test_losses_of_parts_of_a_batch_add_up_to_the_whole():
    built = infoword.build(SIZE, VOCABULARY)
    batch = dim.batches(corpus(), VOCABULARY, 4, 64)(0, 1)
    totals = built.loss.totals(batch)
    parts = [{key: value[rows] for key, value in batch.items()} for rows in (slice(0, 1), slice(1, 4))]
    whole = built.loss(batch)
    part_values = [built.loss(part, totals=totals) for part in parts]
    for name, value in whole.items():
        assert float(value) == pytest.approx(sum(float(part[name]) for part in part_values), rel=1e-5), name
