"""Tests of the convolutional network: its equations in NumPy, what a token depends on, and the weights that
pre-training does not train."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ptmbench.models.card import Size
from ptmbench.models.layers.config import from_dict
from ptmbench.models.layers.convolution_config import ConvolutionConfig
from ptmbench.models.model_compression import blend_cnn
from ptmbench.models.text.tokenizers import Vocabulary
from tests.models.networks import LENGTH, ROWS, corpus, seed

VOCABULARY = Vocabulary(size=150)
SIZE = Size(layers=3, width=16, length=24)


def network():
    """A network with random weights everywhere, including biases."""
    keras.utils.set_random_seed(1)
    model = blend_cnn.build(SIZE, VOCABULARY)
    rng = np.random.default_rng(2)
    for variable in model.loss.variables:
        variable.assign_add(0.1 * rng.normal(size=variable.shape))
    return model


def by_hand(encoder, tokens):
    """Returns every layer of one row without padding, and its pooled vector, computed token by token in float64."""
    table = np.asarray(encoder.token_embedding, np.float64)
    h = [4 * table[token] for token in tokens]  # sqrt(16)
    layers = [np.array(h)]
    for index in range(SIZE.layers):
        filters = getattr(encoder, f"layer_{index}").filters
        F, b = np.asarray(filters.kernel, np.float64), np.asarray(filters.bias, np.float64)
        zero_padding = [np.zeros(16)] * 2
        wide = [*zero_padding, *h, *zero_padding]
        h = [np.maximum(np.concatenate(wide[t : t + 5]) @ F + b, 0) for t in range(len(tokens))]
        layers.append(np.array(h))
    P, c = (np.asarray(one, np.float64) for one in (encoder.pooler.kernel, encoder.pooler.bias))
    return layers, np.maximum(np.concatenate([one.max(0) for one in layers[1:]]) @ P + c, 0)


@pytest.mark.parametrize("count", [12, 5, 2, 1])
def test_layers_are_convolutions_and_the_pooled_vector_combines_them(count):
    """The batch has a full row and a row of ``count`` tokens, followed by padding."""
    encoder = network().encoder
    tokens = np.random.default_rng(count).integers(VOCABULARY.first, VOCABULARY.size, (2, 12)).astype(np.int32)
    tokens[1, count:] = 0
    encoding = encoder({"tokens": tokens})
    layers, pooled = by_hand(encoder, tokens[1, :count])
    assert len(encoding.layers) == len(layers) == 4
    for result, expected in zip(encoding.layers, layers, strict=True):
        assert np.allclose(np.asarray(result)[1, :count], expected, atol=1e-5)
    assert np.allclose(np.asarray(encoding.pooled)[1], pooled, atol=1e-5) and (pooled > 0).any()


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_each_layer_adds_two_neighbours_on_either_side(layers):
    keras.utils.set_random_seed(1)
    encoder = blend_cnn.build(Size(layers=layers, width=64, length=24), VOCABULARY).encoder
    tokens = np.random.default_rng(0).integers(VOCABULARY.first, VOCABULARY.size, (1, 20)).astype(np.int32)
    changed = tokens.copy()
    changed[0, 9] = VOCABULARY.mask
    change = np.abs(np.asarray(encoder({"tokens": tokens}).tokens) - encoder({"tokens": changed}).tokens).max((0, 2))
    assert np.flatnonzero(change > 0).tolist() == list(range(9 - 2 * layers, 9 + 2 * layers + 1))


def test_pretraining_does_not_train_the_pooler():
    built = network()
    batch = built.batches(corpus(), ROWS, LENGTH)(0, 1)
    variables = built.loss.trainable_variables
    with tf.GradientTape() as tape:
        value = built.loss(batch, seed=seed())["loss"]
    result = tape.gradient(value, [variable.value for variable in variables])
    without_gradient = [variable.path for variable, one in zip(variables, result, strict=True) if one is None]
    assert without_gradient == ["encoder/pooler/kernel", "encoder/pooler/bias"]
    assert built.loss.unreached == ("encoder/pooler/",)


def test_initial_vectors_of_all_layers_have_similar_sizes():
    """He et al. (2015): without norms, the vectors neither grow nor vanish over eight layers."""
    keras.utils.set_random_seed(1)
    encoder = blend_cnn.build(Size(layers=8, width=256, length=64), VOCABULARY).encoder
    tokens = np.random.default_rng(0).integers(VOCABULARY.first, VOCABULARY.size, (4, 64)).astype(np.int32)
    sizes = [float(np.sqrt(np.mean(np.square(one)))) for one in encoder({"tokens": tokens}).layers]
    assert all(0.5 < one < 2 for one in sizes), sizes


def test_even_windows_raise_an_error_and_configurations_round_trip():
    with pytest.raises(ValueError, match="odd number of tokens, not 4"):
        ConvolutionConfig(width=8, window=4)
    described = blend_cnn.describe(SIZE, VOCABULARY).encoder
    assert from_dict(described.to_dict()) == described
