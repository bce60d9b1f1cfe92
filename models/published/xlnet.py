"""XLNet's checkpoints: `transformers.XLNetLMHeadModel`, and all others with an ``XLNetModel``.

The matrices of attention have an axis for the heads there. Published models were trained on rows that end with [SEP]
[CLS], which is the template of their tokenizers here. Rows of models that are trained here begin with [CLS].
"""

from collections.abc import Mapping
from typing import Any

from ptmbench.models.card import Size
from ptmbench.models.published._bert_like import check, dense, norm
from ptmbench.models.published.weight import Weight
from ptmbench.models.text.tokenizers import Vocabulary

MODEL_TYPES = ("xlnet",)
PREFIX = "transformer."
_NEEDED = {
    "ff_activation": "gelu",
    "layer_norm_eps": 1e-12,
    "attn_type": "bi",
    "bi_data": False,
    "clamp_len": -1,
    "same_length": False,
    "tie_word_embeddings": True,
}


def size(config: Mapping[str, Any]) -> Size:
    """Returns the shape. Positions are relative and unlimited, so the length is that of the training rows, 512.

    Raises `Unsupported` for another activation, epsilon or kind of position.
    """
    check(config, _NEEDED)
    width, heads = config["d_model"], config["n_head"]
    check(config, {"d_head": width // heads})
    return Size(layers=config["n_layer"], width=width, heads=heads, inner=config["d_inner"], length=512)


def config(size: Size, vocabulary: Vocabulary) -> dict[str, Any]:
    """Returns the content of config.json. The pooled vector is the vector of the first token, as here."""
    return {
        **_NEEDED,
        "model_type": "xlnet",
        "architectures": ["XLNetLMHeadModel"],
        "vocab_size": vocabulary.size,
        "d_model": size.width,
        "n_layer": size.layers,
        "n_head": size.heads,
        "d_head": size.width // size.heads,
        "d_inner": size.inner,
        "dropout": 0.1,
        "initializer_range": 0.02,
        "mem_len": None,
        "summary_type": "first",
    }


def weights(size: Size) -> list[Weight]:
    """One entry for each variable."""
    D, H, K = size.width, size.heads, size.width // size.heads
    found = [
        Weight(
            ours="encoder/embeddings/tokens/table",
            theirs=(f"{PREFIX}word_embedding.weight",),
            vocabulary=True,
            copies=("lm_loss.weight",),
        ),
        Weight(ours="encoder/query", theirs=(f"{PREFIX}mask_emb",), reshaped=(1, 1, D)),
        Weight(ours="plm/output_bias", theirs=("lm_loss.bias",), vocabulary=True, head=True),
    ]
    for index in range(size.layers):
        layer, place = f"{PREFIX}layer.{index}.", f"encoder/stack/layer_{index}/"
        theirs = f"{layer}rel_attn."
        for name, letters in (("query", "q"), ("key_value", "kv"), ("distance", "r"), ("projection", "o")):
            found.append(
                Weight(
                    ours=f"{place}attention/{name}/kernel",
                    theirs=tuple(f"{theirs}{letter}" for letter in letters),
                    transposed=letters == "o",
                    reshaped=(D, H, K),
                )
            )
        for name, letter in (("content", "w"), ("position", "r"), ("segment", "s")):
            ours = f"{place}attention/{name}_bias"
            found.append(Weight(ours=ours, theirs=(f"{theirs}r_{letter}_bias",), reshaped=(H, K)))
        found += [
            Weight(ours=f"{place}attention/segment_vectors", theirs=(f"{theirs}seg_embed",)),
            *norm(f"{place}attention_norm/", f"{theirs}layer_norm"),
            *dense(f"{place}feed_forward/inner/", f"{layer}ff.layer_1"),
            *dense(f"{place}feed_forward/outer/", f"{layer}ff.layer_2"),
            *norm(f"{place}norm/", f"{layer}ff.layer_norm"),
        ]
    return found
