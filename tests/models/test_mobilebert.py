"""Tests of MobileBERT: what a trigram depends on, the number of parameters, and invalid settings."""

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
    layer, rng = built(bottleneck(SIZE, WORDS, inside=4), name="encoder"), np.random.default_rng(0)
    for variable in layer.variables:  # far from the small initial values, which hide dependencies
        variable.assign(rng.normal(0.0, 0.3, variable.shape) + (variable.name == "scale"))
    return layer


def test_base_has_as_many_parameters_as_the_published_network():
    """As many weights as transformers' MobileBertModel and MobileBertForPreTraining with the authors' configuration."""
    described = mobilebert.describe(mobilebert.SIZES["base"], Vocabulary(size=30_522))
    assert described.encoder.parameters().total == 24_581_888
    assert described.parameters().total == 36_597_564


def test_embeddings_depend_on_the_two_neighbours_only(encoder):
    tokens = np.array([[2, 11, 12, 13, 14, 15, 3]], np.int32)
    changed = tokens.copy()
    changed[0, 3] = 20
    before, after = (np.asarray(encoder({"tokens": one}).layers[0]) for one in (tokens, changed))
    change = np.abs(before - after).max(axis=(0, 2)) > 1e-3
    assert change.tolist() == [False, False, True, True, True, False, False]


def test_texts_in_one_row_are_encoded_like_separate_texts(encoder):
    """With ``documents``, a trigram does not extend into the next text."""
    first, second = [2, 11, 12, 3], [2, 21, 22, 23, 3]
    packed = {
        "tokens": np.array([first + second], np.int32),
        "documents": np.array([[0] * 4 + [1] * 5], np.int32),
        "positions": np.array([[*range(4), *range(5)]], np.int32),
    }
    separate = [np.asarray(encoder({"tokens": np.array([one], np.int32)}).tokens) for one in (first, second)]
    result = np.asarray(encoder(packed).tokens)
    assert np.allclose(result, np.concatenate(separate, axis=1), atol=1e-4 * np.abs(result).max())
    joined = np.asarray(encoder({name: packed[name] for name in ("tokens", "positions")}).tokens)
    assert np.abs(result - joined).max() > 0.01 * np.abs(result).max()


def test_incompatible_settings_raise_an_error():
    block = bottleneck(SIZE, WORDS, inside=4).stack.block
    with pytest.raises(ValueError, match="shared, narrow, wide, not 'all'"):
        replace(block, reads="all")
    with pytest.raises(ValueError, match=r"reads='narrow'.*\(4, 4\), not \(4, 16\)"):
        replace(block, reads="narrow")


def test_kind_of_norm_is_configurable():
    plain, normed = (bottleneck(SIZE, WORDS, inside=4, norm=norm) for norm in ("no_norm", "layer_norm"))
    assert type(normed.stack.block.inner_norm) is type(normed.embeddings.norm) is NormConfig
    assert plain.parameters() == normed.parameters()
    tokens = {"tokens": np.array([[2, 11, 12, 3]], np.int32)}
    spread = [np.std(np.asarray(built(one, name="encoder")(tokens).tokens), axis=-1) for one in (plain, normed)]
    assert np.allclose(spread[1], 1.0, atol=0.01) and not np.allclose(spread[0], 1.0, atol=0.1)


def test_adapters_of_one_width_are_not_applicable(encoder):
    with pytest.raises(NotApplicable, match="narrower inside"):
        adapters.extension(encoder, None)
