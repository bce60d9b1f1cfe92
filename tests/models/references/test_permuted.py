"""Compares XLNet and MPNet with `transformers` on the same random weights."""

from dataclasses import replace

import numpy as np
import pytest

from ptmbench.models import published
from tests.models.references.common import (
    SIZE,
    TOLERANCE,
    VOCABULARY,
    batch,
    check_layers,
    check_loss,
    difference,
    long,
    ours,
    reference,
    torch,
    transformers,
)


@pytest.fixture(scope="module")
def xlnet():
    config = published.load("xlnet").config(SIZE, VOCABULARY)
    network = reference(transformers.XLNetLMHeadModel, transformers.XLNetConfig, **config)
    assert published.load("xlnet").size(network.config.to_dict()) == replace(SIZE, length=512)
    return network, ours("xlnet", network)


def test_xlnet_encodes(xlnet):
    network, built = xlnet
    rows = batch()
    theirs = network.transformer(
        input_ids=long(rows["tokens"]),
        token_type_ids=long(rows["segments"]),
        attention_mask=long(rows["tokens"] > 0).float(),
        output_hidden_states=True,
    )
    check_layers(built.encoder(rows), theirs.hidden_states, rows["tokens"] > 0)


@pytest.mark.parametrize("seed", range(3))
def test_xlnet_two_streams_in_any_order(xlnet, seed):
    """Compares both streams and the loss, with a memory and padding, for random orders and random target positions."""
    network, built = xlnet
    rows, rng, slots, before = batch(61), np.random.default_rng(seed), 9, 23
    rows["tokens"][1, 50:] = 0
    rows["segments"][:, 30:] = 1
    rows["segments"] *= rows["tokens"] > 0
    ranks, positions = np.zeros((2, 61), np.int32), np.zeros((2, slots), np.int32)
    for row in range(2):
        positions[row] = rng.choice(50, slots, replace=False)
        ranks[row, positions[row]] = 1 + rng.permutation(slots)
    memory = rng.integers(1, VOCABULARY.size, (2, before)).astype(np.int32)
    labels = np.take_along_axis(rows["tokens"], positions, axis=1)
    given = rows | {"ranks": ranks, "memory": memory, "predicted_positions": positions, "predicted_labels": labels}
    given["predicted_weights"] = np.ones((2, slots), np.float32)
    hidden = (ranks[:, None, :] > 0) & (ranks[:, None, :] >= ranks[:, :, None])  # [B, i, j]: i may not see j
    mapping = np.eye(61)[positions]  # [B, S, T]
    cached = network.transformer(input_ids=long(memory), use_mems=True).mems
    theirs = network(
        input_ids=long(rows["tokens"]),
        token_type_ids=long(rows["segments"]),
        attention_mask=long(rows["tokens"] > 0).float(),
        perm_mask=torch.tensor(hidden).float(),
        target_mapping=torch.tensor(mapping).float(),
        mems=cached,
        use_mems=True,
        labels=long(labels),
        output_hidden_states=True,
    )
    contents, queries = built.encoder.predict(given)
    present = rows["tokens"] > 0
    for x, y in zip(contents, theirs.hidden_states[0::2], strict=False):  # ours lacks the last, which is unused
        assert difference(np.reshape(x, (2, 61, -1)), y, present) < TOLERANCE
    for x, y in zip(queries, theirs.hidden_states[1::2], strict=True):
        assert difference(np.reshape(x, (2, slots, -1)), y) < TOLERANCE
    logits = np.reshape(built.loss.logits(given), (2, slots, -1))
    assert difference(logits, theirs.logits) < TOLERANCE * max(1.0, float(theirs.logits.detach().abs().max()))
    check_loss(built.loss(given)["loss"], theirs.loss)


@pytest.fixture(scope="module")
def mpnet():
    config = published.load("mpnet").config(SIZE, VOCABULARY)
    network = reference(transformers.MPNetForMaskedLM, transformers.MPNetConfig, **config)
    assert published.load("mpnet").size(network.config.to_dict()) == SIZE
    return network, ours("mpnet", network)


def mpnet_inputs(tokens, places=None):
    """Returns the inputs of the reference, which numbers positions from 2 on."""
    places = np.broadcast_to(np.arange(tokens.shape[1]), tokens.shape) if places is None else places
    return {
        "input_ids": long(tokens),
        "position_ids": long(places + 2),
        "attention_mask": long(tokens > 0),
        "output_hidden_states": True,
    }


def test_mpnet_encodes(mpnet):
    network, built = mpnet
    tokens = batch()["tokens"]
    theirs = network.mpnet(**mpnet_inputs(tokens))
    check_layers(built.encoder({"tokens": tokens}), theirs.hidden_states, tokens > 0)


def test_mpnet_predicts_one_masked_token_as_masked_lm(mpnet):
    """The reference only computes masked LM. With one masked token, the query stream is the same."""
    network, built = mpnet
    tokens = batch()["tokens"]
    for place in (7, 101):
        masked = tokens.copy()
        masked[:, place] = VOCABULARY.mask
        given = {
            "tokens": masked,
            "masked_positions": np.full((2, 1), place, np.int32),
            "masked_labels": tokens[:, place : place + 1],
            "masked_weights": np.ones((2, 1), np.float32),
        }
        labels = np.full(tokens.shape, -100)
        labels[:, place] = tokens[:, place]
        theirs = network(**mpnet_inputs(masked), labels=long(labels))
        expected = theirs.logits[:, place]
        bound = TOLERANCE * max(1.0, float(expected.detach().abs().max()))
        assert difference(built.loss.logits(given), expected) < bound
        check_loss(built.loss(given)["loss"], theirs.loss)
