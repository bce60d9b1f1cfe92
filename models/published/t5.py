"""T5's checkpoints: `transformers.T5ForConditionalGeneration` with ReLU and tied embeddings (T5 1.0)."""

from collections.abc import Mapping
from typing import Any

from ptmbench.models.card import Size
from ptmbench.models.published._bert_like import check
from ptmbench.models.published.weight import Weight
from ptmbench.models.text.tokenizers import Vocabulary

MODEL_TYPES = ("t5",)
PREFIX = ""
_BIAS = "block.0.layer.0.SelfAttention.relative_attention_bias.weight"
_NEEDED = {
    "feed_forward_proj": "relu",
    "tie_word_embeddings": True,
    "scale_decoder_outputs": True,
    "layer_norm_epsilon": 1e-6,
    "relative_attention_num_buckets": 32,
    "relative_attention_max_distance": 128,
}


def size(config: Mapping[str, Any]) -> Size:
    """Returns the shape. Positions are relative, so the length is only the longest that the authors trained on.

    Raises `Unsupported` for gated layers, an untied output, heads of another width than D / H, or other distances.
    """
    layers, width, heads = config["num_layers"], config["d_model"], config["num_heads"]
    check(config, _NEEDED | {"num_decoder_layers": layers, "d_kv": width // heads}, {"d_kv": 64})
    return Size(layers=layers, width=width, heads=heads, inner=config["d_ff"], length=config.get("n_positions", 512))


def config(size: Size, vocabulary: Vocabulary) -> dict[str, Any]:
    """Returns the content of config.json."""
    return {
        **_NEEDED,
        "model_type": "t5",
        "architectures": ["T5ForConditionalGeneration"],
        "is_encoder_decoder": True,
        "vocab_size": vocabulary.size,
        "d_model": size.width,
        "d_kv": size.width // size.heads,
        "d_ff": size.inner,
        "num_layers": size.layers,
        "num_decoder_layers": size.layers,
        "num_heads": size.heads,
        "n_positions": size.length,
        "dropout_rate": 0.1,
    }


def _attention(place: str, kind: str, theirs: str, above: str) -> list[Weight]:
    """Returns the weights of an attention: the norm before it, queries, keys, values, and the output projection."""
    fused = [("query_key_value", "qkv")] if kind == "attention" else [("query", "q"), ("key_value", "kv")]
    return [
        Weight(ours=f"{place}{kind}_norm/scale", theirs=(f"{above}layer_norm.weight",)),
        *(
            Weight(
                ours=f"{place}{kind}/{ours}/kernel",
                theirs=tuple(f"{theirs}{part}.weight" for part in parts),
                transposed=True,
            )
            for ours, parts in fused
        ),
        Weight(ours=f"{place}{kind}/projection/kernel", theirs=(f"{theirs}o.weight",), transposed=True),
    ]


def weights(size: Size) -> list[Weight]:
    """One entry for each variable."""
    copies = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")
    found = [Weight(ours="encoder/embeddings/tokens/table", theirs=("shared.weight",), vocabulary=True, copies=copies)]
    for part in ("encoder", "decoder"):
        found.append(Weight(ours=f"{part}/norm/scale", theirs=(f"{part}.final_layer_norm.weight",)))
        found.append(Weight(ours=f"{part}/distances/table", theirs=(f"{part}.{_BIAS}",)))
        for index in range(size.layers):
            layer, place = f"{part}.block.{index}.layer.", f"{part}/stack/layer_{index}/"
            found += _attention(place, "attention", f"{layer}0.SelfAttention.", f"{layer}0.")
            if part == "decoder":
                found += _attention(place, "cross", f"{layer}1.EncDecAttention.", f"{layer}1.")
            feed = f"{layer}{1 if part == 'encoder' else 2}."
            found += [
                Weight(ours=f"{place}norm/scale", theirs=(f"{feed}layer_norm.weight",)),
                *(
                    Weight(
                        ours=f"{place}feed_forward/{ours}/kernel",
                        theirs=(f"{feed}DenseReluDense.{name}.weight",),
                        transposed=True,
                    )
                    for ours, name in (("inner", "wi"), ("outer", "wo"))
                ),
            ]
    return found
