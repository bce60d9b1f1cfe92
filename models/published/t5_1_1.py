"""T5 1.1's checkpoints: `transformers.T5ForConditionalGeneration` with gated GELU and an output layer of its own.

Release 5 of transformers ties the output layer to the embedding whatever config.json says, and only leaves out the
scaling; the published files hold both tables.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from models.card import Size
from models.published import t5
from models.published._bert_like import check
from models.published.weight import Weight
from models.tokenizers import Vocabulary

MODEL_TYPES = ("t5",)
PREFIX = ""
_OWN = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
_TIED = {"feed_forward_proj": "relu", "tie_word_embeddings": True}


def size(config: Mapping[str, Any]) -> Size:
    """The shape; `Unsupported` for what T5's reader refuses, and for ungated layers or a tied output."""
    check({**_TIED, **config}, _OWN)
    return t5.size({**config, **_TIED})


def config(size: Size, vocabulary: Vocabulary) -> dict[str, Any]:
    """What config.json holds."""
    return t5.config(size, vocabulary) | _OWN


def weights(size: Size) -> list[Weight]:
    """One entry for each variable: T5's, where gate and inner layer lie side by side, and the output layer."""
    found = []
    for weight in t5.weights(size):
        if weight.ours.endswith("inner_kernel"):
            (inner,) = weight.theirs
            names = tuple(inner.replace(".wi.", f".wi_{part}.") for part in (0, 1))
            weight = replace(weight, theirs=names)
        weight = replace(weight, copies=tuple(copy for copy in weight.copies if copy != "lm_head.weight"))
        found.append(weight)
    return [*found, Weight(ours="decoder/output", theirs=("lm_head.weight",), vocabulary=True)]
