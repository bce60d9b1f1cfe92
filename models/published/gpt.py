"""GPT's checkpoints: `transformers.OpenAIGPTLMHeadModel`. Kernels are stored as [in, out], as here."""

from collections.abc import Mapping
from typing import Any

from ptmbench.models.card import Size
from ptmbench.models.published._bert_like import check
from ptmbench.models.published.weight import Weight
from ptmbench.models.text.tokenizers import Vocabulary

MODEL_TYPES = ("openai-gpt",)
PREFIX = "transformer."
_DENSE = (
    ("attention/query_key_value", "attn.c_attn"),
    ("attention/projection", "attn.c_proj"),
    ("feed_forward/inner", "mlp.c_fc"),
    ("feed_forward/outer", "mlp.c_proj"),
)
_NORMS = (("attention_norm", "ln_1"), ("norm", "ln_2"))


def size(config: Mapping[str, Any]) -> Size:
    """Returns the shape, with an inner width of 4 D. Raises `Unsupported` for another activation or epsilon."""
    check(config, {"afn": "gelu", "layer_norm_epsilon": 1e-5})  # the "gelu" of this class is the tanh form
    width = config["n_embd"]
    return Size(
        layers=config["n_layer"], width=width, heads=config["n_head"], inner=4 * width, length=config["n_positions"]
    )


def config(size: Size, vocabulary: Vocabulary) -> dict[str, Any]:
    """Returns the content of config.json. Raises `Unsupported` if the inner width is not four times the width."""
    check({"inner width": size.inner}, {"inner width": 4 * size.width})
    return {
        "model_type": "openai-gpt",
        "architectures": ["OpenAIGPTLMHeadModel"],
        "vocab_size": vocabulary.size,
        "n_positions": size.length,
        "n_embd": size.width,
        "n_layer": size.layers,
        "n_head": size.heads,
        "afn": "gelu",
        "layer_norm_epsilon": 1e-5,
    }


def weights(size: Size) -> list[Weight]:
    """One entry for each variable."""
    found = [
        Weight(
            ours="encoder/embeddings/tokens/table",
            theirs=(f"{PREFIX}tokens_embed.weight",),
            vocabulary=True,
            copies=("lm_head.weight",),
        ),
        Weight(ours="encoder/embeddings/positions/table", theirs=(f"{PREFIX}positions_embed.weight",)),
    ]
    for index in range(size.layers):
        layer, place = f"{PREFIX}h.{index}.", f"encoder/stack/layer_{index}/"
        for ours, theirs in _DENSE:
            found += [
                Weight(ours=f"{place}{ours}/kernel", theirs=(f"{layer}{theirs}.weight",)),
                Weight(ours=f"{place}{ours}/bias", theirs=(f"{layer}{theirs}.bias",)),
            ]
        for ours, theirs in _NORMS:
            found += [
                Weight(ours=f"{place}{ours}/scale", theirs=(f"{layer}{theirs}.weight",)),
                Weight(ours=f"{place}{ours}/bias", theirs=(f"{layer}{theirs}.bias",)),
            ]
    return found
