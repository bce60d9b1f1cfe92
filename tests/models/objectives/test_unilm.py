"""Tests of unified language modelling: the share of each attention mask, which tokens are hidden, what each token
attends to, and which rows NSP counts."""

from functools import cache

import numpy as np
import pytest
import tensorflow as tf

from ptmbench import models
from ptmbench.models.architectures.masked_encoder import BACKWARD, FORWARD, SOURCE, TARGET
from ptmbench.models.architectures.masked_encoder import unilm as unilm_encoder
from ptmbench.models.card import Size
from ptmbench.models.layers.heads import ClassifierConfig
from ptmbench.models.layers.masked import built
from ptmbench.models.objectives import unilm
from ptmbench.models.pretrainable import Encoding
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary

VOCABULARY = Vocabulary(size=9000)
FIRST, LENGTH, ROWS, STEPS = VOCABULARY.first, 64, 32, 40


@cache
def corpus() -> Corpus:
    """60 documents of 12 sentences. Every token is unique, so an id tells its position."""
    sizes = np.random.default_rng(2).integers(3, 15, 720)
    total = int(sizes.sum())
    return Corpus(
        ids=np.arange(FIRST, FIRST + total, dtype=np.int32),
        sentences=np.concatenate([[0], np.cumsum(sizes)]),
        documents=np.arange(0, 721, 12),
        heads=np.ones(total, bool),
    )


@cache
def drawn() -> dict[str, np.ndarray]:
    """Many rows, and ``original``: their text before tokens were hidden."""
    make = unilm.batches(corpus(), VOCABULARY, ROWS, LENGTH)
    steps = [make(step, 3) for step in range(STEPS)]
    result = {name: np.concatenate([batch[name] for batch in steps]) for name in steps[0]}
    original, used = result["tokens"].copy(), result["masked_weights"] > 0
    row = np.broadcast_to(np.arange(len(original))[:, None], used.shape)
    original[row[used], result["masked_positions"][used]] = result["masked_labels"][used]
    return result | {"original": original}


def check_share(share: float, expected: float, count: int) -> None:
    """Checks that ``share`` of ``count`` draws is ``expected``, within four standard deviations."""
    assert abs(share - expected) < 4 * (expected * (1 - expected) / count) ** 0.5, (share, expected, count)


def kinds() -> np.ndarray:
    """0 bidirectional, 1 sequence-to-sequence, 2 left-to-right, 3 right-to-left: [N]."""
    return np.select([drawn()["segments"][:, 0] == s for s in (0, SOURCE, FORWARD, BACKWARD)], range(4), 9)


def test_share_and_segments_of_each_kind_of_row():
    result = drawn()
    text = result["original"]
    for kind, share in enumerate((1 / 3, 1 / 3, 1 / 6, 1 / 6)):
        rows = kinds() == kind
        check_share(rows.mean(), share, len(rows))
        second = np.cumsum(text[rows] == VOCABULARY.sep, axis=1) - (text[rows] == VOCABULARY.sep)  # 0 ... 0 1 ... 1
        expected = {0: second, 1: SOURCE + second, 2: second * 0 + FORWARD, 3: second * 0 + BACKWARD}[kind]
        assert np.array_equal(result["segments"][rows], expected)
    assert result["segments"].dtype == np.int32 and TARGET == SOURCE + 1


def test_second_text_follows_except_in_half_of_the_bidirectional_rows():
    result = drawn()
    cut = (result["original"] == VOCABULARY.sep).argmax(axis=1)
    row = np.arange(len(cut))
    follows = result["original"][row, cut + 1] == result["original"][row, cut - 1] + 1
    assert follows[kinds() > 0].all()
    pairs = kinds() == 0
    assert np.array_equal(follows[pairs], result["next"][pairs] == 1)
    check_share(follows[pairs].mean(), 0.5, pairs.sum())


