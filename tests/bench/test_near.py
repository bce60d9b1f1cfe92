"""Near-duplicate texts: the edit distance against a plain table, and the search against pairwise comparison."""

import numpy as np
import pytest

from ptmbench.bench.data.near import Texts, distance, similar


def plain_distance(one, other):
    row = list(range(len(other) + 1))
    for i, word in enumerate(one, 1):
        before, row = row, [i]
        for j, another in enumerate(other, 1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (word != another)))
    return row[-1]


def text(words):
    return b"".join(b"w%d\0" % word for word in words)


def test_distance_is_the_edit_distance():
    rng = np.random.default_rng(0)
    for _ in range(500):
        one, other = (list(map(bytes, rng.integers(0, 4, (rng.integers(0, 14), 1), np.uint8))) for _ in range(2))
        assert distance(one, other) == plain_distance(one, other)


@pytest.mark.parametrize(
    ("one", "other", "near"),
    [
        ((1, 2, 3), (1, 2, 4), False),  # texts of fewer than four words tolerate no edit
        ((1, 2, 3, 4), (1, 2, 3, 4, 5), True),
        ((1, 2, 3, 4), (1, 2, 3, 5), False),
        ((1, 2, 3, 4, 5), (1, 2, 6, 4, 5), True),
        ((1, 2, 3, 4, 5), (2, 1, 3, 4, 5), False),  # two edits
        (range(10), (0, 1, 2, 3, 4, 5, 6, 7, 88, 99), True),
        (range(10), (0, 1, 2, 3, 4, 5, 6, 77, 88, 99), False),
        (range(10), range(8), True),
        (range(10), range(7), False),
    ],
)
def test_similar_texts_differ_in_at_most_one_word_in_five(one, other, near):
    one, other = text(one), text(other)
    assert similar(one, other) == similar(other, one) == near
    assert Texts([text((7, 7, 7, 7, 7)), other]).near(one) == ([1] if near else [])
    assert Texts([other]).near(other) == []


@pytest.mark.parametrize("words", [6, 50, 5000])
def test_the_search_equals_a_pairwise_comparison(words):
    """Edited copies of texts of 4 to 60 words. Vocabulary sizes make word runs common or rare."""
    rng = np.random.default_rng(words)
    texts = [list(rng.integers(0, words, rng.integers(4, 61))) for _ in range(150)]
    folded = list(dict.fromkeys(map(text, texts)))
    prepared, matches = Texts(folded), 0
    for _ in range(100):
        edited = list(texts[rng.integers(len(texts))])
        for _ in range(rng.integers(0, len(edited) // 3 + 1)):
            place, kind = rng.integers(len(edited)), rng.integers(3)
            edited[place : place + (kind > 0)] = [] if kind == 1 and len(edited) > 4 else [int(rng.integers(0, words))]
        query = text(edited)
        expected = [i for i, one in enumerate(folded) if one != query and similar(query, one)]
        assert sorted(prepared.near(query)) == expected
        matches += len(expected)
    assert matches > 30
