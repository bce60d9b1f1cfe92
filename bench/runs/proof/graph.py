"""Examines a traced training step: shapes that are not static, and operations that XLA or a TPU would refuse.

A TPU compiles whole graphs with tf2xla. `refusals` compares each node with three tables:

- the kernels of tf2xla, which TensorFlow registers at its first compilation. TensorFlow's packages for processors and
  GPUs do not register the kernels of TPUs. TPUs filter no operation (tensorflow/core/tpu/tpu_node_device_util.cc,
  ``TpuOpFilter``), so the kernels that both processors (XLA_CPU_JIT) and GPUs (XLA_GPU_JIT) have stand for them;
- the types of TPUs (tensorflow/core/tpu/tpu_defs.h, ``kTpuAllTypes``): neither strings nor complex128;
- the operations that TensorFlow's own replication for TPUs names as unsupported
  (tensorflow/python/tpu/tpu_replication.py).

The tables are those of the installed TensorFlow, and the types were read at its master branch in November 2026. A TPU's
own compiler may refuse more, above all if memory is too small.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import tensorflow as tf

JIT = ("XLA_CPU_JIT", "XLA_GPU_JIT")
TPU_TYPES = frozenset(
    (
        *(tf.bool, tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.uint32, tf.uint64),
        *(tf.bfloat16, tf.float16, tf.float32, tf.float64, tf.complex64, tf.qint8, tf.quint8, tf.qint32),
    )
)
"""``kTpuAllTypes`` without 4-bit integers and 8-bit floating point numbers, which no step has."""
HANDLES = frozenset({tf.resource, tf.variant})
"""Types of handles of variables and lists. They hold no data."""
WIDE = frozenset({tf.float64})
"""Types that are slow on accelerators, and that a step in bfloat16 does not need."""
_STRINGS = ("Const", "Assert")
"""Operations that may have strings under ``TpuOpFilter``."""
_AXES = ("BroadcastGradientArgs",)
"""Operations whose outputs are lists of axes, such as the axes to sum over in the gradient of a broadcast product.
tf2xla computes them from shapes at compile time. If those shapes are not static, they are found at their own nodes."""


@dataclass(frozen=True)
class Examined:
    """The number of nodes of each operation, and distinct findings such as "Where: [?, 2]"."""

    operations: Counter
    dynamic: tuple[str, ...]
    refused: tuple[str, ...]
    wide: tuple[str, ...]
    """Operations with 64-bit floating point numbers."""


def examine(concrete: Any) -> Examined:
    """Examines ``concrete``, a concrete function, and all functions that it calls."""
    nodes = [*_nodes(concrete)]
    dynamic = dict.fromkeys(f"{node.op}: {shape}" for node in nodes for shape in _dynamic(node))
    refused = dict.fromkeys(reason for node in nodes for reason in refusals(node))
    wide = dict.fromkeys(node.op for node in nodes if WIDE & types_of(node))
    return Examined(Counter(node.op for node in nodes), tuple(dynamic), tuple(refused), tuple(wide))


def refusals(node: Any) -> Iterator[str]:
    """Yields the reasons why a TPU would refuse ``node``, a NodeDef."""
    from tensorflow.python.tpu import tpu_replication

    if node.op in tpu_replication._UNSUPPORTED_OPS:
        yield f"{node.op}: unsupported by TPU replication"
    kernels = _kernels().get(node.op)
    if kernels is None:
        yield f"{node.op}: no kernel in tf2xla"
        return
    types = types_of(node) - HANDLES - ({tf.string} if node.op in _STRINGS else set())
    if wrong := sorted(one.name for one in types - TPU_TYPES):
        yield f"{node.op}: type {', '.join(wrong)}"
    for device in JIT:
        if not any(_fits(node, kernel) for kernel in kernels[device]):
            yield f"{node.op}: no kernel for {', '.join(sorted(one.name for one in types_of(node)))} in {device}"


def types_of(node: Any) -> set[tf.DType]:
    """Returns the types in the attributes of ``node``: the types of its inputs and outputs."""
    found = set()
    for name, value in node.attr.items():
        if not name.startswith("_"):
            found |= {value.type} if value.WhichOneof("value") == "type" else {*value.list.type}
    return {tf.dtypes.as_dtype(one) for one in found if one}


def _nodes(concrete: Any) -> Iterator[Any]:
    """Yields all nodes, except calls of functions and the placeholders of the step's arguments."""
    definition = concrete.graph.as_graph_def(add_shapes=True)
    arguments = {tensor.op.name for tensor in concrete.graph.inputs}
    called = {function.signature.name for function in definition.library.function}
    yield from (node for node in definition.node if node.name not in arguments and node.op not in called)
    for function in definition.library.function:
        yield from (node for node in function.node_def if node.op not in called)


def _dynamic(node: Any) -> Iterator[str]:
    """Yields the output shapes of ``node`` that are not static: "[?, 2]"."""
    if "_output_shapes" not in node.attr or node.op in _AXES:
        return
    for shape in node.attr["_output_shapes"].list.shape:
        if shape.unknown_rank:
            yield "[...]"
        elif any(axis.size < 0 for axis in shape.dim):
            yield f"[{', '.join('?' if axis.size < 0 else str(axis.size) for axis in shape.dim)}]"


@cache
def _kernels() -> dict[str, dict[str, list]]:
    """Returns the kernels, by `JIT`, of each operation that tf2xla compiles for both processors and GPUs."""
    from tensorflow.python.framework import kernels

    tf.function(lambda: tf.constant(0) + 1, jit_compile=True)()  # registers them
    found: dict[str, dict[str, list]] = {}
    for kernel in kernels.get_all_registered_kernels().kernel:
        if kernel.device_type in JIT:
            found.setdefault(kernel.op, {}).setdefault(kernel.device_type, []).append(kernel)
    return {name: of for name, of in found.items() if of.keys() == {*JIT}}


def _fits(node: Any, kernel: Any) -> bool:
    """Whether the types of ``node`` are among those that ``kernel`` takes."""
    for constraint in kernel.constraint:
        value, allowed = node.attr[constraint.name], {*constraint.allowed_values.list.type}
        given = {value.type} if value.WhichOneof("value") == "type" else {*value.list.type}
        if not given <= allowed:
            return False
    return True
