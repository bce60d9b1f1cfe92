"""Tests of gap sentences: which sentences are selected, what replaces them, and what the decoder generates."""

from collections import Counter

import numpy as np
import pytest

from ptmbench.models.objectives import gap_sentences
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary

VOCABULARY = Vocabulary(size=5000)
FIRST, MASK = VOCABULARY.first, VOCABULARY.mask


def f1(sentence: list[int], rest: list[int]) -> float:
    """ROUGE-1 by its definition, from clipped counts, precision and recall."""
    common = sum((Counter(sentence) & Counter(rest)).values())
    if not common:
        return 0.0
    precision, recall = common / len(sentence), common / len(rest)
    return 2 * precision * recall / (precision + recall)


def random_texts(rng: np.random.Generator, rows: int = 40, length: int = 60):
    """Random texts of few different words, with the numbers of their sentences and documents."""
    text = rng.integers(FIRST, FIRST + 25, (rows, length)).astype(np.int32)
    pieces = np.cumsum(np.pad(rng.random((rows, length - 1)) < 0.15, [(0, 0), (1, 0)]), axis=1)
    opens = np.pad(np.diff(pieces, axis=1) > 0, [(0, 0), (1, 0)])
    documents = np.cumsum(opens & (rng.random(text.shape) < 0.3), axis=1)
    return text, pieces, documents


def test_scores_are_rouge_1_against_the_rest_of_the_document():
    text, pieces, documents = random_texts(np.random.default_rng(0))
    scores = gap_sentences.rouge_1(text, pieces, documents)
    checked = 0
    for row in range(len(text)):
        for piece in range(scores.shape[1]):
            inside = pieces[row] == piece
            if inside.any():
                rest = (documents[row] == documents[row][inside][0]) & ~inside
                assert scores[row, piece] == pytest.approx(f1(text[row][inside].tolist(), text[row][rest].tolist()))
                checked += 1
            else:
                assert scores[row, piece] == 0
    assert checked > 80


def test_best_sentences_of_each_document_become_gaps():
    text, pieces, documents = random_texts(np.random.default_rng(1))
    room, longest = 45, 25
    pieces = gap_sentences.cut(pieces, longest)
    gaps = gap_sentences.principal(text, pieces, documents, room, longest)
    scores = gap_sentences.rouge_1(text, pieces, documents)
    whole = 0
    for row in range(len(text)):
        begins = np.array([np.argmax(pieces[row] == piece) for piece in range(pieces[row].max() + 1)])
        owner, chosen = documents[row][begins], np.flatnonzero(gaps[row])
        assert len(chosen)
        assert (begins[chosen] < room).all()
        assert np.isin(pieces[row], chosen).sum() <= longest
        expected = []
        for number in np.unique(owner):
            own = np.flatnonzero(owner == number)
            if len(own) > 1:
                best = sorted((-scores[row, i], i) for i in own if begins[i] < room)
                expected += [i for _, i in best[: max(1, round(0.3 * len(own)))]]
        if np.isin(pieces[row], expected).sum() <= longest:
            assert chosen.tolist() == sorted(expected)
            whole += 1
        else:
            assert set(chosen) < set(expected)
    assert whole > 12


def test_row_of_one_sentence_documents_is_treated_as_one_document():
    text = np.array([[50, 51, 52, 53, 50, 51, 54, 55]], np.int32)
    pieces = np.array([[0, 0, 1, 1, 2, 2, 3, 3]])
    gaps = gap_sentences.principal(text, pieces, pieces, 6, 4)
    assert gaps.tolist() == [[True, False, False, False]]  # 50 51 are repeated; the first of equals


def test_long_sentences_are_split():
    pieces = gap_sentences.cut(np.array([[7] * 5 + [8] * 2 + [9] * 3]), 2)
    assert pieces.tolist() == [[0, 0, 1, 1, 2, 3, 3, 4, 4, 5]]


def corpus() -> Corpus:
    """Documents of 10 sentences of 2 to 12 words. Every token is unique, so an id tells its position."""
    sizes = np.random.default_rng(3).integers(2, 13, 400)
    ids = np.arange(FIRST, FIRST + sizes.sum(), dtype=np.int32)
    return Corpus(ids, np.concatenate([[0], np.cumsum(sizes)]), np.arange(0, 401, 10), np.ones(len(ids), bool))


def test_batches_hide_whole_sentences_and_the_text_can_be_restored():
    text = corpus()
    sentence = np.repeat(np.arange(400), np.diff(text.sentences))
    make = gap_sentences.batches(text, VOCABULARY, 8, 64)
    assert all(np.array_equal(make(3, 1)[key], make(3, 1)[key]) for key in make(3, 1))
    assert not np.array_equal(make(3, 1)["tokens"], make(3, 2)["tokens"])
    shares, checked = [], 0
    for step in range(10):
        batch = make(step, 1)
        assert batch["tokens"].shape == (8, 64)
        assert batch["targets"].shape == (8, 33)
        assert (batch["tokens"] > 0).all()
        for source_row, target_row in zip(batch["tokens"], batch["targets"], strict=True):
            assert source_row[0] == target_row[0] == VOCABULARY.cls
            assert source_row[-1] == VOCABULARY.sep
            assert target_row[np.count_nonzero(target_row) - 1] == VOCABULARY.sep
            gaps, kept = target_row[target_row >= FIRST], source_row[source_row >= FIRST]
            masks = np.flatnonzero(source_row == MASK)
            assert len(masks) + len(kept) == 62
            shares.append(len(gaps) / (len(gaps) + len(kept)))
            if np.ptp(np.concatenate([kept, gaps])) > 200:
                continue  # the row wraps around to the beginning of the corpus
            numbers = np.unique(sentence[gaps - FIRST])
            assert len(numbers) == len(masks)  # one mask for each sentence
            assert len(gaps) == np.isin(sentence, numbers).sum()  # sentences are hidden whole
            assert (np.diff(gaps) > 0).all()  # in the order of the text
            whole, left = [], list(numbers)
            for token in source_row[1:-1]:
                whole += (np.flatnonzero(sentence == left.pop(0)) + FIRST).tolist() if token == MASK else [token]
            assert (np.diff(whole) == 1).all()  # each mask is at the place of its sentence
            checked += 1
    assert checked > 70
    assert 0.2 < np.mean(shares) < 0.45


def test_short_rows_raise_an_error():
    with pytest.raises(ValueError, match="too short"):
        gap_sentences.batches(corpus(), VOCABULARY, 2, 8)
