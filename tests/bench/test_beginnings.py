"""Initial values of the weights that an adaptation adds: heads as in BERT, recurrent layers by Glorot's variance."""

import numpy as np
import pytest

from ptmbench import models
from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.adapted import Adapted
from ptmbench.bench.engine import networks
from ptmbench.models.card import Size
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks.forms import Form

TOKENIZER = Tokenizer.train("word", ["Vodia Zenna Marko sees knows asks the old miller"] * 3, 60)
SHAPE = Size(layers=2, width=32, heads=2, inner=32, length=32)


@pytest.mark.parametrize(
    ("adaptation", "form", "changes", "recurrent"),
    [
        ("taglm", Form.TAGGING, {}, 8),  # two layers, two directions each, with an input and a state matrix each
        ("stacked", Form.TAGGING, {"encoders": ""}, 4),
        ("multitask", Form.CLASSIFICATION, {}, 3),
        ("finetune", Form.POINTING, {}, 4),  # matrices of the decoder: classes, input, state and query
        ("finetune", Form.TAGGING, {}, 0),
    ],
)
def test_recurrent_layers_are_initialised_by_glorot_and_heads_as_in_bert(adaptation, form, changes, recurrent):
    chosen = settings.changed(settings.defaults(form, adaptation), changes)
    network = models.load("lm_lstm").build(SHAPE, TOKENIZER.vocabulary)
    weights = networks.weights(network.loss.variables)
    outputs = (16, False) if form is Form.TAGGING else 16
    adapted_network = Adapted(network, TOKENIZER.vocabulary, form, adaptation, outputs, chosen, lambda rows: 0.0)
    adapted_network.reset(weights, 0)
    initial_values = [v.numpy() for v in adapted_network.own]
    glorot_matrices = 0
    for value in (value for value in initial_values if value.ndim >= 2):
        expected = (2 / sum(value.shape)) ** 0.5
        assert 0.85 < value.std() / expected < 1.15 or 0.85 < value.std() / 0.02 < 1.15
        glorot_matrices += 0.85 < value.std() / expected < 1.15
    assert glorot_matrices == recurrent
    adapted_network.reset(weights, 1)
    assert all(
        np.array_equal(a, v.numpy()) == (a.ndim < 2) for a, v in zip(initial_values, adapted_network.own, strict=True)
    )
    adapted_network.reset(weights, 0)
    assert all(np.array_equal(a, v.numpy()) for a, v in zip(initial_values, adapted_network.own, strict=True))
