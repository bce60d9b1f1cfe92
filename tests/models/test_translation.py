"""Tests of CoVe and its corpus of pairs: the rows by brute force, and the networks against their equations in NumPy."""

import re
from functools import cache

import keras
import numpy as np
import pytest
import tensorflow as tf

from ptmbench.models.architectures.recurrent_translators import cove
from ptmbench.models.card import Size
from ptmbench.models.layers.operations import collect_attention
from ptmbench.models.layers.translator import built
from ptmbench.models.objectives.translation import Packed, Translation, batches
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.pieces import CorpusUnfit
from ptmbench.models.text.tokenizers import Vocabulary
from tests.models.test_left_lstm import lstm
from tests.models.test_recurrent import log_softmax

VOCABULARY = Vocabulary(size=3000)
FIRST, CLS, SEP = VOCABULARY.first, VOCABULARY.cls, VOCABULARY.sep
SIZE = Size(layers=2, width=16, length=40)
# Two pairs in the first row and one in the second, with special tokens; 0 is padding.
TOKENS = np.array([[2, 40, 41, 3, 2, 42, 43, 44, 3], [2, 45, 46, 3, 0, 0, 0, 0, 0]], np.int32)
TARGETS = np.array([[2, 31, 3, 2, 32, 33, 3], [2, 34, 35, 36, 3, 0, 0]], np.int32)
PAIRS = [(0, slice(0, 4), slice(0, 3)), (0, slice(4, 9), slice(3, 7)), (1, slice(0, 4), slice(0, 5))]


def corpus(sizes, documents=None) -> Corpus:
    """Texts of these ``sizes``, two in a document. Every token is unique: id - FIRST is its position."""
    total = int(np.sum(sizes))
    return Corpus(
        ids=np.arange(FIRST, FIRST + total, dtype=np.int32),
        sentences=np.concatenate([[0], np.cumsum(sizes)]),
        documents=np.arange(0, len(sizes) + 1, 2) if documents is None else np.array(documents),
        heads=np.ones(total, bool),
    )


def texts(row):
    """Returns the texts between the special tokens of a row. Checks that the row is whole texts and then padding."""
    cut = [list(part) for part in np.split(row, np.flatnonzero(row == CLS))[1:]]
    cut[-1] = [token for token in cut[-1] if token]
    assert row[0] == CLS and all(part[-1] == SEP and SEP not in part[:-1] for part in cut)
    assert not row[sum(map(len, cut)) :].any()
    return [tuple(part[1:-1]) for part in cut]


def test_rows_are_whole_pairs_in_the_order_of_the_corpus():
    sizes = np.random.default_rng(1).integers(1, 9, 200)
    text, length, seen = corpus(sizes), 32, set()
    whole = [tuple(part) for part in np.split(text.ids, text.sentences[1:-1])]
    number = {whole[2 * i]: i for i in range(100)}
    packed = Packed(text, VOCABULARY, length)
    for step in range(60):  # 17 epochs: pairs at the end of the corpus that the first leaves out come later
        for source, target in zip(*packed(step, 4, 7), strict=True):
            pairs = [number[part] for part in texts(source)]
            assert texts(target) == [whole[2 * i + 1] for i in pairs]
            assert [i % 100 for i in range(pairs[0], pairs[0] + len(pairs))] == pairs
            after = (pairs[-1] + 1) % 100
            room = [length - np.count_nonzero(row) for row in (source, target)]
            assert any(len(whole[2 * after + side]) + 2 > room[side] for side in (0, 1)), "one more would have fitted"
            seen |= set(pairs)
    assert seen == set(range(100))
    again, other = packed(5, 4, 7), packed(5, 4, 8)
    assert all(np.array_equal(*two) for two in zip(again, Packed(text, VOCABULARY, length)(5, 4, 7), strict=True))
    assert not np.array_equal(again[0], other[0])


def test_pair_that_is_longer_than_a_row_is_truncated():
    text = corpus([30, 3] * 4)
    source, target = Packed(text, VOCABULARY, 12)(0, 2, 0)
    for row, written in zip(source, target, strict=True):
        ((read,), (target_part,)) = texts(row), texts(written)
        assert len(read) == 10 and (read[0] - FIRST) % 33 == 0  # a source begins every 33 tokens
        assert target_part == tuple(range(read[0] + 30, read[0] + 33))


def test_corpus_without_pairs_and_too_short_rows_raise_an_error():
    with pytest.raises(CorpusUnfit, match=re.escape("document 3 of the corpus has not two texts but 4. Give")):
        batches(corpus([3] * 8, [0, 2, 4, 8]), VOCABULARY, 2, 16)
    with pytest.raises(ValueError, match="at least 4"):
        batches(corpus([3] * 8), VOCABULARY, 2, 3)


