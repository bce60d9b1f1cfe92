"""Tests of the objectives against their written specifications: which tokens are hidden, which texts are paired, and
losses by hand."""

import math

import numpy as np
import pytest

from ptmbench.models.objectives import sampling
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary

VOCABULARY = Vocabulary(size=5000)
FIRST = VOCABULARY.first


@pytest.fixture
def corpus() -> Corpus:
    """40 documents of 12 sentences. Every token is unique: id - FIRST is its position in the corpus."""
    rng = np.random.default_rng(2)
    sizes = rng.integers(3, 15, 480)
    total = int(sizes.sum())
    return Corpus(
        ids=np.arange(FIRST, FIRST + total, dtype=np.int32),
        sentences=np.concatenate([[0], np.cumsum(sizes)]),
        documents=np.arange(0, 481, 12),
        heads=np.ones(total, bool),
    )


def rows(count: int, length: int, padded: int = 0) -> np.ndarray:
    """[CLS] text [SEP] text [SEP]. The last ``padded`` columns of every second row are padding."""
    tokens = np.random.default_rng(3).integers(FIRST, VOCABULARY.size, (count, length)).astype(np.int32)
    tokens[:, 0], tokens[:, length // 2], tokens[:, -1] = VOCABULARY.cls, VOCABULARY.sep, VOCABULARY.sep
    if padded:
        tokens[::2, -padded:] = 0
    return tokens


# sampling


def test_an_epoch_shows_every_window_once(corpus):
    runs = sampling.TokenRuns(corpus.ids, 16)
    steps = runs.count // 8
    seen = np.concatenate([runs(step, 8, 1) for step in range(steps)])
    assert seen.shape == (steps * 8, 16)
    assert len(np.unique(seen)) == seen.size
    assert (np.diff(seen, axis=1) == 1).all()


def test_next_epoch_has_different_windows_in_a_different_order(corpus):
    runs = sampling.TokenRuns(corpus.ids, 16)
    first, second = runs.starts(0, runs.count, 1), runs.starts(1, runs.count, 1)
    assert not np.array_equal(first, second)
    assert set(first % 16) == {0}
    assert len(set(second % 16)) == 1
    assert set(second % 16) != {0}
    assert not np.array_equal(runs.starts(0, runs.count, 1), runs.starts(0, runs.count, 2))


def test_stream_puts_cls_and_sep_around_documents():
    corpus = Corpus(np.array([50, 51, 52]), np.array([0, 1, 2, 3]), np.array([0, 2, 3]), np.ones(3, bool))
    assert sampling.stream(corpus, VOCABULARY).tolist() == [2, 50, 51, 3, 2, 52, 3]


def test_pairs_have_two_texts_and_a_label_for_whether_they_follow(corpus):
    pairs = sampling.Pairs(corpus, VOCABULARY, 64, 0.5)
    sentence_starts = set(corpus.sentences.tolist())
    document = np.repeat(np.arange(40), np.diff(corpus.sentences[corpus.documents]))  # of each token
    follow = []
    for step in range(20):
        batch, _ = pairs(step, 16, 1)
        for tokens, segments, following in zip(batch["tokens"], batch["segments"], batch["next"], strict=True):
            marks = np.flatnonzero(tokens == VOCABULARY.sep)
            assert tokens[0] == VOCABULARY.cls
            assert len(marks) == 2
            assert marks[1] == 63
            assert segments.tolist() == [0] * (marks[0] + 1) + [1] * (63 - marks[0])
            a, b = tokens[1 : marks[0]] - FIRST, tokens[marks[0] + 1 : 63] - FIRST
            assert len(a) and len(b)
            assert (np.diff(a) == 1).all()
            assert int(a[0]) in sentence_starts
            assert int(a[-1]) + 1 in sentence_starts
            assert len(set(document[a])) == 1
            assert int(b[0]) in sentence_starts
            if following:
                assert b[0] == a[-1] + 1
                assert document[b[0]] == document[a[0]]
            else:
                assert document[b[0]] != document[a[0]]
            follow.append(following)
    assert 0.4 < np.mean(follow) < 0.6


def test_pairs_without_random_second_texts_all_follow(corpus):
    pairs = sampling.Pairs(corpus, VOCABULARY, 64, 0.0)
    assert all(pairs(step, 16, 1)[0]["next"].all() for step in range(10))


@pytest.mark.parametrize(
    ("sentences", "documents"),
    [([0, 300], [0, 1]), ([0, 100, 200, 300], [0, 1, 2, 3]), ([0, 1, 2, 300], [0, 0, 3, 3])],
    ids=["one sentence", "documents of one sentence", "an empty document"],
)
def test_pairs_from_corpora_with_unusual_documents(sentences, documents):
    corpus = Corpus(np.arange(40, 340), np.array(sentences), np.array(documents), np.ones(300, bool))
    batch, _ = sampling.Pairs(corpus, VOCABULARY, 32, 0.5)(0, 32, 1)
    assert (batch["tokens"] > 0).all()
    assert ((batch["tokens"] == VOCABULARY.sep).sum(axis=1) == 2).all()
    assert set(batch["next"]) == {0, 1}


# mlm


def test_noise_hides_fifteen_percent_of_the_text():
    from ptmbench.models.objectives import mlm

    tokens = rows(400, 128, padded=40)
    noisy = mlm.noise({"tokens": tokens}, np.random.default_rng(0), VOCABULARY)
    positions, labels, used = noisy["masked_positions"], noisy["masked_labels"], noisy["masked_weights"] > 0
    assert positions.shape == (400, math.ceil(0.15 * 128))
    text = (tokens >= FIRST).sum(axis=1)
    assert np.array_equal(used.sum(axis=1), np.rint(0.15 * text))
    row = np.nonzero(used)[0]
    assert np.array_equal(tokens[row, positions[used]], labels[used])
    assert (labels[used] >= FIRST).all()
    assert all(len(set(p[u])) == u.sum() for p, u in zip(positions, used, strict=True))
    shown = noisy["tokens"][row, positions[used]]
    masked, kept = shown == VOCABULARY.mask, shown == labels[used]
    assert masked.mean() == pytest.approx(0.8, abs=0.02)
    assert kept.mean() == pytest.approx(0.1, abs=0.02)
    assert (shown[~masked] >= FIRST).all()
    touched = np.zeros(tokens.shape, bool)
    touched[row, positions[used]] = True
    assert np.array_equal(noisy["tokens"][~touched], tokens[~touched])
    hidden = np.bincount(positions[used], minlength=128)[1:60]
    assert hidden[:58].min() > 0.5 * hidden[:58].mean()  # all positions are equally likely


def test_noise_hides_at_least_one_token_and_accepts_rows_without_text():
    from ptmbench.models.objectives import mlm

    tokens = np.array([[2, 60, 3, 0], [2, 3, 0, 0]], np.int32)
    noisy = mlm.noise({"tokens": tokens}, np.random.default_rng(0), VOCABULARY)
    assert noisy["masked_weights"].tolist() == [[1.0], [0.0]]
    assert noisy["masked_labels"].tolist() == [[60], [0]]
    assert np.array_equal(noisy["tokens"][1], tokens[1])


def owner(table: np.ndarray):
    """Returns a layer with a ``token_embedding``, to which a head can be tied."""
    import keras

    layer = keras.layers.Layer(name="owner")
    layer.token_embedding = layer.add_weight(table.shape, "zeros", name="tokens")
    layer.token_embedding.assign(table)
    return layer


def test_mlm_loss_by_hand():
    from ptmbench.models.layers.core import built
    from ptmbench.models.layers.heads import MaskedLmConfig
    from ptmbench.models.objectives import mlm  # noqa: F401  the layer of that configuration

    head = built(MaskedLmConfig(width=3, inner=3, vocabulary=3), owner(np.eye(3, dtype=np.float32)), name="mlm")
    logits = np.log(np.array([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [1 / 3, 1 / 3, 1 / 3]], np.float32))
    batch = {
        "masked_labels": np.array([[0, 2], [2, 0]], np.int32),
        "masked_weights": np.array([[1.0, 1.0], [1.0, 0.0]], np.float32),
    }
    values = head.score(logits, batch, head.totals(batch))
    assert float(values["mlm_loss"]) == pytest.approx(-(math.log(0.5) + math.log(0.1) + math.log(0.6)) / 3, abs=1e-6)
    assert float(values["mlm_accuracy"]) == pytest.approx(2 / 3)


def test_mlm_scores_the_masked_positions():
    from ptmbench.models.layers.core import built
    from ptmbench.models.layers.heads import MaskedLmConfig
    from ptmbench.models.objectives import mlm  # noqa: F401  the layer of that configuration

    tied = owner(np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32))
    head = built(MaskedLmConfig(width=4, inner=4, vocabulary=7), tied, name="mlm")
    x = np.random.default_rng(1).normal(size=(2, 5, 4)).astype(np.float32)
    some = np.asarray(head.logits(x, np.array([[4, 1], [0, 3]], np.int32)))
    every = np.asarray(head.logits(x, np.tile(np.arange(5, dtype=np.int32), (2, 1)))).reshape(2, 5, 7)
    assert np.allclose(some, [every[0, 4], every[0, 1], every[1, 0], every[1, 3]], atol=1e-6)


