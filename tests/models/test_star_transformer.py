"""Tests of the Star-Transformer: ring and relay against a loop over single nodes, for rows of every length."""

import math

import keras
import numpy as np
import pytest

from ptmbench.models.card import Size
from ptmbench.models.layers.star import StarEncoder
from ptmbench.models.masked_language_modeling import star_transformer
from ptmbench.models.text.tokenizers import Vocabulary
from tests.models.weights import numbers

VOCABULARY = Vocabulary(size=90)
SIZE = Size(layers=3, width=16, heads=2, inner=24, length=20)


def encoder(size: Size = SIZE) -> StarEncoder:
    """A network with random weights everywhere, including norms and biases."""
    keras.utils.set_random_seed(1)
    model = star_transformer.build(size, VOCABULARY).encoder
    rng = np.random.default_rng(2)
    for variable in model.variables:
        variable.assign_add(0.2 * rng.normal(size=variable.shape))
    return model


def attend(query, context, weights):
    """The update of one node in algorithm 1: attention over ``context``, ReLU and layer-norm, in float64."""
    w = numbers(weights)
    q = query @ w.q_kernel + w.q_bias
    kv = [c @ w.kv_kernel + w.kv_bias for c in context]
    heads = []
    for part in (slice(0, 8), slice(8, 16)):
        score = np.array([q[part] @ c[:16][part] / math.sqrt(8) for c in kv])
        share = np.exp(score - score.max())
        heads.append((share / share.sum()) @ np.array([c[16:][part] for c in kv]))
    x = np.maximum(np.concatenate(heads) @ w.output_kernel + w.output_bias, 0)
    centred = x - x.mean()
    return centred / math.sqrt((centred**2).mean() + 1e-6) * w.norm_scale + w.norm_bias


def by_hand(model: StarEncoder, tokens: list[int]):
    """Returns every layer of the nodes of one row, and the pooled vector."""
    n = len(tokens)
    table, positions = (np.asarray(v, np.float64) for v in (model.token_embedding, model.embeddings.positions.table))
    e = [4 * (table[token] + positions[place]) for place, token in enumerate(tokens)]
    h, s = list(e), sum(e) / n
    layers = [list(h)]
    for t in range(SIZE.layers):
        h = [attend(h[i], [h[i - 1], h[i], h[(i + 1) % n], e[i], s], model.satellites[t]) for i in range(n)]
        layers.append(h)
        if t + 1 < SIZE.layers:
            s = attend(s, [s, *h], model.relays[t])
    return layers, (s + np.max(h, axis=0)) / 2


@pytest.mark.parametrize("count", [9, 5, 2, 1])
def test_ring_and_relay_by_hand(count):
    """The tested row is between a full row and an empty one."""
    model = encoder()
    tokens = np.zeros((3, 9), np.int32)
    tokens[0] = np.arange(60, 69)
    tokens[1, :count] = np.arange(40, 40 + count)
    encoding = model({"tokens": tokens})
    layers, pooled = by_hand(model, tokens[1, :count].tolist())
    for ours, theirs in zip(encoding.layers, layers, strict=True):
        assert np.allclose(ours[1, :count], theirs, atol=2e-5)
    assert np.allclose(encoding.pooled[1], pooled, atol=2e-5)
    assert np.isfinite(encoding.tokens).all()


def test_distant_tokens_interact_only_through_the_relay():
    """In one layer, a changed token changes the relay, and so all tokens. Two tokens that change places affect only
    their neighbours."""
    model = encoder(Size(layers=1, width=16, heads=2, inner=24, length=20))
    model.embeddings.positions.table.assign(np.zeros((20, 16)))
    row = list(range(40, 50))

    def changed_positions(other: list[int]) -> list[int]:
        both = np.asarray(model({"tokens": np.array([row, other], np.int32)}).tokens)
        return np.flatnonzero(np.abs(both[0] - both[1]).max(axis=-1) > 1e-5).tolist()

    assert changed_positions([40, 41, 42, 43, 80, 45, 46, 47, 48, 49]) == list(range(10))
    assert changed_positions([40, 41, 42, 43, 44, 45, 47, 46, 48, 49]) == [5, 6, 7, 8]


def test_ring_connects_the_first_and_the_last_token_of_a_row():
    """Two tokens change places at the end of a padded row, and this changes the first one."""
    model = encoder(Size(layers=1, width=16, heads=2, inner=24, length=20))
    model.embeddings.positions.table.assign(np.zeros((20, 16)))
    tokens = np.array([[40, 41, 42, 43, 44, 45, 46, 0, 0], [40, 41, 42, 43, 44, 46, 45, 0, 0]], np.int32)
    both = np.asarray(model({"tokens": tokens}).tokens)
    changed_positions = np.abs(both[0] - both[1]).max(axis=-1)[:7] > 1e-5
    assert np.flatnonzero(changed_positions).tolist() == [0, 4, 5, 6]
