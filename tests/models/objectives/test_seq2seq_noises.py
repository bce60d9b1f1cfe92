"""Tests of the rows of T5's table of objectives, each against the table."""

import math
from dataclasses import replace

import numpy as np
import pytest

from ptmbench.models.objectives import seq2seq_noises
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary

VOCABULARY = Vocabulary(size=5000)
FIRST, MASK = VOCABULARY.first, VOCABULARY.mask
LENGTH, ROWS = 100, 300
NOISY = 15


def text() -> np.ndarray:
    return np.tile(np.arange(FIRST, FIRST + LENGTH, dtype=np.int32), (ROWS, 1))


def corrupted(name: str):
    return seq2seq_noises.NOISES[name](text(), np.random.default_rng(0), VOCABULARY)


def is_share_close(share: float, expected: float, count: int) -> bool:
    return abs(share - expected) < 4 * math.sqrt(expected * (1 - expected) / count)


def test_prefix_lm_splits_the_text_in_two():
    source, target = corrupted("prefix_lm")
    assert np.array_equal(np.concatenate([source, target], axis=1), text())
    assert source.shape == target.shape


def test_bert_style_masks_nine_of_ten_drawn_tokens():
    source, target = corrupted("bert_style")
    assert np.array_equal(target, text())
    assert is_share_close((source == MASK).mean(), 0.15 * 0.9, source.size)
    changed = (source != target) & (source != MASK)
    assert is_share_close(changed.mean(), 0.15 * 0.1, source.size)
    assert source[changed].min() >= FIRST


def test_deshuffling_keeps_all_tokens_in_random_order():
    source, target = corrupted("deshuffling")
    assert np.array_equal(target, text())
    assert np.array_equal(np.sort(source, axis=1), target)
    assert is_share_close((source == target).mean(), 1 / LENGTH, source.size)


def test_mask_tokens_masks_all_drawn_tokens():
    source, target = corrupted("mask_tokens")
    assert np.array_equal(target, text())
    assert ((source == MASK).sum(axis=1) == NOISY).all()
    assert np.array_equal(source[source != MASK], target[source != MASK])


def test_drop_tokens_has_the_missing_tokens_as_target():
    source, target = corrupted("drop_tokens")
    assert source.shape == (ROWS, LENGTH - NOISY)
    assert target.shape == (ROWS, NOISY)
    assert np.array_equal(np.sort(np.concatenate([source, target], axis=1), axis=1), text())
    assert (np.diff(source, axis=1) > 0).all()
    assert (np.diff(target, axis=1) > 0).all()


def test_replace_spans_uses_one_sentinel_per_span_and_is_reversible():
    source, target = corrupted("replace_spans")
    neighbours = 0
    for source_row, target_row in zip(source.tolist(), target.tolist(), strict=True):
        hidden, current = {}, None
        for token in filter(None, target_row):
            if token in VOCABULARY.sentinels:
                current = hidden.setdefault(token, [])
            else:
                current.append(token)
        neighbours += sum(len(span) > 1 for span in hidden.values())
        assert sum(map(len, hidden.values())) == NOISY
        assert all(hidden.values())
        assert list(hidden) == list(VOCABULARY.sentinels[: len(hidden)])
        assert [token for token in source_row if token in VOCABULARY.sentinels] == list(hidden)
        whole = [part for token in filter(None, source_row) for part in hidden.get(token, [token])]
        assert whole == text()[0].tolist()
        positions = [i for i, token in enumerate(source_row) if token in VOCABULARY.sentinels]
        assert 1 not in np.diff(positions)  # adjacent sentinels would be a single one
    assert neighbours > 0


def test_drawn_tokens_are_uniform():
    drawn = seq2seq_noises.draw_hidden(text(), np.random.default_rng(0))
    assert (drawn.sum(axis=1) == NOISY).all()
    assert np.abs(drawn.mean(axis=0) - 0.15).max() < 4.5 * math.sqrt(0.15 * 0.85 / ROWS)


@pytest.mark.parametrize("name", seq2seq_noises.NOISES)
def test_batches_are_full_and_the_untrained_t5_has_a_loss_near_chance(name):
    from ptmbench import models
    from ptmbench.models.card import Size

    vocabulary = Vocabulary(size=150)
    ids = np.random.default_rng(0).integers(37, 150, 1200).astype(np.int32)
    corpus = Corpus(ids, np.arange(0, 1201, 10), np.arange(0, 121, 10), np.ones(1200, bool))
    size = Size(layers=1, width=16, heads=2, inner=32, length=64)
    t5 = models.load("t5").build(size, vocabulary)
    built = replace(t5, batches=seq2seq_noises.batches.of(vocabulary, noise=name))
    make = built.batches(corpus, 4, 40)
    batch = make(2, 1)
    assert all(np.array_equal(batch[key], make(2, 1)[key]) for key in batch)
    assert not np.array_equal(batch["tokens"], make(2, 2)["tokens"])
    shapes = {(make(step, 1)["tokens"].shape, make(step, 1)["targets"].shape) for step in range(30)}
    assert len(shapes) == 1
    assert np.mean([(make(step, 1)["tokens"] == 0).mean() for step in range(30)]) <= 0.05
    for rows in (batch["tokens"], batch["targets"]):
        assert rows.dtype == np.int32
        assert (rows[:, 0] == vocabulary.cls).all()
        assert ((rows == vocabulary.sep).sum(axis=1) == 1).all()
        for row in rows:
            assert row[row > 0][-1] == vocabulary.sep
            assert (row[: np.count_nonzero(row)] > 0).all()
    assert abs(float(built.loss(batch)["loss"]) - math.log(150)) < 1.2


def test_wrong_arguments_raise_an_error():
    ids = np.arange(40, 2040, dtype=np.int32)
    corpus = Corpus(ids, np.arange(0, 2001, 10), np.arange(0, 201, 10), np.ones(2000, bool))
    with pytest.raises(ValueError, match="blur"):
        seq2seq_noises.batches(corpus, VOCABULARY, 2, 64, "blur")
    with pytest.raises(ValueError, match="too short"):
        seq2seq_noises.batches(corpus, VOCABULARY, 2, 6, "prefix_lm")
    with pytest.raises(ValueError, match="sentinels"):
        seq2seq_noises.batches(corpus, VOCABULARY, 2, 400, "replace_spans")(0, 0)
