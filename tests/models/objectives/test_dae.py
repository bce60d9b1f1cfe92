"""Tests of the noises of section 3.1.4 of the survey: each one alone, and BART's combination."""

import math

import numpy as np
import pytest

from ptmbench.models.objectives import dae
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary

VOCABULARY = Vocabulary(size=5000)
FIRST, MASK = VOCABULARY.first, VOCABULARY.mask


def text(rows: int = 200, length: int = 60) -> np.ndarray:
    """Rows that count upwards, so that an id tells its original position."""
    return np.tile(np.arange(FIRST, FIRST + length, dtype=np.int32), (rows, 1))


def rng(number: int = 0) -> np.random.Generator:
    return np.random.default_rng(number)


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    """40 documents of 12 sentences. Every token is unique: id - FIRST is its offset in the corpus."""
    sizes = rng(2).integers(3, 15, 480)
    total = int(sizes.sum())
    ids = np.arange(FIRST, FIRST + total, dtype=np.int32)
    return Corpus(ids, np.concatenate([[0], np.cumsum(sizes)]), np.arange(0, 481, 12), np.ones(total, bool))


def test_masking_replaces_a_fixed_share_at_uniform_positions():
    given = text()
    masked = dae.mask_tokens(given, rng(), VOCABULARY)
    hidden = masked != given
    assert (masked[hidden] == MASK).all()
    assert (hidden.sum(axis=1) == round(0.15 * 60)).all()
    assert np.abs(hidden.mean(axis=0) - 0.15).max() < 4 * math.sqrt(0.15 * 0.85 / 200)


def test_deletion_keeps_the_order_and_inserts_no_mask():
    given = text()
    left = dae.delete_tokens(given, rng())
    assert left.shape == (200, 60 - 9)
    assert (np.diff(left, axis=1) > 0).all()
    deleted_counts = np.array([len(np.setdiff1d(before, after)) for before, after in zip(given, left, strict=True)])
    assert (deleted_counts == 9).all()
    assert MASK not in left
    missing = np.array([np.isin(before, after, invert=True) for before, after in zip(given, left, strict=True)])
    assert np.abs(missing.mean(axis=0) - 0.15).max() < 4 * math.sqrt(0.15 * 0.85 / 200)


def spans(row: np.ndarray, length: int) -> list[int]:
    """Returns the number of tokens that each [MASK] of an infilled row of ``text`` replaces. Of adjacent masks, the
    first one gets the sum and the others get 0."""
    sizes, expected, run = [], FIRST, 0
    for token in [*row, FIRST + length]:
        if token == MASK:
            run += 1
        else:
            if run:
                sizes += [int(token) - expected] + [0] * (run - 1)
            else:
                assert token == expected  # no token is missing without a [MASK]
            expected, run = int(token) + 1, 0
    return sizes


def test_infilling_hides_thirty_percent_in_poisson_spans_with_one_mask_each():
    length, rows = 100, 400
    filled = dae.infill(text(rows, length), rng(), VOCABULARY)
    hidden, count = dae.plan(length)
    assert (hidden, count) == (30, 10)
    assert filled.shape == (rows, 100 - 30 + 10)
    assert ((filled == MASK).sum(axis=1) == 10).all()
    for row in filled:
        assert sum(spans(row, length)) == 30
    # A [MASK] between kept tokens replaces one span. Its length is Poisson(3), given the sum: Binomial(30, 0.1).
    single_spans = []
    for row in filled:
        padded = np.concatenate([[FIRST - 1], row, [FIRST + length]])
        for place in np.flatnonzero(padded == MASK):
            if padded[place - 1] != MASK and padded[place + 1] != MASK:
                single_spans.append(int(padded[place + 1] - padded[place - 1] - 1))
    share = np.bincount(single_spans, minlength=12) / len(single_spans)
    given_sum = [math.comb(30, k) * 0.1**k * 0.9 ** (30 - k) for k in range(12)]
    assert len(single_spans) > 2000
    assert np.abs(share - given_sum).max() < 4 * math.sqrt(0.25 / len(single_spans))
    assert share[0] > 0.02  # a [MASK] that replaces no token
    assert np.abs(np.mean(single_spans) - 3.0) < 0.15
    # Masks are equally likely at every position, including both ends.
    assert np.abs((filled == MASK).mean(axis=0) - 10 / 80).max() < 4 * math.sqrt(0.11 / rows)


def test_permutation_moves_whole_sentences_within_their_document():
    sentences = np.repeat([[5, 6, 7, 8, 9]], 300, axis=0).repeat([4, 1, 6, 5, 4], axis=1)
    documents = np.repeat([[2, 3]], 300, axis=0).repeat([11, 9], axis=1)
    given = text(300, 20)
    moved = dae.permute_sentences(given, sentences, documents, rng())
    blocks = {tuple(given[0, sentences[0] == number]) for number in range(5, 10)}
    orders = set()
    for row in moved:
        order = sentences[0][row - FIRST]  # which sentence each token came from
        cuts = np.flatnonzero(np.diff(order)) + 1
        assert {tuple(part) for part in np.split(row, cuts)} == blocks  # sentences stay whole, none is lost
        assert set(order[:11]) == {5, 6, 7}  # the documents stay where they were
        orders.add(tuple(order[np.concatenate([[0], cuts])]))
    assert len(orders) == math.factorial(3) * math.factorial(2)


