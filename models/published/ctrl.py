"""CTRL's checkpoints: `transformers.CTRLLMHeadModel`. Its sine positions are computed and not stored."""

from typing import Any

from ptmbench.models.card import Size
from ptmbench.models.published import Unsupported
from ptmbench.models.published.weight import Weight
from ptmbench.models.text.tokenizers import Vocabulary

MODEL_TYPES = ("ctrl",)
PREFIX = "transformer."
_FIXED = {"layer_norm_epsilon": 1e-6, "tie_word_embeddings": True}


def size(config: dict[str, Any]) -> Size:
    """Returns the shape that ``config`` describes. Raises `Unsupported` for settings that change the computation."""
    for name, ours in _FIXED.items():
        if (found := config.get(name, ours)) != ours:
            raise Unsupported(f"its {name} is {found!r}, and the network here computes only {name} = {ours!r}.")
    return Size(
        layers=config["n_layer"],
        width=config["n_embd"],
        heads=config["n_head"],
        inner=config["dff"],
        length=config["n_positions"],
    )


def config(size: Size, vocabulary: Vocabulary) -> dict[str, Any]:
    """Returns the content of config.json for a network of ``size``."""
    return {
        "model_type": "ctrl",
        "architectures": ["CTRLLMHeadModel"],
        "vocab_size": vocabulary.size,
        "n_positions": size.length,
        "n_embd": size.width,
        "n_layer": size.layers,
        "n_head": size.heads,
        "dff": size.inner,
        **_FIXED,
    }


def weights(size: Size) -> list[Weight]:
    """One entry for each variable."""
    found = [
        Weight(
            ours="encoder/embeddings/tokens/table",
            theirs=("transformer.w.weight",),
            vocabulary=True,
            copies=("lm_head.weight",),
        ),
        Weight(ours="encoder/norm/scale", theirs=("transformer.layernorm.weight",)),
        Weight(ours="encoder/norm/bias", theirs=("transformer.layernorm.bias",)),
        Weight(ours="loss/output_bias", theirs=("lm_head.bias",), vocabulary=True, head=True),
    ]
    attention = "multi_head_attention."
    products = {
        "attention/query_key_value": tuple(f"{attention}W{part}" for part in "qkv"),
        "attention/projection": (f"{attention}dense",),
        "feed_forward/inner": ("ffn.0",),
        "feed_forward/outer": ("ffn.2",),
    }
    norms = {"attention_norm": "layernorm1", "norm": "layernorm2"}
    for index in range(size.layers):
        ours, theirs = f"encoder/stack/layer_{index}/", f"transformer.h.{index}."
        for part, names in products.items():
            kernels = tuple(f"{theirs}{name}.weight" for name in names)
            found.append(Weight(ours=f"{ours}{part}/kernel", theirs=kernels, transposed=True))
            found.append(Weight(ours=f"{ours}{part}/bias", theirs=tuple(f"{theirs}{name}.bias" for name in names)))
        for part, name in norms.items():
            found.append(Weight(ours=f"{ours}{part}/scale", theirs=(f"{theirs}{name}.weight",)))
            found.append(Weight(ours=f"{ours}{part}/bias", theirs=(f"{theirs}{name}.bias",)))
    return found
