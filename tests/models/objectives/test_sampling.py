"""Tests of random numbers and of rows of a corpus, which need no model."""

import numpy as np
import pytest

from ptmbench.models.objectives import sampling


def test_every_seed_gives_different_random_numbers():
    drawn = [sampling.generator(seed, 3).random() for seed in (5, 2**62, 2**62 + 1, 2**63, 2**63 + 1, -2, -1)]
    assert len(set(drawn)) == 7


def test_corpus_shorter_than_a_row_is_repeated():
    assert sampling.TokenRuns(np.array([7, 8, 9]), 5)(0, 1, 0).tolist() == [[7, 8, 9, 7, 8]]


def test_empty_corpus_raises_an_error():
    with pytest.raises(ValueError, match="empty"):
        sampling.TokenRuns(np.array([], np.int32), 8)
