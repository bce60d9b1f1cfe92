"""T5 1.1's checkpoints: `transformers.T5ForConditionalGeneration` with gated GELU and an output layer of its own.

`transformers` computes its logits without T5 1.0's factor of D^-1/2. Before release 5, this followed from
"tie_word_embeddings": false in config.json. Release 5 writes "scale_decoder_outputs": false and declares the embeddings
tied. They are tied only if the file of weights has no output layer; the published files have one.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ptmbench.models.card import Size
from ptmbench.models.published import t5
from ptmbench.models.published._bert_like import check
from ptmbench.models.published.weight import Weight
from ptmbench.models.text.tokenizers import Vocabulary

MODEL_TYPES = ("t5",)
PREFIX = ""
_OWN = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
_TIED = {"feed_forward_proj": "relu", "tie_word_embeddings": True}
"""The settings of T5 1.0, which are also the defaults of `transformers`."""


def size(config: Mapping[str, Any]) -> Size:
    """Returns the shape. Raises `Unsupported` for ungated layers, scaled logits, and what `t5` refuses otherwise."""
    check(config, {"feed_forward_proj": "gated-gelu"}, _TIED)
    unscaled = config.get("tie_word_embeddings") is False or config.get("scale_decoder_outputs") is False
    check({"scale_decoder_outputs": not unscaled}, {"scale_decoder_outputs": False})
    return t5.size({**config, **_TIED, "scale_decoder_outputs": True})


def config(size: Size, vocabulary: Vocabulary) -> dict[str, Any]:
    """Returns the content of config.json."""
    return t5.config(size, vocabulary) | _OWN | {"scale_decoder_outputs": False}


def weights(size: Size) -> list[Weight]:
    """One entry for each variable: those of T5, with gate and inner layer concatenated, and the output layer."""
    found = []
    for weight in t5.weights(size):
        if weight.ours.endswith("feed_forward/inner/kernel"):
            (inner,) = weight.theirs
            names = tuple(inner.replace(".wi.", f".wi_{part}.") for part in (0, 1))
            weight = replace(weight, theirs=names)
        weight = replace(weight, copies=tuple(copy for copy in weight.copies if copy != "lm_head.weight"))
        found.append(weight)
    output = Weight(ours="decoder/logits/table", theirs=("lm_head.weight",), vocabulary=True, otherwise="shared.weight")
    return [*found, output]
