"""Products of vectors with weights, padded to avoid cache-set conflicts in the gradient.

The gradient of a kernel [I, O] is x^T dy, of x [N, I] and dy [N, O]. If one side is narrow and the other one a multiple
of 2 KiB, the rows of the long side map to few sets of the cache. The kernels of oneDNN and Eigen for narrow matrices
then reach half of a processor's rate: 38 instead of 74 GFLOP/s for 256 x 1024, the size in BERT-mini. Sixteen more
columns, of zeros, avoid this (measured in bench/perf/README.md).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

import tensorflow as tf

_NARROW = 256
"""The largest narrow side. For larger ones the libraries have kernels that copy their inputs."""
_APART = 512
"""The number of float32 values in 2 KiB."""
_MORE = [[0, 0], [0, 16]]


def product(x: tf.Tensor, kernel: Any, transposed: bool = False) -> tf.Tensor:
    """x [N, I] @ kernel [I, O], or @ the transpose of a kernel [O, I]: [N, O]."""
    kernel = tf.convert_to_tensor(kernel)
    narrow, wide = sorted(kernel.shape)
    if accelerated() or narrow > _NARROW or wide % _APART:
        return tf.matmul(x, kernel, transpose_b=transposed)

    @tf.custom_gradient
    def apart(x: tf.Tensor, kernel: tf.Tensor) -> Any:
        def gradients(dy: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            of_kernel = _crossed(dy, x) if transposed else _crossed(x, dy)
            return tf.matmul(dy, kernel, transpose_b=not transposed), of_kernel

        return tf.matmul(x, kernel, transpose_b=transposed), gradients

    return apart(x, kernel)


def _crossed(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """a [N, I]^T @ b [N, O]: [I, O]."""
    if a.shape[1] > b.shape[1]:
        return tf.matmul(tf.pad(a, _MORE), b, transpose_a=True)[: a.shape[1]]
    return tf.matmul(a, tf.pad(b, _MORE), transpose_a=True)[:, : b.shape[1]]


_elsewhere = ContextVar("elsewhere", default=False)


@contextmanager
def for_accelerators() -> Iterator[None]:
    """Functions that are traced inside are meant for a GPU or TPU of another machine."""
    token = _elsewhere.set(True)
    try:
        yield
    finally:
        _elsewhere.reset(token)


def accelerated() -> bool:
    """Whether this machine has a GPU or TPU, or the trace is `for_accelerators`."""
    return _elsewhere.get() or _has_accelerator()


@cache
def _has_accelerator() -> bool:
    return any(device.device_type in ("GPU", "TPU") for device in tf.config.list_logical_devices())
