"""ProphetNet in Hugging Face layout. Positions begin at 1 there, so that a table of theirs has a row more than ours."""

from collections.abc import Mapping
from typing import Any

from ptmbench.models.card import Size
from ptmbench.models.published._bert_like import check, norm
from ptmbench.models.published.weight import Weight
from ptmbench.models.tokenizers import Vocabulary

MODEL_TYPES = ("prophetnet",)
PREFIX = "prophetnet."

_NETWORK = {
    "activation_function": "gelu",
    "add_cross_attention": True,
    "ngram": 2,
    "num_buckets": 32,
    "relative_max_distance": 128,
    "tie_word_embeddings": True,
}
"""What the network has, and what config.json means where it is silent."""
_DECODER = {"decoder_ffn_dim": 4096, "num_decoder_layers": 12, "num_decoder_attention_heads": 16}
"""The shape of the decoder that transformers takes where config.json says nothing."""

_PLACES = {
    "encoder": ("encoder/embeddings/positions/table", "encoder/embeddings/norm/", "encoder/stack/layer_"),
    "decoder": ("decoder/positions", "decoder/embedding_norm_", "decoder/layer_"),
}
"""Our names of the positions, of the norm of the embeddings, and of the layers."""


def size(config: Mapping[str, Any]) -> Size:
    """The shape that config.json tells; `Unsupported` for what the network does not compute."""
    check(config, _NETWORK)
    check(config, {name: config[name.replace("decoder", "encoder")] for name in _DECODER}, _DECODER)
    return Size(
        layers=config["num_encoder_layers"],
        width=config["hidden_size"],
        heads=config["num_encoder_attention_heads"],
        inner=config["encoder_ffn_dim"],
        length=config["max_position_embeddings"] - 1,
    )


def config(size: Size, vocabulary: Vocabulary) -> dict[str, Any]:
    """What config.json holds when our weights are written out; the decoder starts from [CLS] here."""
    return {
        "model_type": "prophetnet",
        "architectures": ["ProphetNetForConditionalGeneration"],
        **_NETWORK,
        **dict.fromkeys(("num_encoder_layers", "num_decoder_layers"), size.layers),
        **dict.fromkeys(("num_encoder_attention_heads", "num_decoder_attention_heads"), size.heads),
        **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), size.inner),
        "vocab_size": vocabulary.size,
        "hidden_size": size.width,
        "max_position_embeddings": size.length + 1,
        "decoder_start_token_id": vocabulary.cls,
    }


def weights(size: Size) -> list[Weight]:
    """One for each variable of ``loss``."""
    words = [f"prophetnet.{part}word_embeddings.weight" for part in ("", "encoder.", "decoder.")]
    found = [
        Weight(
            ours="encoder/embeddings/tokens/table",
            theirs=(words[0],),
            vocabulary=True,
            copies=(*words[1:], "lm_head.weight"),
        ),
        Weight(ours="decoder/streams", theirs=("prophetnet.decoder.ngram_embeddings.weight",)),
    ]
    for part in ("encoder", "decoder"):
        place = f"prophetnet.{part}."
        positions, above, layers = _PLACES[part]
        found.append(Weight(ours=positions, theirs=(f"{place}position_embeddings.weight",), skipped=1))
        found += norm(above, f"{place}embeddings_layer_norm")
        for index in range(size.layers):
            found += layer(f"{layers}{index}", f"{place}layers.{index}.", decoder=part == "decoder")
    return found


def layer(ours: str, theirs: str, decoder: bool) -> list[Weight]:
    """The weights of one layer of the encoder or of the ``decoder``."""
    own, cross = f"{theirs}self_attn", f"{theirs}cross_attn"
    if not decoder:
        return [
            *_dense(
                f"{ours}/attention/query_key_value/", *(f"{own}.{part}_proj" for part in ("query", "key", "value"))
            ),
            *_dense(f"{ours}/attention/projection/", f"{own}.out_proj"),
            *norm(f"{ours}/attention_norm/", f"{own}_layer_norm"),
            *_dense(f"{ours}/feed_forward/inner/", f"{theirs}feed_forward.intermediate"),
            *_dense(f"{ours}/feed_forward/outer/", f"{theirs}feed_forward.output"),
            *norm(f"{ours}/norm/", f"{theirs}feed_forward_layer_norm"),
        ]
    return [
        *_dense(f"{ours}_qkv_", *(f"{own}.{part}_proj" for part in ("query", "key", "value"))),
        *_dense(f"{ours}_output_", f"{own}.out_proj"),
        *norm(f"{ours}_attention_norm_", f"{own}_layer_norm"),
        *_dense(f"{ours}_inner_", f"{theirs}feed_forward.intermediate"),
        *_dense(f"{ours}_outer_", f"{theirs}feed_forward.output"),
        *norm(f"{ours}_norm_", f"{theirs}feed_forward_layer_norm"),
        *_dense(f"{ours}_distances_", f"{own}.relative_pos_embeddings"),
        *_dense(f"{ours}_cross_q_", f"{cross}.query_proj"),
        *_dense(f"{ours}_cross_kv_", f"{cross}.key_proj", f"{cross}.value_proj"),
        *_dense(f"{ours}_cross_output_", f"{cross}.out_proj"),
        *norm(f"{ours}_cross_norm_", f"{cross}_layer_norm"),
    ]


def _dense(ours: str, *theirs: str) -> list[Weight]:
    """Kernel and bias of a dense layer of ours, made of ``theirs`` side by side."""
    return [
        Weight(ours=f"{ours}kernel", theirs=tuple(f"{name}.weight" for name in theirs), transposed=True),
        Weight(ours=f"{ours}bias", theirs=tuple(f"{name}.bias" for name in theirs)),
    ]
