"""TensorFlow graphs without the operators that LiteRT and ONNX lack. `bench.runs.exports.formats` converts them.

Variables become constants, functions are inlined, and these operators are replaced by others that compute the same:

    x (erfc(-x / sqrt(2)) / 2)            x / 2 (1 + erf(x / sqrt(2))), which LiteRT knows as GELU; it has no erf
    erfc(x)                               1 - erf(x)
    fake_quant_with_min_max_vars(x, a, b) floor((clip(x, a', b') - a') / s + 1/2) s + a', as TensorFlow's own kernel:
                                          s = (b - a) / (q_max - q_min), z = round(q_min - a / s) within q_min..q_max,
                                          a' = (q_min - z) s, b' = (q_max - z) s
    products of int8 matrices             products of the same whole numbers as float32; the sum of 3,072 products of
                                          codes can exceed 2^24, so it is exact to 24 bits
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2


def graph_of(function: Any) -> tuple[Any, list[str], list[str]]:
    """Returns the graph of the concrete ``function`` as a GraphDef with portable operators, and the names of its inputs
    and outputs."""
    frozen = convert_variables_to_constants_v2(function, lower_control_flow=False)
    graph = frozen.graph.as_graph_def()
    return _rewritten(graph), [one.name for one in frozen.inputs], [one.name for one in frozen.outputs]


def _rewritten(graph: Any) -> Any:
    """Replaces GELU and the operators of `_REPLACED` in ``graph``. The last new node has the name of the old one, so
    nodes that read it do not change."""
    found = tf.compat.v1.GraphDef()
    found.CopyFrom(graph)
    del found.node[:]
    named = {node.name: node for node in graph.node}
    for node in graph.node:
        if (given := _gelu_input(node, named)) is not None:
            found.node.extend(_nodes(node.name, [given], tf.float32, _gelu))
            continue
        if node.op not in _REPLACED or (node.op == "BatchMatMulV3" and not _of_codes(node)):
            copied = found.node.add()
            copied.CopyFrom(node)
            copied.attr.pop("_gradient_op_type", None)  # names a function that is not in this graph
            continue
        dtype, replace = _REPLACED[node.op]
        inputs = [name for name in node.input if not name.startswith("^")]
        found.node.extend(_nodes(node.name, inputs, dtype, partial(replace, node)))
    return found


def _gelu_input(node: Any, named: Mapping[str, Any]) -> str | None:
    """Returns the name of x if ``node`` computes `models.layers.operations.gelu` of x, else None."""
    if node.op != "Mul":
        return None
    x, half = node.input
    for op, number in (("Mul", 0.5), ("Erfc", None), ("Mul", -math.sqrt(0.5))):
        below = named.get(half)
        if below is None or below.op != op:
            return None
        if number is None:
            half = below.input[0]
            continue
        factors = [one for one in below.input if (known := named.get(one)) is not None and known.op == "Const"]
        if len(factors) != 1 or not np.isclose(tf.make_ndarray(named[factors[0]].attr["value"].tensor), number).all():
            return None
        half = next(one for one in below.input if one != factors[0])
    return x if half == x else None


def _of_codes(node: Any) -> bool:
    """Whether ``node`` multiplies matrices of int8 codes."""
    return node.attr["Ta"].type == node.attr["Tb"].type == tf.int8.as_datatype_enum


def _nodes(name: str, inputs: Sequence[str], dtype: Any, function: Callable) -> list[Any]:
    """Returns nodes that apply ``function`` to the tensors called ``inputs``, of type ``dtype``. The node with the
    result is called ``name``."""
    with tf.Graph().as_default() as graph:
        given = [tf.compat.v1.placeholder(dtype, name=f"given_{n}") for n in range(len(inputs))]
        tf.identity(function(*given), name="value")
    renamed = {"value": name} | {f"given_{n}": one for n, one in enumerate(inputs)}
    made = []
    for node in graph.as_graph_def().node:
        if node.op == "Placeholder":
            continue
        names = [renamed.get(one, f"{name}/portable/{one}") for one in node.input]
        del node.input[:]
        node.input.extend(names)
        node.name = renamed.get(node.name, f"{name}/portable/{node.name}")
        made.append(node)
    return made


def _gelu(x: tf.Tensor) -> tf.Tensor:
    return 0.5 * x * (1.0 + tf.math.erf(x * math.sqrt(0.5)))


def _erfc(node: Any, x: tf.Tensor) -> tf.Tensor:
    return 1.0 - tf.math.erf(x)


def _fake_quant(node: Any, x: tf.Tensor, low: tf.Tensor, high: tf.Tensor) -> tf.Tensor:
    least, most = float(node.attr["narrow_range"].b), 2.0 ** node.attr["num_bits"].i - 1
    step = (high - low) / (most - least)
    zero = tf.clip_by_value(tf.floor(least - low / step + 0.5), least, most)
    low, high = (least - zero) * step, (most - zero) * step
    clipped = tf.minimum(tf.maximum(x, low), high)
    return tf.floor((clipped - low) / step + 0.5) * step + low


def _product(node: Any, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    turned = {"adjoint_a": node.attr["adj_x"].b, "adjoint_b": node.attr["adj_y"].b}
    return tf.cast(tf.matmul(tf.cast(x, tf.float32), tf.cast(y, tf.float32), **turned), tf.int32)


_REPLACED = {
    "Erfc": (tf.float32, _erfc),
    "FakeQuantWithMinMaxVars": (tf.float32, _fake_quant),
    "BatchMatMulV3": (tf.int8, _product),
}
