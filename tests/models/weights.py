"""Weights of layers as numbers, for tests that work equations out by hand."""

from types import SimpleNamespace

import numpy as np

_NAMES = (
    ("attention/query_key_value/", "qkv_"),
    ("attention/query/", "q_"),
    ("attention/key_value/", "kv_"),
    ("attention/projection/", "output_"),
    ("feed_forward/", ""),
    ("/", "_"),
)


def numbers(layer) -> SimpleNamespace:
    """The weights of a block in float64: ``qkv_kernel``, ``output_bias``, ``inner_kernel``, ``norm_scale``, ..."""
    found = {}
    for variable in layer.variables:
        name = variable.path.split(f"/{layer.name}/", 1)[1]
        for ours, short in _NAMES:
            name = name.replace(ours, short)
        found[name] = np.asarray(variable, np.float64)
    return SimpleNamespace(**found)
