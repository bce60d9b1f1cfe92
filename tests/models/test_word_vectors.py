"""Tests of word vectors against their papers: trees, counts, n-grams and samples by brute force, and losses in
NumPy."""

import itertools
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from ptmbench.models.architectures import word_vectors
from ptmbench.models.card import Size
from ptmbench.models.layers import vector_heads
from ptmbench.models.layers.vectors import built, hashed, ngrams, spelled
from ptmbench.models.objectives import cbow, context2vec, glove, hierarchical_softmax, ranking, skipgram, window_lm
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Tokenizer, Vocabulary

SIZE = Size(layers=0, width=6, inner=30)
ROW = {  # 42 was dropped, and a sentence ends after 44
    "tokens": np.array([[40, 41, 42, 43, 44, 45, 46]], np.int32),
    "windows": np.array([[2, 1, 0, 3, 1, 2, 1]], np.int32),
    "places": np.array([[1, 2, 2, 3, 4, 65541, 65542]], np.int32),
    "noise": np.array([[50, 51, 50]], np.int32),
}
AROUND = {40: (41, 43), 41: (40, 43), 43: (40, 41, 44), 44: (43,), 45: (46,), 46: (45,)}
"""The words inside the window of each word."""


def corpus(sizes, ids) -> Corpus:
    sentences = np.concatenate([[0], np.cumsum(sizes)])
    return Corpus(np.asarray(ids, np.int32), sentences, np.array([0, len(sizes)]), np.ones(len(ids), bool))


