"""BART's checkpoints: `transformers.BartForConditionalGeneration`.

The files also have ``final_logits_bias``, which is zero and is not trained. Neither the paper nor our network has it,
so a file in which it is not zero is refused.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ptmbench.models.card import Size
from ptmbench.models.published._bert_like import check, dense, norm
from ptmbench.models.published.weight import Weight
from ptmbench.models.text.tokenizers import Vocabulary

MODEL_TYPES = ("bart",)
PREFIX = "model."
TOKENS = Weight(
    ours="encoder/embeddings/tokens/table",
    theirs=("model.shared.weight",),
    vocabulary=True,
    copies=("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"),
)
_DECODER = {"decoder_layers": 12, "decoder_attention_heads": 16, "decoder_ffn_dim": 4096}
"""The shape of the decoder that `transformers` assumes if config.json does not have it."""
_NEEDED = {"activation_function": "gelu", "scale_embedding": False, "tie_word_embeddings": True}


def size(config: Mapping[str, Any]) -> Size:
    """Returns the shape.

    Raises `Unsupported` for other activations, scaled embeddings, an untied output, or different shapes of encoder and
    decoder.
    """
    check(config, _NEEDED)
    return shape(config)


def shape(config: Mapping[str, Any]) -> Size:
    """Returns the shape of an encoder and decoder of BART's family. Raises `Unsupported` if the two differ."""
    check(config, {name: config[name.replace("decoder", "encoder")] for name in _DECODER}, _DECODER)
    return Size(
        layers=config["encoder_layers"],
        width=config["d_model"],
        heads=config["encoder_attention_heads"],
        inner=config["encoder_ffn_dim"],
        length=config["max_position_embeddings"],
    )


def config(size: Size, vocabulary: Vocabulary) -> dict[str, Any]:
    """Returns the content of config.json. The decoder starts from [CLS] here."""
    both = {"layers": size.layers, "attention_heads": size.heads, "ffn_dim": size.inner}
    return {
        **_NEEDED,
        **{f"{part}_{name}": value for part in ("encoder", "decoder") for name, value in both.items()},
        "model_type": "bart",
        "architectures": ["BartForConditionalGeneration"],
        "is_encoder_decoder": True,
        "vocab_size": vocabulary.size,
        "d_model": size.width,
        "max_position_embeddings": size.length,
        "decoder_start_token_id": vocabulary.cls,
        "forced_eos_token_id": vocabulary.sep,
        "dropout": 0.1,
        "init_std": 0.02,
    }


def fixed(size: Size) -> dict[str, np.ndarray]:
    """Returns the bias of the logits."""
    return {"final_logits_bias": np.zeros((), np.float32)}


def weights(size: Size) -> list[Weight]:
    """One entry for each variable."""
    found = [TOKENS]
    for part in ("encoder", "decoder"):
        place = f"model.{part}."
        found.append(
            Weight(ours=f"{part}/embeddings/positions/table", theirs=(f"{place}embed_positions.weight",), skipped=2)
        )
        found += norm(f"{part}/embeddings/norm/", f"{place}layernorm_embedding")
        for index in range(size.layers):
            found += layer(f"{part}/stack/layer_{index}/", f"{place}layers.{index}.", cross=part == "decoder")
    return found


def layer(ours: str, theirs: str, cross: bool) -> list[Weight]:
    """Returns the weights of a layer of the encoder or, with ``cross``, of the decoder."""
    found = [
        *_fused(f"{ours}attention/query_key_value/", *(f"{theirs}self_attn.{part}_proj" for part in "qkv")),
        *dense(f"{ours}attention/projection/", f"{theirs}self_attn.out_proj"),
        *norm(f"{ours}attention_norm/", f"{theirs}self_attn_layer_norm"),
        *dense(f"{ours}feed_forward/inner/", f"{theirs}fc1"),
        *dense(f"{ours}feed_forward/outer/", f"{theirs}fc2"),
        *norm(f"{ours}norm/", f"{theirs}final_layer_norm"),
    ]
    if cross:
        found += [
            *dense(f"{ours}cross/query/", f"{theirs}encoder_attn.q_proj"),
            *_fused(f"{ours}cross/key_value/", *(f"{theirs}encoder_attn.{part}_proj" for part in "kv")),
            *dense(f"{ours}cross/projection/", f"{theirs}encoder_attn.out_proj"),
            *norm(f"{ours}cross_norm/", f"{theirs}encoder_attn_layer_norm"),
        ]
    return found


def _fused(ours: str, *theirs: str) -> list[Weight]:
    """Returns a dense layer that concatenates several of their layers."""
    return [
        Weight(ours=f"{ours}kernel", theirs=tuple(f"{name}.weight" for name in theirs), transposed=True),
        Weight(ours=f"{ours}bias", theirs=tuple(f"{name}.bias" for name in theirs)),
    ]
