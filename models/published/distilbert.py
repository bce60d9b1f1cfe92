"""DistilBERT's checkpoints (Sanh et al., 2019), read as `bert`, whose layers they have.

What is missing: segments, which are zeros here and stay without effect; and the pooler, whose place a dense layer that
is the identity takes, so that the pooled vector is tanh of the first token's. NSP's head begins afresh.
"""

from collections.abc import Mapping
from typing import Any

from ptmbench.models.card import Size
from ptmbench.models.published import _bert_like as layers
from ptmbench.models.published import bert
from ptmbench.models.published.weight import Weight

MODEL = "bert"
MODEL_TYPES = ("distilbert",)
PREFIX = "distilbert."
_DENSE = (
    ("attention/projection", "attention.out_lin"),
    ("feed_forward/inner", "ffn.lin1"),
    ("feed_forward/outer", "ffn.lin2"),
)
_NORMS = (("attention_norm", "sa_layer_norm"), ("norm", "output_layer_norm"))

config = bert.config
"""Written out it is a BERT: nothing of DistilBERT's is lost, and what was missing has been learnt since."""


def size(config: Mapping[str, Any]) -> Size:
    """The shape; `Unsupported` for another activation."""
    layers.check(config, {"activation": "gelu"})
    return Size(
        layers=config["n_layers"],
        width=config["dim"],
        heads=config["n_heads"],
        inner=config["hidden_dim"],
        length=config["max_position_embeddings"],
    )


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
        Weight(ours="encoder/embeddings/segments/table", theirs=(), filled="zeros"),
        *layers.norm("encoder/embeddings/norm/", f"{place}LayerNorm"),
        Weight(ours="encoder/pooler/kernel", theirs=(), filled="identity"),
        Weight(ours="encoder/pooler/bias", theirs=(), filled="zeros"),
        *layers.dense("mlm/transform/", "vocab_transform", head=True),
        *layers.norm("mlm/norm/", "vocab_layer_norm", head=True),
        Weight(ours="mlm/output_bias", theirs=("vocab_projector.bias",), vocabulary=True, head=True),
        Weight(ours="nsp/scores/kernel", theirs=("nsp.kernel",), head=True),
        Weight(ours="nsp/scores/bias", theirs=("nsp.bias",), head=True),
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