def test_fifteen_percent_is_hidden_in_runs_with_80_10_10_replacement():
    result = drawn()
    used, positions, labels = result["masked_weights"] > 0, result["masked_positions"], result["masked_labels"]
    assert (labels[used] >= FIRST).all()
    assert np.array_equal(used.sum(axis=1), np.full(len(used), round(0.15 * (LENGTH - 3))))
    row = np.broadcast_to(np.arange(len(used))[:, None], used.shape)
    now = result["tokens"][row, positions][used]
    check_share((now == VOCABULARY.mask).mean(), 0.8, used.sum())
    check_share((now == labels[used]).mean(), 0.1, used.sum())
    untouched = result["tokens"] == result["original"]
    untouched[row[used], positions[used]] = True
    assert untouched.all()
    # test_masking checks the distribution of lengths. Here, runs of 1, 2 and 3 words have probabilities 0.8, 0.1 and
    # 0.1, and runs that meet are merged.
    hidden = np.zeros((len(used), LENGTH + 1), bool)
    hidden[row[used], positions[used]] = True
    runs = (hidden[:, 1:] > hidden[:, :-1]).sum() + hidden[:, 0].sum()
    assert used.sum() / runs == pytest.approx(1.41, abs=0.04)  # as the authors' code gives for these rows


def test_batches_are_determined_by_step_and_seed():
    make = unilm.batches(corpus(), VOCABULARY, 4, LENGTH)
    again = unilm.batches(corpus(), VOCABULARY, 4, LENGTH)(7, 1)
    assert all(np.array_equal(value, again[name]) for name, value in make(7, 1).items())
    assert not np.array_equal(make(7, 1)["tokens"], make(7, 2)["tokens"])


CUT, TOKENS = 4, 9
SEES = {
    0: lambda query, key: True,
    FORWARD: lambda query, key: key <= query,
    BACKWARD: lambda query, key: key >= query,
    SOURCE: lambda query, key: key < CUT or CUT <= key <= query,
}


@pytest.mark.parametrize("number", SEES)
def test_tokens_do_not_depend_on_those_they_may_not_attend_to(number):
    size = Size(layers=2, width=16, heads=2, inner=32, length=TOKENS)
    encoder = built(unilm_encoder(size, 60), name="encoder")
    tokens = np.arange(20, 20 + TOKENS, dtype=np.int32)[None]
    segments = np.full_like(tokens, number)
    if number in (0, SOURCE):
        segments[:, CUT:] += 1
    before = np.asarray(encoder({"tokens": tokens, "segments": segments}).tokens)[0]
    changed = np.repeat(tokens, TOKENS, axis=0)
    changed[np.arange(TOKENS), np.arange(TOKENS)] += 30
    after = np.asarray(encoder({"tokens": changed, "segments": np.repeat(segments, TOKENS, axis=0)}).tokens)
    change = np.abs(after - before).max(axis=-1)  # [changed key, query]
    for key in range(TOKENS):
        for query in range(TOKENS):
            if SEES[number](query, key):
                assert change[key, query] > 1e-6, (query, key)
            else:
                assert change[key, query] < 1e-6, (query, key)


def test_nsp_counts_bidirectional_rows_only():
    head = unilm.NextSentence(ClassifierConfig(width=2))
    head.build()
    kernel, bias = np.array([[1.0, -1.0], [0.5, 2.0]], np.float32), np.array([0.1, -0.2], np.float32)
    head.scores.kernel.assign(kernel)
    head.scores.bias.assign(bias)
    pooled = np.array([[1.0, 2.0], [-1.0, 0.5], [3.0, -1.0]], np.float32)
    batch = {"segments": np.array([[0, 1], [4, 5], [0, 0]], np.int32), "next": np.array([1, 0, 1], np.int32)}
    assert int(head.totals(batch)["pairs"]) == 2
    nll = []
    for row in (0, 2):
        scores = pooled[row] @ kernel + bias
        nll.append(np.log(np.exp(scores).sum()) - scores[1])
    values = head(Encoding(None, tf.constant(pooled), ()), batch, head.totals(batch))
    assert np.isclose(float(values["nsp_loss"]), np.mean(nll), atol=1e-6)
    none = {"segments": np.array([[2, 2]], np.int32), "next": np.array([0], np.int32)}
    assert float(head(Encoding(None, tf.constant(pooled[:1]), ()), none, head.totals(none))["nsp_loss"]) == 0.0


def test_decoding_flops_by_hand():
    """7 tokens, 2 generated ones and 3 masks are 12 positions, in 2 layers with 512 + 2 x 12 x 8 products each. Each of
    3 predictions has 8 x 8 and 8 x 100 products."""
    size, vocabulary = Size(layers=2, width=8, heads=2, inner=16), Vocabulary(size=100)
    for model in ("unilm", "unilm_v2"):
        result = models.load(model).describe(size, vocabulary).decode_flops(7, 3)
        assert result == pytest.approx(12 * 2 * 2 * 704 + 3 * 2 * 864)
