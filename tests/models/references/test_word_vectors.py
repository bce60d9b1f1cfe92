"""Compares word2vec, CBOW and paragraph vectors with gensim's `Word2Vec` and `Doc2Vec` on the same random tables.

gensim does not expose gradients. It takes a step with a tiny learning rate, without subsampling or random windows. The
change of a table divided by the rate is its gradient. gensim's sigmoid is a table of 1000 values with errors of up to
0.009, always to one side. Therefore gradients have the tolerance `ROUGH`, relative to the largest component. Trees and
random draws need no such tolerance. Probabilities are compared with fastText's classifier, whose hierarchical softmax
has no such table.
"""

from importlib import metadata

import numpy as np
import pytest

from ptmbench.models.objectives import hierarchical_softmax, paragraph_vectors, skipgram
from ptmbench.models.text.corpus import Corpus
from tests.models.frozen.word_vectors import (
    COUNTS,
    LABELS,
    UNSEEN,
    WIDTH,
    WINDOW,
    WORDS,
    documents,
    random,
    sentences,
    tables,
)
from tests.models.references.differences import noted

gensim = pytest.importorskip("gensim", reason="the reference needs gensim")
word2vec = pytest.importorskip("gensim.models.word2vec", reason="the reference needs gensim")
doc2vec = pytest.importorskip("gensim.models.doc2vec", reason="the reference needs gensim")

pytestmark = pytest.mark.reference

ROUGH = 3e-2
RATE = 2e-5
ABOUT = f"gensim {gensim.__version__}"


def gensim_gradients(texts: list[np.ndarray], inputs: np.ndarray, outputs: np.ndarray, **settings) -> list[np.ndarray]:
    """Returns gensim's gradients of the summed loss of ``texts`` for both tables."""
    model = word2vec.Word2Vec(
        vector_size=WIDTH, window=WINDOW, shrink_windows=False, sample=0, min_count=1, workers=1, **settings
    )
    model.build_vocab_from_freq({str(word): int(count) for word, count in enumerate(COUNTS)})
    assert model.wv.index_to_key == [str(word) for word in range(WORDS)]
    if model.hs:
        after = model.syn1
    else:
        after = model.syn1neg
        model.cum_table[:UNSEEN] = 0  # all draws are the word `UNSEEN`
    after[: len(outputs)] = outputs
    model.wv.vectors[:] = inputs
    token_lists = [[str(word) for word in text] for text in texts]
    model.train(token_lists, total_examples=len(token_lists), epochs=1, start_alpha=RATE, end_alpha=RATE)
    return [(inputs - model.wv.vectors) / RATE, (outputs - after[: len(outputs)]) / RATE]


@pytest.mark.parametrize("name", ["word2vec", "cbow", "word2vec_hs", "cbow_hs"])
def test_gradients(name, hold):
    """gensim predicts the centre word from each context word. The paper and we predict context words from the centre.

    With a fixed window width, the pairs are the same.
    """
    hierarchical, pairs = name.endswith("_hs"), name.startswith("word2vec")
    _, _, arrays = tables(name, WORDS - 1 if hierarchical else WORDS)
    settings = {"sg": 1} if pairs else {"sg": 0, "cbow_mean": 1}
    settings |= {"hs": 1, "negative": 0} if hierarchical else {"hs": 0, "negative": 5}
    expected = dict(zip(("inputs", "outputs"), gensim_gradients(sentences(), *arrays, **settings), strict=True))
    if not pairs:
        expected["plain_outputs"] = expected["outputs"]
    hold(name, ABOUT, {}, expected, tolerance=ROUGH)


# Hierarchical softmax


def gensim_turns(counts: np.ndarray) -> list[np.ndarray]:
    """Returns gensim's turns to words with these ``counts``, in the format of `hierarchical_softmax.tree`."""
    model = word2vec.Word2Vec(hs=1, negative=0, vector_size=1, min_count=1)
    model.build_vocab_from_freq({str(word): int(count) for word, count in enumerate(counts)})
    results = []
    for word in map(str, range(len(counts))):
        point, code = (model.wv.get_vecattr(word, name).astype(int) for name in ("point", "code"))
        results.append((point + 1) * (1 - 2 * code))
    return results


@pytest.mark.parametrize("words", [2, 37, 300])
def test_tree(words, hold):
    """Without ties, every turn at every node is the same."""
    turns = gensim_turns(np.random.default_rng(words).choice(1 << 40, words, replace=False) + 1)
    hold(f"tree_{words}", ABOUT, {}, {"turns": np.concatenate(turns), "depths": np.array([len(way) for way in turns])})


def test_tree_with_ties():
    """Trees may differ in which of two equal counts is deeper, but not in the total number of turns."""
    counts = np.random.default_rng(0).zipf(1.5, 3000).clip(max=10**6)
    ours = (hierarchical_softmax.tree(counts, 100) != 0).sum(axis=1)
    assert (counts * ours).sum() == (counts * np.array([len(way) for way in gensim_turns(counts)])).sum()


