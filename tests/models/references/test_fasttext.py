"""Compares fastText's n-grams, buckets and vectors with the authors' program, and its gradient with gensim.

`tests.models.frozen.word_vectors` computes our side.
"""

from importlib import metadata

import numpy as np
import pytest

from ptmbench.bench.baselines import fasttext_classifier as classifier
from ptmbench.models.layers.vectors import hashed, ngrams, spelled
from tests.models.frozen.word_vectors import BUCKETS, SPELLED, WIDTH, five_letters, labelled, subwords

pytestmark = pytest.mark.reference

ROUGH, RATE = 3e-2, 3e-5
"""As in ``test_word_vectors.py``, for the same reasons."""
GENSIM = f"gensim {metadata.version('gensim')}"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Trains the authors' program on `SPELLED`, with its default lengths of n-grams."""
    fasttext = pytest.importorskip("fasttext", reason="the reference needs the package fasttext")
    path = tmp_path_factory.mktemp("fasttext") / "train.txt"
    path.write_text(" ".join(SPELLED) + "\n")
    return fasttext.train_unsupervised(
        str(path), minCount=1, dim=WIDTH, bucket=BUCKETS, epoch=1, thread=1, verbose=0, loss="ns"
    )


@pytest.mark.parametrize("word", [*SPELLED, "unseen", "é"])
def test_ngrams_and_buckets(program, word):
    parts, ids = program.get_subwords(word)
    if word in SPELLED:  # a known word is also a part of itself
        assert parts.pop(0) == word
        ids = ids[1:]
    (marked,) = spelled([word])
    assert ngrams(marked) == parts
    assert [hashed(ngram) % BUCKETS + len(program.get_words()) for ngram in ngrams(marked)] == ids.tolist()


def test_hash():
    """All 32 bits of the hash agree, also for bytes above 127."""
    gensim = pytest.importorskip("gensim.models.fasttext_inner", reason="the reference needs gensim")
    for word in SPELLED:
        (marked,) = spelled([word])
        expected = gensim.compute_ngrams_bytes(word, 3, 6)
        assert sorted(ngram.encode() for ngram in ngrams(marked)) == sorted(expected)
        assert [hashed(ngram) for ngram in ngrams(marked)] == [
            gensim.ft_hash_bytes(ngram.encode()) for ngram in ngrams(marked)
        ]


def test_vectors(program, hold):
    """Only we have special tokens, which have no n-grams. Only the program has "</s>", which is no word here."""
    gensim = pytest.importorskip("gensim.models.fasttext_inner", reason="the reference needs gensim")
    built, vocabulary = subwords()
    encoder, words, expected = built.encoder, program.get_words(), {}
    table = np.zeros((len(words) + BUCKETS, WIDTH), np.float32)
    table[len(words) :] = encoder.ngrams.table
    for number, word in enumerate(SPELLED):
        table[words.index(word)] = encoder.table[vocabulary.first + number]
        parts, ids = program.get_subwords(word)
        expected[f"{number}/buckets"] = ids[1:] - len(words)  # without the word itself
        expected[f"{number}/hashes"] = np.array([gensim.ft_hash_bytes(part.encode()) for part in parts[1:]])
    program.set_matrices(table, program.get_output_matrix())
    expected["vectors"] = np.stack([program.get_word_vector(word) for word in SPELLED])
    hold("fasttext", f"fasttext-wheel {metadata.version('fasttext-wheel')}, {GENSIM}", {}, expected)


def test_gradient(hold):
    """While it trains, gensim divides the sum of a word's 15 parts by 14, and by 15 afterwards.

    The authors' program always divides by 15. gensim therefore gets tables that are smaller by the factor 14 / 15.
    """
    gensim = pytest.importorskip("gensim.models.fasttext", reason="the reference needs gensim")
    words, contexts, text = five_letters()
    built, vocabulary = subwords(words)
    first, noise = vocabulary.first, len(words) - 1
    model = gensim.FastText(
        sg=1, hs=0, negative=5, vector_size=WIDTH, window=3, shrink_windows=False, sample=0, min_count=1, workers=1,
        bucket=BUCKETS,
    )  # fmt: skip
    model.build_vocab_from_freq({word: 100 - number for number, word in enumerate(words)})
    assert tuple(model.wv.index_to_key) == words
    model.cum_table[:noise] = 0  # all draws are the word ``noise``
    tables = [model.wv.vectors_vocab, model.wv.vectors_ngrams, model.syn1neg]
    before = [14 / 15 * built.encoder.table[first:], 14 / 15 * built.encoder.ngrams.table, contexts[first:]]
    before = [np.asarray(array, np.float32) for array in before]
    for table, array in zip(tables, before, strict=True):
        table[:] = array
    sentence = [[words[word] for word in text]]
    model.train(sentence, total_examples=1, epochs=1, start_alpha=RATE, end_alpha=RATE)
    gradients = [(array - table) / RATE for array, table in zip(before, tables, strict=True)]
    expected = dict(zip(("words", "ngrams", "contexts"), gradients, strict=True))
    hold("fasttext_gradient", GENSIM, {}, expected, tolerance=ROUGH)


def test_classifier(tmp_path, hold):
    """Compares features and training: from the program's initial weights, we reach its final weights.

    A learning rate of 1e-30 reveals the initial weights.
    """
    program = pytest.importorskip("fasttext", reason="the reference needs the package fasttext")
    texts, answers = labelled()
    path = tmp_path / "train.txt"
    path.write_text("".join(f"__label__{answer} {text}\n" for answer, text in zip(answers, texts, strict=True)))

    def trained(rate):
        return program.train_supervised(
            str(path), lr=rate, dim=10, epoch=20, wordNgrams=2, bucket=1000, minCount=1, thread=1, lrUpdateRate=1,
            loss="softmax", seed=1, verbose=0,
        )  # fmt: skip

    before, after = trained(1e-30), trained(0.5)
    _, _, occurring = classifier.features([(text,) for text in texts], len(texts), buckets=1000)
    ours = list(dict.fromkeys(word for text in texts for word in [*text.split(), "</s>"]))
    words = before.get_words()
    rows = [words.index(ours[f]) if f < len(ours) else f for f in occurring]
    first = before.get_input_matrix()[rows].copy()
    assert np.abs(first).max() <= 0.1 and np.abs(classifier.initial(50, 2)[0]).max() <= 0.1
    expected = {"inputs": after.get_input_matrix()[rows], "outputs": after.get_output_matrix()}
    assert np.abs(expected["inputs"] - first).max() > 0.1
    labels = [label.removeprefix("__label__") for label in before.get_labels()]
    given = {"first": first, "rows": rows, "words": words, "labels": labels}
    about = f"fasttext-wheel {metadata.version('fasttext-wheel')}"
    hold("fasttext_classifier", about, {}, expected, **given)
