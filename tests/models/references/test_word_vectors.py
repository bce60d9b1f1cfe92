"""word2vec, CBOW and paragraph vectors against gensim's `Word2Vec` and `Doc2Vec` on the same random tables.

gensim shows no gradients. It takes a step of a tiny rate here, without subsampling or random windows, and what it moved
by, divided by the rate, is its gradient. Its sigmoid comes from a table of 1000 values, which is up to 0.009 off and
always to one side: hence `ROUGH`, of the largest component. Trees and what is drawn have no such limit, and
probabilities are held against fastText's classifier, which has a hierarchical softmax, too, and no table for it.
"""

import numpy as np
import pytest
import tensorflow as tf

from ptmbench import models
from ptmbench.models.card import Size
from ptmbench.models.corpus import Corpus
from ptmbench.models.objectives import hierarchical_softmax, paragraph_vectors, skipgram
from ptmbench.models.tokenizers import Vocabulary
from tests.models.references.differences import noted

word2vec = pytest.importorskip("gensim.models.word2vec", reason="the reference needs gensim")
doc2vec = pytest.importorskip("gensim.models.doc2vec", reason="the reference needs gensim")

pytestmark = pytest.mark.reference

ROUGH = 3e-2
RATE = 2e-5
WORDS, WIDTH, WINDOW = 40, 8, 3
COUNTS = np.sort(np.random.default_rng(1).choice(5000, WORDS, replace=False) + 1)[::-1]
"""gensim numbers words by frequency; so does this, and numbers are the same on both sides."""
UNSEEN = WORDS - 1
"""The noise word: gensim leaves out noise that is the very word predicted, which is counted here."""


def random(seed: int, *shape: int) -> np.ndarray:
    """Products of two rows stay within the 6 where gensim's table ends, and are wide enough to be told apart."""
    return np.random.default_rng(seed).normal(0, 0.7, shape).astype(np.float32)


def sentences() -> list[np.ndarray]:
    """Two, which together are longer than a block of `skipgram.BLOCK` tokens."""
    rng = np.random.default_rng(2)
    return [rng.integers(0, UNSEEN, 25), rng.integers(0, UNSEEN, 20)]


def row(texts: list[np.ndarray]) -> dict[str, np.ndarray]:
    """``texts`` as a batch of one row, every window `WINDOW` wide, every noise word `UNSEEN`."""
    places = [np.arange(len(text)) + number * skipgram.FAR for number, text in enumerate(texts)]
    batch = {"tokens": np.concatenate(texts)[None], "places": np.concatenate(places)[None]}
    batch |= {"windows": np.full_like(batch["tokens"], WINDOW), "noise": np.full((1, 4), UNSEEN)}
    return {name: value.astype(np.int32) for name, value in batch.items()}


def theirs(texts: list[np.ndarray], inputs: np.ndarray, outputs: np.ndarray, **settings) -> list[np.ndarray]:
    """gensim's gradients for both tables of the loss of ``texts``, summed."""
    model = word2vec.Word2Vec(
        vector_size=WIDTH, window=WINDOW, shrink_windows=False, sample=0, min_count=1, workers=1, **settings
    )
    model.build_vocab_from_freq({str(word): int(count) for word, count in enumerate(COUNTS)})
    assert model.wv.index_to_key == [str(word) for word in range(WORDS)]
    if model.hs:
        after = model.syn1
    else:
        after = model.syn1neg
        model.cum_table[:UNSEEN] = 0  # all that is drawn lies behind
    after[: len(outputs)] = outputs
    model.wv.vectors[:] = inputs
    said = [[str(word) for word in text] for text in texts]
    model.train(said, total_examples=len(said), epochs=1, start_alpha=RATE, end_alpha=RATE)
    return [(inputs - model.wv.vectors) / RATE, (outputs - after[: len(outputs)]) / RATE]


def check(ours: list[np.ndarray], theirs: list[np.ndarray]) -> None:
    """Gradients within `ROUGH` of each other, measured by the largest component of each table."""
    gaps = [
        np.abs(np.asarray(one) - other).max() / np.abs(other).max() for one, other in zip(ours, theirs, strict=True)
    ]
    assert noted("gradient", max(gaps)) < ROUGH, gaps


def slopes(loss, batch: dict, variables: list, totals: dict) -> list[np.ndarray]:
    """The gradients of the sum that ``loss`` divides by ``totals``."""
    with tf.GradientTape() as tape:
        value = loss(batch, totals=totals)["loss"]
    return [tf.convert_to_tensor(slope).numpy() for slope in tape.gradient(value, [v.value for v in variables])]


