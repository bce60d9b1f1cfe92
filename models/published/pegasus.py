"""PEGASUS's checkpoints: `transformers.PegasusForConditionalGeneration`.

The files hold the fixed positions and ``final_logits_bias``, zeros that nothing trains, as well: both are left out.
"""

from collections.abc import Mapping
from typing import Any

from models.card import Size
from models.published import bart
from models.published._bert_like import check, norm
from models.published.weight import Weight
from models.tokenizers import Vocabulary

MODEL_TYPES = ("pegasus",)
PREFIX = "model."
_NEEDED = {"activation_function": "relu", "scale_embedding": True, "tie_word_embeddings": True}
_DEFAULTS = {"activation_function": "gelu", "scale_embedding": False}
"""What transformers takes where config.json says nothing."""


def size(config: Mapping[str, Any]) -> Size:
    """The shape; `Unsupported` for other activations, unscaled embeddings, or unequal halves."""
    check({**_DEFAULTS, **config}, _NEEDED)
    return bart.shape(config)


def config(size: Size, vocabulary: Vocabulary) -> dict[str, Any]:
    """What config.json holds."""
    return bart.config(size, vocabulary) | {
        **_NEEDED,
        "model_type": "pegasus",
        "architectures": ["PegasusForConditionalGeneration"],
        "attention_dropout": 0.1,
    }


def weights(size: Size) -> list[Weight]:
    """One entry for each variable."""
    found = [bart.TOKENS]
    for part in ("encoder", "decoder"):
        found += norm(f"{part}/norm", f"model.{part}.layer_norm")
        for index in range(size.layers):
            found += bart.layer(f"{part}/layer_{index}_", f"model.{part}.layers.{index}.", cross=part == "decoder")
    return found
