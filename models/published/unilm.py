"""UniLM's checkpoints: BERT's layout with six segments. `transformers.BertForPreTraining` computes it, given a 4-D
mask, so its config.json says "bert", and the six segments say that it is UniLM."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from models.card import Size
from models.published import _bert_like as layers
from models.published import bert
from models.published.weight import Weight
from models.tokenizers import Vocabulary

MODEL_TYPES = ("bert", "unilm")
PREFIX = "bert."
_SEGMENTS = {"type_vocab_size": 6}


def size(config: Mapping[str, Any]) -> Size:
    """The shape; `Unsupported` for another activation, epsilon, kind of position or number of segments."""
    layers.check({"type_vocab_size": 2} | dict(config), _SEGMENTS)
    return layers.size(dict(config) | {"type_vocab_size": 2})


def config(size: Size, vocabulary: Vocabulary) -> dict[str, Any]:
    """What config.json holds."""
    return bert.config(size, vocabulary) | _SEGMENTS


def weights(size: Size) -> list[Weight]:
    """One entry for each variable: BERT's, whose two layers of the encoder are one here."""
    places = ("encoder/embeddings/", "encoder/stack/")
    return [
        replace(
            weight,
            ours=next(
                (f"encoder/{weight.ours.removeprefix(p)}" for p in places if weight.ours.startswith(p)), weight.ours
            ),
        )
        for weight in bert.weights(size)
    ]
