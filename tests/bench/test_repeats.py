"""Runs of words that come back, against a search by hand."""

import random

import numpy as np
import pytest

from ptmbench.bench.data import repeats
from ptmbench.bench.data.repeats import RUN, Counts, Repeats, Words


def texts(seed: int, count: int = 40) -> list[list[str]]:
    """Documents of random words, into which passages of earlier ones are copied."""
    draw = random.Random(seed)
    known, found = [], []
    for _ in range(count):
        paragraphs = []
        for _ in range(draw.randrange(1, 6)):
            words = [f"w{draw.randrange(5000)}" for _ in range(draw.randrange(1, 40))]
            if known and draw.random() < 0.4:
                begin = draw.randrange(len(known))
                words[draw.randrange(len(words) + 1) :] = known[begin : begin + draw.randrange(5, 40)]
            known += words
            paragraphs.append(" ".join(words).capitalize() + ".")
        found.append(paragraphs)
    return found


def by_hand(documents: list[list[str]]) -> list[np.ndarray]:
    """Which words lie in a run that began in an earlier paragraph for the first time: bool [W] of each document."""
    first: dict[tuple[str, ...], int] = {}
    paragraph, told = 0, []
    for document in documents:
        words = [(word, paragraph + number) for number, text in enumerate(document) for word in text.split()]
        found = np.zeros(len(words), bool)
        for begin in range(len(words) - RUN + 1):
            run = tuple(word.strip(".").lower() for word, _ in words[begin : begin + RUN])
            own = words[begin][1]
            found[begin : begin + RUN] |= first.setdefault(run, own) < own
        told.append(found)
        paragraph += len(document)
    return told


@pytest.mark.parametrize("bits", [26, 6])  # of a full table every run may come back
def test_words_that_stood_earlier_are_found(bits, monkeypatch):
    monkeypatch.setattr(repeats, "_BITS", bits)
    documents = texts(3)
    words = [Words.of(document) for document in documents]
    counts = Counts()
    for one in words:
        counts.add(one)
    found = Repeats(counts, words)
    first, some = 0, 0
    for one, expected in zip(words, by_hand(documents), strict=True):
        told = found.earlier_paragraphs(one, first)
        assert ((told >= 0) == expected).all()
        assert told.max(initial=-1) < first + len(one.sizes)
        some += int((told >= 0).sum())
        first += len(one.sizes)
    assert some > 100


def test_a_run_reaches_over_the_ends_of_paragraphs():
    text = [f"Word{n} and{n} more{n}." for n in range(8)]
    words = [Words.of(["Quite another story."]), Words.of(text), Words.of([" ".join(text)])]
    counts = Counts()
    for one in words:
        counts.add(one)
    found = Repeats(counts, words)
    assert (found.earlier_paragraphs(words[1], 1) == -1).all()
    assert (found.earlier_paragraphs(words[2], 9) >= 1).all()


def test_a_refrain_within_one_paragraph_is_no_repeat():
    words = Words.of(["ha " * 50])
    counts = Counts()
    counts.add(words)
    assert (Repeats(counts, [words]).earlier_paragraphs(words, 0) == -1).all()
