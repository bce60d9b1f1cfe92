"""The devices of a training with split weights: a mesh of two axes, used like a `tf.distribute` strategy."""

from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.experimental import dtensor

from ptmbench.bench.errors import EnvironmentProblem

DATA, MODEL = "data", "model"
"""Axes of the mesh. Batches are split over the first one, weights over the second one."""


class TensorParallel:
    """A mesh of data x ``model_parallel`` devices, used in place of a `tf.distribute` strategy.

    It uses all GPUs. Without GPUs it divides the processor into ``model_parallel`` logical devices, to try it out.
    Raises `EnvironmentProblem` if the devices cannot be divided into groups of ``model_parallel``.
    """

    def __init__(self, model_parallel: int):
        devices = _devices(model_parallel)
        self.model_parallel, self.num_replicas_in_sync = model_parallel, len(devices) // model_parallel
        self.mesh = dtensor.create_mesh([(DATA, self.num_replicas_in_sync), (MODEL, model_parallel)], devices=devices)

    def scope(self) -> Any:
        """Context in which a network is built: in the memory of the host, since it may not fit one device."""
        return tf.device("CPU:0")

    def layout(self, rank: int, axis: int | None = None, over: str = MODEL) -> dtensor.Layout:
        """The layout of a tensor of ``rank`` that is split along ``axis`` over the mesh's axis ``over``; None for a
        copy on each device."""
        specs = [over if index == axis else dtensor.UNSHARDED for index in range(rank)]
        return dtensor.Layout(specs, self.mesh)

    def put(self, array: Any, axis: int | None = None, over: str = MODEL) -> tf.Tensor:
        """``array`` on the devices, split along ``axis`` over the mesh's axis ``over``."""
        array = np.asarray(array)
        layout = self.layout(array.ndim, axis, over)
        with tf.device("CPU:0"):
            parts = [tf.constant(_part(array, axis, place[over], layout.mesh.dim_size(over))) for place in self._places]
        return dtensor.pack(parts, layout)

    def fetch(self, tensor: tf.Tensor) -> np.ndarray:
        """The whole array of ``tensor``, gathered in the memory of the host."""
        layout = dtensor.fetch_layout(tensor)
        parts = [part.numpy() for part in dtensor.unpack(tensor)]
        split = [(axis, spec) for axis, spec in enumerate(layout.sharding_specs) if spec != dtensor.UNSHARDED]
        if not split:
            return parts[0]
        ((axis, over),) = split
        first = {place[over]: part for part, place in zip(reversed(parts), reversed(self._places), strict=True)}
        return np.concatenate([first[index] for index in sorted(first)], axis=axis)

    @property
    def _places(self) -> list[dict[str, int]]:
        """The position of each device on the axes of the mesh."""
        return [
            {DATA: index // self.model_parallel, MODEL: index % self.model_parallel}
            for index in range(self.num_replicas_in_sync * self.model_parallel)
        ]


def _part(array: np.ndarray, axis: int | None, place: int, count: int) -> np.ndarray:
    return array if axis is None else np.split(array, count, axis=axis)[place]


def _devices(model_parallel: int) -> list[str]:
    """Names of all GPUs, or else of the processor's logical devices."""
    gpus = tf.config.list_physical_devices("GPU")
    kind = "GPU" if gpus else "CPU"
    if not gpus:
        one = [tf.config.LogicalDeviceConfiguration()]
        cpu = tf.config.list_physical_devices("CPU")[0]
        try:
            if not tf.config.get_logical_device_configuration(cpu):
                tf.config.set_logical_device_configuration(cpu, one * model_parallel)
        except RuntimeError:  # TensorFlow is already initialised
            pass
    count = len(tf.config.list_logical_devices(kind))
    if count % model_parallel:
        raise EnvironmentProblem(
            f"--model-parallel {model_parallel} needs groups of {model_parallel} devices, and there are {count} "
            f"{kind}s. Choose a divisor of {count}, or hide devices with CUDA_VISIBLE_DEVICES."
        )
    return [f"{kind}:{index}" for index in range(count)]
