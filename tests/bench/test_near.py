"""Near texts: the distance against a plain table, and the search against comparing everything."""

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


def test_distance():
    rng = np.random.default_rng(0)
    for _ in range(500):
        one, other = (list(map(bytes, rng.integers(0, 4, (rng.integers(0, 14), 1), np.uint8))) for _ in range(2))
        assert distance(one, other) == plain_distance(one, other)


@pytest.mark.parametrize(
    ("one", "other", "near"),
    [
        ((1, 2, 3), (1, 2, 4), False),  # of fewer than four words none may change
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
def test_one_word_in_five_may_change(one, other, near):
    one, other = text(one), text(other)
    assert similar(one, other) == similar(other, one) == near
    assert Texts([text((7, 7, 7, 7, 7)), other]).near(one) == ([1] if near else [])
    assert Texts([other]).near(other) == []


@pytest.mark.parametrize("words", [6, 50, 5000])
def test_the_search_finds_what_comparing_everything_finds(words):
    """Edited copies of texts of 4 to 60 words, over vocabularies in which runs are common or rare."""
    rng = np.random.default_rng(words)
    texts = [list(rng.integers(0, words, rng.integers(4, 61))) for _ in range(150)]
    folded = list(dict.fromkeys(map(text, texts)))
    prepared, found = Texts(folded), 0
    for _ in range(100):
        edited = list(texts[rng.integers(len(texts))])
        for _ in range(rng.integers(0, len(edited) // 3 + 1)):
            place, kind = rng.integers(len(edited)), rng.integers(3)
            edited[place : place + (kind > 0)] = [] if kind == 1 and len(edited) > 4 else [int(rng.integers(0, words))]
        asked = text(edited)
        expected = [i for i, one in enumerate(folded) if one != asked and similar(asked, one)]
        assert sorted(prepared.near(asked)) == expected
        found += len(expected)
    assert found > 30