def test_rotation_starts_at_a_uniformly_drawn_token():
    given = text(600, 20)
    rotated = dae.rotate(given, rng())
    steps = np.diff(rotated, axis=1)
    assert np.isin(steps, (1, -19)).all()
    assert (np.sort(rotated, axis=1) == given).all()
    first = np.bincount(rotated[:, 0] - FIRST, minlength=20)
    assert np.abs(first / 600 - 0.05).max() < 4 * math.sqrt(0.05 * 0.95 / 600)


@pytest.mark.parametrize("noise", dae.NOISES)
def test_each_noise_works_alone(corpus, noise):
    make = dae.batches(corpus, VOCABULARY, 8, 48, longest=80, noises=(noise,))
    batch, again, other = make(3, 1), make(3, 1), make(3, 2)
    assert np.array_equal(batch["tokens"], again["tokens"])
    assert not np.array_equal(batch["tokens"], other["tokens"])
    tokens, target = batch["tokens"], batch["targets"]
    assert tokens.shape == (8, 48)
    assert (tokens == 0).mean() <= 0.05
    assert (target[:, 0] == VOCABULARY.cls).all()
    assert (target[:, -1] == VOCABULARY.sep).all()
    whole = target[:, 1:-1]
    assert (np.diff(whole, axis=1)[whole[:, 1:] > FIRST] == 1).all()  # the undamaged text
    assert np.isin(whole[:, 0] - FIRST, corpus.sentences).all()  # rows begin at the start of a sentence
    inside = tokens[:, 1:47]
    assert (inside != whole[:, :46]).any()
    masking_noises = {"infilling", "masking"}
    assert (MASK in inside) == (noise in masking_noises)
    for row, original in zip(tokens, whole, strict=True):
        kept = row[row >= FIRST]
        assert set(kept) <= set(original)
        assert row[0] == VOCABULARY.cls
        assert row[row > 0][-1] == VOCABULARY.sep
        assert len(kept) == len(original) - {"infilling": dae.plan(len(original))[0]}.get(
            noise, 0 if noise in ("permutation", "rotation") else max(1, round(0.15 * len(original)))
        )


def test_bart_permutes_the_sentences_of_the_corpus_and_infills(corpus):
    batch = dae.batches(corpus, VOCABULARY, 32, 64, longest=100)(0, 1)
    assert dae.BART == ("permutation", "infilling")
    sentence = np.repeat(np.arange(480), np.diff(corpus.sentences))
    whole = batch["targets"].shape[1] - 2
    moved = 0
    for row, target in zip(batch["tokens"], batch["targets"], strict=True):
        assert (row == MASK).sum() == dae.plan(whole)[1]
        kept = row[row >= FIRST]
        assert len(kept) == whole - dae.plan(whole)[0]
        order = sentence[kept - FIRST]
        runs = 1 + np.count_nonzero(np.diff(order))
        assert runs == len(set(order))  # no sentence is split
        for number in set(order):
            assert (np.diff(kept[order == number]) > 0).all()
        moved += (np.diff(order) < 0).any()
        assert (np.diff(target[1:-1]) == 1).all() or FIRST in target
    assert moved > 28


def test_targets_fit_the_length_of_the_decoder(corpus):
    batch = dae.batches(corpus, VOCABULARY, 2, 64, longest=64)(0, 1)
    assert batch["targets"].shape == (2, 64)
    assert batch["tokens"].shape == (2, 64)


def test_unknown_noise_and_short_rows_raise_an_error(corpus):
    with pytest.raises(ValueError, match="blur"):
        dae.batches(corpus, VOCABULARY, 2, 64, longest=80, noises=("blur",))
    with pytest.raises(ValueError, match="too short"):
        dae.batches(corpus, VOCABULARY, 2, 2, longest=80)


def test_loss_by_hand():
    """Seq2SeqLm over a decoder with fixed logits. Padding does not count in the mean."""
    import keras

    from ptmbench.models.objectives.seq2seq_mlm import Seq2SeqLm

    logits = rng(4).normal(size=(2, 3, 7)).astype(np.float32)

    class Fixed(keras.layers.Layer):
        def call(self, *_, **__):
            return type("E", (), {"tokens": None})

    class Scores(keras.layers.Layer):
        def call(self, *_, **__):
            return logits

    loss = Seq2SeqLm(Fixed(), Scores())
    targets = np.array([[2, 5, 6, 3], [2, 4, 3, 0]], np.int32)
    value = loss({"tokens": np.ones((2, 2), np.int32), "targets": targets})["loss"]
    exact = logits.astype(np.float64)
    log_p = exact - np.log(np.exp(exact).sum(-1, keepdims=True))
    expected = -(log_p[0, 0, 5] + log_p[0, 1, 6] + log_p[0, 2, 3] + log_p[1, 0, 4] + log_p[1, 1, 3]) / 5
    assert float(value) == pytest.approx(expected, abs=1e-6)
