"""RoBERTa's checkpoints: `transformers.RobertaForMaskedLM`, and all others with a ``RobertaModel``.

Positions count from the id of padding there, which is 1, so the first two rows of the position table are never used.
Some checkpoints have a pooler. It was never trained and is left out.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ptmbench.models.card import Size
from ptmbench.models.masked_language_modeling.roberta import EPSILON
from ptmbench.models.published import _bert_like as layers
from ptmbench.models.published.weight import Weight
from ptmbench.models.text.tokenizers import Vocabulary

MODEL_TYPES = ("roberta",)
PREFIX = "roberta."
OFFSET = 2
_NEEDED = {
    "hidden_act": "gelu",
    "layer_norm_eps": EPSILON,
    "position_embedding_type": "absolute",
    "type_vocab_size": 1,
    "pad_token_id": OFFSET - 1,
    "is_decoder": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
}
_DEFAULTS = {"layer_norm_eps": 1e-12, "type_vocab_size": 2}
"""Defaults of `transformers` for settings that are missing in config.json."""


def size(config: Mapping[str, Any]) -> Size:
    """Returns the shape.

    Raises `Unsupported` for another activation, epsilon, kind of position or number of segments.
    """
    layers.check(config, _NEEDED, _DEFAULTS)
    return Size(
        layers=config["num_hidden_layers"],
        width=config["hidden_size"],
        heads=config["num_attention_heads"],
        inner=config["intermediate_size"],
        length=config["max_position_embeddings"] - OFFSET,
    )


def config(size: Size, vocabulary: Vocabulary) -> dict[str, Any]:
    """Returns the content of config.json."""
    return {
        **layers.config(size, vocabulary),
        **_NEEDED,
        "model_type": "roberta",
        "architectures": ["RobertaForMaskedLM"],
        "max_position_embeddings": size.length + OFFSET,
    }


def weights(size: Size) -> list[Weight]:
    """One entry for each variable."""
    tables = layers.embeddings("encoder/embeddings/", f"{PREFIX}embeddings.", ("lm_head.decoder.weight",))
    return [
        *(replace(w, skipped=OFFSET) if w.ours.endswith("/positions/table") else w for w in tables),
        *layers.stack("encoder/stack/", f"{PREFIX}encoder.layer.", size.layers),
        *layers.dense("mlm/transform/", "lm_head.dense", head=True),
        *layers.norm("mlm/norm/", "lm_head.layer_norm", head=True),
        Weight(
            ours="mlm/output_bias",
            theirs=("lm_head.bias",),
            vocabulary=True,
            copies=("lm_head.decoder.bias",),
            head=True,
        ),
    ]
