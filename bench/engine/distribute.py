"""Distributed training with tf.distribute: the devices and processes that train together, and the role of each.

Every worker runs the same command. TF_CONFIG has the cluster and the worker's own index, as TensorFlow documents it:

    TF_CONFIG='{"cluster": {"worker": ["host1:port", "host2:port"]}, "task": {"type": "worker", "index": 0}}'

Only the first worker (or the "chief", if there is one) writes files and prints messages. All workers make the same
global batches, and each trains on its own rows. So only gradients are sent between workers.
"""

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ptmbench.bench.engine.cost import phase
from ptmbench.bench.errors import EnvironmentProblem, UsageError


class WorkerLost(EnvironmentProblem):
    """Another worker of the job has stopped, so no step can be finished."""


def strategy_of(name: str, model_parallel: int | None = None) -> Any:
    """Returns the ``tf.distribute`` strategy called ``name``, one of `bench.options.STRATEGIES`; None for one device.

    "auto" is "multiworker" if TF_CONFIG has a cluster, "mirrored" on several GPUs, and "one" otherwise. "tensor" is a
    `bench.engine.tensor_parallel.devices.TensorParallel`, which splits weights over ``model_parallel`` devices. A
    worker has to join its cluster before TensorFlow does anything else. Raises `EnvironmentProblem` if devices are
    missing.
    """
    if name == "auto":
        name = _fitting()
    if name == "tensor":
        from ptmbench.bench.engine.tensor_parallel.devices import TensorParallel

        return TensorParallel(model_parallel)
    return {"one": lambda: None, "mirrored": _mirrored, "multiworker": _multiworker, "tpu": _tpu}[name]()


def is_chief(strategy: Any) -> bool:
    """Whether this process writes files and prints messages."""
    resolver = getattr(strategy, "cluster_resolver", None)
    if resolver is None or not resolver.task_type:
        return True
    return resolver.task_type == "chief" or (resolver.task_type == "worker" and resolver.task_id == 0 and not _chief())


def workers(strategy: Any) -> int:
    """The number of processes that train together."""
    return max(1, len(_cluster().get("worker", ())) + len(_chief())) if _is_multiworker(strategy) else 1


def splits_weights(strategy: Any) -> bool:
    """Whether each device holds only a part of the weights."""
    return getattr(strategy, "model_parallel", 1) > 1


def scope(strategy: Any) -> Any:
    """Context in which the variables of a training are made."""
    return strategy.scope() if strategy is not None else contextlib.nullcontext()


def share_of(batch: Mapping[str, np.ndarray], strategy: Any) -> Any:
    """Returns the rows of a global batch for each replica of this process, as a distributed value of tf.distribute.
    Without a ``strategy``, returns all rows."""
    import tensorflow as tf

    if strategy is None:
        return {name: tf.convert_to_tensor(value) for name, value in batch.items()}

    def rows(context: Any) -> dict[str, tf.Tensor]:
        first = context.replica_id_in_sync_group
        number = len(next(iter(batch.values()))) // strategy.num_replicas_in_sync
        return {
            name: tf.convert_to_tensor(value[first * number : (first + 1) * number]) for name, value in batch.items()
        }

    return strategy.experimental_distribute_values_from_function(rows)


def check_split(batch: int, accumulate: int, strategy: Any) -> None:
    """Raises `UsageError` if ``batch`` rows cannot be divided evenly among replicas and their parts."""
    parts = accumulate * (strategy.num_replicas_in_sync if strategy is not None else 1)
    if batch % parts:
        raise UsageError(
            f"A batch of {batch} cannot be shared evenly: {parts // accumulate} replicas with accumulate={accumulate} "
            f"make {parts} parts. Give a multiple of {parts} with --batch."
        )


def check_same_step(step: int, strategy: Any) -> None:
    """Raises `EnvironmentProblem` if the workers would not all begin at the same ``step``."""
    if not _is_multiworker(strategy):
        return
    import tensorflow as tf

    gathered = strategy.gather(
        strategy.experimental_distribute_values_from_function(lambda context: tf.constant([step], tf.int64)), axis=0
    )
    steps = sorted(set(gathered.numpy().tolist()))
    if len(steps) > 1:
        raise EnvironmentProblem(
            f"The workers found different training states, of the steps {', '.join(map(str, steps))}. "
            "Give an --out that all of them see, on a shared file system."
        )


@contextlib.contextmanager
def peers(strategy: Any) -> Iterator[None]:
    """Raises `WorkerLost` for the errors of collective operations that follow when another worker stops."""
    with phase("import"):  # in case this is the first import of TensorFlow
        import tensorflow as tf

    gone = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.DeadlineExceededError)
    restarted = (tf.errors.FailedPreconditionError, tf.errors.CancelledError)
    try:
        yield
    except (*gone, *restarted) as error:
        if not _is_multiworker(strategy):
            raise
        raise WorkerLost(
            "Another worker of this job has stopped or cannot be reached, so this one stops too. Start all workers "
            "again with the same command; they resume from the last training state."
        ) from error


def _cluster() -> dict[str, list[str]]:
    """The cluster in TF_CONFIG; {} if there is none."""
    try:
        return json.loads(os.environ.get("TF_CONFIG") or "{}").get("cluster") or {}
    except (ValueError, AttributeError):
        raise UsageError(
            'TF_CONFIG is not the JSON that TensorFlow documents: {"cluster": {"worker": ["host:port", ...]}, '
            '"task": {"type": "worker", "index": 0}}.'
        ) from None


def _chief() -> list[str]:
    return _cluster().get("chief", [])


def _is_multiworker(strategy: Any) -> bool:
    tf = sys.modules.get("tensorflow")
    return tf is not None and isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)


def _fitting() -> str:
    if _cluster():
        return "multiworker"
    import tensorflow as tf

    return "mirrored" if len(tf.config.list_physical_devices("GPU")) > 1 else "one"


def _mirrored() -> Any:
    import tensorflow as tf

    if devices := tf.config.list_logical_devices("GPU"):
        return tf.distribute.MirroredStrategy([device.name for device in devices])
    # Ring reductions between CPU devices mix up the order of two reductions in a step. ReductionToOneDevice does not.
    devices = [device.name for device in tf.config.list_logical_devices("CPU")]
    return tf.distribute.MirroredStrategy(devices, cross_device_ops=tf.distribute.ReductionToOneDevice())


def _multiworker() -> Any:
    if not _cluster():
        raise EnvironmentProblem(
            "`--strategy multiworker` needs TF_CONFIG, which tells each worker the addresses of all and its own "
            "number. https://www.tensorflow.org/guide/distributed_training shows it; one machine needs no cluster."
        )
    import tensorflow as tf

    try:
        return tf.distribute.MultiWorkerMirroredStrategy()
    except (ValueError, tf.errors.OpError) as error:
        raise EnvironmentProblem(
            f"The cluster in TF_CONFIG cannot be joined: {str(error).splitlines()[0]}. Check that all workers are "
            "started, and that each address is free and reachable."
        ) from error


def _tpu() -> Any:
    import tensorflow as tf

    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver()
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, tf.errors.OpError) as error:
        raise EnvironmentProblem(
            f'No TPU was found: {str(error).splitlines()[0].rstrip(".")}. On a TPU machine set TPU_NAME ("local" for '
            "its own chips); anywhere else leave --strategy out."
        ) from error
    return tf.distribute.TPUStrategy(resolver)
