"""The layers of BERT with their names in Hugging Face checkpoints. Most other encoders use them as well."""

from collections.abc import Mapping
from typing import Any

from ptmbench.models.card import Size
from ptmbench.models.published import Unsupported
from ptmbench.models.published.weight import Weight
from ptmbench.models.text.tokenizers import Vocabulary

_DENSE = (
    ("attention/projection", "attention.output.dense"),
    ("feed_forward/inner", "intermediate.dense"),
    ("feed_forward/outer", "output.dense"),
)
_NORMS = (("attention_norm", "attention.output.LayerNorm"), ("norm", "output.LayerNorm"))
_NEEDED = {
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "position_embedding_type": "absolute",
    "type_vocab_size": 2,
    "is_decoder": False,
    "add_cross_attention": False,
}


def check(config: Mapping[str, Any], needed: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> None:
    """Raises `Unsupported` if a setting of ``config`` differs from the ``needed`` value.

    A setting that is missing or null has the default of `transformers`: the value in ``defaults``, or else the needed
    one. ``defaults`` lists only the values that differ from the needed ones.
    """
    for name, value in needed.items():
        stated = config.get(name)
        found = (defaults or {}).get(name, value) if stated is None else stated
        if found != value:
            unsaid = " by default, since config.json does not say" if stated is None else ""
            raise Unsupported(
                f"its {name} is {found!r}{unsaid}, and the network here computes only {name} = {value!r}."
            )


def size(config: Mapping[str, Any]) -> Size:
    """Returns the shape of a BERT-like encoder. Raises `Unsupported` for settings that it does not compute."""
    check(config, _NEEDED)
    return Size(
        layers=config["num_hidden_layers"],
        width=config["hidden_size"],
        heads=config["num_attention_heads"],
        inner=config["intermediate_size"],
        length=config["max_position_embeddings"],
    )


def config(size: Size, vocabulary: Vocabulary) -> dict[str, Any]:
    """Returns the settings of config.json for the encoder, with the dropout of the papers."""
    return {
        **_NEEDED,
        "vocab_size": vocabulary.size,
        "hidden_size": size.width,
        "num_hidden_layers": size.layers,
        "num_attention_heads": size.heads,
        "intermediate_size": size.inner,
        "max_position_embeddings": size.length,
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
        "initializer_range": 0.02,
    }


def dense(ours: str, *theirs: str, head: bool = False) -> list[Weight]:
    """Returns a dense layer, "<ours>kernel" and "<ours>bias", whose parts ``theirs`` are concatenated."""
    kernels, biases = (tuple(f"{name}.{part}" for name in theirs) for part in ("weight", "bias"))
    return [
        Weight(ours=f"{ours}kernel", theirs=kernels, transposed=True, head=head),
        Weight(ours=f"{ours}bias", theirs=biases, head=head),
    ]


def norm(ours: str, theirs: str, head: bool = False) -> list[Weight]:
    """Returns a layer norm, "<ours>scale" and "<ours>bias"."""
    return [
        Weight(ours=f"{ours}scale", theirs=(f"{theirs}.weight",), head=head),
        Weight(ours=f"{ours}bias", theirs=(f"{theirs}.bias",), head=head),
    ]


def embeddings(ours: str, theirs: str, copies: tuple[str, ...] = ()) -> list[Weight]:
    """Returns the three tables below ``theirs``, and their norm. ``copies`` are further names of the word table."""
    words = Weight(
        ours=f"{ours}tokens/table", theirs=(f"{theirs}word_embeddings.weight",), vocabulary=True, copies=copies
    )
    return [
        words,
        Weight(ours=f"{ours}positions/table", theirs=(f"{theirs}position_embeddings.weight",)),
        Weight(ours=f"{ours}segments/table", theirs=(f"{theirs}token_type_embeddings.weight",)),
        *norm(f"{ours}norm/", f"{theirs}LayerNorm"),
    ]


def stack(ours: str, theirs: str, layers: int, head: bool = False) -> list[Weight]:
    """Returns the layers "<theirs>0.", "<theirs>1." ..."""
    found: list[Weight] = []
    for index in range(layers):
        layer, place = f"{theirs}{index}.", f"{ours}layer_{index}/"
        qkv = (f"{layer}attention.self.{part}" for part in ("query", "key", "value"))
        found += dense(f"{place}attention/query_key_value/", *qkv, head=head)
        for mine, name in _DENSE:
            found += dense(f"{place}{mine}/", f"{layer}{name}", head=head)
        for mine, name in _NORMS:
            found += norm(f"{place}{mine}/", f"{layer}{name}", head)
    return found
