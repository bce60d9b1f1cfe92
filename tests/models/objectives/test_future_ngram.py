"""Tests of future n-gram prediction: one hidden span in each block of 64 tokens, and what each stream attends to."""

import math

import numpy as np
import pytest

from ptmbench.models.objectives import future_ngram
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary

VOCABULARY = Vocabulary(size=5000)
FIRST, MASK = VOCABULARY.first, VOCABULARY.mask
SMALL = Vocabulary(size=120)


def test_nine_of_each_64_tokens_are_hidden():
    assert future_ngram.plan(512) == [(64, 9)] * 8
    assert future_ngram.plan(100) == [(64, 9), (36, 5)]
    assert future_ngram.plan(66) == [(64, 9), (2, 0)]  # the rest is too short for a span
    assert future_ngram.plan(4) == [(4, 1)]  # every text has at least one hidden token


def test_spans_are_uniform_within_their_block():
    rows = 3000
    where = future_ngram.spans(rows, 100, np.random.default_rng(0))
    assert where.shape == (rows, 14)
    first, second = where[:, :9], where[:, 9:]
    assert (np.diff(first, axis=1) == 1).all()
    assert (np.diff(second, axis=1) == 1).all()
    for begins, places in ((first[:, 0], 56), (second[:, 0] - 64, 32)):
        result = np.bincount(begins, minlength=places)
        assert len(result) == places
        share = 1 / places
        assert np.abs(result / rows - share).max() < 4.5 * math.sqrt(share * (1 - share) / rows)


def corpus(total: int = 1200) -> Corpus:
    bounds = np.arange(0, total + 1, 10)
    return Corpus(
        np.arange(FIRST, FIRST + total, dtype=np.int32), bounds, np.arange(0, len(bounds), 10), np.ones(total)
    )


def test_batches_contain_the_token_before_each_hidden_one():
    make = future_ngram.batches(corpus(), VOCABULARY, 4, 102)
    assert all(np.array_equal(value, make(3, 1)[key]) for key, value in make(3, 1).items())
    assert not np.array_equal(make(3, 1)["positions"], make(3, 2)["positions"])
    masks, same, total = 0, 0, 0
    for step in range(60):
        batch = make(step, 1)
        tokens, targets, where = batch["tokens"], batch["targets"], batch["positions"] + 1
        assert tokens.shape == (4, 102)
        assert targets.shape == batch["previous"].shape == where.shape == (4, 14)
        assert (tokens[:, 0] == VOCABULARY.cls).all()
        assert (tokens[:, -1] == VOCABULARY.sep).all()
        whole = tokens.copy()
        np.put_along_axis(whole, where, targets, axis=1)
        steps = np.diff(whole[:, 1:-1])
        assert np.isin(steps, (1, 1 - 1200)).all()  # with the spans put back, the text is complete
        assert np.array_equal(batch["previous"], np.take_along_axis(whole, where - 1, axis=1))
        shown = np.take_along_axis(tokens, where, axis=1)
        assert shown[shown != MASK].min() >= FIRST  # random replacements are never special tokens
        masks, same, total = masks + (shown == MASK).sum(), same + (shown == targets).sum(), total + shown.size
    error = 4 * math.sqrt(0.16 / total)
    assert abs(masks / total - 0.8) < error
    assert abs(same / total - 0.1) < error


def test_too_short_rows_raise_an_error():
    with pytest.raises(ValueError, match="at least 4"):
        future_ngram.batches(corpus(), VOCABULARY, 4, 3)


@pytest.fixture(scope="module")
def built():
    import keras

    from ptmbench import models
    from ptmbench.models.card import Size

    keras.utils.set_random_seed(2)
    return models.load("prophetnet").build(Size(layers=2, width=32, heads=2, inner=64, length=40), SMALL)


def case():
    rng = np.random.default_rng(0)
    draw = {key: rng.integers(37, 120, (2, size)).astype(np.int32) for key, size in (("tokens", 14), ("targets", 7))}
    previous = rng.integers(37, 120, (2, 7)).astype(np.int32)
    return {**draw, "previous": previous, "positions": np.array([[2, 3, 4, 5, 20, 21, 22]] * 2, np.int32)}


def streams(built, batch):
    """The last layer, [B, 3, S, D]: the main stream, then the two predicting streams."""
    memory = built.encoder({"tokens": batch["tokens"]}).tokens
    hidden = built.loss.decoder.hidden(batch["previous"], memory, batch["tokens"], positions=batch["positions"])
    return np.asarray(hidden[-1])


def test_each_stream_attends_only_to_the_tokens_it_may_see(built):
    batch = case()
    before = streams(built, batch)
    for place in range(7):
        changed = batch["previous"].copy()
        changed[0, place] = 37 + (changed[0, place] - 36) % 83
        change = np.abs(streams(built, batch | {"previous": changed}) - before).max(axis=3)  # [B, 3, S]
        assert change[1].max() == 0
        main, first, second = change[0] > 1e-5
        assert main.tolist() == first.tolist() == [query >= place for query in range(7)]
        # The second stream does not see the last token. Every query sees the first token of all.
        assert second.tolist() == [query > place or place == 0 for query in range(7)]
        assert change[0][:, :place].max(initial=0) < 1e-6
        assert place == 0 or change[0][2, place] < 1e-6


