"""GPT-2's checkpoints: `transformers.GPT2LMHeadModel`. Kernels are stored as [in, out], as here."""

from typing import Any

from ptmbench.models.card import Size
from ptmbench.models.published import Unsupported
from ptmbench.models.published.weight import Weight
from ptmbench.models.text.tokenizers import Vocabulary

MODEL_TYPES = ("gpt2",)
PREFIX = "transformer."
_FIXED = {
    "activation_function": "gelu_new",
    "layer_norm_epsilon": 1e-5,
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
}


def size(config: dict[str, Any]) -> Size:
    """Returns the shape that ``config`` describes. Raises `Unsupported` for settings that change the computation."""
    for name, ours in _FIXED.items():
        if (found := config.get(name, ours)) != ours:
            raise Unsupported(f"its {name} is {found!r}, and the network here computes only {name} = {ours!r}.")
    width = config["n_embd"]
    return Size(
        layers=config["n_layer"],
        width=width,
        heads=config["n_head"],
        inner=config.get("n_inner") or 4 * width,
        length=config["n_positions"],
    )


def config(size: Size, vocabulary: Vocabulary) -> dict[str, Any]:
    """Returns the content of config.json for a network of ``size``."""
    return {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": vocabulary.size,
        "n_positions": size.length,
        "n_embd": size.width,
        "n_layer": size.layers,
        "n_head": size.heads,
        "n_inner": size.inner,
        **_FIXED,
    }


def weights(size: Size) -> list[Weight]:
    """One entry for each variable."""
    found = [
        Weight(
            ours="encoder/embeddings/tokens/table",
            theirs=("transformer.wte.weight",),
            vocabulary=True,
            copies=("lm_head.weight",),
        ),
        Weight(ours="encoder/embeddings/positions/table", theirs=("transformer.wpe.weight",)),
        Weight(ours="encoder/norm/scale", theirs=("transformer.ln_f.weight",)),
        Weight(ours="encoder/norm/bias", theirs=("transformer.ln_f.bias",)),
    ]
    products = {
        "attention/query_key_value": "attn.c_attn",
        "attention/projection": "attn.c_proj",
        "feed_forward/inner": "mlp.c_fc",
        "feed_forward/outer": "mlp.c_proj",
    }
    norms = {"attention_norm": "ln_1", "norm": "ln_2"}
    for index in range(size.layers):
        ours, theirs = f"encoder/stack/layer_{index}/", f"transformer.h.{index}."
        for part, name in products.items():
            found.append(Weight(ours=f"{ours}{part}/kernel", theirs=(f"{theirs}{name}.weight",)))
            found.append(Weight(ours=f"{ours}{part}/bias", theirs=(f"{theirs}{name}.bias",)))
        for part, name in norms.items():
            found.append(Weight(ours=f"{ours}{part}/scale", theirs=(f"{theirs}{name}.weight",)))
            found.append(Weight(ours=f"{ours}{part}/bias", theirs=(f"{theirs}{name}.bias",)))
    return found
