"""ProphetNet's checkpoints. Positions begin at 1 there, so their position tables have one row more than ours."""

from collections.abc import Mapping
from typing import Any

from ptmbench.models.card import Size
from ptmbench.models.published._bert_like import check, dense, norm
from ptmbench.models.published.weight import Weight
from ptmbench.models.text.tokenizers import Vocabulary

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
"""The settings of our network, which are also the defaults for a config.json without them."""
_DECODER = {"decoder_ffn_dim": 4096, "num_decoder_layers": 12, "num_decoder_attention_heads": 16}
"""The shape of the decoder that `transformers` assumes if config.json does not have it."""


def size(config: Mapping[str, Any]) -> Size:
    """Returns the shape. Raises `Unsupported` for settings that the network does not compute."""
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
    """Returns the content of config.json. The decoder starts from [CLS] here."""
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
    """One entry for each variable."""
    words = [f"prophetnet.{part}word_embeddings.weight" for part in ("", "encoder.", "decoder.")]
    found = [
        Weight(
            ours="encoder/embeddings/tokens/table",
            theirs=(words[0],),
            vocabulary=True,
            copies=(*words[1:], "lm_head.weight"),
        ),
        Weight(ours="decoder/streams/table", theirs=("prophetnet.decoder.ngram_embeddings.weight",)),
    ]
    for part in ("encoder", "decoder"):
        ours, theirs = f"{part}/embeddings/", f"prophetnet.{part}."
        found.append(Weight(ours=f"{ours}positions/table", theirs=(f"{theirs}position_embeddings.weight",), skipped=1))
        found += norm(f"{ours}norm/", f"{theirs}embeddings_layer_norm")
        for index in range(size.layers):
            found += layer(f"{part}/stack/layer_{index}/", f"{theirs}layers.{index}.", decoder=part == "decoder")
    return found


def layer(ours: str, theirs: str, decoder: bool) -> list[Weight]:
    """Returns the weights of a layer of the encoder or of the ``decoder``."""
    own, cross = f"{theirs}self_attn", f"{theirs}cross_attn"
    found = [
        *dense(f"{ours}attention/query_key_value/", *(f"{own}.{part}_proj" for part in ("query", "key", "value"))),
        *dense(f"{ours}attention/projection/", f"{own}.out_proj"),
        *norm(f"{ours}attention_norm/", f"{own}_layer_norm"),
        *dense(f"{ours}feed_forward/inner/", f"{theirs}feed_forward.intermediate"),
        *dense(f"{ours}feed_forward/outer/", f"{theirs}feed_forward.output"),
        *norm(f"{ours}norm/", f"{theirs}feed_forward_layer_norm"),
    ]
    if decoder:
        found += [
            *dense(f"{ours}attention/distances/", f"{own}.relative_pos_embeddings"),
            *dense(f"{ours}cross/query/", f"{cross}.query_proj"),
            *dense(f"{ours}cross/key_value/", f"{cross}.key_proj", f"{cross}.value_proj"),
            *dense(f"{ours}cross/projection/", f"{cross}.out_proj"),
            *norm(f"{ours}cross_norm/", f"{cross}_layer_norm"),
        ]
    return found
