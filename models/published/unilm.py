"""UniLM's checkpoints: BERT's layout with six segments. `transformers.BertForPreTraining` computes it, given a 4-D
mask, so its config.json says "bert", and the six segments say that it is UniLM.

Epsilon is 1e-5. The authors' code for UniLM has it fixed (microsoft/unilm, unilm-v1), and its configuration does not
name it, so a folder of the type "unilm" may leave it out. `transformers` takes 1e-12 for a folder of the type "bert".
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
"""What transformers takes where config.json says nothing."""


def size(config: Mapping[str, Any]) -> Size:
    """The shape; `Unsupported` for another activation, epsilon, kind of position or number of segments."""
    layers.check(config, _NEEDED, _DEFAULTS if config.get("model_type") == "bert" else None)
    return layers.size(dict(config) | _DEFAULTS)


def config(size: Size, vocabulary: Vocabulary) -> dict[str, Any]:
    """What config.json holds."""
    return bert.config(size, vocabulary) | _NEEDED


weights = bert.weights
"""The variables have the names of BERT's."""
