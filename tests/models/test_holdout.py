"""Tests of held-out documents: which ones are chosen, and that both parts equal the corpora of their documents."""

from dataclasses import replace

import numpy as np
import pytest

from ptmbench.models.objectives import lm, rtd
from ptmbench.models.text.corpus import Corpus, CorpusError
from ptmbench.models.text.holdout import PLACES, sample, split
from ptmbench.models.text.media import Media
from ptmbench.models.text.tokenizers import Vocabulary

VOCABULARY = Vocabulary(size=1000)


def corpus_of(documents: list[list[list[int]]], **more) -> Corpus:
    """A corpus in memory of documents of sentences of ids."""
    sentences = [sentence for document in documents for sentence in document]
    ids = np.array([token for sentence in sentences for token in sentence], np.int32)
    return Corpus(
        ids=ids,
        sentences=np.cumsum([0, *map(len, sentences)]),
        documents=np.cumsum([0, *map(len, documents)]),
        heads=ids % 3 > 0,
        fingerprint="made",
        layers={"entities": ids // 7},
        **more,
    )


def random_documents(count: int, seed: int = 0) -> list[list[list[int]]]:
    """Returns documents of 1 to 4 sentences of 1 to 9 ids. The ids of a document tell its number."""
    rng = np.random.default_rng(seed)
    return [[[10 + n] * rng.integers(1, 10) for _ in range(rng.integers(1, 5))] for n in range(count)]


def documents_of(corpus: Corpus) -> list[list[list[int]]]:
    ids, sentences, documents = (
        one.take(np.arange(len(one))) for one in (corpus.ids, corpus.sentences, corpus.documents)
    )
    cut = [ids[begin:end].tolist() for begin, end in zip(sentences, sentences[1:], strict=False)]
    return [cut[begin:end] for begin, end in zip(documents, documents[1:], strict=False)]


def test_every_document_is_in_exactly_one_part():
    documents = random_documents(400)
    whole = corpus_of(documents)
    kept, held_out = split(whole, 200)
    chosen, others = documents_of(kept), documents_of(held_out)
    assert sorted(chosen + others) == sorted(documents) and len(chosen) + len(others) == len(documents)
    assert 100 < held_out.tokens <= 200 and kept.tokens + held_out.tokens == whole.tokens
    numbers = np.array([document[0][0] - 10 for document in others])
    assert len(np.unique(numbers * PLACES // 400)) == PLACES, "they lie all over the corpus"
    assert len({whole.fingerprint, kept.fingerprint, held_out.fingerprint}) == 3
    assert documents_of(split(corpus_of(documents), 200)[1]) == others
    small = split(whole, 10**9)[1]
    assert small.tokens <= whole.tokens // 20


@pytest.mark.parametrize("again", [False, True], ids=["in memory", "of a part"])
@pytest.mark.parametrize("side", [0, 1])
def test_part_equals_a_corpus_of_its_documents(side, again):
    """Includes its offsets and the batches of samplers. A part of a part has no NumPy arrays to look values up in."""
    whole = corpus_of(random_documents(700))
    if again:
        whole = split(whole, 100)[0]
    part = split(whole, 300)[side]
    alone = corpus_of(documents_of(part))
    for name in ("ids", "sentences", "documents", "heads", "openings"):
        ours, theirs = getattr(part, name), getattr(alone, name)
        assert len(ours) == len(theirs) and ours.dtype == theirs.dtype, name
        assert np.array_equal(ours.take(np.arange(len(theirs))), theirs), name
    assert np.array_equal(part.layers["entities"].take(np.arange(part.tokens)), alone.layers["entities"])
    places = np.arange(part.tokens)
    for name, values in (("sentences", places), ("documents", np.arange(len(alone.sentences) - 1))):
        for edge in ("left", "right"):
            ours, theirs = (getattr(one, name).searchsorted(values, side=edge) for one in (part, alone))
            assert np.array_equal(ours, theirs), (name, edge)
    for objective in (lm, rtd):
        ours, theirs = (objective.batches.of(VOCABULARY)(one, 4, 16) for one in (part, alone))
        for step in range(20):
            one, other = ours(step, 3), theirs(step, 3)
            assert one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def test_pictures_stay_with_their_documents():
    documents = random_documents(300)
    counts = np.arange(300) % 3
    offsets = np.cumsum([0, *counts])
    numbers = np.repeat(np.arange(300), counts * 2).astype(np.float32)  # each region has its document's number, twice
    whole = corpus_of(documents, media=Media(offsets, {"regions": numbers}, {"regions": 2}))
    for part in split(whole, 200):
        own = np.array([document[0][0] - 10 for document in documents_of(part)])
        assert np.array_equal(part.media.counts(), own % 3)
        result = part.media.of(np.arange(len(own)), 2)["regions"]
        for row, number in zip(result, own, strict=True):
            assert row.tolist() == [[number] * 2] * (number % 3) + [[0.0, 0.0]] * (2 - number % 3)


def test_long_documents_stay_in_training():
    book = [[[5] * 50] * 40]
    kept, held_out = split(corpus_of(book + random_documents(60) + book), 150)
    assert [[5] * 50] * 40 not in documents_of(held_out) and documents_of(kept).count(book[0]) == 2
    with pytest.raises(CorpusError, match=r"none of its 3 documents has at most 300 tokens.*where documents begin"):
        split(corpus_of(book * 3), 150)
    assert split(replace(corpus_of(book * 3 + random_documents(1)), fingerprint=""), 150)[1].tokens > 0


def test_sample_has_documents_from_all_over_the_corpus():
    documents = random_documents(400)
    whole = corpus_of(documents)
    result = sample(whole, 1000)
    assert 500 < result.tokens <= 1000, "more than a twentieth: nothing is trained on the rest"
    chosen = documents_of(result)
    assert all(document in documents for document in chosen) and chosen == documents_of(sample(whole, 1000))
    assert len({documents.index(document) * PLACES // 400 for document in chosen}) == PLACES
    assert result.fingerprint not in (whole.fingerprint, sample(whole, 900).fingerprint)
    assert sample(whole, whole.tokens) is whole
    one = corpus_of([[[11] * 50]])
    assert sample(one, 10) is one, "no document is short enough"