def centre_by_centre(loss, batch: dict, variables: list) -> list[np.ndarray]:
    """The gradients of a loss by means, that of each word times the number of words around it.

    gensim, like the authors' program, adds the mean's whole gradient to each vector of the mean; the true one is a
    share of it. Here each row has one centre: with places twice as far apart and windows of 1, the others are alone.
    """
    places, length = 2 * batch["places"], batch["tokens"].shape[1]
    rows = {name: np.repeat(value, length, axis=0) for name, value in (batch | {"places": places}).items()}
    rows["windows"] = np.ones_like(rows["windows"]) + (2 * WINDOW - 1) * np.eye(length, dtype=np.int32)
    numbers = (np.abs(places - places.T) <= 2 * WINDOW).sum(axis=1) - 1  # of words around each
    sums = [0.0, 0.0]
    for number in np.unique(numbers):
        chosen = {name: value[numbers == number] for name, value in rows.items()}
        found = slopes(loss, chosen, variables, {"words": 1})
        sums = [sums[0] + number * found[0], sums[1] + found[1]]
    return sums


def tables(name: str, rows: int = WORDS):
    """The loss of the model ``name`` with random tables, these as variables, and as arrays."""
    built = models.load(name).build(Size(layers=0, width=WIDTH, length=64), Vocabulary(size=WORDS))
    variables = [built.encoder.table]
    variables += [variable for variable in built.loss.trainable_variables if variable is not built.encoder.table]
    arrays = [random(3, WORDS, WIDTH), random(4, rows, WIDTH)]
    assert np.abs(arrays[0] @ arrays[1].T).max() < 6
    for variable, array in zip(variables, arrays, strict=True):
        variable.assign(array)
    return built.loss, variables, arrays


# Negative sampling


def test_skipgram():
    """gensim predicts the word in the middle from each around it, the paper and this the other way round: with windows
    of one width these are the same pairs."""
    loss, variables, arrays = tables("word2vec")
    ours = slopes(loss, row(sentences()), variables, {"pairs": 1})
    check(ours, theirs(sentences(), *arrays, sg=1, hs=0, negative=5))


def test_cbow():
    loss, variables, arrays = tables("cbow")
    expected = theirs(sentences(), *arrays, sg=0, hs=0, cbow_mean=1, negative=5)
    check(centre_by_centre(loss, row(sentences()), variables), expected)
    check(slopes(loss, row(sentences()), variables, {"words": 1})[1:], expected[1:])


# Hierarchical softmax


def codes(counts: np.ndarray) -> list[np.ndarray]:
    """gensim's ways to words that occur ``counts`` times, as `hierarchical_softmax.tree` writes them."""
    model = word2vec.Word2Vec(hs=1, negative=0, vector_size=1, min_count=1)
    model.build_vocab_from_freq({str(word): int(count) for word, count in enumerate(counts)})
    found = []
    for word in map(str, range(len(counts))):
        point, code = (model.wv.get_vecattr(word, name).astype(int) for name in ("point", "code"))
        found.append((point + 1) * (1 - 2 * code))
    return found


@pytest.mark.parametrize("words", [2, 37, 1000])
def test_tree(words):
    """Without ties every turn at every node is the same."""
    counts = np.random.default_rng(words).choice(1 << 40, words, replace=False) + 1
    ours = hierarchical_softmax.tree(counts, hierarchical_softmax.depth(words))
    for way, other in zip(ours, codes(counts), strict=True):
        assert way[way != 0].tolist() == other.tolist()


def test_tree_with_ties():
    """Which of two equal counts goes deeper is free; what all words cost together is not."""
    counts = np.random.default_rng(0).zipf(1.5, 3000).clip(max=10**6)
    ours = (hierarchical_softmax.tree(counts, 100) != 0).sum(axis=1)
    assert (counts * ours).sum() == (counts * np.array([len(way) for way in codes(counts)])).sum()


def hierarchical(name: str):
    loss, variables, arrays = tables(name, WORDS - 1)
    batch = row(sentences())
    paths = hierarchical_softmax.tree(COUNTS, hierarchical_softmax.depth(WORDS))
    batch |= {
        "paths": paths[batch["tokens"]],
        "centres": hierarchical_softmax.holders(batch["places"], batch["windows"]),
    }
    return loss, batch, variables, arrays


def test_hierarchical_skipgram():
    loss, batch, variables, arrays = hierarchical("word2vec_hs")
    check(slopes(loss, batch, variables, {"pairs": 1}), theirs(sentences(), *arrays, sg=1, hs=1, negative=0))


def test_hierarchical_cbow():
    loss, batch, variables, arrays = hierarchical("cbow_hs")
    expected = theirs(sentences(), *arrays, sg=0, hs=1, cbow_mean=1, negative=0)
    check(centre_by_centre(loss, batch, variables), expected)
    check(slopes(loss, batch, variables, {"words": 1})[1:], expected[1:])


