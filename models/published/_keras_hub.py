"""Presets of keras-hub, read as if `transformers` had saved the model: its settings, and its arrays under those names.

config.json                        the class of the backbone, and its shape
model.weights.h5                   the arrays, by the order of the layers; read as plain data sets, nothing is run
tokenizer.json, assets/tokenizer/  vocabulary.txt, vocabulary.json and merges.txt, or vocabulary.spm

What a backbone computes is fixed in its code and not in its settings: `settings` says it in the words of
`transformers`, and the tables of this package refuse what our networks do not compute (the tanh form of GELU in its
BERT and ELECTRA). Texts are cut as the authors of the models did, not as keras-hub does, which leaves accents in its
uncased vocabularies.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ptmbench.models.published import PublishedError, Unsupported, _slow, _vocabulary
from ptmbench.models.published._keras_arrays import LAYOUTS, File, Maker
from ptmbench.models.text.tokenizers import Tokenizer

_PACKAGES = ("keras_hub>", "keras_nlp>")
_SHARED = {"vocabulary_size": "vocab_size", "max_sequence_length": "max_position_embeddings"}
_BERT = _SHARED | {
    "hidden_dim": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "intermediate_dim": "intermediate_size",
    "num_segments": "type_vocab_size",
}
_DISTILBERT = {"hidden_dim": "dim", "num_layers": "n_layers", "num_heads": "n_heads", "intermediate_dim": "hidden_dim"}
_ALBERT = {
    "embedding_dim": "embedding_size",
    "num_groups": "num_hidden_groups",
    "num_inner_repetitions": "inner_group_num",
}
_GPT2 = {
    "vocabulary_size": "vocab_size",
    "max_sequence_length": "n_positions",
    "hidden_dim": "n_embd",
    "num_layers": "n_layer",
    "num_heads": "n_head",
    "intermediate_dim": "n_inner",
}
_T5 = {
    "vocabulary_size": "vocab_size",
    "hidden_dim": "d_model",
    "num_layers": "num_layers",
    "num_heads": "num_heads",
    "intermediate_dim": "d_ff",
    "layer_norm_epsilon": "layer_norm_epsilon",
    "tie_embedding_weights": "tie_word_embeddings",
}
_BACKBONES = {
    "BertBackbone": ("bert", _BERT, {"hidden_act": "gelu_new", "layer_norm_eps": 1e-12}),
    "ElectraBackbone": (
        "electra",
        _BERT | {"embedding_dim": "embedding_size"},
        {"hidden_act": "gelu_new", "layer_norm_eps": 1e-12},
    ),
    "RobertaBackbone": (
        "roberta",
        _BERT,
        {"hidden_act": "gelu", "layer_norm_eps": 1e-5, "type_vocab_size": 1, "pad_token_id": 1},
    ),
    "DistilBertBackbone": ("distilbert", _SHARED | _DISTILBERT, {"activation": "gelu"}),
    "AlbertBackbone": ("albert", _BERT | _ALBERT, {"hidden_act": "gelu_new", "layer_norm_eps": 1e-12}),
    "GPT2Backbone": ("gpt2", _GPT2, {"activation_function": "gelu_new", "layer_norm_epsilon": 1e-5}),
    "BartBackbone": ("bart", _SHARED | {"hidden_dim": "d_model"}, {"activation_function": "gelu"}),
    "T5Backbone": ("t5", _T5, {"decoder_start_token_id": 0}),
}
"""By class: model_type, the names of the settings that are there under another one, and what its code fixes."""


def backbone(config: Mapping[str, Any]) -> str | None:
    """The class of the preset that ``config``, a config.json, belongs to; None where it is no preset."""
    name = str(config.get("registered_name"))
    return name.split(">", 1)[1] if name.startswith(_PACKAGES) else None


def settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """What config.json would say in `transformers`; `Unsupported` for a class that is not read here."""
    name = backbone(config)
    if name not in _BACKBONES:
        raise Unsupported(f"Presets of the class {name} are not read here. Known: {', '.join(_BACKBONES)}.")
    model_type, names, fixed = _BACKBONES[name]
    found, given = {"model_type": model_type} | fixed, config["config"]
    found = {theirs: given[ours] for ours, theirs in names.items() if ours in given} | found
    if model_type == "roberta":
        found["max_position_embeddings"] += 2
    if model_type == "bart":
        sizes = {"layers": "num_layers", "attention_heads": "num_heads", "ffn_dim": "intermediate_dim"}
        found |= {f"{half}coder_{a}": given[b] for half in ("en", "de") for a, b in sizes.items()}
    if model_type == "t5":
        gated = "gated, in the exact form of " if given["use_gated_activation"] else ""
        found["feed_forward_proj"] = f"{gated}{given['activation']}"
        found["d_kv"] = given["key_value_dim"] or given["hidden_dim"] // given["num_heads"]
        found["num_decoder_layers"] = given["num_layers"]
    return found


def backbone_of(model: str, config: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The inverse of `settings`: the class of the backbone, and its arguments, for what config.json would say in
    `transformers`. `Unsupported` where keras-hub has no backbone for ``model``."""
    model_type = config["model_type"]
    name = next((name for name, (kind, *_) in _BACKBONES.items() if kind == model_type), None)
    if name is None:
        known = ", ".join(sorted(LAYOUTS))
        raise Unsupported(f"keras-hub has no backbone for {model}. Presets are written of {known}.")
    _, names, _ = _BACKBONES[name]
    found = {ours: config[theirs] for ours, theirs in names.items() if theirs in config}
    if model_type == "roberta":
        found["max_sequence_length"] -= 2
    if model_type == "bart":
        found |= {"num_layers": config["encoder_layers"], "num_heads": config["encoder_attention_heads"]}
        found["intermediate_dim"] = config["encoder_ffn_dim"]
    if model_type == "t5":
        gate, _, activation = config["feed_forward_proj"].rpartition("-")
        found |= {"activation": activation, "use_gated_activation": bool(gate), "key_value_dim": config["d_kv"]}
    return name, found


