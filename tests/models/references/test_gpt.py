"""Compares GPT with `transformers` on the same random weights."""

from dataclasses import replace

from ptmbench.models import published
from tests.models.references.common import SIZE, VOCABULARY, batch, ours, reference, transformers
from tests.models.references.test_decoders import check_language_model


def test_gpt():
    size = replace(SIZE, inner=4 * SIZE.width)  # the reference fixes the inner width
    config = published.load("gpt").config(size, VOCABULARY)
    network = reference(transformers.OpenAIGPTLMHeadModel, transformers.OpenAIGPTConfig, **config)
    assert published.load("gpt").size(network.config.to_dict()) == size
    tokens = batch()["tokens"]
    check_language_model(ours("gpt", network, size), network, tokens, tokens > 0)