def random(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def table(words=60):
    """Returns an encoder with a table of random vectors, and the table."""
    encoder = built(word_vectors.words(SIZE, words), name="encoder")
    encoder.table.assign(random(0, words, 6))
    return encoder, np.asarray(encoder.table, np.float64)


def logistic_loss(x):
    return math.log1p(math.exp(-x))


# cbow


def test_cbow_loss_matches_the_paper():
    encoder, v = table()
    loss = cbow.Cbow.over(encoder, vector_heads.MeansConfig(width=6, words=60))
    loss.answers.table.assign(random(1, 60, 6))
    u = np.asarray(loss.answers.table, np.float64)
    each = []
    for word, context in AROUND.items():
        h = v[list(context)].mean(axis=0)
        each.append(logistic_loss(u[word] @ h) + 5 * np.mean([logistic_loss(-u[n] @ h) for n in (50, 51, 50)]))
    assert float(loss(ROW)["loss"]) == pytest.approx(np.mean(each), rel=1e-5)
    assert int(loss.totals(ROW)["words"]) == 6


# hierarchical softmax


def test_tree_is_a_huffman_tree():
    """The textbook's tree: counts of 45, 13, 12, 16, 9 and 5 have paths of 1, 3, 3, 3, 4 and 4 turns. No path is a
    prefix of another."""
    paths = hierarchical_softmax.tree(np.array([45, 0, 13, 12, 16, 9, 5]), 10)
    assert (paths != 0).sum(axis=1).tolist() == [1, 0, 3, 3, 3, 4, 4]
    unpadded_paths = [tuple(path[path != 0]) for path in paths if path.any()]
    assert not any(other[: len(prefix)] == prefix for prefix, other in itertools.permutations(unpadded_paths, 2))
    assert {abs(turn) for prefix in unpadded_paths for turn in prefix} == {1, 2, 3, 4, 5}


def test_tree_depth_is_limited():
    """Counts that double with each word give a path of 29 turns without a limit."""
    counts = 2 ** np.arange(30)
    assert (hierarchical_softmax.tree(counts, 40) != 0).sum(axis=1).max() == 29
    limited = hierarchical_softmax.tree(counts, hierarchical_softmax.longest_tree_path(30))
    assert limited.shape == (30, 13)
    assert np.exp2(-(limited != 0).sum(axis=1, dtype=float)).sum() == 1.0  # Kraft's equality: a full binary tree


def test_probabilities_of_all_words_add_up_to_one():
    encoder, _ = table(20)
    loss = hierarchical_softmax.HierarchicalCbow.over(encoder, vector_heads.MeansTreeConfig(width=6, words=20))
    loss.nodes.table.assign(random(1, 19, 6))
    paths = hierarchical_softmax.tree(np.arange(1, 21) ** 2, 13)
    h = tf.constant(np.tile(random(2, 6), (1, 20, 1, 1)), tf.float32)
    nll = loss.negative_log_likelihood(tf.constant(paths[None]), h)
    assert np.exp(-nll.numpy()).sum() == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("kind", ["HierarchicalSkipGram", "HierarchicalCbow"])
def test_hierarchical_losses_match_the_papers(kind):
    encoder, v = table()
    config = vector_heads.MeansTreeConfig if kind == "HierarchicalCbow" else vector_heads.TreeConfig
    loss = getattr(hierarchical_softmax, kind).over(encoder, config(width=6, words=60))
    loss.nodes.table.assign(random(1, 59, 6))
    u = np.asarray(loss.nodes.table, np.float64)
    paths = hierarchical_softmax.tree(np.arange(1, 61), 14)
    centres = hierarchical_softmax.find_centres(ROW["places"], ROW["windows"])
    batch = ROW | {"paths": paths[ROW["tokens"]], "centres": centres}

    def nll(word, h):
        return sum(logistic_loss(math.copysign(1, turn) * u[abs(turn) - 1] @ h) for turn in paths[word] if turn)

    if kind == "HierarchicalCbow":
        each = [nll(word, v[list(context)].mean(axis=0)) for word, context in AROUND.items()]
    else:  # a word predicts those in its window
        each = [nll(other, v[word]) for word, context in AROUND.items() for other in context]
    assert float(loss(batch)["loss"]) == pytest.approx(np.mean(each), rel=1e-5)


def test_centres_are_the_inverse_of_the_windows():
    rows = skipgram.batches(corpus([9] * 300, np.random.default_rng(0).integers(37, 50, 2700)), 8, 40)(3, 1)
    result = hierarchical_softmax.find_centres(rows["places"], rows["windows"])
    away = np.abs(rows["places"][:, :, None] - rows["places"][:, None])
    expected = (away > 0) & (away <= rows["windows"][:, :, None])  # [B, centre, context]
    inverted = np.zeros_like(expected)
    for row, token, slot in zip(*np.nonzero(result >= 0), strict=True):
        inverted[row, result[row, token, slot], token] = True
    assert np.array_equal(inverted, expected)


# GloVe


def test_counts_include_every_pair():
    ids = np.random.default_rng(0).integers(37, 45, 200)
    sizes = [50, 1, 30, 119]
    expected = {}
    for begin, size in zip(np.cumsum([0, *sizes]), sizes, strict=False):
        for a, b in itertools.permutations(range(begin, begin + size), 2):
            if abs(a - b) <= 10:
                expected[ids[a], ids[b]] = expected.get((ids[a], ids[b]), 0) + 1 / abs(a - b)
    one, other, counts = glove.count(corpus(sizes, ids))
    assert dict(zip(zip(one, other, strict=True), counts, strict=True)) == pytest.approx(expected)


def test_block_size_does_not_change_the_counts(monkeypatch):
    ids = np.random.default_rng(0).integers(37, 60, 1000)
    whole = glove.count(corpus([100] * 10, ids))
    for block in (7, 10, 64, 999):
        monkeypatch.setattr(glove, "_BLOCK", block)
        assert all(map(np.allclose, glove.count(corpus([100] * 10, ids)), whole))


def test_an_epoch_of_glove_has_every_pair_once():
    text = corpus([20] * 40, np.random.default_rng(0).integers(37, 80, 800))
    one, other, counts = glove.count(text)
    make = glove.batches(text, 4, 16)
    batches = [make(step, 1) for step in range(len(counts) // 64)]
    seen = {
        (i, j): x
        for b in batches
        for i, j, x in zip(b["tokens"].flat, b["others"].flat, b["counts"].view(np.float32).flat, strict=True)
    }
    assert len(seen) == 64 * len(batches)
    assert {pair: x for pair, x in zip(zip(one, other, strict=True), counts, strict=True) if pair in seen} == (
        pytest.approx(seen, rel=1e-6)
    )


def glove_loss() -> glove.Glove:
    encoder = built(word_vectors.sums(SIZE, 60), name="encoder")
    return glove.Glove.over(encoder, vector_heads.GloveConfig(width=6, words=60))


def test_glove_loss_matches_the_paper():
    loss = glove_loss()
    for number, variable in enumerate(loss.variables):
        variable.assign(random(number, *variable.shape))
    w, c, b, d = (
        np.asarray(x, np.float64)
        for x in (loss.encoder.table, loss.encoder.contexts.table, loss.bias, loss.context_bias)
    )
    pairs = [(40, 41, 0.1), (41, 40, 50.0), (42, 42, 100.0), (43, 50, 3000.0)]
    weights = [0.1**0.75 / 100**0.75, 0.5**0.75, 1.0, 1.0]
    each = [f * (w[i] @ c[j] + b[i] + d[j] - math.log(x)) ** 2 for (i, j, x), f in zip(pairs, weights, strict=True)]
    batch = pair_row(*zip(*pairs, strict=True))
    assert float(loss(batch)["loss"]) == pytest.approx(np.mean(each), rel=1e-5)
    assert np.allclose(loss.encoder(batch).tokens[0], (w + c)[batch["tokens"][0]], atol=1e-6)


def pair_row(tokens, others, counts):
    """Returns a row of pairs in the format of `glove.batches`."""
    bits = np.array([counts], np.float32).view(np.int32)
    return {"tokens": np.array([tokens], np.int32), "others": np.array([others], np.int32), "counts": bits}


def test_bfloat16_does_not_round_counts():
    """With vectors and biases of zero, the loss depends on the counts only. 3.3371 would be rounded to 3.34375."""
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        loss = glove_loss()
    finally:
        keras.config.set_dtype_policy(policy)
    for variable in loss.variables:
        variable.assign(tf.zeros(variable.shape))
    expected = (3.3371 / 100) ** 0.75 * math.log(3.3371) ** 2
    assert float(loss(pair_row([40], [41], [3.3371]))["loss"]) == pytest.approx(expected, rel=1e-5)


def test_text_without_cooccurrences_raises_an_error():
    with pytest.raises(ValueError, match="longer text"):
        glove.batches(corpus([1, 1], [40, 41]), 2, 8)


# fastText


def test_ngrams_and_hash_match_the_authors():
    """The paper's example, section 3.2; two published values of FNV-1a, and one of a letter of two bytes by hand."""
    assert [n for n in ngrams("<where>") if len(n) == 3] == ["<wh", "whe", "her", "ere", "re>"]
    assert len(ngrams("<where>")) == 5 + 4 + 3 + 2
    assert (hashed("a"), hashed("foobar")) == (0xE40C292C, 0xBF9CF968)
    value = 2166136261
    for byte in (0xFFFFFFC3, 0xFFFFFFA9):  # "é", its bytes as signed numbers
        value = (value ^ byte) * 16777619 % 2**32
    assert hashed("é") == value


def test_pieces_are_spelled_as_words():
    assert spelled(["the", "##ing", "##"]) == ["<the>", "ing>", "<##>"]
    assert spelled(["▁the", "ing"]) == ["<the>", "ing>"]
    assert spelled(["Ġthe", "ing"]) == ["<the>", "ing>"]


def test_word_vector_is_the_mean_of_the_word_and_its_ngrams():
    tokenizer = Tokenizer.train("word", ["where is the wharf"], 100)
    vocabulary = tokenizer.vocabulary
    encoder = built(word_vectors.subwords(SIZE, vocabulary), name="encoder")
    words, shared = np.asarray(encoder.table), np.asarray(encoder.ngrams.table)
    (ids,) = tokenizer.encode(["the where"])
    result = np.asarray(encoder({"tokens": np.array([[2, *ids]], np.int32)}).tokens)[0]
    assert np.allclose(result[0], words[2])  # [CLS] has no n-grams
    for vector, number, word in zip(result[1:], ids, ("<the>", "<where>"), strict=True):
        parts = [words[number], *(shared[hashed(ngram) % 30] for ngram in ngrams(word))]
        assert np.allclose(vector, np.mean(parts, axis=0), atol=1e-6)


def test_word_vectors_under_xla_match_those_without():
    """Compares vectors and the gradients of both tables. The gradient of an n-gram is summed over all its words."""
    vocabulary = Tokenizer.train("word", ["where is the wharf of the whale"], 100).vocabulary
    encoder = built(word_vectors.subwords(SIZE, vocabulary), name="encoder")
    tokens = tf.constant(np.arange(vocabulary.size, dtype=np.int32)[None])
    goals = tf.constant(random(0, 1, vocabulary.size, 6), tf.float32)

    def loss_and_gradients():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(encoder({"tokens": tokens}).tokens * goals)
        return loss, *map(tf.convert_to_tensor, tape.gradient(loss, [encoder.table.value, encoder.ngrams.table.value]))

    for compiled, eager in zip(tf.function(loss_and_gradients, jit_compile=True)(), loss_and_gradients(), strict=True):
        assert np.allclose(compiled, eager, atol=1e-5)
    expected = np.zeros((30, 6))
    pieces = vocabulary.pieces[vocabulary.first :]
    for number, word in enumerate(spelled(pieces), vocabulary.first):
        parts = [hashed(ngram) % 30 for ngram in ngrams(word)]
        for part in parts:
            expected[part] += goals.numpy()[0, number] / (1 + len(parts))
    assert np.allclose(loss_and_gradients()[2], expected, atol=1e-5)


# C&W


def test_ranking_loss_matches_the_paper():
    encoder, v = table()
    loss = ranking.WindowRanking.over(encoder, vector_heads.WindowRankingConfig(width=6, inner=4))
    for number, variable in enumerate((loss.places.kernel, loss.bias, loss.score.kernel)):
        variable.assign((0.3, 0.3, 3.0)[number] * random(number, *variable.shape))
    m, d, a = (np.asarray(x, np.float64) for x in (loss.places.kernel, loss.bias, loss.score.kernel))
    tokens, others = np.random.default_rng(3).integers(37, 60, (2, 1, 14)).astype(np.int32)
    padded = np.concatenate([np.zeros((5, 6)), v[tokens[0]], np.zeros((5, 6))])

    def f(window):
        return np.clip(sum(x @ m[:, 4 * k : 4 * k + 4] for k, x in enumerate(window)) + d, -1, 1) @ a[:, 0]

    each = []
    for place in range(14):
        window = padded[place : place + 11]
        changed = window.copy()
        changed[5] = v[others[0, place]]
        each.append(1 - f(window) + f(changed))
    values = loss({"tokens": tokens, "others": others})
    assert 0 < sum(x < 0 for x in each) < 14  # both sides of the hinge
    assert float(values["loss"]) == pytest.approx(np.maximum(each, 0).mean(), rel=1e-5)
    assert float(values["ranking_accuracy"]) == pytest.approx(np.mean(np.array(each) < 1))


def test_dropout_does_not_distinguish_a_word_from_the_random_one():
    """A window and its copy have the same score, whatever dropout removes."""
    encoder, _ = table()
    loss = ranking.WindowRanking.over(encoder, vector_heads.WindowRankingConfig(width=6, inner=4))
    encoder.dropout = 0.5
    tokens = np.random.default_rng(3).integers(37, 60, (2, 14)).astype(np.int32)
    values = loss({"tokens": tokens, "others": tokens}, seed=tf.constant([1, 2]))
    assert float(values["loss"]) == pytest.approx(1.0, abs=1e-5)


def test_random_words_are_uniform_over_the_words_of_the_corpus():
    ids = np.where(np.random.default_rng(0).random(4000) < 0.9, 40, np.random.default_rng(1).integers(50, 60, 4000))
    make = ranking.batches(corpus([4000], ids), 16, 64)
    drawn = np.concatenate([make(step, 0)["others"].ravel() for step in range(10)])
    shares = np.bincount(drawn, minlength=60) / len(drawn)
    assert np.allclose(shares[[40, *range(50, 60)]], 1 / 11, atol=0.015)
    assert shares.sum() == pytest.approx(shares[[40, *range(50, 60)]].sum())


# NNLM


def test_window_lm_matches_equation_one():
    encoder, v = table()
    loss = window_lm.WindowLm.over(encoder, vector_heads.WindowLmConfig(width=6, inner=5, words=60))
    for number, variable in enumerate((loss.places.kernel, loss.bias, loss.logits.kernel, loss.logits.bias)):
        variable.assign(random(number, *variable.shape))
    h, d, u, b = (
        np.asarray(x, np.float64) for x in (loss.places.kernel, loss.bias, loss.logits.kernel, loss.logits.bias)
    )
    tokens = np.array([[2, 40, 41, 42, 3, 2, 43, 44]], np.int32)
    documents = np.array([[1, 1, 1, 1, 1, 2, 2, 2]], np.int32)

    def nll(place, first):
        """Returns -ln p of the token at ``place``, given those before it from ``first`` on."""
        seen = [(back, tokens[0, place - back]) for back in range(1, 5) if place - back >= first]
        hidden = np.tanh(d + sum(v[token] @ h[:, 5 * (back - 1) : 5 * back] for back, token in seen))
        logits = b + hidden @ u
        return np.log(np.exp(logits).sum()) - logits[tokens[0, place]]

    whole = [nll(place, 0) for place in range(1, 8)]
    assert np.allclose(loss.log_likelihood({"tokens": tokens})[0, 1:], -np.array(whole), atol=1e-4)
    assert float(loss({"tokens": tokens})["loss"]) == pytest.approx(np.mean(whole), rel=1e-5)
    apart = [nll(place, 5 if place >= 5 else 0) for place in range(1, 8)]
    assert float(loss({"tokens": tokens, "documents": documents})["loss"]) == pytest.approx(np.mean(apart), rel=1e-5)


# Context2Vec


def context_loss():
    from ptmbench.models import load

    keras.utils.set_random_seed(1)
    return load("context2vec").build(Size(layers=1, width=8, inner=5), Vocabulary(size=60)).loss


def test_context2vec_loss_matches_the_paper():
    loss = context_loss()
    batch = {"tokens": np.array([[2, 40, 1, 3, 42, 3]], np.int32), "noise": np.array([[50, 51]], np.int32)}
    forward, backward = (np.asarray(layers[-1], np.float64)[:, 0] for layers in loss.encoder.both(batch["tokens"]))
    m1, b1, m2, b2, u = (
        np.asarray(x, np.float64)
        for x in (loss.inner.kernel, loss.inner.bias, loss.outer.kernel, loss.outer.bias, loss.targets.table)
    )
    each = []
    for place in (1, 2, 4):  # special tokens are not predicted, but [UNK] is
        both = np.concatenate([forward[place - 1], backward[place + 1]])
        c = np.maximum(both @ m1 + b1, 0) @ m2 + b2
        each.append(
            logistic_loss(u[batch["tokens"][0, place]] @ c) + 10 * np.mean([logistic_loss(-u[n] @ c) for n in (50, 51)])
        )
    assert float(loss(batch)["loss"]) == pytest.approx(np.mean(each), rel=1e-5)


def test_context_does_not_depend_on_its_word():
    loss = context_loss()
    tokens = np.array([[2, 40, 41, 42, 43, 3]], np.int32)
    changed = tokens.copy()
    changed[0, 2] = 50
    change = np.abs(loss.contexts(tf.constant(tokens)) - loss.contexts(tf.constant(changed))).max(axis=2)[0]
    assert change[1] == 0
    assert (change[[0, 2, 3]] > 0).all()


def test_noise_follows_counts_to_the_power_of_three_quarters():
    ids = np.where(
        np.random.default_rng(0).random(20_000) < 0.5, 40, np.random.default_rng(1).integers(50, 150, 20_000)
    )
    make = context2vec.batches(corpus([10] * 2000, ids), Vocabulary(size=150), 32, 32)
    drawn = np.concatenate([make(step, 0)["noise"].ravel() for step in range(20)])
    shares = np.bincount(ids).astype(float) ** 0.75
    assert np.allclose(np.bincount(drawn, minlength=150) / len(drawn), shares / shares.sum(), atol=0.01)
