"""Reads presets of keras-hub as if `transformers` had saved the model: its settings, and its arrays by those names.

config.json                        the class of the backbone, and its shape
model.weights.h5, or its shards    the weights, which keras-hub reads into a backbone with these settings
tokenizer.json, assets/tokenizer/  vocabulary.txt, vocabulary.json and merges.txt, or vocabulary.spm

Some of a backbone's computation is fixed in its code and is not in its settings. `settings` adds it, with the names of
`transformers`, and the tables of this package refuse what our networks do not compute (the tanh form of GELU in BERT
and ELECTRA). Keras makes no objects of classes that a file names.

Vocabularies are read here and not by keras-hub, so that texts are tokenised as the authors of the models did. keras-hub
leaves accents in its uncased vocabularies.
"""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ptmbench.models.published import PublishedError, Unsupported, _slow, _vocabulary
from ptmbench.models.published._keras_arrays import LAYOUTS, Maker, Network
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
"""By class: model_type, settings and their names in `transformers`, and settings that are fixed in the class's code."""


def backbone(config: Mapping[str, Any]) -> str | None:
    """Returns the class of the preset with this ``config``, a config.json, or None if it is not a preset."""
    name = str(config.get("registered_name"))
    return name.split(">", 1)[1] if name.startswith(_PACKAGES) else None


def settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Converts a preset's config.json to the one of `transformers`.

    Raises `Unsupported` for a class that is not read here, and for a quantised model.
    """
    name = backbone(config)
    if name not in _BACKBONES:
        raise Unsupported(f"Presets of the class {name} are not read here. Known: {', '.join(_BACKBONES)}.")
    model_type, names, fixed = _BACKBONES[name]
    found, given = {"model_type": model_type} | fixed, config["config"]
    found = {theirs: given[ours] for ours, theirs in names.items() if ours in given} | found
    dtype = given.get("dtype")
    kind = dtype.get("class_name") if isinstance(dtype, Mapping) else "DTypePolicy"
    if kind != "DTypePolicy":
        raise Unsupported(f"Its dtype is a {kind}, as of a quantised model. Save the model before it is quantised.")
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
    """Returns the class of the backbone and its arguments for a config.json of `transformers`: inverts `settings`.

    Raises `Unsupported` if keras-hub has no backbone for ``model``.
    """
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
    """Returns the preset's tokenizer, renumbered. ``config`` comes from `settings`."""
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
            return _vocabulary.renumber(_slow.json_form(place / name, reader), config, {}, folder)
    raise PublishedError(
        f"{folder} has no vocabulary: put {', '.join(files)} below assets/tokenizer/, where keras-hub's "
        "`save_to_preset` of the tokenizer or the task writes it."
    )


def arrays(folder: Path, config: Mapping[str, Any]) -> tuple[list[Path], dict[str, Maker]]:
    """Returns the files of weights, and their arrays by the names of `transformers`. ``config`` comes from `settings`.

    keras-hub is imported, and its backbone is built, when the first array is read.
    """
    path, index = folder / "model.weights.h5", folder / "model.weights.json"
    files = [path]
    if not path.is_file():
        if not index.is_file():
            raise PublishedError(f"{folder} has neither {path.name} nor {index.name}. Save the preset again.")
        path, files = index, _shards(index)
    return files, LAYOUTS[config["model_type"]](Network(partial(_loaded, path, files, config)), config)


def _shards(index: Path) -> list[Path]:
    """Returns the files that ``index`` names. It has one file or a list of files for each layer."""
    places = _vocabulary.json_of(index).get("weight_map")
    lists = [one if isinstance(one, list) else [one] for one in (places.values() if isinstance(places, dict) else ())]
    names = {str(name) for one in lists for name in one}
    if not names or any(Path(name).name != name or not name.endswith(".weights.h5") for name in names):
        raise PublishedError(f"{index} does not name files of weights in its folder. Save the preset again.")
    files = [index.with_name(name) for name in sorted(names)]
    if lost := next((file for file in files if not file.is_file()), None):
        raise PublishedError(f"{index.parent} lacks {lost.name}, one of its shards. Fetch it again.")
    return files


def _loaded(path: Path, files: Sequence[Path], config: Mapping[str, Any]) -> Any:
    """Builds the backbone and loads its weights from ``path``, which is the only one of ``files`` or their index.

    The backbone is built from ``config`` and not from config.json, because Keras would make objects of its classes.
    """
    import keras_hub

    name, arguments = backbone_of(config["model_type"], config)
    stored, pieces = sum(file.stat().st_size for file in files), arguments.get("vocabulary_size")
    vectors = 2 * arguments.get("embedding_dim", arguments["hidden_dim"])  # fewest bytes of a vector
    if type(pieces) is not int or not 0 < pieces * vectors <= stored:
        raise PublishedError(
            f"{path.with_name('config.json')} tells of {pieces} token vectors, but the files of weights hold "
            f"{stored:,} bytes. Are both from one preset?"
        )
    for file in files:
        _check_plain(file)
    try:
        backbone = getattr(keras_hub.models, name)(**arguments, dtype="float32")
        backbone.load_weights(str(path))
    except Exception as error:  # Keras has no error of its own for files of another network
        raise PublishedError(
            f"{path} cannot be read as the weights of keras-hub's {name} that config.json describes "
            f"({_reason(error)}). Save the preset again."
        ) from error
    return backbone


def _check_plain(file: Path) -> None:
    """Raises `PublishedError` for data sets that are larger in memory than in ``file``.

    Keras would read such data sets of up to 4 GiB.
    """
    import h5py

    def check(name: str, part: Any) -> None:
        if isinstance(part, h5py.Dataset) and part.id.get_storage_size() < part.nbytes:
            raise PublishedError(
                f"{file} holds {name} compressed or cut short, and Keras writes plain arrays. Save the preset again."
            )

    try:
        with h5py.File(file) as opened:
            opened.visititems(check)
    except (OSError, RuntimeError) as error:
        raise PublishedError(
            f"{file} is no HDF5 file, or is damaged or cut short ({error}). Fetch it again."
        ) from error


def _reason(error: Exception) -> str:
    """Returns the first layer that Keras could not load with the reason, or the first line of another error."""
    lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    if len(lines) > 1 and (layer := re.search(r"^A total of .* object <\w+ name=(\w+)", lines[0])):
        return f"{layer[1]}: {lines[1]}".rstrip(".")
    return lines[0].rstrip(".")