def test_probabilities(tmp_path, hold):
    """Compares the probability of every label with the tree of a fastText classifier.

    In our tree, + is to the right, so the vectors of nodes are fastText's times -1. fastText adds 1e-5 to every
    probability before it takes the logarithm.
    """
    fasttext = pytest.importorskip("fasttext", reason="the reference needs the package fasttext")
    path = tmp_path / "train.txt"
    path.write_text("".join(f"__label__{label} a b\n" * count for label, count in enumerate(LABELS)))
    model = fasttext.train_supervised(str(path), loss="hs", dim=WIDTH, bucket=0, epoch=1, thread=1, verbose=0)
    assert model.get_labels() == [f"__label__{label}" for label in range(len(LABELS))]
    words, nodes = random(5, *model.get_input_matrix().shape), random(6, len(LABELS), WIDTH)
    model.set_matrices(words, nodes)
    # ``predict`` fails with NumPy 2.
    results = {label: share for share, label in model.f.predict("a\n", len(LABELS), 0.0, "strict")}
    h = words[[model.get_word_id("a"), model.get_word_id("</s>")]].mean(axis=0)
    shares = np.array([results[label] for label in model.get_labels()])
    about = f"fasttext-wheel {metadata.version('fasttext-wheel')}"
    hold("hierarchical_probabilities", about, {}, {"probabilities": shares}, hidden=h, tolerance=1e-4)


# Paragraph vectors


@pytest.mark.parametrize("length", [2, 6, 14])
@pytest.mark.parametrize("name", ["pv_dbow", "pv_dm"])
def test_paragraph_vectors(name, length, hold):
    """Compares the gradients of two texts.

    As for CBOW, gensim gives each vector of a mean the mean's whole gradient. In texts of up to 6 words, each word is
    in the window of all others, and a mean has as many vectors as the text has words. For longer texts, PV-DM is only
    compared in the output table. Nothing is subsampled, because a dropped word leaves a gap here, but not in gensim.
    """
    _, weights, tokens = documents(name, length)
    model = doc2vec.Doc2Vec(
        dm=int(name == "pv_dm"), dm_mean=1, vector_size=WIDTH, window=5, shrink_windows=False, sample=0, min_count=1,
        workers=1, hs=0, negative=5,
    )  # fmt: skip
    seen = [str(word) for word in range(WORDS) for _ in range(WORDS - word)]
    model.build_vocab([doc2vec.TaggedDocument(seen, [tag]) for tag in range(4)])
    assert model.wv.index_to_key == [str(word) for word in range(WORDS)]
    model.cum_table[:UNSEEN] = 0
    vectors = [model.syn1neg, model.dv.vectors, model.wv.vectors][: len(weights)]
    before = [weight.numpy() for weight in weights]
    for table, array in zip(vectors, before, strict=True):
        table[:] = array
    token_lists = [doc2vec.TaggedDocument([str(word) for word in text], [tag]) for tag, text in enumerate(tokens, 1)]
    model.train(token_lists, total_examples=2, epochs=1, start_alpha=RATE, end_alpha=RATE)
    kinds = ("answers",) if name == "pv_dm" and length > 6 else ("answers", "documents", "words")
    gradients = [(array - table) / RATE for array, table in zip(before, vectors, strict=True)]
    hold(f"{name}_{length}", ABOUT, {}, dict(zip(kinds, gradients, strict=False)), tolerance=ROUGH)


# Random draws


def zipfian() -> tuple[Corpus, "word2vec.Word2Vec"]:
    """Returns a text of 2000 different words with Zipfian counts, and a gensim model with its vocabulary.

    gensim numbers words by frequency, so equal counts may be in another order. Its threshold and exponent are defaults.
    """
    counts = (100_000 / np.arange(1, 2001)).astype(int)
    ids = np.random.default_rng(0).permutation(np.repeat(np.arange(2000), counts)).astype(np.int32)
    sentences = np.append(np.arange(0, len(ids), 50), len(ids))
    model = word2vec.Word2Vec(vector_size=1, min_count=1)
    model.build_vocab_from_freq({str(word): int(count) for word, count in enumerate(counts)})
    order = np.array(model.wv.index_to_key, int)
    assert (counts[order] == counts).all()
    return Corpus(ids, sentences, np.array([0, len(sentences) - 1]), np.ones(len(ids), bool)), model


def test_subsampling():
    """The paper keeps a word with probability p = sqrt(t / f). gensim, like the authors' program, adds t / f = p^2."""
    text, model = zipfian()
    keep, _ = skipgram.subsampling(text.counts())
    expected = model.wv.expandos["sample_int"] / (2.0**32 - 1)
    assert 0.01 < expected.min() < 0.2 and expected.max() == 1
    assert noted("vectors", np.abs(np.minimum(keep + keep**2, 1) - expected).max()) < 1e-6


@pytest.mark.parametrize("batches", ["skipgram", "paragraph_vectors"])
def test_noise(batches):
    text, model = zipfian()
    make = skipgram.batches(text, 256, 8) if batches == "skipgram" else paragraph_vectors.batches(text, 4, 256, 8)
    drawn = np.bincount(np.concatenate([make(step, 0)["noise"].ravel() for step in range(60)]), minlength=2000)
    expected = np.diff(model.cum_table.astype(float), prepend=0) / model.cum_table[-1]
    # Kolmogorov-Smirnov: draws from this distribution stay below 1.95 / sqrt(n) in 999 of 1000 cases.
    gap = np.abs(np.cumsum(drawn / drawn.sum()) - np.cumsum(expected)).max()
    assert noted("vectors", gap) < 1.95 / drawn.sum() ** 0.5
