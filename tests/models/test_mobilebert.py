"""MobileBERT: what a trigram sees, how many weights there are, and which settings are refused."""

from dataclasses import replace

import numpy as np
import pytest

from ptmbench.bench.adapt.adapters import network as adapters
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.architectures.bottleneck_encoder import bottleneck
from ptmbench.models.card import Size
from ptmbench.models.layers.bottleneck import built
from ptmbench.models.layers.config import NormConfig
from ptmbench.models.model_compression import mobilebert
from ptmbench.models.text.tokenizers import Vocabulary

SIZE = Size(layers=2, width=16, heads=2, inner=16, length=24, embedding=4)
WORDS = 40


@pytest.fixture(scope="module")
def encoder():
    made, rng = built(bottleneck(SIZE, WORDS, inside=4), name="encoder"), np.random.default_rng(0)
    for variable in made.variables:  # far from the small initial values, which hide what a token sees
        variable.assign(rng.normal(0.0, 0.3, variable.shape) + (variable.name == "scale"))
    return made


def test_base_is_as_large_as_the_published_network():
    """As many weights as transformers' MobileBertModel and MobileBertForPreTraining with the authors' configuration."""
    described = mobilebert.describe(mobilebert.SIZES["base"], Vocabulary(size=30_522))
    assert described.encoder.parameters().total == 24_581_888
    assert described.parameters().total == 36_597_564


def test_embeddings_see_the_two_neighbours_alone(encoder):
    tokens = np.array([[2, 11, 12, 13, 14, 15, 3]], np.int32)
    changed = tokens.copy()
    changed[0, 3] = 20
    before, after = (np.asarray(encoder({"tokens": one}).layers[0]) for one in (tokens, changed))
    moved = np.abs(before - after).max(axis=(0, 2)) > 1e-3
    assert moved.tolist() == [False, False, True, True, True, False, False]


def test_texts_in_one_row_are_encoded_as_if_alone(encoder):
    """With ``documents``, a trigram does not reach into the next text."""
    first, second = [2, 11, 12, 3], [2, 21, 22, 23, 3]
    packed = {
        "tokens": np.array([first + second], np.int32),
        "documents": np.array([[0] * 4 + [1] * 5], np.int32),
        "positions": np.array([[*range(4), *range(5)]], np.int32),
    }
    alone = [np.asarray(encoder({"tokens": np.array([one], np.int32)}).tokens) for one in (first, second)]
    found = np.asarray(encoder(packed).tokens)
    assert np.allclose(found, np.concatenate(alone, axis=1), atol=1e-4 * np.abs(found).max())
    joined = np.asarray(encoder({name: packed[name] for name in ("tokens", "positions")}).tokens)
    assert np.abs(found - joined).max() > 0.01 * np.abs(found).max()


def test_what_does_not_fit_together_is_told():
    block = bottleneck(SIZE, WORDS, inside=4).stack.block
    with pytest.raises(ValueError, match="shared, narrow, wide, not 'all'"):
        replace(block, reads="all")
    with pytest.raises(ValueError, match=r"reads='narrow'.*\(4, 4\), not \(4, 16\)"):
        replace(block, reads="narrow")


def test_norms_are_a_setting():
    plain, normed = (bottleneck(SIZE, WORDS, inside=4, norm=norm) for norm in ("no_norm", "layer_norm"))
    assert type(normed.stack.block.inner_norm) is type(normed.embeddings.norm) is NormConfig
    assert plain.parameters() == normed.parameters()
    tokens = {"tokens": np.array([[2, 11, 12, 3]], np.int32)}
    spread = [np.std(np.asarray(built(one, name="encoder")(tokens).tokens), axis=-1) for one in (plain, normed)]
    assert np.allclose(spread[1], 1.0, atol=0.01) and not np.allclose(spread[0], 1.0, atol=0.1)


def test_adapters_of_one_width_do_not_fit(encoder):
    with pytest.raises(NotApplicable, match="narrower inside"):
        adapters.extension(encoder, None)
