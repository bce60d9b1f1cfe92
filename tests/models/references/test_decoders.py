"""Compares GPT-2 and CTRL with `transformers` on the same random weights."""

import numpy as np
import pytest

from ptmbench.models import published
from ptmbench.models.card import Size
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


def check_language_model(built, network, tokens, present):
    """Compares hidden states, log-likelihoods, the loss, and logits of a text that continues a padded source."""
    theirs = network(input_ids=long(tokens), output_hidden_states=True)
    check_layers(built.encoder({"tokens": tokens}), theirs.hidden_states, present)
    expected = torch.log_softmax(theirs.logits, -1)[:, :-1].gather(2, long(tokens[:, 1:, None]))[:, :, 0]
    assert difference(built.log_likelihood({"tokens": tokens})[:, 1:], expected, present[:, 1:]) < TOLERANCE
    labels = np.where(present, tokens, -100)
    mean = network(input_ids=long(tokens), labels=long(labels)).loss
    check_loss(built.loss({"tokens": tokens})["loss"], mean)
    source, targets = tokens[1:, :140], tokens[:1, :10]
    logits = built.decode({"tokens": source, "targets": targets})
    joined = np.concatenate([source[:, :110], targets], axis=1)
    assert difference(logits, network(input_ids=long(joined)).logits[:, 110:]) < TOLERANCE


@pytest.mark.parametrize("length", [150, 37])
def test_gpt2(length):
    config = published.load("gpt2").config(SIZE, VOCABULARY)
    network = reference(transformers.GPT2LMHeadModel, transformers.GPT2Config, **config)
    assert published.load("gpt2").size(network.config.to_dict()) == SIZE
    tokens = batch()["tokens"][:, :length]
    built = ours("gpt2", network)
    if length == 150:
        check_language_model(built, network, tokens, tokens > 0)
    else:
        theirs = network(input_ids=long(tokens), output_hidden_states=True)
        check_layers(built.encoder({"tokens": tokens}), theirs.hidden_states, tokens > 0)


def test_ctrl():
    config = published.load("ctrl").config(SIZE, VOCABULARY)
    network = reference(transformers.CTRLLMHeadModel, transformers.CTRLConfig, **config)
    assert published.load("ctrl").size(network.config.to_dict()) == SIZE
    tokens = batch(149)["tokens"]
    check_language_model(ours("ctrl", network), network, tokens, tokens > 0)


def test_gpt2_with_unsupported_settings_is_refused():
    settings = published.load("gpt2").config(SIZE, VOCABULARY) | {"scale_attn_by_inverse_layer_idx": True}
    with pytest.raises(published.Unsupported, match="scale_attn_by_inverse_layer_idx is True"):
        published.load("gpt2").size(settings)
    assert isinstance(published.load("gpt2").size(settings | {"scale_attn_by_inverse_layer_idx": False}), Size)
