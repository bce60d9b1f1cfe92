"""Tests of MASS: one fragment is hidden from the encoder, and the decoder reads only this fragment."""

import math

import numpy as np
import pytest

from ptmbench.models.objectives import mass
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary

VOCABULARY = Vocabulary(size=5000)
FIRST, MASK = VOCABULARY.first, VOCABULARY.mask


def test_one_fragment_of_half_the_text_is_hidden_often_at_an_end():
    rows, length = 3000, 20
    text = np.tile(np.arange(FIRST, FIRST + length, dtype=np.int32), (rows, 1))
    hidden, first = mass.hide(text, np.random.default_rng(0), VOCABULARY)
    inside = (np.arange(length) >= first[:, None]) & (np.arange(length) < first[:, None] + 10)
    assert (hidden[~inside] == text[~inside]).all()
    # A fifth of the fragments is at each end. The other three fifths are spread over all eleven positions.
    expected = np.full(11, 0.6 / 11)
    expected[[0, -1]] += 0.2
    places = np.bincount(first, minlength=11)
    assert len(places) == 11
    assert (np.abs(places / rows - expected) < 4 * np.sqrt(expected * (1 - expected) / rows)).all()
    masks, same = (hidden == MASK)[inside].mean(), (hidden == text)[inside].mean()
    error = 4 * math.sqrt(0.16 / inside.sum())
    assert abs(masks - 0.8) < error
    assert abs(same - 0.1) < error
    assert hidden[inside & (hidden != MASK)].min() >= FIRST  # random replacements are never special tokens


def corpus(total: int = 1200) -> Corpus:
    bounds = np.arange(0, total + 1, 10)
    return Corpus(
        np.arange(FIRST, FIRST + total, dtype=np.int32), bounds, np.arange(0, len(bounds), 10), np.ones(total)
    )


def test_batches_give_the_decoder_the_fragment_and_its_position():
    make = mass.batches(corpus(), VOCABULARY, 8, 26)
    batch = make(3, 1)
    assert all(np.array_equal(batch[key], make(3, 1)[key]) for key in batch)
    assert any(not np.array_equal(batch[key], make(3, 2)[key]) for key in batch)
    assert batch["tokens"].shape == (8, 26)
    assert batch["targets"].shape == (8, 13)
    for tokens, targets, first in zip(batch["tokens"], batch["targets"], batch["first"], strict=True):
        assert tokens[0] == VOCABULARY.cls
        assert tokens[-1] == VOCABULARY.sep
        assert targets[0] == MASK
        whole = tokens.copy()
        whole[first : first + 12] = targets[1:]
        assert (np.diff(whole[1:-1]) == 1).all()  # with the fragment put back, the text is complete


def test_fragments_often_start_or_end_the_text_in_batches_of_usual_length():
    make = mass.batches(corpus(), VOCABULARY, 64, 128)
    first = np.concatenate([make(step, 1)["first"] for step in range(60)])
    last = 1 + 126 - mass.fragment(126)  # positions are counted from [CLS]
    for place in (1, last):
        share = 0.2 + 0.6 / last
        assert abs((first == place).mean() - share) < 4 * math.sqrt(share * (1 - share) / len(first))
    assert first.min() == 1 and first.max() == last


@pytest.fixture(scope="module")
def built():
    import keras

    from ptmbench import models
    from ptmbench.models.card import Size

    keras.utils.set_random_seed(2)
    small = Vocabulary(size=120)
    return models.load("mass").build(Size(layers=2, width=32, heads=2, inner=64, length=40), small)


def case():
    rng = np.random.default_rng(0)
    tokens = rng.integers(37, 120, (2, 14)).astype(np.int32)
    targets = rng.integers(37, 120, (2, 7)).astype(np.int32)
    targets[:, 0] = MASK
    return {"tokens": tokens, "targets": targets, "first": np.array([3, 8], np.int32)}


def test_fragment_tokens_depend_on_previous_ones_and_on_their_positions(built):
    batch = case()
    memory = built.encoder({"tokens": batch["tokens"]}).tokens

    def logits(**changes):
        given = batch | changes
        return np.asarray(built.loss.decoder(given["targets"], memory, given["tokens"], first=given["first"]))

    changed = batch["targets"].copy()
    changed[:, 4] += 1 - 2 * (changed[:, 4] == 119)
    change = np.abs(logits() - logits(targets=changed)).max(axis=(0, 2))
    assert change[:4].max() < 1e-6
    assert change[4:].min() > 1e-5
    assert np.abs(logits() - logits(first=batch["first"] + 1)).max() > 1e-4  # positions matter
    # A fragment at position 0 is decoded like a separate text.
    start = np.zeros(2, np.int32)
    assert np.allclose(logits(first=start), built.decode(batch), atol=1e-6)


def test_every_fragment_token_depends_on_the_text_around_the_fragment(built):
    batch = case()
    changed = batch["tokens"].copy()
    changed[:, 1] += 1 - 2 * (changed[:, 1] == 119)
    change = np.abs(np.asarray(built.decode(batch)) - np.asarray(built.decode(batch | {"tokens": changed})))
    assert change.max(axis=2).min() > 1e-6


def test_loss_is_the_mean_over_the_fragments_at_their_own_positions(built):
    batch = case()
    memory = built.encoder({"tokens": batch["tokens"]}).tokens
    # By the definition: one row at a time, in a decoder whose position table begins at the fragment.
    table, nll = built.loss.decoder.embeddings.positions.table, []
    whole = np.array(table)
    for row, first in enumerate(batch["first"]):
        table.assign(np.roll(whole, -first, axis=0))
        given = {key: batch[key][row : row + 1] for key in ("tokens", "targets")}
        x = np.asarray(built.loss.decoder(given["targets"][:, :-1], memory[row : row + 1], given["tokens"]))[0]
        x = x.astype(np.float64)
        log_p = x - np.log(np.exp(x).sum(axis=1, keepdims=True))
        nll += [-log_p[place, token] for place, token in enumerate(batch["targets"][row, 1:])]
    table.assign(whole)
    assert len(nll) == 12
    assert float(built.loss(batch)["loss"]) == pytest.approx(np.mean(nll), abs=1e-5)
