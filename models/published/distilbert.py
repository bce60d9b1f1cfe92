"""DistilBERT's checkpoints: `transformers.DistilBertForMaskedLM`, and all others with a ``DistilBertModel``."""

from collections.abc import Mapping
from typing import Any

from ptmbench.models.card import Size
from ptmbench.models.published import _bert_like as layers
from ptmbench.models.published.weight import Weight
from ptmbench.models.text.tokenizers import Vocabulary

MODEL_TYPES = ("distilbert",)
PREFIX = "distilbert."
_DENSE = (
    ("attention/projection", "attention.out_lin"),
    ("feed_forward/inner", "ffn.lin1"),
    ("feed_forward/outer", "ffn.lin2"),
)
_NORMS = (("attention_norm", "sa_layer_norm"), ("norm", "output_layer_norm"))


def size(config: Mapping[str, Any]) -> Size:
    """Returns the shape. Raises `Unsupported` for another activation."""
    layers.check(config, {"activation": "gelu"})
    return Size(
        layers=config["n_layers"],
        width=config["dim"],
        heads=config["n_heads"],
        inner=config["hidden_dim"],
        length=config["max_position_embeddings"],
    )


def config(size: Size, vocabulary: Vocabulary) -> dict[str, Any]:
    """Returns the content of config.json, with the dropout of the authors' code."""
    return {
        "model_type": "distilbert",
        "architectures": ["DistilBertForMaskedLM"],
        "activation": "gelu",
        "vocab_size": vocabulary.size,
        "dim": size.width,
        "n_layers": size.layers,
        "n_heads": size.heads,
        "hidden_dim": size.inner,
        "max_position_embeddings": size.length,
        "sinusoidal_pos_embds": False,
        "dropout": 0.1,
        "attention_dropout": 0.1,
        "initializer_range": 0.02,
    }


def weights(size: Size) -> list[Weight]:
    """One entry for each variable."""
    place, words = f"{PREFIX}embeddings.", ("vocab_projector.weight",)
    found = [
        Weight(
            ours="encoder/embeddings/tokens/table",
            theirs=(f"{place}word_embeddings.weight",),
            vocabulary=True,
            copies=words,
        ),
        Weight(ours="encoder/embeddings/positions/table", theirs=(f"{place}position_embeddings.weight",)),
        *layers.norm("encoder/embeddings/norm/", f"{place}LayerNorm"),
        *layers.dense("mlm/transform/", "vocab_transform", head=True),
        *layers.norm("mlm/norm/", "vocab_layer_norm", head=True),
        Weight(ours="mlm/output_bias", theirs=("vocab_projector.bias",), vocabulary=True, head=True),
    ]
    for index in range(size.layers):
        layer, place = f"{PREFIX}transformer.layer.{index}.", f"encoder/stack/layer_{index}/"
        qkv = tuple(f"{layer}attention.{part}_lin" for part in "qkv")
        found += [
            Weight(
                ours=f"{place}attention/query_key_value/kernel",
                theirs=tuple(f"{part}.weight" for part in qkv),
                transposed=True,
            ),
            Weight(ours=f"{place}attention/query_key_value/bias", theirs=tuple(f"{part}.bias" for part in qkv)),
        ]
        for ours, theirs in _DENSE:
            found += layers.dense(f"{place}{ours}/", f"{layer}{theirs}")
        for ours, theirs in _NORMS:
            found += layers.norm(f"{place}{ours}/", f"{layer}{theirs}")
    return found
