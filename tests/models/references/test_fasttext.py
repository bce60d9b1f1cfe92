"""fastText's n-grams, buckets and vectors against the authors' program, and its loss against gensim's `FastText`.

The classifier is held against the same program in ``tests/bench/test_fasttext.py``.
"""

import numpy as np
import pytest
import tensorflow as tf

from ptmbench import models
from ptmbench.models.card import Size
from ptmbench.models.layers.vectors import hashed, ngrams, spelled
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.tokenizers import Vocabulary
from tests.models.references.differences import noted

pytestmark = pytest.mark.reference

WORDS = (
    "where",
    "the",
    "a",
    "of",
    "whereabouts",
    "café",
    "фыва",
    "日本",
    "naïve",
    "x-ray",
    "don't",
    "🙂",
    "1984",
    "ab",
)
WIDTH, BUCKETS = 8, 50
ROUGH, RATE = 3e-2, 3e-5
"""As in ``test_word_vectors.py``, and for its reasons."""


def build(words: tuple[str, ...]) -> tuple[Pretrainable, Vocabulary]:
    """The model of ``words``, numbered from ``vocabulary.first`` on, with random tables."""
    specials = Vocabulary(size=0).first
    vocabulary = Vocabulary(size=specials + len(words), pieces=(*map(str, range(specials)), *words))
    built = models.load("fasttext").build(Size(layers=0, width=WIDTH, inner=BUCKETS, length=64), vocabulary)
    rng = np.random.default_rng(0)
    for table in (built.encoder.table, built.encoder.ngrams.table):
        table.assign(rng.normal(0, 2.0, table.shape))  # means of 15 are four times as small
    return built, vocabulary


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The authors' program on `WORDS`, its lengths of n-grams those it has by default."""
    fasttext = pytest.importorskip("fasttext", reason="the reference needs the package fasttext")
    path = tmp_path_factory.mktemp("fasttext") / "train.txt"
    path.write_text(" ".join(WORDS) + "\n")
    return fasttext.train_unsupervised(
        str(path), minCount=1, dim=WIDTH, bucket=BUCKETS, epoch=1, thread=1, verbose=0, loss="ns"
    )


@pytest.mark.parametrize("word", [*WORDS, "unseen", "é"])
def test_ngrams_and_buckets(program, word):
    parts, ids = program.get_subwords(word)
    if word in WORDS:  # it is a part of itself
        assert parts.pop(0) == word
        ids = ids[1:]
    (marked,) = spelled([word])
    assert ngrams(marked) == parts
    assert [hashed(ngram) % BUCKETS + len(program.get_words()) for ngram in ngrams(marked)] == ids.tolist()


def test_hash():
    """All of its 32 bits, with bytes above 127."""
    gensim = pytest.importorskip("gensim.models.fasttext_inner", reason="the reference needs gensim")
    for word in WORDS:
        (marked,) = spelled([word])
        expected = gensim.compute_ngrams_bytes(word, 3, 6)
        assert sorted(ngram.encode() for ngram in ngrams(marked)) == sorted(expected)
        assert [hashed(ngram) for ngram in ngrams(marked)] == [
            gensim.ft_hash_bytes(ngram.encode()) for ngram in ngrams(marked)
        ]


def test_vectors(program):
    """Special tokens, which the program does not have, have no n-grams; its "</s>" is one of them there and no word
    here."""
    built, vocabulary = build(WORDS)
    encoder = built.encoder
    words = program.get_words()
    table = np.zeros((len(words) + BUCKETS, WIDTH), np.float32)
    table[len(words) :] = encoder.ngrams.table
    for number, word in enumerate(WORDS, vocabulary.first):
        table[words.index(word)] = encoder.table[number]
    program.set_matrices(table, program.get_output_matrix())
    numbers = np.arange(vocabulary.first, vocabulary.size, dtype=np.int32)
    ours = encoder({"tokens": numbers[None]}).tokens[0]
    theirs = np.stack([program.get_word_vector(word) for word in WORDS])
    assert noted("vectors", np.abs(ours - theirs).max()) < 2e-5


def test_gradient():
    """gensim, like the authors' program, adds a word's whole gradient to each of its parts; the true one is a share of
    it. Words of five letters have 15 parts each. While it trains, gensim divides the sum of these by 14, which the
    authors' program does not, nor gensim when it has trained: its vectors are made that much smaller."""
    gensim = pytest.importorskip("gensim.models.fasttext", reason="the reference needs gensim")
    rng = np.random.default_rng(1)
    words = tuple("".join(rng.choice(list("abcdé"), 5)) for _ in range(20))
    built, vocabulary = build(words)
    encoder, loss = built.encoder, built.loss
    loss.contexts.table.assign(rng.normal(0, 0.7, loss.contexts.table.shape))
    first, noise = vocabulary.first, len(words) - 1
    model = gensim.FastText(
        sg=1, hs=0, negative=5, vector_size=WIDTH, window=3, shrink_windows=False, sample=0, min_count=1, workers=1,
        bucket=BUCKETS,
    )  # fmt: skip
    model.build_vocab_from_freq({word: 100 - number for number, word in enumerate(words)})
    assert tuple(model.wv.index_to_key) == words
    model.cum_table[:noise] = 0  # all that is drawn lies behind
    tables = [model.wv.vectors_vocab, model.wv.vectors_ngrams, model.syn1neg]
    before = [14 / 15 * encoder.table[first:], 14 / 15 * encoder.ngrams.table, loss.contexts.table[first:]]
    for table, array in zip(tables, before, strict=True):
        table[:] = array
    text = rng.integers(0, noise, 12)
    model.train([[words[word] for word in text]], total_examples=1, epochs=1, start_alpha=RATE, end_alpha=RATE)
    batch = {"tokens": text[None] + first, "places": np.arange(12)[None], "windows": np.full((1, 12), 3)}
    batch["noise"] = np.full((1, 4), noise + first)
    batch = {name: value.astype(np.int32) for name, value in batch.items()}
    variables = (encoder.table, encoder.ngrams.table, loss.contexts.table)
    with tf.GradientTape() as tape:
        value = loss(batch, totals={"pairs": 1})["loss"]
    slopes = map(tf.convert_to_tensor, tape.gradient(value, [variable.value for variable in variables]))
    expected = [(np.asarray(array) - table) / RATE for array, table in zip(before, tables, strict=True)]
    for slope, other, parts, start in zip(slopes, expected, (15, 15, 1), (first, 0, first), strict=True):
        gap = np.abs(parts * slope.numpy()[start:] - other).max() / np.abs(other).max()
        assert noted("gradient", gap) < ROUGH