@cache
def networks():
    keras.utils.set_random_seed(2)
    reads, writes = cove(SIZE, Vocabulary(size=50))
    encoder = built(reads, name="encoder")
    loss = Translation(encoder, built(writes, encoder, name="decoder"), CLS)
    rng = np.random.default_rng(3)
    for variable in loss.variables:  # away from 0, so that every term matters
        variable.assign(np.asarray(variable) + rng.normal(0, 0.3, variable.shape).astype(np.float32))
    encoder.dropout = 0.0
    return encoder, loss


def array(variable):
    return np.asarray(variable, np.float64)


def read(ids):
    """Returns the word vectors and the states of each layer [T, E] of one text."""
    encoder, _ = networks()
    layers = [array(encoder.token_embedding)[ids]]
    for layer in encoder.stack:
        ahead, back = layer.forward_lstm, layer.backward_lstm
        ahead, back = lstm(layers[-1], ahead)[0], lstm(layers[-1][::-1], back)[0][::-1]
        layers.append(np.concatenate([ahead, back], axis=1))
    return layers


def translated(ids, written):
    """Returns ln p [S, V] after each token of ``written``, and the attention weights of the decoder [S, T], by the
    paper's equations."""
    encoder, loss = networks()
    decoder, table, states = loss.decoder, array(encoder.token_embedding), read(ids)[-1]
    kept, a, log_p, attention_weights = [None] * len(decoder.members), np.zeros(8), [], []
    for token in written:
        x = np.concatenate([table[token], a])
        for index, layer in enumerate(decoder.members):
            (x,), kept[index] = lstm(x[None], layer, state=kept[index])
        scores = states @ (x @ array(decoder.query.kernel) + array(decoder.query.bias))
        weights = np.exp(scores - scores.max())
        weights /= weights.sum()
        both = np.concatenate([weights @ states, x])
        a = np.tanh(both @ array(decoder.joint.kernel) + array(decoder.joint.bias))
        log_p.append(log_softmax((a @ table.T + array(decoder.output_bias))[None])[0])
        attention_weights.append(weights)
    return np.array(log_p), np.array(attention_weights)


def test_encoder_matches_the_paper_and_keeps_texts_separate():
    encoder, _ = networks()
    encoding = encoder({"tokens": TOKENS})
    for row, place, _ in PAIRS:
        layers = read(TOKENS[row, place])
        for got, want in zip(encoding.layers, layers, strict=True):
            assert np.allclose(got[row, place], np.concatenate([layers[0], want], axis=1), atol=1e-5)
    top = np.asarray(encoding.tokens)
    assert np.allclose(encoding.pooled[0], top[0].max(axis=0), atol=1e-6)
    assert np.allclose(encoding.pooled[1], top[1, :4].max(axis=0), atol=1e-6)


def test_loss_is_the_mean_over_separate_pairs():
    _, loss = networks()
    each = []
    for row, place, target_part in PAIRS:
        written = TARGETS[row, target_part]
        log_p, _ = translated(TOKENS[row, place], written[:-1])
        each += list(-log_p[np.arange(len(written) - 1), written[1:]])
    batch = {"tokens": TOKENS, "targets": TARGETS}
    assert int(loss.totals(batch)["targets"]) == len(each) == 9
    assert float(loss(batch)["loss"]) == pytest.approx(np.mean(each), abs=1e-5)


def test_generation_records_the_attention_weights():
    """`bench.engine.generate` uses these weights for its coverage penalty."""
    _, loss = networks()
    memory, past = loss.begin(TOKENS[1:])
    written, log_p, attention_weights = TARGETS[1:, :4], [], []
    for step in range(4):
        with collect_attention() as watched:
            logits, past = loss.step(
                memory, past, tf.constant(written[:, None, : step + 1]), tf.ones([1, 1, step + 1], bool)
            )
        log_p.append(log_softmax(np.asarray(logits)[0]))
        attention_weights.append(np.asarray(watched[-1].weights)[0, 0, 0])
    expected, expected_weights = translated(TOKENS[1, :4], written[0])
    assert np.allclose(np.concatenate(log_p), expected, atol=1e-5)
    assert (
        np.allclose(np.array(attention_weights)[:, :4], expected_weights, atol=1e-5)
        and not np.array(attention_weights)[:, 4:].any()
    )


def test_dropout_applies_to_encoder_and_decoder():
    encoder, loss = networks()
    batch, seed, values = {"tokens": TOKENS, "targets": TARGETS}, tf.constant([4, 5]), []
    for rate in (0.0, 0.3):
        encoder.dropout = rate
        values.append(float(loss(batch, seed)["loss"]))
        memory = tf.stop_gradient(encoder({"tokens": TOKENS}).tokens)
        values.append(np.asarray(loss.decoder(tf.constant(TARGETS), memory, tf.constant(TOKENS), seed)))
    encoder.dropout = 0.0
    assert values[0] != values[2] and not np.allclose(values[1], values[3])