# nsp


def test_nsp_loss_by_hand():
    from ptmbench.models.layers.heads import ClassifierConfig
    from ptmbench.models.objectives import nsp
    from ptmbench.models.pretrainable import Encoding

    head = nsp.NextSentence(ClassifierConfig(width=2))
    head.build()
    head.scores.kernel.assign(np.eye(2, dtype=np.float32))
    pooled = np.log(np.array([[0.25, 0.75], [0.9, 0.1]], np.float32))
    batch = {"next": np.array([1, 1], np.int32)}
    values = head(Encoding(tokens=pooled, pooled=pooled, layers=()), batch, head.totals(batch))
    assert float(values["nsp_loss"]) == pytest.approx(-(math.log(0.75) + math.log(0.1)) / 2, abs=1e-6)
    assert float(values["nsp_accuracy"]) == 0.5


# lm


def test_lm_loss_is_the_mean_of_the_log_likelihoods(corpus):
    from ptmbench.models.card import Size
    from ptmbench.models.language_modeling import gpt

    built = gpt.build(Size(layers=1, width=16, heads=2, inner=32, length=32), VOCABULARY)
    tokens = rows(2, 12, padded=4)
    tokens[0, 6] = FIRST
    scores = np.asarray(built.log_likelihood({"tokens": tokens}))
    predicted = (tokens > 0).sum() - len(tokens)
    assert float(built.loss({"tokens": tokens})["loss"]) == pytest.approx(-scores.sum() / predicted, rel=1e-6)
    logits = np.asarray(built.decode({"tokens": tokens[1:, :5], "targets": tokens[1:, 5:]}), np.float64)
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    by_hand = np.take_along_axis(log_p[0, :-1], tokens[1, 6:, None], axis=1)[:, 0]
    assert np.allclose(scores[1, 6:], by_hand, atol=1e-5)


