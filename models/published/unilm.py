"""UniLM's checkpoints: BERT's layout with six segments.

`transformers.BertForPreTraining` computes UniLM, given a 4-D mask. A config.json of the type "bert" with six segments
is therefore read as UniLM.

Epsilon is 1e-5. It is fixed in the authors' code for UniLM (microsoft/unilm, unilm-v1) and absent from its
configuration, so a folder of the type "unilm" may leave it out. `transformers` assumes 1e-12 for the type "bert".
"""

from collections.abc import Mapping
from typing import Any

from ptmbench.models.card import Size
from ptmbench.models.published import _bert_like as layers
from ptmbench.models.published import bert
from ptmbench.models.text.tokenizers import Vocabulary

MODEL_TYPES = ("bert", "unilm")
PREFIX = "bert."
_NEEDED = {"type_vocab_size": 6, "layer_norm_eps": 1e-5}
_DEFAULTS = {"type_vocab_size": 2, "layer_norm_eps": 1e-12}
"""Defaults of `transformers` for settings that are missing in config.json."""


def size(config: Mapping[str, Any]) -> Size:
    """Returns the shape.

    Raises `Unsupported` for another activation, epsilon, kind of position or number of segments.
    """
    layers.check(config, _NEEDED, _DEFAULTS if config.get("model_type") == "bert" else None)
    return layers.size(dict(config) | _DEFAULTS)


def config(size: Size, vocabulary: Vocabulary) -> dict[str, Any]:
    """Returns the content of config.json."""
    return bert.config(size, vocabulary) | _NEEDED


weights = bert.weights
"""The variables have the names of BERT's."""
