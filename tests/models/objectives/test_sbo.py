"""Tests of the span boundary objective: the boundaries of each token, what the head depends on, and the loss by
hand."""

import math

import numpy as np
import pytest

from ptmbench.models.layers.heads import SpanBoundaryConfig
from ptmbench.models.objectives import masking, sampling, sbo
from ptmbench.models.pretrainable import Encoding
from tests.models.objectives.test_masking import FIRST, VOCABULARY, corpus


def sampled(count: int = 20):
    text = corpus()
    texts = sampling.FullSentences(text, VOCABULARY, 128)
    for step in range(count):
        rows, where = texts(step, 8, 1)
        heads, rng = sampling.heads(text, where), sampling.generator(1, step)
        noisy, chosen = masking.spans(rows, heads, rng, VOCABULARY)
        yield rows["tokens"], noisy | sbo.boundaries(chosen)


def test_boundaries_are_the_visible_tokens_next_to_the_span():
    for tokens, batch in sampled():
        used = batch["span_weights"] > 0
        masked = batch["masked_weights"] > 0
        assert (used <= masked).all() and used.sum() >= 0.95 * masked.sum()  # few spans are longer than 20 tokens
        for row in range(len(tokens)):
            hidden = np.zeros(128, bool)
            hidden[batch["masked_positions"][row][masked[row]]] = True
            for place, left, right, offset in zip(
                *(
                    batch[key][row][used[row]]
                    for key in ("masked_positions", "span_lefts", "span_rights", "span_offsets")
                ),
                strict=True,
            ):
                assert hidden[left + 1 : right].all()
                assert not hidden[left]
                assert not hidden[right]
                assert left + 1 + offset == place
                assert batch["tokens"][row, left] == tokens[row, left]
                assert (tokens[row, left + 1 : right] >= FIRST).all()
        for key in ("span_lefts", "span_rights", "span_offsets"):
            assert batch[key].dtype == np.int32
            assert (batch[key][~used] == 0).all()


def test_only_the_first_20_tokens_of_a_span_count():
    begins, ends = np.full((1, 24), 3), np.full((1, 24), 27)
    arrays = sbo.boundaries(masking.Chosen(begins + np.arange(24), np.ones((1, 24), bool), begins, ends))
    assert arrays["span_weights"].tolist() == [[1.0] * 20 + [0.0] * 4]
    assert arrays["span_offsets"].max() == 19
    assert set(arrays["span_lefts"][0, :20]) == {2}
    assert set(arrays["span_rights"][0, :20]) == {27}


def head_of(vocabulary: int, width: int, places: int):
    import keras

    keras.utils.set_random_seed(1)
    owner = keras.layers.Layer(name="owner")
    owner.token_embedding = owner.add_weight((vocabulary, width), "glorot_uniform", name="tokens")
    head = sbo.SpanBoundary(SpanBoundaryConfig(width=width, places_width=places, vocabulary=vocabulary), owner)
    head.build()
    for weight in head.weights:
        weight.assign(np.random.default_rng(len(weight.path)).normal(size=weight.shape))
    return owner, head


def test_sbo_loss_by_hand():
    """Term by term from the paper's equations, for three hidden tokens of two spans."""
    owner, head = head_of(7, 4, 3)
    x = np.random.default_rng(1).normal(size=(2, 6, 4)).astype(np.float32)
    batch = {
        "span_lefts": np.array([[1, 1], [0, 0]], np.int32),
        "span_rights": np.array([[4, 4], [2, 0]], np.int32),
        "span_offsets": np.array([[0, 1], [0, 0]], np.int32),
        "span_weights": np.array([[1, 1], [1, 0]], np.float32),
        "masked_labels": np.array([[2, 6], [5, 0]], np.int32),
    }
    w = {weight.path.removeprefix("sbo/"): np.asarray(weight, np.float64) for weight in head.weights}
    table = np.asarray(owner.token_embedding, np.float64)
    gelu = np.vectorize(lambda v: 0.5 * v * (1 + math.erf(v / math.sqrt(2))))

    def normed(v, name):
        return (v - v.mean()) / math.sqrt(v.var() + 1e-12) * w[f"{name}/scale"] + w[f"{name}/bias"]

    nll = []
    for row, left, right, offset, label in ((0, 1, 4, 0, 2), (0, 1, 4, 1, 6), (1, 0, 2, 0, 5)):
        u = np.concatenate([x[row, left], x[row, right], w["places/table"][offset]])
        v = normed(gelu(u @ w["first/kernel"] + w["first/bias"]), "first_norm")
        y = normed(gelu(v @ w["second/kernel"] + w["second/bias"]), "second_norm")
        scores = table @ y + w["output_bias"]
        nll.append(math.log(np.exp(scores).sum()) - scores[label])
    values = head(Encoding(tokens=x, pooled=x[:, 0], layers=()), batch, head.totals(batch))
    assert float(values["sbo_loss"]) == pytest.approx(sum(nll) / 3, rel=1e-5)


def test_sbo_depends_on_the_boundaries_only():
    _, head = head_of(7, 4, 3)
    x = np.random.default_rng(1).normal(size=(1, 6, 4)).astype(np.float32)
    batch = {
        "span_lefts": np.array([[1, 1]], np.int32),
        "span_rights": np.array([[4, 4]], np.int32),
        "span_offsets": np.array([[0, 1]], np.int32),
    }
    before = np.asarray(head.logits(x, batch))
    assert np.abs(before[0] - before[1]).max() > 1e-3  # the position in the span matters
    for place in range(6):
        moved = x.copy()
        moved[0, place] += 1.0
        change = np.abs(np.asarray(head.logits(moved, batch)) - before).max(axis=1)
        assert (change > 1e-3).all() if place in (1, 4) else (change < 1e-6).all()


def test_spanbert_adds_both_losses():
    from ptmbench.models.card import Size
    from ptmbench.models.masked_language_modeling import spanbert

    built = spanbert.build(Size(layers=1, width=16, heads=2, inner=32, length=64), VOCABULARY)
    values = built.loss(built.batches(corpus(), 4, 64)(0, 1))
    assert float(values["loss"]) == pytest.approx(float(values["mlm_loss"]) + float(values["sbo_loss"]), rel=1e-6)