def test_streams_do_not_attend_to_each_other(built):
    batch = case()
    before, table = streams(built, batch), built.loss.decoder.streams.table
    kept = np.array(table)
    table.assign(kept + np.array([[1.0], [0.0]], np.float32) * np.random.default_rng(1).normal(size=kept.shape))
    change = np.abs(streams(built, batch) - before).max(axis=(0, 2, 3))
    table.assign(kept)
    assert change[0] == change[1] == 0
    assert change[2] > 1e-3  # the first row of the table is the second stream's, as in the authors' code


def test_source_padding_is_masked_and_positions_matter(built):
    batch = case()
    before = streams(built, batch)
    wider = batch | {"tokens": np.pad(batch["tokens"], [(0, 0), (0, 5)])}
    assert np.abs(streams(built, wider) - before).max() < 1e-5
    change = np.abs(streams(built, batch | {"positions": batch["positions"] + [[0, 0, 0, 0, 1, 1, 1]]}) - before)
    assert change[:, :, :4].max() < 1e-6
    assert change[:, :, 4:].max(axis=(0, 3)).min() > 1e-4


def test_attention_of_one_stream_matches_the_equations(built):
    """Attention of the second stream in the first layer, computed for one query and one head."""
    batch = case()
    decoder = built.loss.decoder
    memory = built.encoder({"tokens": batch["tokens"]}).tokens
    x = np.asarray(decoder.hidden(batch["previous"], memory, batch["tokens"], positions=batch["positions"])[0])[0]
    w = decoder.stack.layer_0.attention
    kernel, bias = np.array(w.query_key_value.kernel), np.array(w.query_key_value.bias)
    distances = x @ np.array(w.distances.kernel) + np.array(w.distances.bias)
    q, k, v = (
        x @ kernel[:, i * 32 : i * 32 + 16] + bias[i * 32 : i * 32 + 16] for i in range(3)
    )  # first head: [3, S, K]
    near = distances.reshape(3, 7, 32, 2)[..., 0]
    query = 5  # predicts the token at 22 and may see the tokens at 2, 3, 4, 5 and 20
    apart = [22 - 2, 22 - 3, 22 - 4, 22 - 5, 22 - 20]
    bucket = [16 + int(16 * math.log(d / 16) / math.log(8)) if d >= 16 else d for d in apart]
    scores = [q[2, query] @ k[0, key] / 4 + near[2, query, bucket[key]] for key in range(5)]
    scores.append(q[2, query] @ k[2, query] / 4 + near[2, query, 0])  # itself
    weights = np.exp(scores) / np.exp(scores).sum()
    expected = weights[:5] @ v[0, :5] + weights[5] * v[2, query]

    from ptmbench.models.layers import streams as network
    from ptmbench.models.layers.core import NO_DROP

    flat = [np.asarray(part) for part in (x @ kernel + bias).reshape(1, 3, 7, 3, 2, 16).transpose(3, 0, 4, 1, 2, 5)]
    values = distances.reshape(1, 3, 7, 32, 2)
    view = network.Streams(network.visibility(2, 7), *network.distances(batch["positions"][:1], "float32"))
    result = network.stream_attention(flat[0] / np.float32(4), flat[1], flat[2], values, view, NO_DROP)
    result = np.asarray(result).reshape(3, 7, 2, 16)[2, query, 0]
    assert np.allclose(result, expected, atol=1e-5)


def test_loss_is_the_mean_of_both_streams_over_the_targets(built):
    batch = case()
    batch["targets"][1, 5:] = 0  # padding, which is not counted
    memory = built.encoder({"tokens": batch["tokens"]}).tokens
    logits = built.loss.decoder(batch["previous"], memory, batch["tokens"], positions=batch["positions"])
    logits = np.asarray(logits, np.float64)
    logp = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    each = [[], []]
    for row in range(2):
        for place in range(7):
            if batch["targets"][row, place]:
                for stream in range(2):
                    each[stream].append(-logp[row, stream, place, batch["targets"][row, place]])
    assert len(each[0]) == 12
    values = built.loss(batch)
    assert float(values["next_token_loss"]) == pytest.approx(np.mean(each[0]), abs=1e-5)
    assert float(values["loss"]) == pytest.approx(0.5 * np.mean(each[0]) + 0.5 * np.mean(each[1]), abs=1e-5)
    totals = built.loss.totals(batch)
    assert int(totals["targets"]) == 12
    halves = [built.loss({key: value[row : row + 1] for key, value in batch.items()}, None, totals) for row in (0, 1)]
    assert sum(float(half["loss"]) for half in halves) == pytest.approx(float(values["loss"]), abs=1e-5)


def test_decode_returns_the_logits_of_the_first_stream(built):
    batch = case()
    logits = built.decode({"tokens": batch["tokens"], "targets": batch["previous"]})
    memory = built.encoder({"tokens": batch["tokens"]}).tokens
    both = built.loss.decoder(batch["previous"], memory, batch["tokens"])
    assert np.allclose(logits, both[:, 0], atol=1e-5)


def test_one_trace_of_decode_serves_every_shape(built):
    import tensorflow as tf

    spec = {key: tf.TensorSpec([None, None], tf.int32) for key in ("tokens", "targets")}
    graph = tf.function(lambda batch: built.decode(batch), input_signature=[spec])
    for source, target in ((14, 7), (9, 3)):
        batch = {"tokens": case()["tokens"][:, :source], "targets": case()["previous"][:, :target]}
        assert np.allclose(graph(batch), built.decode(batch), atol=1e-5)


def test_too_long_targets_raise_an_error(built):
    with pytest.raises(ValueError, match="39"):
        built.decode({"tokens": np.full((1, 8), FIRST), "targets": np.full((1, 40), FIRST)})
