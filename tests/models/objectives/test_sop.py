"""Tests of sentence order prediction: which texts are swapped, how often, and the loss by hand."""

import math

import numpy as np
import pytest

from ptmbench.models.layers.heads import ClassifierConfig
from ptmbench.models.objectives import sampling, sop
from ptmbench.models.pretrainable import Encoding
from tests.models.objectives.test_masking import FIRST, VOCABULARY, corpus


def test_half_of_the_pairs_are_swapped_and_truncation_does_not_reveal_it():
    text, swapped, whole = corpus(), [], []
    starts = set(text.sentences.tolist())
    texts = sampling.Pairs(text, VOCABULARY, 64, 0.0)
    for step in range(40):
        rows, where, _ = sop.pairs(texts, step, 16, 1)
        unswapped, _ = texts(step, 16, 1)
        assert rows["tokens"].dtype == rows["segments"].dtype == rows["swapped"].dtype == np.int32
        for row, (tokens, segments, label) in enumerate(
            zip(rows["tokens"], rows["segments"], rows["swapped"], strict=True)
        ):
            marks = np.flatnonzero(tokens == VOCABULARY.sep)
            assert tokens[0] == VOCABULARY.cls
            assert len(marks) == 2 and marks[1] == 63
            assert segments.tolist() == [0] * (marks[0] + 1) + [1] * (63 - marks[0])
            first, second = tokens[1 : marks[0]] - FIRST, tokens[marks[0] + 1 : 63] - FIRST
            assert int(first[0]) in starts and int(second[0]) in starts
            whole.append((label, int(first[-1]) + 1 in starts))
            # In order, they are the consecutive texts that the sampler gives without swapping. The end of the second
            # one is truncated with the row.
            ordered = unswapped["tokens"][row]
            if label:
                begin, after = np.flatnonzero(ordered >= FIRST)[0], (first[0] - second[0]) % text.tokens
                assert second[0] == ordered[begin] - FIRST and len(second) <= after < 61
                assert all((np.diff(part) % text.tokens == 1).all() for part in (first, second))
            else:
                assert np.array_equal(np.concatenate([first, second]), ordered[ordered >= FIRST] - FIRST)
            assert np.array_equal(where[row] >= 0, tokens >= FIRST)
            assert np.array_equal(tokens[where[row] >= 0] - FIRST, where[row][where[row] >= 0] % text.tokens)
        swapped.append(rows["swapped"].mean())
    assert np.mean(swapped) == pytest.approx(0.5, abs=4 * 0.5 / math.sqrt(640))
    # Whether the first text ends with a sentence reveals little. In short documents, not all do.
    labels, ends = np.array(whole).T
    assert ends[labels == 0].all() and ends[labels == 1].mean() > 0.8


def test_sop_loss_by_hand():
    head = sop.SentenceOrder(ClassifierConfig(width=2))
    head.build()
    head.scores.kernel.assign(np.eye(2, dtype=np.float32))
    pooled = np.log(np.array([[0.25, 0.75], [0.9, 0.1], [0.5, 0.5]], np.float32))
    batch = {"swapped": np.array([1, 1, 0], np.int32)}
    values = head(Encoding(tokens=pooled, pooled=pooled, layers=()), batch, head.totals(batch))
    assert float(values["sop_loss"]) == pytest.approx(-(math.log(0.75) + math.log(0.1) + math.log(0.5)) / 3, abs=1e-6)
    assert float(values["sop_accuracy"]) == pytest.approx(2 / 3)


def test_albert_hides_whole_words_of_its_pairs():
    from ptmbench.models.card import Size
    from ptmbench.models.model_compression import albert

    text = corpus()
    batches = albert.build(Size(layers=1, width=16, heads=2, inner=32, length=64), VOCABULARY).batches(text, 8, 64)
    plain = sampling.Pairs(text, VOCABULARY, 64, 0.0)
    for step in range(5):
        batch = batches(step, 1)
        rows, where, _ = sop.pairs(plain, step, 8, 1)
        heads = sampling.heads(text, where)
        hidden = np.zeros(rows["tokens"].shape, bool)
        used = batch["masked_weights"] > 0
        hidden[np.nonzero(used)[0], batch["masked_positions"][used]] = True
        tail = (where[:, 1:] >= 0) & ~heads[:, 1:]
        assert np.array_equal(hidden[:, 1:][tail], hidden[:, :-1][tail])
        assert np.array_equal(batch["tokens"][~hidden], rows["tokens"][~hidden])
