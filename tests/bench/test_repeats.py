"""Repeated runs of words, against a plain search."""

import random

import numpy as np
import pytest

from ptmbench.bench.data import repeats
from ptmbench.bench.data.repeats import RUN, Counts, Repeats, Words


def make_documents(seed: int, count: int = 40) -> list[list[str]]:
    """Makes documents of random words with copied passages of earlier ones."""
    draw = random.Random(seed)
    known, result = [], []
    for _ in range(count):
        paragraphs = []
        for _ in range(draw.randrange(1, 6)):
            words = [f"w{draw.randrange(5000)}" for _ in range(draw.randrange(1, 40))]
            if known and draw.random() < 0.4:
                begin = draw.randrange(len(known))
                words[draw.randrange(len(words) + 1) :] = known[begin : begin + draw.randrange(5, 40)]
            known += words
            paragraphs.append(" ".join(words).capitalize() + ".")
        result.append(paragraphs)
    return result


def find_repeats(documents: list[list[str]]) -> list[np.ndarray]:
    """Marks words in runs that first occurred in an earlier paragraph: bool [W] for each document."""
    first: dict[tuple[str, ...], int] = {}
    paragraph, results = 0, []
    for document in documents:
        words = [(word, paragraph + number) for number, text in enumerate(document) for word in text.split()]
        result = np.zeros(len(words), bool)
        for begin in range(len(words) - RUN + 1):
            run = tuple(word.strip(".").lower() for word, _ in words[begin : begin + RUN])
            own = words[begin][1]
            result[begin : begin + RUN] |= first.setdefault(run, own) < own
        results.append(result)
        paragraph += len(document)
    return results


@pytest.mark.parametrize("bits", [26, 6])  # with a full hash table every run may be a repeat
def test_repeated_words_equal_a_search_by_hand(bits, monkeypatch):
    monkeypatch.setattr(repeats, "_BITS", bits)
    documents = make_documents(3)
    words = [Words.of(document) for document in documents]
    counts = Counts()
    for one in words:
        counts.add(one)
    result = Repeats(counts, words)
    first, repeated_words = 0, 0
    for one, expected in zip(words, find_repeats(documents), strict=True):
        results = result.earlier_paragraphs(one, first)
        assert ((results >= 0) == expected).all()
        assert results.max(initial=-1) < first + len(one.sizes)
        repeated_words += int((results >= 0).sum())
        first += len(one.sizes)
    assert repeated_words > 100


def test_runs_cross_paragraphs():
    text = [f"Word{n} and{n} more{n}." for n in range(8)]
    words = [Words.of(["Quite another story."]), Words.of(text), Words.of([" ".join(text)])]
    counts = Counts()
    for one in words:
        counts.add(one)
    result = Repeats(counts, words)
    assert (result.earlier_paragraphs(words[1], 1) == -1).all()
    assert (result.earlier_paragraphs(words[2], 9) >= 1).all()


def test_repetition_within_one_paragraph_is_not_counted():
    words = Words.of(["ha " * 50])
    counts = Counts()
    counts.add(words)
    assert (Repeats(counts, [words]).earlier_paragraphs(words, 0) == -1).all()
