"""Reads and sets the weights of keras-hub's backbones by their names in `transformers`.

`models.published._keras_hub` and `models.published.presets` call it. Each table names the layers of one class, and the
attributes that lead from a layer to its parts.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial, reduce
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
"""A function that reads an array."""


class Network:
    """A backbone of keras-hub, which ``build`` makes when the first array is read."""

    def __init__(self, build: Callable[[], Any]):
        self._build = build

    @cached_property
    def backbone(self) -> Any:
        return self._build()

    def array(self, place: str, number: int = 0) -> np.ndarray:
        """Returns a variable of ``place``: the name of a layer, and the attributes that lead to one of its parts."""
        layer, *parts = place.split("/")
        return self.value(reduce(getattr, parts, self.backbone.get_layer(layer)).weights[number])

    def value(self, variable: Any) -> np.ndarray:
        return variable.numpy()

    def table(self, theirs: str, place: str, before: int = 0) -> dict[str, Maker]:
        """Returns a lookup table, or the scale of a norm without bias, after ``before`` unused rows of zeros."""

        def make() -> np.ndarray:
            array = self.array(place)
            return np.pad(array, [(before, 0), (0, 0)]) if before else array

        return {f"{theirs}.weight": make}

    def kernel(self, theirs: str, place: str) -> dict[str, Maker]:
        """Returns a dense kernel [in, out] as [out, in], without an axis for the heads, or the scale of a norm."""

        def make() -> np.ndarray:
            array, outward = self.array(place), place.endswith("output_dense")
            if array.ndim == 1:
                return array
            return array.reshape((-1, array.shape[-1]) if outward else (array.shape[0], -1)).T

        return {f"{theirs}.weight": make}

    def pair(self, theirs: str, place: str) -> dict[str, Maker]:
        """Returns a dense layer or a norm, with its bias."""
        return self.kernel(theirs, place) | {f"{theirs}.bias": lambda: self.array(place, 1).reshape(-1)}

    def layers(self, theirs: str, names: Sequence[str], ours: str, count: int, parts=_PARTS) -> dict[str, Maker]:
        """Returns ``count`` layers. Their ``parts`` have the ``names`` in `transformers`."""
        found: dict[str, Maker] = {}
        for index in range(count):
            for name, part in zip(names, parts, strict=True):
                found |= self.pair(theirs.format(index) + name, f"{ours.format(index)}/{part}")
        return found


def _roberta(network: Network, config: Mapping[str, Any]) -> dict[str, Maker]:
    layer, out = "attention.self.", "attention.output."
    names = (f"{layer}query", f"{layer}key", f"{layer}value", f"{out}dense", f"{out}LayerNorm")
    return {
        **network.table("embeddings.word_embeddings", "embeddings/token_embedding"),
        **network.table("embeddings.position_embeddings", "embeddings/position_embedding", before=2),
        # keras-hub's RoBERTa has no segments and adds nothing for the only one.
        "embeddings.token_type_embeddings.weight": lambda: np.zeros((1, config["hidden_size"]), np.float32),
        **network.pair("embeddings.LayerNorm", "embeddings_layer_norm"),
        **network.layers(
            "encoder.layer.{}.",
            (*names, "intermediate.dense", "output.dense", "output.LayerNorm"),
            "transformer_layer_{}",
            config["num_hidden_layers"],
        ),
    }


def _distilbert(network: Network, config: Mapping[str, Any]) -> dict[str, Maker]:
    names = (*(f"attention.{part}_lin" for part in ("q", "k", "v", "out")), "sa_layer_norm")
    return {
        **network.table("embeddings.word_embeddings", "token_and_position_embedding/token_embedding"),
        **network.table("embeddings.position_embeddings", "token_and_position_embedding/position_embedding"),
        **network.pair("embeddings.LayerNorm", "embeddings_layer_norm"),
        **network.layers(
            "transformer.layer.{}.",
            (*names, "ffn.lin1", "ffn.lin2", "output_layer_norm"),
            "transformer_layer_{}",
            config["n_layers"],
        ),
    }


def _albert(network: Network, config: Mapping[str, Any]) -> dict[str, Maker]:
    names = tuple(f"attention.{part}" for part in ("query", "key", "value", "dense", "LayerNorm"))
    return {
        **network.table("embeddings.word_embeddings", "token_embedding"),
        **network.table("embeddings.position_embeddings", "position_embedding"),
        **network.table("embeddings.token_type_embeddings", "segment_embedding"),
        **network.pair("embeddings.LayerNorm", "embeddings_layer_norm"),
        **network.pair("encoder.embedding_hidden_mapping_in", "embedding_projection"),
        **network.layers(
            "encoder.albert_layer_groups.0.albert_layers.{}.",
            (*names, "ffn", "ffn_output", "full_layer_layer_norm"),
            "group_0_inner_layer_{}",
            1,
        ),
        **network.pair("pooler", "pooled_dense"),
    }


def _gpt2(network: Network, config: Mapping[str, Any]) -> dict[str, Maker]:
    def joined(place: str, variable: int) -> np.ndarray:
        parts = [network.array(f"{place}/{part}", variable) for part in _PARTS[:3]]
        return np.concatenate([p.reshape(-1) if variable else p.reshape(p.shape[0], -1) for p in parts], axis=-1)

    found = {
        **network.table("wte", "token_embedding"),
        **network.table("wpe", "position_embedding"),
        **network.pair("ln_f", "layer_norm"),
    }
    names = ("attn.c_proj", "ln_1", "mlp.c_fc", "mlp.c_proj", "ln_2")
    layers = network.layers("h.{}.", names, "transformer_layer_{}", config["n_layer"], _PARTS[3:])
    for name, make in layers.items():  # GPT-2's kernels are [in, out] in `transformers`
        found[name] = partial(lambda make: make().T, make)
    for index in range(config["n_layer"]):
        place = f"transformer_layer_{index}"
        found[f"h.{index}.attn.c_attn.weight"] = partial(joined, place, 0)
        found[f"h.{index}.attn.c_attn.bias"] = partial(joined, place, 1)
    return found


def _bart(network: Network, config: Mapping[str, Any]) -> dict[str, Maker]:
    own = (*(f"self_attn.{part}_proj" for part in ("q", "k", "v", "out")), "self_attn_layer_norm")
    cross = tuple(name.replace("self", "encoder") for name in own)
    rest, found = ("fc1", "fc2", "final_layer_norm"), network.table("shared", "token_embedding")
    for number, half in enumerate(("encoder", "decoder")):
        ours, place = f"transformer_{half}_layer_{{}}", f"{half}.layers.{{}}."
        count = config[f"{half}_layers"]
        found |= network.table(f"{half}.embed_positions", f"{half}_position_embedding", before=2)
        found |= network.pair(f"{half}.layernorm_embedding", f"{half}_embeddings_layer_norm")
        found |= network.layers(place, (*own, *rest), ours, count)
        if number:
            found |= network.layers(place, cross, ours, count, _CROSS)
    return found


def _t5(network: Network, config: Mapping[str, Any]) -> dict[str, Maker]:
    found, count = network.table("shared", "token_embedding"), config["num_layers"]
    for number, half in enumerate(("encoder", "decoder")):
        bias = f"{half}.block.0.layer.0.SelfAttention.relative_attention_bias"
        found |= network.table(bias, f"transformer_{half}_layer_0/self_attention")
        found |= network.table(f"{half}.final_layer_norm", f"{half}_output_layer_norm")
        for index in range(count):
            ours, theirs = f"transformer_{half}_layer_{index}", f"{half}.block.{index}.layer."
            kinds = [("self", "SelfAttention"), ("cross", "EncDecAttention")][: 1 + number]
            for place, (mine, name) in enumerate(kinds):
                for part in ("query", "key", "value", "output"):
                    there = f"{theirs}{place}.{name}.{part[0]}"  # q, k, v, o
                    found |= network.kernel(there, f"{ours}/{mine}_attention/{part}_projector")
                found |= network.table(f"{theirs}{place}.layer_norm", f"{ours}/{mine}_attention_layer_norm")
            feed = f"{theirs}{1 + number}."
            found |= network.kernel(f"{feed}DenseReluDense.wi", f"{ours}/input_projector")
            found |= network.kernel(f"{feed}DenseReluDense.wo", f"{ours}/output_projector")
            found |= network.table(f"{feed}layer_norm", f"{ours}/layer_norm")
    return found


class _Numbered(Network):
    """A backbone whose weights are read as their places, numbered 1, 2, ... over all weights."""

    def __init__(self, backbone: Any, first: Mapping[int, int]):
        super().__init__(lambda: backbone)
        self._first = first

    def value(self, variable: Any) -> np.ndarray:
        return np.arange(math.prod(variable.shape)).reshape(variable.shape) + self._first[id(variable)]


def fill(backbone: Any, config: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> list[str]:
    """Sets the weights of ``backbone`` to ``arrays``, by their names in `transformers`.

    Returns the names of the arrays for which the backbone has no place. The tables of this file are inverted: they read
    the number of each place, and these numbers show where each weight belongs. Raises `PublishedError` for a place that
    none of ``arrays`` fills.
    """
    variables = [variable for variable in backbone.variables if "float" in variable.dtype]  # not the states of seeds
    sizes = [math.prod(variable.shape) for variable in variables]
    starts = [1, *(1 + total for total in itertools.accumulate(sizes))]
    first = {id(variable): start for variable, start in zip(variables, starts, strict=False)}
    flat, filled, used = np.zeros(starts[-1], np.float32), np.zeros(starts[-1], bool), set()
    for name, make in LAYOUTS[config["model_type"]](_Numbered(backbone, first), config).items():
        places = make()
        if places.dtype.kind == "i" and name in arrays:
            flat[places], filled[places] = arrays[name], True
            used.add(name)
    for variable, start, size in zip(variables, starts, sizes, strict=False):
        if not filled[start : start + size].all():
            raise PublishedError(
                f"The backbone of keras-hub has the weights {variable.path}, and the model here has none."
            )
        variable.assign(flat[start : start + size].reshape(variable.shape))
    return sorted(set(arrays) - used)


LAYOUTS = {
    "roberta": _roberta,
    "distilbert": _distilbert,
    "albert": _albert,
    "gpt2": _gpt2,
    "bart": _bart,
    "t5": _t5,
}
"""Tables by model_type. The presets of BERT and ELECTRA are refused earlier."""
