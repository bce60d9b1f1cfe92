"""Tests of pseudo-masked language modelling: which tokens are hidden, the attention mask of the single pass, and the
loss by its formula."""

from functools import cache

import numpy as np
import pytest
import tensorflow as tf

from ptmbench.models.architectures.masked_encoder import unilm_v2 as unilm_v2_encoder
from ptmbench.models.card import Size
from ptmbench.models.layers.heads import PseudoMaskedConfig
from ptmbench.models.layers.masked import built
from ptmbench.models.objectives import pseudo_masked
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary

VOCABULARY = Vocabulary(size=9000)
FIRST, LENGTH, ROWS, STEPS = VOCABULARY.first, 64, 32, 30


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
    make = pseudo_masked.batches(corpus(), VOCABULARY, ROWS, LENGTH)
    steps = [make(step, 3) for step in range(STEPS)]
    return {name: np.concatenate([batch[name] for batch in steps]) for name in steps[0]}


def test_all_hidden_tokens_and_no_others_are_masked():
    result = drawn()
    used, positions, labels = result["masked_weights"] > 0, result["masked_positions"], result["masked_labels"]
    assert np.array_equal(used.sum(axis=1), np.full(len(used), round(0.15 * (LENGTH - 3))))
    assert (labels[used] >= FIRST).all() and (labels[~used] == 0).all()
    row = np.broadcast_to(np.arange(len(used))[:, None], used.shape)
    hidden = np.zeros(result["tokens"].shape, bool)
    hidden[row[used], positions[used]] = True
    assert hidden.sum() == used.sum()
    assert np.array_equal(result["tokens"] == VOCABULARY.mask, hidden)
    for tokens, place, label in zip(result["tokens"][:50], positions[:50], labels[:50], strict=True):
        for at, token in zip(place[label > 0], label[label > 0], strict=True):
            near = tokens[at - 1] if tokens[at - 1] >= FIRST else None
            assert near is None or near == token - 1  # the label is the original token


def test_blocks_are_adjacent_tokens_with_one_number_in_random_order():
    result, sizes, rising, singles, draws = drawn(), [], [], 0, 0
    for positions, order, weights in zip(
        result["masked_positions"], result["order"], result["masked_weights"], strict=True
    ):
        positions, order = positions[weights > 0], order[weights > 0]
        ends = [0]
        for number in dict.fromkeys(order.tolist()):
            places = np.sort(positions[order == number])
            assert np.array_equal(places, np.arange(places[0], places[0] + len(places)))
            sizes.append(len(places))
            ends.append(number)
        by_place = order[np.argsort(positions)]
        rising += (np.diff(by_place)[np.diff(by_place) != 0] > 0).tolist()
        draws, singles = draws + len(ends) - 1, singles + sum(size == 1 for size in sizes[-(len(ends) - 1) :])
    assert max(sizes) <= 6
    # The last block of a row is truncated to what is left of the 15 %, here 9 tokens. This shortens some blocks.
    assert abs(singles / draws - 0.639) < 4 * (0.639 * 0.361 / draws) ** 0.5
    assert sum(size >= 4 for size in sizes) / draws > 0.16
    assert abs(np.mean(rising) - 0.5) < 4 * (0.25 / len(rising)) ** 0.5 + 0.02


def test_batches_are_determined_by_step_and_seed():
    make = pseudo_masked.batches(corpus(), VOCABULARY, 4, LENGTH)
    again = pseudo_masked.batches(corpus(), VOCABULARY, 4, LENGTH)(7, 1)
    assert all(np.array_equal(value, again[name]) for name, value in make(7, 1).items())
    assert not np.array_equal(make(7, 1)["order"], make(7, 2)["order"])


TEXT, ORDER = 8, np.array([[6, 2, 2, 9]], np.int32)
"""Four hidden tokens in three blocks: slots 1 and 2 come first, then 0, then 3."""
POSITIONS = np.array([[1, 3, 4, 6]], np.int32)
WHOLE = TEXT + 8


def may_attend(query: int, key: int) -> bool:
    """Whether ``query`` may attend to ``key``, two of the 16 positions, by the docstring of
    `models.objectives.pseudo_masked`."""

    def kind(place):
        return "text" if place < TEXT else "original" if place < TEXT + 4 else "pseudo"

    def block(place):
        return ORDER[0, (place - TEXT) % 4]

    match kind(query), kind(key):
        case _, "text":
            return True
        case "original", "original":
            return block(key) <= block(query)
        case "pseudo", "original":
            return block(key) < block(query)
        case "pseudo", "pseudo":
            return block(key) == block(query)
    return False


