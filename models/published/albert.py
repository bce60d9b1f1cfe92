"""ALBERT's checkpoints: `transformers.AlbertForPreTraining`, and all others with an ``AlbertModel``."""

from collections.abc import Mapping
from typing import Any

from ptmbench.models.card import Size
from ptmbench.models.model_compression.albert import embedding
from ptmbench.models.published import Unsupported
from ptmbench.models.published import _bert_like as layers
from ptmbench.models.published.weight import Weight
from ptmbench.models.text.tokenizers import Vocabulary

MODEL_TYPES = ("albert",)
PREFIX = "albert."
_NEEDED = {
    "layer_norm_eps": 1e-12,
    "position_embedding_type": "absolute",
    "type_vocab_size": 2,
    "num_hidden_groups": 1,
    "inner_group_num": 1,
    "tie_word_embeddings": True,
}
_ACTIVATIONS = ("gelu_new", "gelu_pytorch_tanh")


def size(config: Mapping[str, Any]) -> Size:
    """Returns the shape.

    Raises `Unsupported` for another activation or epsilon, several groups of layers, or an unusual E.
    """
    layers.check(config, _NEEDED)
    if config.get("hidden_act", _ACTIVATIONS[0]) not in _ACTIVATIONS:
        raise Unsupported(
            f"its hidden_act is {config['hidden_act']!r}; the network here computes {' or '.join(_ACTIVATIONS)} only."
        )
    found = Size(
        layers=config["num_hidden_layers"],
        width=config["hidden_size"],
        heads=config["num_attention_heads"],
        inner=config["intermediate_size"],
        length=config["max_position_embeddings"],
    )
    layers.check(config, {"embedding_size": embedding(found)}, {"embedding_size": 128})
    return found


def config(size: Size, vocabulary: Vocabulary) -> dict[str, Any]:
    """Returns the content of config.json."""
    return {
        **layers.config(size, vocabulary),
        **_NEEDED,
        "model_type": "albert",
        "architectures": ["AlbertForPreTraining"],
        "hidden_act": _ACTIVATIONS[0],
        "embedding_size": embedding(size),
        "classifier_dropout_prob": 0.1,
        "pad_token_id": vocabulary.pad,
        "bos_token_id": vocabulary.cls,
        "eos_token_id": vocabulary.sep,
    }


def weights(size: Size) -> list[Weight]:
    """One entry for each variable. The pooler belongs to SOP, which trains it: checkpoints of MLM alone lack it."""
    place, head = f"{PREFIX}encoder.albert_layer_groups.0.albert_layers.0.", "predictions."
    qkv = tuple(f"{place}attention.{part}" for part in ("query", "key", "value"))
    return [
        *layers.embeddings("encoder/embeddings/", f"{PREFIX}embeddings.", (f"{head}decoder.weight",)),
        *layers.dense("encoder/widening/", f"{PREFIX}encoder.embedding_hidden_mapping_in"),
        *layers.dense("encoder/stack/layer_0/attention/query_key_value/", *qkv),
        *layers.dense("encoder/stack/layer_0/attention/projection/", f"{place}attention.dense"),
        *layers.norm("encoder/stack/layer_0/attention_norm/", f"{place}attention.LayerNorm"),
        *layers.dense("encoder/stack/layer_0/feed_forward/inner/", f"{place}ffn"),
        *layers.dense("encoder/stack/layer_0/feed_forward/outer/", f"{place}ffn_output"),
        *layers.norm("encoder/stack/layer_0/norm/", f"{place}full_layer_layer_norm"),
        *layers.dense("encoder/pooler/", f"{PREFIX}pooler", head=True),
        *layers.dense("mlm/transform/", f"{head}dense", head=True),
        *layers.norm("mlm/norm/", f"{head}LayerNorm", head=True),
        Weight(
            ours="mlm/output_bias",
            theirs=(f"{head}bias",),
            vocabulary=True,
            copies=(f"{head}decoder.bias",),
            head=True,
        ),
        *layers.dense("sop/scores/", "sop_classifier.classifier", head=True),
    ]
