"""Compares our networks with stored outputs of `transformers` (`tests.models.published.frozen.make`), without torch.

The outputs are those of both streams of XLNet, and of BERT with both heads. They include the scores of each class of
next-sentence prediction: if a batch has as many examples of one class as of the other, the loss cannot reveal swapped
classes.
"""

import json
from dataclasses import replace

import numpy as np
import pytest

from ptmbench import models
from ptmbench.models import published
from tests.models.published.frozen import make

TOLERANCE = 2e-5


@pytest.fixture(scope="module", params=["xlnet", "bert"])
def frozen_model(request):
    return request.param, *read(request.param)


def read(name):
    """Returns our network with the frozen weights, the batch, and the expected outputs."""
    with np.load(make.HERE / f"{name}.npz") as file:
        parts = {kind: {} for kind in ("weights", "batch", "expected")}
        for key in file.files:
            kind, _, rest = key.partition("/")
            if rest:
                parts[kind][rest] = file[key]
    weights, batch, expected = parts.values()
    network = models.load(name).build(make.SIZE, make.VOCABULARY)
    entries = {weight.ours: weight for weight in published.load(name).weights(make.SIZE)}
    for variable in network.loss.variables:
        variable.assign(entries[variable.path].read(weights, tuple(variable.shape)))
    for slots in ("masked_positions", "predicted_positions"):
        if slots in batch:
            batch[slots.replace("positions", "weights")] = np.ones(batch[slots].shape, np.float32)
    return network, batch, expected


def check(ours, theirs, where=None):
    gap = np.abs(np.asarray(ours) - theirs)
    assert (gap if where is None else gap[where]).max() < TOLERANCE * max(1.0, np.abs(theirs).max())


def test_loss_matches_transformers(frozen_model):
    _, network, batch, expected = frozen_model
    check(network.loss(batch)["loss"], expected["loss"])


def test_both_streams_of_xlnet_match_transformers():
    network, batch, expected = read("xlnet")
    contents, queries = network.encoder.predict(batch)
    present = batch["tokens"] > 0
    for index, x in enumerate(contents):
        check(np.reshape(x, (*present.shape, -1)), expected[f"content_{index}"], present)
    for index, x in enumerate(queries):
        check(np.reshape(x, expected[f"query_{index}"].shape), expected[f"query_{index}"])
    assert len(queries) == make.SIZE.layers + 1
    check(np.reshape(network.loss.logits(batch), expected["logits"].shape), expected["logits"])


def test_class_order_of_next_sentence_prediction():
    """The class "follows" is 1 in our network and 0 in `transformers`."""
    network, batch, expected = read("bert")
    encoding = network.encoder(batch)
    masked, follows = network.loss.heads
    scores = np.asarray(follows.scores(encoding.pooled))
    check(scores[:, 1], expected["follows"])
    check(scores[:, 0], expected["random"])
    assert np.abs(expected["follows"] - expected["random"]).min() > 0.01  # otherwise swapped classes would go unnoticed
    logits = np.reshape(masked.logits(encoding.tokens, batch["masked_positions"]), (2, 3, -1))
    check(logits, np.take_along_axis(expected["prediction_logits"], batch["masked_positions"][:, :, None], axis=1))


FREE = (
    "drop",
    "init",
    "token_id",
    "summary",
    "architectures",
    "is_encoder_decoder",
    "mem_len",
    "max_position",
    "n_positions",
    "vocab_size",
    "model_type",
)
"""Parts of the names of settings that change no output of an encoder, decoder or head, or that follow from the shape of
an array."""


WORKED_OUT = {("t5", "num_decoder_layers"), ("t5_1_1", "num_decoder_layers"), ("xlnet", "d_head")}
"""Settings whose default the configuration class derives from other settings."""


@pytest.mark.parametrize("name", published.names())
def test_missing_setting_is_refused_or_has_the_default_of_transformers(name):
    """A folder that lacks a setting is refused, or it is read as if the setting had its default."""
    table, defaults = published.load(name), json.loads((make.HERE / "defaults.json").read_text())
    config = table.config(replace(make.SIZE, inner=4 * make.SIZE.width), make.VOCABULARY)
    if config["model_type"] not in table.MODEL_TYPES:
        pytest.skip(f"{name} is written as {config['model_type']}")
    known = defaults[config["model_type"]]
    settings = [setting for setting in config if setting in known and not any(part in setting for part in FREE)]
    assert len(settings) > 3
    for setting in {*settings, "pad_token_id"} & set(config):
        incomplete = {key: value for key, value in config.items() if key != setting}
        read = size_or_none(table, incomplete)
        if read and (name, setting) not in WORKED_OUT:
            assert read == size_or_none(table, config | {setting: known[setting]}), setting


def size_or_none(table, config):
    """Returns the size that is read from ``config``, or None if ``config`` is refused."""
    try:
        return table.size(config)
    except (published.Unsupported, KeyError):
        return None


def test_unilm_has_the_epsilon_of_its_authors():
    """A vector with the variance 1e-5 shows the epsilon: layer normalisation halves its variance if epsilon is 1e-5."""
    import tensorflow as tf

    from ptmbench.models.architectures import masked_encoder
    from ptmbench.models.layers.masked import built

    for made, epsilon in ((masked_encoder.unilm, 1e-5), (masked_encoder.unilm_v2, 1e-12)):
        encoder = built(made(make.SIZE, 47), name="encoder")
        for variable in encoder.variables:
            variable.assign(tf.zeros(variable.shape))
        small = np.where(np.arange(make.SIZE.width) % 2, 1e-5**0.5, -(1e-5**0.5)).astype(np.float32)
        encoder.token_embedding.assign(np.tile(small, (47, 1)))
        encoder.embeddings.norm.scale.assign(np.ones(make.SIZE.width, np.float32))
        tokens = np.array([[2, 40, 3]], np.int32)
        first = encoder({"tokens": tokens}).layers[0].numpy()
        np.testing.assert_allclose(np.abs(first), (1e-5 / (1e-5 + epsilon)) ** 0.5, rtol=1e-4)
    network = models.load("unilm").build(make.SIZE, make.VOCABULARY)
    norms = (network.loss.heads[0].config.epsilon, network.encoder.config.stack.block.norm.epsilon)
    assert norms == (1e-5, 1e-5)
    table = published.load("unilm")
    config = table.config(make.SIZE, make.VOCABULARY)
    assert config["layer_norm_eps"] == 1e-5
    del config["layer_norm_eps"]
    with pytest.raises(published.Unsupported, match="layer_norm_eps is 1e-12 by default"):
        table.size(config)
    assert table.size(config | {"model_type": "unilm"}) == make.SIZE