def test_probabilities(tmp_path):
    """Of every answer, from the tree of a fastText classifier, where + is to the right: the nodes' vectors are ours
    times -1. It adds 1e-5 to every probability whose logarithm it takes."""
    fasttext = pytest.importorskip("fasttext", reason="the reference needs the package fasttext")
    counts = np.array([290, 170, 111, 70, 51, 30, 20, 7, 2])
    path = tmp_path / "train.txt"
    path.write_text("".join(f"__label__{label} a b\n" * count for label, count in enumerate(counts)))
    model = fasttext.train_supervised(str(path), loss="hs", dim=WIDTH, bucket=0, epoch=1, thread=1, verbose=0)
    assert model.get_labels() == [f"__label__{label}" for label in range(len(counts))]
    words, nodes = random(5, *model.get_input_matrix().shape), random(6, len(counts), WIDTH)
    model.set_matrices(words, nodes)
    # Not ``predict``, which fails beside NumPy 2.
    found = {label: share for share, label in model.f.predict("a\n", len(counts), 0.0, "strict")}
    loss, _, _ = tables("cbow_hs", WORDS - 1)
    loss.nodes.table.assign(np.concatenate([-nodes[:-1], np.zeros((WORDS - len(counts), WIDTH))]))
    paths = hierarchical_softmax.tree(counts, hierarchical_softmax.depth(len(counts)))
    ends = [model.get_word_id("a"), model.get_word_id("</s>")]
    h = words[ends].mean(axis=0)[None, None, None]
    ours = np.exp(-loss.surprise(tf.constant(paths[None]), tf.tile(h, [1, len(counts), 1, 1])).numpy().ravel())
    gap = np.abs(ours - [found[label] for label in model.get_labels()]).max()
    assert noted("loss", gap) < 1e-4


# Paragraph vectors


@pytest.mark.parametrize("length", [2, 6, 14])
@pytest.mark.parametrize("name", ["pv_dbow", "pv_dm"])
def test_paragraph_vectors(name, length):
    """Two texts, where gensim, as for CBOW, gives each vector of a mean the mean's whole gradient. In texts of up to 6
    words each is in the window of all others, and means are of as many vectors as there are words; of longer ones the
    answers are compared. What is dropped leaves a hole here and none there: nothing is dropped."""
    built = models.load(name).build(Size(layers=1, width=WIDTH, inner=4, length=64), Vocabulary(size=WORDS))
    encoder = built.encoder
    model = doc2vec.Doc2Vec(
        dm=int(name == "pv_dm"), dm_mean=1, vector_size=WIDTH, window=5, shrink_windows=False, sample=0, min_count=1,
        workers=1, hs=0, negative=5,
    )  # fmt: skip
    seen = [str(word) for word in range(WORDS) for _ in range(WORDS - word)]
    model.build_vocab([doc2vec.TaggedDocument(seen, [tag]) for tag in range(4)])
    assert model.wv.index_to_key == [str(word) for word in range(WORDS)]
    model.cum_table[:UNSEEN] = 0
    pairs = [(encoder.answers.table, model.syn1neg), (encoder.documents.table, model.dv.vectors)]
    pairs += [(encoder.table, model.wv.vectors)] if name == "pv_dm" else []
    before = [random(seed, *weight.shape) for seed, (weight, _) in enumerate(pairs)]
    for (weight, vectors), array in zip(pairs, before, strict=True):
        weight.assign(array)
        vectors[:] = array
    tokens = np.random.default_rng(5).integers(0, UNSEEN, (2, length))
    said = [doc2vec.TaggedDocument([str(word) for word in text], [tag]) for tag, text in enumerate(tokens, 1)]
    model.train(said, total_examples=2, epochs=1, start_alpha=RATE, end_alpha=RATE)
    expected = [(array - vectors) / RATE for array, (_, vectors) in zip(before, pairs, strict=True)]
    batch = {"tokens": tokens.reshape(1, -1), "windows": np.full((1, 2 * length), 5)}
    batch |= {"documents": np.repeat([[1, 2]], length, axis=1), "noise": np.full((1, 4), UNSEEN)}
    batch = {name: value.astype(np.int32) for name, value in batch.items()}
    ours = slopes(built.loss, batch, [weight for weight, _ in pairs], {"words": 1, "noise": 1})
    check(ours[:1], expected[:1])
    if name == "pv_dbow":
        check(ours[1:], expected[1:])
    elif length <= 6:
        check([length * slope for slope in ours[1:]], expected[1:])


# What is drawn


def zipfian() -> tuple[Corpus, "word2vec.Word2Vec"]:
    """Text of 2000 words, some of which are frequent, and gensim's vocabulary of it, of the same numbers, with the
    threshold and the exponent that it has by default."""
    counts = (100_000 / np.arange(1, 2001)).astype(int)
    ids = np.random.default_rng(0).permutation(np.repeat(np.arange(2000), counts)).astype(np.int32)
    sentences = np.append(np.arange(0, len(ids), 50), len(ids))
    model = word2vec.Word2Vec(vector_size=1, min_count=1)
    model.build_vocab_from_freq({str(word): int(count) for word, count in enumerate(counts)})
    order = np.array(model.wv.index_to_key, int)
    assert (counts[order] == counts).all()
    return Corpus(ids, sentences, np.array([0, len(sentences) - 1]), np.ones(len(ids), bool)), model


def test_subsampling():
    """The paper keeps a word with probability p = sqrt(t / f). gensim, like the authors' program, adds t / f, which is
    p squared."""
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
    # Of cumulated shares: where the draws are from this distribution, this is below 1.95 / sqrt(n) 999 times in 1000.
    gap = np.abs(np.cumsum(drawn / drawn.sum()) - np.cumsum(expected)).max()
    assert noted("vectors", gap) < 1.95 / drawn.sum() ** 0.5
