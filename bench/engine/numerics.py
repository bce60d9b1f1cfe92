"""How a network is computed: number format, rematerialisation, compilation."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import keras

from ptmbench.models.layers.operations import rematerialising
from ptmbench.models.layers.products import accelerated


@contextmanager
def computing_in(precision: str) -> Iterator[None]:
    """Networks built inside compute in ``precision`` ("float32", "bfloat16"); their weights are float32 either way.

    With "bfloat16", Keras casts the values that a layer reads, so gradients are float32. Loss scaling is not needed,
    because the exponents of bfloat16 have the same range as those of float32.
    """
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16" if precision == "bfloat16" else precision)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def rematerialised(loss: Callable) -> Callable:
    """Returns ``loss`` with Transformer blocks that recompute their activations in the backward pass."""

    def again(*inputs: Any) -> Any:
        with rematerialising(True):
            return loss(*inputs)

    return again


_WORTH_COMPILING = 5e12
"""Minimum FLOPs for XLA on a processor: a minute on two cores, of which XLA saves a sixth and takes four seconds."""


def compiles(xla: bool | str, encoder: Any, flops: float) -> bool:
    """Whether to compile the step of a training of ``flops`` with XLA.

    "auto" always compiles on accelerators. On processors, it compiles long trainings, except those of ``recurrent``
    encoders, which gain nothing (measured in bench/perf/README.md).
    """
    if xla != "auto":
        return xla
    if accelerated():
        return True
    return flops >= _WORTH_COMPILING and not encoder.recurrent
