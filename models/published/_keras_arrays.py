"""The arrays of keras-hub's backbones by their names in `transformers`; see `models.published._keras_hub`.

Keras names layers by their class and counts them, in the order in which the network is put together.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ptmbench.models.published import PublishedError

_PARTS = (
    "_self_attention_layer/query_dense",
    "_self_attention_layer/key_dense",
    "_self_attention_layer/value_dense",
    "_self_attention_layer/output_dense",
    "_self_attention_layer_norm",
    "_feedforward_intermediate_dense",
    "_feedforward_output_dense",
    "_feedforward_layer_norm",
)
_CROSS = tuple(part.replace("self", "cross") for part in _PARTS[:5])

Maker = Callable[[], np.ndarray]
"""An array that is read when it is asked for."""


@dataclass(frozen=True)
class File:
    """An HDF5 file of Keras. Data sets that point into other files are not followed."""

    path: Path

    def array(self, place: str, variable: int = 0) -> np.ndarray:
        """A variable of the layer ``place``; in files of older releases of Keras the parts of attention have "_" in
        front."""
        import h5py

        parent, _, last = place.rpartition("/")
        try:
            with h5py.File(self.path) as file:
                for spelling in (place, f"{parent}/_{last}"):
                    name = f"layers/{spelling}/vars/{variable}"
                    if name in file:
                        return self._plain(file, name)
        except OSError as error:
            raise PublishedError(
                f"{self.path} is no HDF5 file, or is damaged or cut short ({error}). Fetch it again."
            ) from error
        raise PublishedError(f"{self.path} lacks layers/{place}. Is it the weights of the class in config.json?")

    def _plain(self, file: Any, name: str) -> np.ndarray:
        import h5py

        steps = name.split("/")
        links = [file.get("/".join(steps[: i + 1]), getlink=True) for i in range(len(steps))]
        found = file[name] if all(isinstance(link, h5py.HardLink) for link in links) else None
        if not isinstance(found, h5py.Dataset) or found.is_virtual or found.external:
            raise PublishedError(f"{self.path} has links in place of arrays ({name}), which are not followed.")
        if found.dtype.kind not in "fiu" or found.id.get_storage_size() < found.nbytes:
            raise PublishedError(
                f"{self.path} holds {name} compressed, cut short or not as numbers, and Keras writes plain arrays. "
                "Save the preset again."
            )
        array = found[()]
        if found.attrs.get("dtype") == "bfloat16":  # stored as the 16 bits that they are
            return (array.astype(np.uint32) << 16).view(np.float32)
        return array

    def table(self, theirs: str, place: str, before: int = 0) -> dict[str, Maker]:
        """A lookup table, or the scale of a norm without bias; ``before`` rows that no input reaches are zeros."""

        def make() -> np.ndarray:
            array = self.array(place)
            return np.pad(array, [(before, 0), (0, 0)]) if before else array

        return {f"{theirs}.weight": make}

    def kernel(self, theirs: str, place: str) -> dict[str, Maker]:
        """A dense layer [in, out] as [out, in]; heads are no axis of their own there."""

        def make() -> np.ndarray:
            array, outward = self.array(place), place.endswith("output_dense")
            if array.ndim == 1:
                return array
            return array.reshape((-1, array.shape[-1]) if outward else (array.shape[0], -1)).T

        return {f"{theirs}.weight": make}

    def pair(self, theirs: str, place: str) -> dict[str, Maker]:
        """A dense layer or a norm, with its bias."""
        return self.kernel(theirs, place) | {f"{theirs}.bias": lambda: self.array(place, 1).reshape(-1)}

    def layers(self, theirs: str, names: Sequence[str], ours: str, count: int, parts=_PARTS) -> dict[str, Maker]:
        """``count`` layers, whose ``parts`` have other ``names`` there."""
        found: dict[str, Maker] = {}
        for index in range(count):
            for name, part in zip(names, parts, strict=True):
                found |= self.pair(theirs.format(index) + name, f"{_nth(ours, index)}/{part}")
        return found


def _nth(layer: str, index: int) -> str:
    """Keras counts the layers of a class."""
    return f"{layer}_{index}" if index else layer


def _roberta(file: File, config: Mapping[str, Any]) -> dict[str, Maker]:
    layer, out = "attention.self.", "attention.output."
    names = (f"{layer}query", f"{layer}key", f"{layer}value", f"{out}dense", f"{out}LayerNorm")
    return {
        **file.table("embeddings.word_embeddings", "token_and_position_embedding/token_embedding"),
        **file.table("embeddings.position_embeddings", "token_and_position_embedding/position_embedding", before=2),
        # keras-hub has no segments in it, and so adds nothing for the only one.
        "embeddings.token_type_embeddings.weight": lambda: np.zeros((1, config["hidden_size"]), np.float32),
        **file.pair("embeddings.LayerNorm", "layer_normalization"),
        **file.layers(
            "encoder.layer.{}.",
            (*names, "intermediate.dense", "output.dense", "output.LayerNorm"),
            "transformer_encoder",
            config["num_hidden_layers"],
        ),
    }


def _distilbert(file: File, config: Mapping[str, Any]) -> dict[str, Maker]:
    names = (*(f"attention.{part}_lin" for part in ("q", "k", "v", "out")), "sa_layer_norm")
    return {
        **file.table("embeddings.word_embeddings", "token_and_position_embedding/token_embedding"),
        **file.table("embeddings.position_embeddings", "token_and_position_embedding/position_embedding"),
        **file.pair("embeddings.LayerNorm", "layer_normalization"),
        **file.layers(
            "transformer.layer.{}.",
            (*names, "ffn.lin1", "ffn.lin2", "output_layer_norm"),
            "transformer_encoder",
            config["n_layers"],
        ),
    }


def _albert(file: File, config: Mapping[str, Any]) -> dict[str, Maker]:
    names = tuple(f"attention.{part}" for part in ("query", "key", "value", "dense", "LayerNorm"))
    return {
        **file.table("embeddings.word_embeddings", "reversible_embedding"),
        **file.table("embeddings.position_embeddings", "position_embedding"),
        **file.table("embeddings.token_type_embeddings", "embedding"),
        **file.pair("embeddings.LayerNorm", "layer_normalization"),
        **file.pair("encoder.embedding_hidden_mapping_in", "dense"),
        **file.layers(
            "encoder.albert_layer_groups.0.albert_layers.{}.",
            (*names, "ffn", "ffn_output", "full_layer_layer_norm"),
            "transformer_encoder",
            1,
        ),
        **file.pair("pooler", "dense_1"),
    }


def _gpt2(file: File, config: Mapping[str, Any]) -> dict[str, Maker]:
    def joined(place: str, variable: int) -> np.ndarray:
        parts = [file.array(f"{place}/{part}", variable) for part in _PARTS[:3]]
        return np.concatenate([p.reshape(-1) if variable else p.reshape(p.shape[0], -1) for p in parts], axis=-1)

    found = {
        **file.table("wte", "reversible_embedding"),
        **file.table("wpe", "position_embedding"),
        **file.pair("ln_f", "layer_normalization"),
    }
    names = ("attn.c_proj", "ln_1", "mlp.c_fc", "mlp.c_proj", "ln_2")
    layers = file.layers("h.{}.", names, "transformer_decoder", config["n_layer"], _PARTS[3:])
    for name, make in layers.items():  # kernels lie there as here
        found[name] = partial(lambda make: make().T, make)
    for index in range(config["n_layer"]):
        place = _nth("transformer_decoder", index)
        found[f"h.{index}.attn.c_attn.weight"] = partial(joined, place, 0)
        found[f"h.{index}.attn.c_attn.bias"] = partial(joined, place, 1)
    return found


def _bart(file: File, config: Mapping[str, Any]) -> dict[str, Maker]:
    own = (*(f"self_attn.{part}_proj" for part in ("q", "k", "v", "out")), "self_attn_layer_norm")
    cross = tuple(name.replace("self", "encoder") for name in own)
    rest, found = ("fc1", "fc2", "final_layer_norm"), file.table("shared", "reversible_embedding")
    for number, half in enumerate(("encoder", "decoder")):
        ours, place = f"transformer_{half}", f"{half}.layers.{{}}."
        count = config[f"{half}_layers"]
        found |= file.table(f"{half}.embed_positions", _nth("position_embedding", number), before=2)
        found |= file.pair(f"{half}.layernorm_embedding", _nth("layer_normalization", number))
        found |= file.layers(place, (*own, *rest), ours, count)
        if number:
            found |= file.layers(place, cross, ours, count, _CROSS)
    return found


def _t5(file: File, config: Mapping[str, Any]) -> dict[str, Maker]:
    found, count = file.table("shared", "reversible_embedding"), config["num_layers"]
    for number, half in enumerate(("encoder", "decoder")):
        first = _nth("t5_transformer_layer", number * count)
        bias = f"{half}.block.0.layer.0.SelfAttention.relative_attention_bias"
        found |= file.table(bias, f"{first}/self_attention")
        found |= file.table(f"{half}.final_layer_norm", _nth("t5_layer_norm", number))
        for index in range(count):
            ours, theirs = _nth("t5_transformer_layer", number * count + index), f"{half}.block.{index}.layer."
            kinds = [("self", "SelfAttention"), ("cross", "EncDecAttention")][: 1 + number]
            for place, (mine, name) in enumerate(kinds):
                for part in ("query", "key", "value", "output"):
                    there = f"{theirs}{place}.{name}.{part[0]}"  # q, k, v, o
                    found |= file.kernel(there, f"{ours}/{mine}_attention/{part}_projector")
                found |= file.table(f"{theirs}{place}.layer_norm", f"{ours}/{mine}_attention_layer_norm")
            feed = f"{theirs}{1 + number}."
            found |= file.kernel(f"{feed}DenseReluDense.wi", f"{ours}/input_projector")
            found |= file.kernel(f"{feed}DenseReluDense.wo", f"{ours}/output_projector")
            found |= file.table(f"{feed}layer_norm", f"{ours}/layer_norm")
    return found


@dataclass(frozen=True)
class _Numbered(File):
    """A file whose arrays are read as the numbers of their places: 1, 2, ... over all arrays, 0 for none."""

    first: Mapping[str, int]

    def _plain(self, file: Any, name: str) -> np.ndarray:
        array = super()._plain(file, name)
        return np.arange(array.size).reshape(array.shape) + self.first[name]


def fill(path: Path, config: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> list[str]:
    """Writes ``arrays``, by their names in `transformers`, into the file of a preset, which Keras has saved before.

    Returns the names of those that the backbone has no place for. The tables of this file are run backwards: they read
    the number of each place, and the numbers then say where each weight belongs. Raises `PublishedError` for a place
    that none of ``arrays`` fills.
    """
    import h5py

    first: dict[str, int] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    total = 1

    def count(name: str, part: Any) -> None:
        nonlocal total
        if name.startswith("layers/") and isinstance(part, h5py.Dataset) and part.dtype.kind == "f":
            first[name], shapes[name] = total, part.shape
            total += part.size

    with h5py.File(path) as file:
        file.visititems(count)
    flat, filled, used = np.zeros(total, np.float32), np.zeros(total, bool), set()
    for name, make in LAYOUTS[config["model_type"]](_Numbered(path, first), config).items():
        places = make()
        if places.dtype.kind == "i" and name in arrays:
            flat[places], filled[places] = arrays[name], True
            used.add(name)
    for name, start in first.items():
        if not filled[start : start + np.prod(shapes[name], dtype=int)].all():
            raise PublishedError(f"The backbone of keras-hub has the weights {name}, and the model here has none.")
    with h5py.File(path, "r+") as file:
        for name, start in first.items():
            file[name][...] = flat[start : start + file[name].size].reshape(shapes[name])
    return sorted(set(arrays) - used)


LAYOUTS = {
    "roberta": _roberta,
    "distilbert": _distilbert,
    "albert": _albert,
    "gpt2": _gpt2,
    "bart": _bart,
    "t5": _t5,
}
"""By model_type; BERT's and ELECTRA's are refused before."""