def test_attention_mask_follows_the_rule():
    result = np.asarray(pseudo_masked.visible(tf.constant(ORDER), TEXT))[0]
    assert result.tolist() == [[may_attend(query, key) for key in range(WHOLE)] for query in range(WHOLE)]


@pytest.fixture(scope="module")
def loss():
    size = Size(layers=2, width=16, heads=2, inner=32, length=TEXT)
    words = PseudoMaskedConfig(width=16, inner=16, vocabulary=80)
    encoder = built(unilm_v2_encoder(size, 80), name="encoder")
    return pseudo_masked.PseudoMaskedLm(words, encoder, Vocabulary(size=80))


def test_positions_do_not_depend_on_those_they_may_not_attend_to(loss):
    """Every pair of positions (text, [MASK], originals and pseudo masks), through two layers."""
    ids = np.arange(40, 40 + WHOLE, dtype=np.int32)[None]
    ids[0, POSITIONS[0]] = VOCABULARY.mask
    positions = np.concatenate([np.arange(TEXT)[None], POSITIONS, POSITIONS], axis=1)
    see = pseudo_masked.visible(tf.constant(ORDER), TEXT)

    def hidden(ids):
        count = len(ids)
        x = loss.encoder.hidden(
            tf.constant(ids),
            tf.zeros_like(ids),
            tf.repeat(see, count, axis=0),
            tf.constant(np.repeat(positions, count, axis=0), tf.int32),
        )[-1]
        return np.asarray(x).reshape(count, WHOLE, -1)

    changed = np.repeat(ids, WHOLE, axis=0)
    changed[np.arange(WHOLE), np.arange(WHOLE)] += 20
    change = np.abs(hidden(changed) - hidden(ids)).max(axis=-1)  # [changed key, query]
    for key in range(WHOLE):
        for query in range(WHOLE):
            if may_attend(query, key):
                assert change[key, query] > 1e-6, (query, key)
            else:
                assert change[key, query] < 1e-6, (query, key)


def batch():
    tokens = np.arange(40, 40 + TEXT, dtype=np.int32)[None].repeat(2, axis=0)
    labels = np.take_along_axis(tokens, POSITIONS.repeat(2, axis=0), axis=1)
    tokens[:, POSITIONS[0]] = VOCABULARY.mask
    weights = np.ones((2, 4), np.float32)
    labels[1, 3], weights[1, 3] = 0, 0.0
    tokens[1, 6] = 46  # the slot is unused: its token is in the text
    places = POSITIONS.repeat(2, axis=0)
    places[1, 3] = 0
    return {
        "tokens": tokens,
        "segments": np.repeat([[0, 0, 0, 0, 1, 1, 1, 1]], 2, axis=0).astype(np.int32),
        "masked_positions": places,
        "masked_labels": labels,
        "masked_weights": weights,
        "order": np.concatenate([ORDER, [[6, 2, 2, 0]]]).astype(np.int32),
    }


def test_predictions_depend_on_earlier_blocks_and_not_on_their_own_token(loss):
    """In the input of the loss, another original token changes only the scores of pseudo masks in later blocks."""
    given = batch()
    before = np.asarray(loss.logits(given))
    for slot in range(4):
        labels = given["masked_labels"].copy()
        labels[0, slot] += 20
        change = np.abs(np.asarray(loss.logits(given | {"masked_labels": labels})) - before).max(axis=-1)
        assert change[1].max() < 1e-6
        assert change[0, :4].max() < 1e-6  # autoencoding attends to no original
        later = ORDER[0] > ORDER[0, slot]
        assert (change[0, 4:][later] > 1e-6).all() and (change[0, 4:][~later] < 1e-6).all()


def test_loss_is_the_sum_of_both_means(loss):
    given = batch()
    logits = np.asarray(loss.logits(given), np.float64)
    nll = np.log(np.exp(logits).sum(axis=-1)) - np.take_along_axis(
        logits, np.tile(given["masked_labels"], (1, 2))[:, :, None], axis=2
    ).squeeze(2)
    used = given["masked_weights"] > 0
    encoding, regressive = nll[:, :4][used].mean(), nll[:, 4:][used].mean()
    values = loss(given)
    assert np.isclose(float(values["mlm_loss"]), encoding, atol=1e-5)
    assert np.isclose(float(values["par_loss"]), regressive, atol=1e-5)
    assert np.isclose(float(values["loss"]), encoding + regressive, atol=1e-5)
    totals = loss.totals(given)
    assert int(totals["masked"]) == 7
    parts = [loss({k: v[i : i + 1] for k, v in given.items()}, totals=totals)["loss"] for i in range(2)]
    assert np.isclose(sum(map(float, parts)), encoding + regressive, atol=1e-5)