def tokenizer(folder: Path, config: Mapping[str, Any]) -> Tokenizer:
    """The preset's tokenizer, renumbered; ``config`` is what `settings` gives."""
    place, given = folder / "assets" / "tokenizer", {}
    if (folder / "tokenizer.json").is_file():
        given = _vocabulary.json_of(folder / "tokenizer.json").get("config") or {}
    words = {
        "do_lower_case": bool(given.get("lowercase", False)),
        "strip_accents": given.get("strip_accents") or None,  # False would leave accents in uncased vocabularies
        "tokenize_chinese_chars": bool(given.get("split_on_cjk", True)),
    }
    spaces = {"add_prefix_space": bool(given.get("add_prefix_space", False))}
    files = {
        "vocabulary.txt": partial(_slow.wordpiece, settings=words),
        "vocabulary.json": partial(_slow.bpe, merges=place / "merges.txt", settings=spaces),
        "vocabulary.spm": partial(_slow.sentencepiece, model_type=config["model_type"], settings={}),
    }
    for name, reader in files.items():
        if (place / name).is_file():
            return _vocabulary.of(_slow.json_form(place / name, reader), config, {}, folder)
    raise PublishedError(
        f"{folder} has no vocabulary: put {', '.join(files)} below assets/tokenizer/, where keras-hub's "
        "`save_to_preset` of the tokenizer or the task writes it."
    )


def arrays(folder: Path, config: Mapping[str, Any]) -> tuple[Path, dict[str, Maker]]:
    """The file of weights, and what is in it by the names of `transformers`; ``config`` is what `settings` gives."""
    path = folder / "model.weights.h5"
    if not path.is_file():
        raise PublishedError(
            f"{folder} has no model.weights.h5. Weights in several shards: load the preset with keras-hub and save it "
            "with a larger `max_shard_size`."
        )
    return path, LAYOUTS[config["model_type"]](File(path), config)