def test_lm_batches_cover_most_of_the_text(corpus):
    from ptmbench.models.objectives import lm

    text = sampling.stream(corpus, VOCABULARY)
    batches = lm.batches(corpus, VOCABULARY, 4, 32)
    seen = np.concatenate([batches(step, 1)["tokens"].ravel() for step in range(len(text) // 32 // 4)])
    assert np.isin(text, seen).mean() > 0.9
    assert (seen > 0).all()


def test_documents_in_one_row_do_not_attend_to_each_other(corpus):
    from ptmbench.models.card import Size
    from ptmbench.models.language_modeling import gpt
    from ptmbench.models.objectives import lm

    batch = lm.batches(corpus, VOCABULARY, 64, 32)(0, 1)
    opening = (batch["tokens"] == VOCABULARY.cls).astype(int)
    assert np.array_equal(batch["documents"], opening.cumsum(1))
    row = int(np.argmax(opening[:, 8:24].any(1)))
    cut = 8 + int(np.argmax(opening[row, 8:24]))
    assert opening[row, cut]
    encoder = gpt.build(Size(layers=2, width=16, heads=2, inner=32, length=32), VOCABULARY).encoder
    tokens, documents = batch["tokens"][[row]], batch["documents"][[row]]
    other = tokens.copy()
    other[0, :cut] = FIRST

    def after_cut(tokens, **packed):
        return np.asarray(encoder.hidden(tokens, **packed)[-1])[cut:]

    assert np.array_equal(after_cut(tokens, documents=documents), after_cut(other, documents=documents))
    assert np.abs(after_cut(tokens) - after_cut(other)).max() > 1e-3


# rtd


def test_samples_follow_the_generator():
    import tensorflow as tf

    from ptmbench.models.objectives import rtd

    probabilities = np.array([0.4, 0.3, 0.18, 0.09, 0.03, 0.0], np.float32)
    logits = np.tile(np.log(probabilities + 1e-30), (20000, 1))
    draws = np.random.default_rng(0).integers(rtd.DRAWS, size=20000, dtype=np.int32)
    drawn = rtd.sample(tf.constant(logits), draws)
    shares = np.bincount(drawn, minlength=6) / 20000
    # The encoder would treat id 0 as padding, so it is never sampled. The other ids get its share.
    assert np.allclose(shares, [0, *probabilities[1:] / 0.6], atol=0.015)
    assert shares[0] == shares[5] == 0
    assert np.array_equal(drawn[:7], rtd.sample(tf.constant(logits[:7]), draws[:7]))
    assert (rtd.sample(tf.constant(logits), None).numpy() == 1).all()


def test_rtd_noise_masks_tokens_and_never_replaces_them(corpus):
    from ptmbench.models.objectives import rtd

    batches = rtd.batches(corpus, VOCABULARY, 64, 64)
    shown = []
    for step in range(8):
        batch = batches(step, 1)
        used = batch["masked_weights"] > 0
        row = np.nonzero(used)[0]
        assert np.array_equal(batch["original"][row, batch["masked_positions"][used]], batch["masked_labels"][used])
        changed = batch["tokens"] != batch["original"]
        assert (batch["tokens"][changed] == VOCABULARY.mask).all()
        shown.append(changed.sum() / used.sum())
    assert np.mean(shown) == pytest.approx(0.85, abs=0.02)


def test_rtd_labels_a_correct_sample_as_original(corpus):
    """Logits that always sample the true token make every token an original."""
    import tensorflow as tf

    from ptmbench.models.card import Size
    from ptmbench.models.contrastive_learning import electra

    loss = electra.build(Size(layers=1, width=32, heads=2, inner=32, length=64), VOCABULARY).loss
    batch = electra.build(Size(layers=1, width=32, heads=2, inner=32, length=64), VOCABULARY).batches(corpus, 4, 32)(
        0, 1
    )
    labels = batch["masked_labels"].reshape(-1)
    loss.generate = lambda batch, seed=None: 50.0 * tf.one_hot(labels, VOCABULARY.size)
    right = loss(batch, seed=tf.constant([1, 2]))
    assert float(right["rtd_replaced"]) == 0.0
    assert float(right["mlm_loss"]) == pytest.approx(0.0, abs=1e-5)
    loss.generate = lambda batch, seed=None: 50.0 * tf.one_hot(labels + 1, VOCABULARY.size + 1)[:, : VOCABULARY.size]
    wrong = loss(batch, seed=tf.constant([1, 2]))
    assert float(wrong["rtd_replaced"]) == pytest.approx((batch["masked_weights"] > 0).sum() / batch["tokens"].size)
    assert float(wrong["loss"]) == pytest.approx(float(wrong["mlm_loss"]) + 50 * float(wrong["rtd_loss"]), rel=1e-6)


# seq2seq_mlm


@pytest.mark.parametrize("length", [16, 64, 128, 512])
def test_span_plan_fills_the_input(length):
    from ptmbench.models.objectives import seq2seq_mlm

    raw, noise, spans = seq2seq_mlm.plan(length)
    assert length - 1 <= raw - noise + spans + 2 <= length
    assert noise == max(1, round(0.15 * raw))
    assert spans == max(1, round(noise / 3))


def test_pieces_are_uniform_over_all_divisions():
    from ptmbench.models.objectives import seq2seq_mlm

    drawn = seq2seq_mlm.pieces(np.random.default_rng(0), 6000, 5, 3)
    kinds, counts = np.unique(drawn, axis=0, return_counts=True)
    assert (drawn.sum(axis=1) == 5).all()
    assert len(kinds) == math.comb(4, 2)
    assert counts.min() > 850


def test_corrupted_text_can_be_restored(corpus):
    from ptmbench.models.objectives import seq2seq_mlm

    raw, noise, spans = seq2seq_mlm.plan(64)
    text = sampling.TokenRuns(corpus.ids, raw)(0, 8, 1)
    source, target = seq2seq_mlm.corrupt(text, noise, spans, np.random.default_rng(0), VOCABULARY)
    assert source.shape == (8, raw - noise + spans + 2)
    assert target.shape == (8, noise + spans + 2)
    for original, source_row, target_row in zip(text, source.tolist(), target.tolist(), strict=True):
        assert source_row[0] == target_row[0] == VOCABULARY.cls
        assert source_row[-1] == target_row[-1] == VOCABULARY.sep
        hidden, current = {}, None
        for token in target_row[1:-1]:
            if token in VOCABULARY.sentinels:
                current = hidden.setdefault(token, [])
            else:
                current.append(token)
        assert list(hidden) == list(VOCABULARY.sentinels[:spans])
        assert source_row[1] not in VOCABULARY.sentinels  # a kept span comes first
        whole = [part for token in source_row[1:-1] for part in hidden.get(token, [token])]
        assert whole == original.tolist()


def test_too_many_spans_raise_an_error(corpus):
    from ptmbench.models.objectives import seq2seq_mlm

    with pytest.raises(ValueError, match="sentinels"):
        seq2seq_mlm.batches(corpus, VOCABULARY, 2, 1024)


# joint


def test_joint_loss_adds_losses_and_no_other_scalars():
    import keras
    import tensorflow as tf

    from ptmbench.models.objective import Part
    from ptmbench.models.objectives._joint import Joint

    class Constant(Part, keras.layers.Layer):
        def __init__(self, values):
            super().__init__()
            self.reports = tuple(values)
            self.constants, self.built = {name: tf.constant(value) for name, value in values.items()}, True

        def totals(self, batch):
            return {}

        def call(self, *_, **__):
            return self.constants

    encoder = Constant({"anything": 0.0})
    joint = Joint(encoder, [Constant({"a_loss": 2.0, "a_accuracy": 0.5}), Constant({"b_loss": 3.0})])
    values = {name: float(value) for name, value in joint({"tokens": np.zeros((1, 1), np.int32)}).items()}
    assert values == {"loss": 5.0, "a_loss": 2.0, "a_accuracy": 0.5, "b_loss": 3.0}
    assert joint.reports == ("a_loss", "a_accuracy", "b_loss") and joint.fill is None
