"""PEGASUS's checkpoints: `transformers.PegasusForConditionalGeneration`.

The files also have the fixed positions, and ``final_logits_bias``, which is zero and is not trained. Our network
computes the positions and has no such bias, so a file with other values of either is refused.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ptmbench.models.card import Size
from ptmbench.models.published import bart
from ptmbench.models.published._bert_like import check, norm
from ptmbench.models.published.weight import Weight
from ptmbench.models.text.tokenizers import Vocabulary

MODEL_TYPES = ("pegasus",)
PREFIX = "model."
_NEEDED = {"activation_function": "relu", "scale_embedding": True, "tie_word_embeddings": True}
_DEFAULTS = {"activation_function": "gelu", "scale_embedding": False}
"""Defaults of `transformers` for settings that are missing in config.json."""


def size(config: Mapping[str, Any]) -> Size:
    """Returns the shape.

    Raises `Unsupported` for other activations, unscaled embeddings, an untied output, or different shapes of encoder
    and decoder.
    """
    check(config, _NEEDED, _DEFAULTS)
    return bart.shape(config)


def config(size: Size, vocabulary: Vocabulary) -> dict[str, Any]:
    """Returns the content of config.json."""
    return bart.config(size, vocabulary) | {
        **_NEEDED,
        "model_type": "pegasus",
        "architectures": ["PegasusForConditionalGeneration"],
        "attention_dropout": 0.1,
    }


def fixed(size: Size) -> dict[str, np.ndarray]:
    """Returns the bias of the logits, and the positions [T, D] of encoder and decoder: sines, then cosines."""
    rate = 10000.0 ** (-np.arange(0, size.width, 2) / size.width)
    angles = np.arange(size.length)[:, None] * rate
    waves = np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)
    return bart.fixed(size) | {f"model.{part}.embed_positions.weight": waves for part in ("encoder", "decoder")}


def weights(size: Size) -> list[Weight]:
    """One entry for each variable."""
    found = [bart.TOKENS]
    for part in ("encoder", "decoder"):
        found += norm(f"{part}/norm/", f"model.{part}.layer_norm")
        for index in range(size.layers):
            found += bart.layer(
                f"{part}/stack/layer_{index}/", f"model.{part}.layers.{index}.", cross=part == "decoder"
            )
    return found
