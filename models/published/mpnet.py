"""MPNet's checkpoints: `transformers.MPNetForMaskedLM`, and all others with an ``MPNetModel``.

Positions count from 2 there, as in RoBERTa. Some checkpoints have a pooler. It was never trained and is left out.
"""

from collections.abc import Mapping
from typing import Any

from ptmbench.models.card import Size
from ptmbench.models.published import _bert_like as layers
from ptmbench.models.published.weight import Weight
from ptmbench.models.text.tokenizers import Vocabulary

MODEL_TYPES = ("mpnet",)
PREFIX = "mpnet."
OFFSET = 2
_NEEDED = {
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-5,
    "relative_attention_num_buckets": 32,
    "pad_token_id": OFFSET - 1,
    "tie_word_embeddings": True,
}
_DEFAULTS = {"layer_norm_eps": 1e-12}
"""Defaults of `transformers` for settings that are missing in config.json."""


def size(config: Mapping[str, Any]) -> Size:
    """Returns the shape. Raises `Unsupported` for another activation, epsilon or number of distances."""
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
        **_NEEDED,
        "model_type": "mpnet",
        "architectures": ["MPNetForMaskedLM"],
        "vocab_size": vocabulary.size,
        "hidden_size": size.width,
        "num_hidden_layers": size.layers,
        "num_attention_heads": size.heads,
        "intermediate_size": size.inner,
        "max_position_embeddings": size.length + OFFSET,
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
        "initializer_range": 0.02,
    }


def weights(size: Size) -> list[Weight]:
    """One entry for each variable."""
    ours, tables = "encoder/embeddings/", f"{PREFIX}embeddings."
    found = [
        Weight(
            ours=f"{ours}tokens/table",
            theirs=(f"{tables}word_embeddings.weight",),
            vocabulary=True,
            copies=("lm_head.decoder.weight",),
        ),
        Weight(ours=f"{ours}positions/table", theirs=(f"{tables}position_embeddings.weight",), skipped=OFFSET),
        *layers.norm(f"{ours}norm/", f"{tables}LayerNorm"),
        Weight(ours="encoder/distances/table", theirs=(f"{PREFIX}encoder.relative_attention_bias.weight",)),
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
    for index in range(size.layers):
        layer, place = f"{PREFIX}encoder.layer.{index}.", f"encoder/stack/layer_{index}/"
        qkv = tuple(f"{layer}attention.attn.{letter}" for letter in "qkv")
        found += [
            *layers.dense(f"{place}attention/query_key_value/", *qkv),
            *layers.dense(f"{place}attention/projection/", f"{layer}attention.attn.o"),
            *layers.norm(f"{place}attention_norm/", f"{layer}attention.LayerNorm"),
            *layers.dense(f"{place}feed_forward/inner/", f"{layer}intermediate.dense"),
            *layers.dense(f"{place}feed_forward/outer/", f"{layer}output.dense"),
            *layers.norm(f"{place}norm/", f"{layer}output.LayerNorm"),
        ]
    return found
