"""Tests of layers made from configurations: their weights, sizes and costs, and how their networks are saved."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from ptmbench import models
from ptmbench.models.layers import config as configs
from ptmbench.models.layers.blocks import Block, Stack
from ptmbench.models.layers.config import BERT, ONES, ZEROS, LinearConfig, Start, from_dict
from ptmbench.models.layers.core import Rows, initializer
from ptmbench.models.layers.embeddings import padding_bias
from ptmbench.models.layers.transformers import built
from ptmbench.models.text.tokenizers import Vocabulary
from tests.models.layer_cases import (
    CONVERTED,
    DECODERS,
    NETWORKS,
    SIZE,
    TOKENS,
    WORDS,
    answers,
    every_config,
    heads,
    layer_of,
    layers_of,
    network,
    own,
    reloaded,
)  # fmt: skip


@pytest.mark.parametrize(("name", "config"), [*every_config().items(), *heads()])
def test_configurations_round_trip_through_json(name, config):
    import json

    assert from_dict(json.loads(json.dumps(config.to_dict()))) == config


@pytest.mark.parametrize(("name", "config"), every_config().items())
def test_parameters_match_the_layer(name, config):
    layer = layer_of(name, config)
    tables = [v for v in own(layer) if v.path.endswith("/table") and "logits" not in v.path]
    result = config.parameters()
    assert result.total == sum(math.prod(v.shape) for v in own(layer))
    assert result.tables == sum(math.prod(v.shape) for v in tables)


def weight_paths(config, path):
    """Yields the paths of all weights in the order of `Config.weights` and `Config.parts`."""
    for name in config.weights():
        yield f"{path}/{name}"
    for name, part in config.parts():
        yield from weight_paths(part, f"{path}/{name}")


@pytest.mark.parametrize(("name", "config"), every_config().items())
def test_weights_are_created_in_the_order_of_the_configuration(name, config, monkeypatch):
    created, add = [], keras.layers.Layer.add_weight

    def recording_add_weight(self, *args, **kwargs):
        created.append(add(self, *args, **kwargs))
        return created[-1]

    monkeypatch.setattr(keras.layers.Layer, "add_weight", recording_add_weight)
    layer_of(name, config)
    assert [v.path for v in created if v.path.startswith("layer")] == list(weight_paths(config, "layer"))


@pytest.mark.parametrize(
    ("start", "low", "high"),
    [(BERT, 0.016, 0.019), (configs.NORMAL, 0.019, 0.021), (ZEROS, 0, 0), (Start(kind="ones", deviations=()), 0, 0)],
)
def test_initial_weights_follow_the_configuration(start, low, high):
    """A normal distribution truncated at two standard deviations has 0.880 of the original standard deviation."""
    kernel = built(LinearConfig(inputs=200, outputs=300, start=start), name="x").kernel.numpy()
    assert low <= kernel.std() <= high
    assert kernel.mean() == pytest.approx(float(start == ONES), abs=1e-3)


def test_blocks_of_columns_have_their_own_initial_deviations():
    drawn = initializer(Start(kind="random_normal", deviations=(0.1, 1.0, 3.0)))((400, 300)).numpy()
    for part, deviation in zip(np.split(drawn, 3, axis=1), (0.1, 1.0, 3.0), strict=True):
        assert part.std() == pytest.approx(deviation, rel=0.05)


@pytest.mark.parametrize("name", CONVERTED)
def test_flops_of_a_model_match_the_shapes_of_its_kernels(name):
    """FLOPs from the shapes of all kernels: twice their size for each vector, and the two products of attention."""
    model = models.load(name).describe(SIZE, Vocabulary(size=WORDS))
    encoder, length, D = model.encoder, 24, SIZE.width
    layer = built(encoder, name="encoder")
    kernels = [v for v in layer.variables if v.path.endswith("kernel")]
    inside = sum(math.prod(v.shape) for v in kernels if "/stack/" in v.path)
    inside *= SIZE.layers if encoder.stack.shared else 1
    once = sum(math.prod(v.shape) for v in kernels if "pooler" in v.path)
    wide = sum(math.prod(v.shape) for v in kernels if "widening" in v.path)
    expected = 2 * (length * (inside + wide) + once) + SIZE.layers * 4 * length * length * D
    assert encoder.flops(length) == expected


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_network_is_saved_and_loaded(kind, tmp_path):
    model, layer = network(kind)
    (layer.encoder if kind in DECODERS else layer).dropout = 0.25
    again = reloaded(model, tmp_path)
    assert np.array_equal(answers(again, kind), answers(model, kind))
    (one,) = (x for x in again.layers if type(x) is type(layer))
    assert (one.encoder if kind in DECODERS else one).dropout == 0.25 and one.config == layer.config
    assert [v.path for v in again.weights] == [v.path for v in model.weights]
    if kind in DECODERS:
        assert one.encoder is next(x for x in again.layers if x.name == "encoder")


def test_shared_blocks_are_one_block_applied_repeatedly():
    config = every_config()["shared_encoder"]
    layer = built(config, name="encoder")
    assert len(layers_of(layer, Block)) == 1 and len(list(layers_of(layer, Stack)[0])) == 2
    x = tf.random.stateless_normal([6, 32], [1, 2])
    bias, rows = padding_bias(tf.constant(TOKENS[:1])), Rows(1, 6)
    once, _ = layer.stack.layer_0(x, bias, rows=rows)
    twice, _ = layer.stack.layer_0(once, bias, rows=rows)
    assert np.array_equal(layer.stack(x, bias, rows=rows)[-1], twice)
