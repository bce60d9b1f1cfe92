"""Computes our MobileBERT, MobileBERT-tiny and their teacher's encoder, IB-BERT, with the weights of `transformers`."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ptmbench.models.architectures.bottleneck_encoder import bottleneck
from ptmbench.models.card import Size
from ptmbench.models.layers.bottleneck import built
from ptmbench.models.layers.bottleneck_config import TrigramEncoderConfig
from ptmbench.models.model_compression import mobilebert
from tests.models.frozen import Frozen
from tests.models.frozen.mappings import mobilebert as mapped
from tests.models.frozen.networks import FAR, POSITIONS, VOCABULARY, inputs

SIZE = Size(layers=2, width=16, heads=2, inner=24, length=160, embedding=4)
SETTINGS: Mapping[str, dict[str, Any]] = {
    "mobilebert": {"inside": 4},
    "mobilebert_tiny": {"inside": 4, "reads": "narrow", "feed_forwards": 2},
    "ib_bert": {
        **{"inside": 16, "reads": "wide", "feed_forwards": 1, "norm": "layer_norm", "activation": "gelu"},
        "pooler": True,
    },
}
"""The arguments of `bottleneck` by the name of the comparison. IB-BERT's blocks have the same width inside as outside.
In the authors' code, its attention reads the block's input. The class in `transformers` cannot if the widths differ."""
DEVIATIONS = {"mobilebert": 0.4, "mobilebert_tiny": 0.4, "ib_bert": 0.1}
"""Standard deviations of the weights. Without layer normalisation, attention is almost uniform below 0.4."""


def config(name: str) -> TrigramEncoderConfig:
    """Returns the configuration of the encoder of the comparison ``name``."""
    return bottleneck(SIZE, VOCABULARY.size, **SETTINGS[name])


def encoded(name: str, frozen: Frozen, encoder: Any) -> dict[str, np.ndarray]:
    """Returns all layers and the pooled vector for the short rows, and the last layer for the long row."""
    given, far = inputs(), {"tokens": inputs()["far"], "segments": (np.arange(150) >= 70).astype(np.int32)[None]}
    encoding, present = encoder(given), (given["tokens"] > 0)[..., None]
    return {
        "hidden": np.stack([np.asarray(layer) * present for layer in encoding.layers]),
        "far": np.asarray(encoder(far).tokens)[0, FAR],
        "pooled": np.asarray(encoding.pooled),
    }


def assign(layer: Any, frozen: Frozen, settings: TrigramEncoderConfig) -> None:
    """Assigns the weights of the reference to ``layer``. Both sides must have the same weights."""
    values = mapped(frozen.weights, settings)
    assert {variable.path for variable in layer.variables} == set(values)
    for variable in layer.variables:
        variable.assign(values[variable.path])


def encoder_alone(name: str, frozen: Frozen) -> dict[str, np.ndarray]:
    """Computes the outputs of an encoder outside of a model."""
    encoder = built(config(name), name="encoder")
    assign(encoder, frozen, config(name))
    return encoded(name, frozen, encoder)


def pretraining(frozen: Frozen) -> dict[str, np.ndarray]:
    """Computes the outputs of MobileBERT's encoder and MLM head, and the loss of both heads."""
    made, given = mobilebert.build(replace(SIZE, embedding=0), VOCABULARY), inputs()
    assert mobilebert.describe(SIZE, VOCABULARY).encoder == config("mobilebert")
    assign(made.loss, frozen, config("mobilebert"))
    encoding, words = made.encoder(given), made.loss.heads[0]
    noise = {"masked_positions": POSITIONS, "masked_labels": given["labels"], "next": np.array([0, 1], np.int32)}
    noise |= {"masked_weights": np.ones((2, 2), np.float32)}
    return encoded("mobilebert", frozen, made.encoder) | {
        "logits": np.reshape(words.logits(encoding.tokens, POSITIONS), (2, 2, -1)),
        "loss": np.asarray(made.loss(given | noise)["loss"]),
    }


OURS: dict[str, Callable[[Frozen], dict[str, np.ndarray]]] = {
    "mobilebert": pretraining,
    "mobilebert_tiny": partial(encoder_alone, "mobilebert_tiny"),
    "ib_bert": partial(encoder_alone, "ib_bert"),
}
"""Functions by the names of the files."""
