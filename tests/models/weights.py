"""Weights of layers in NumPy, for tests that compute equations by hand."""

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
    """Returns the weights of a block in float64: ``qkv_kernel``, ``output_bias``, ``inner_kernel``, ``norm_scale``,
    ..."""
    result = {}
    for variable in layer.variables:
        name = variable.path.split(f"/{layer.name}/", 1)[1]
        for ours, short in _NAMES:
            name = name.replace(ours, short)
        result[name] = np.asarray(variable, np.float64)
    return SimpleNamespace(**result)
