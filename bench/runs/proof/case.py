"""A model at one size, trained for a few steps on the devices of this process.

`bench.runs.proof.cases` starts it as a separate process and reads JSON lines from its stdout: {"begun": check} before
each check, and {"found": {...}} with its findings. So these are kept if the process is killed later.
"""

import gc
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

CHECKS = ("graph", "step", "speed", "resume", "mirrored")
"""All checks, in the order in which they run."""
LARGE = "large"
"""A size made from a model's base as BERT-large is from BERT-base (Devlin et al., 2019, section 3)."""
_HALF, _STEPS, _RATE = 2, 4, 1e-4
_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True)
class Case:
    model: str
    size: str
    batch: int
    length: int
    vocabulary: int
    devices: int
    """Number of logical devices that a processor is divided into."""
    checks: tuple[str, ...] = CHECKS


class Training:
    """A network in bfloat16 with its compiled step. Each batch is split over the devices of ``strategy``, or into
    ``parts`` that one device computes one after the other."""

    def __init__(self, proof: "Proof", strategy: Any = None, parts: int = 1):
        from ptmbench.bench.engine import distribute, networks, numerics, objectives
        from ptmbench.bench.engine.step import TrainStep

        self.proof, words = proof, SimpleNamespace(vocabulary=proof.words)
        model, teacher = proof.case.model, getattr(proof.module, "TEACHER", None)
        with distribute.scope(strategy), numerics.computing_in("bfloat16"):
            taught = teacher and networks.build(teacher.model, teacher.size(proof.shape), words, 1)
            self.network = networks.build(model, proof.shape, words, 0, teacher=taught)
            self.step = TrainStep(
                objectives.checked(self.network.loss),
                list(self.network.loss.trainable_variables),
                totals=self.network.loss.totals,
                strategy=strategy,
                accumulate=parts,
                jit=True,
            )

    def weights(self) -> dict[str, Any]:
        from ptmbench.bench.engine.networks import weights

        return weights(self.network.loss.variables)

    def begin(self, weights: Mapping[str, Any]) -> None:
        from ptmbench.bench.engine.networks import assign

        assign(self.network.loss.variables, weights)
        self.step.reset()

    def train(self, first: int, last: int) -> float:
        """Takes the steps from ``first`` to ``last`` and returns the loss of the last one."""
        for number in range(first, last):
            scalars = self.step(self.proof.batches[number % _STEPS], (0, number), _RATE)
        return float(scalars["loss"])


class Proof:
    """The checks of ``case``. Each check is a method with its name, which returns the findings."""

    def __init__(self, case: Case, folder: Path):
        from ptmbench import models
        from ptmbench.bench.engine import distribute
        from ptmbench.bench.runs.proof import text

        self.case, self.folder, self.module = case, folder, models.load(case.model)
        self.words, self.shape = text.vocabulary(case.vocabulary), shape_of(self.module, case.size, case.length)
        self.strategy = distribute.strategy_of("tpu") if kind() == "TPU" else None
        self.described = self.module.describe(self.shape, self.words)

    @cached_property
    def training(self) -> Training:
        """The training on one device. On a TPU it always uses all devices."""
        return Training(self, self.strategy)

    @cached_property
    def initial_weights(self) -> dict[str, Any]:
        return self.training.weights()

    @cached_property
    def batches(self) -> list[dict[str, Any]]:
        from ptmbench.bench.engine import objectives
        from ptmbench.bench.runs.proof import text

        case, network = self.case, self.training.network
        corpus = text.corpus(self.words, network.batches.needs, 2 * _STEPS * case.batch * case.length, case.length)
        make = objectives.batches_of(network, corpus, case.batch, case.length)
        return [make(number, 0) for number in range(_STEPS)]

    def graph(self) -> dict[str, Any]:
        """Counts operations, and finds dynamic shapes, operations that a TPU would refuse, and 64-bit floats."""
        from ptmbench.bench.runs.proof.graph import examine

        # On a TPU the step is traced within the strategy, so the same step without one is examined.
        traced = (self.training if self.strategy is None else Training(self)).step.traced(self.batches[0])
        found = examine(traced)
        return {
            "operations": len(found.operations),
            "nodes": found.operations.total(),
            **{name: getattr(found, name) for name in ("dynamic", "refused", "wide")},
        }

    def step(self) -> dict[str, Any]:
        """Takes the first step. Its time includes tracing and compilation."""
        initial, begun = self.initial_weights, time.perf_counter()
        loss = self.training.train(0, 1)
        return {"parameters": sum(array.size for array in initial.values()), "loss": loss} | {
            "compile_seconds": time.perf_counter() - begun
        }

    def speed(self) -> dict[str, Any]:
        """Measures the rate of training, without the time to make batches, and the peak memory until now."""
        case, begun = self.case, time.perf_counter()
        self.training.train(1, 3)
        count = max(3, min(200, round(2 * _SECONDS / (time.perf_counter() - begun))))
        begun = time.perf_counter()
        self.training.train(0, count)
        rate = count / (time.perf_counter() - begun)
        flops = rate * case.batch * self.described.training_flops(case.length)
        tokens = rate * case.batch * case.length
        return {"steps_per_second": rate, "tokens_per_second": tokens, "flops_per_second": flops, **memory()}

    def resume(self) -> dict[str, Any]:
        """Compares a training with the same training once more, and with one that a second network resumes from the
        saved state. Returns the distances as shares of the change by training."""
        from ptmbench.bench.engine.course import Course, TrainingStates

        def states(training: Training) -> TrainingStates:
            identity = {"model": self.case.model, "seed": 0}
            return TrainingStates(self.folder, identity, training.network, training.step, True)

        ends = []
        for _ in range(2):
            self.training.begin(self.initial_weights)
            self.training.train(0, _STEPS)
            ends.append(self.training.weights())
        self.training.begin(self.initial_weights)
        self.training.train(0, _HALF)
        states(self.training).save(Course(step=_HALF))
        other = Training(self, self.strategy)
        course = states(other).resume(print)
        other.train(course.step, _STEPS)
        first, again = ends
        return {"repeated": self._share(first, again), "resumed": self._share(first, other.weights())}

    def mirrored(self) -> dict[str, Any]:
        """Trains with each batch split over all devices. Compares loss and weights with those of one device that
        computes the same parts one after the other, and checks that all devices end with the same weights."""
        import numpy as np

        from ptmbench.bench.engine import distribute

        strategy = self.strategy or distribute.strategy_of("mirrored")
        distribute.check_split(self.case.batch, 1, strategy)
        ends = []
        # Each part draws its own random numbers, so a whole batch would be a different training.
        parts = 1 if self.strategy else strategy.num_replicas_in_sync
        for training in (Training(self, self.strategy, parts), Training(self, strategy)):
            training.begin(self.initial_weights)
            ends.append((training.train(0, _STEPS), training.weights()))
        (loss, weights), (split_loss, split_weights) = ends
        copies = [strategy.experimental_local_results(one.value) for one in training.network.loss.variables]
        equal = all(np.array_equal(copy[0].numpy(), one.numpy()) for copy in copies for one in copy[1:])
        return {
            "replicas": strategy.num_replicas_in_sync,
            "replicas_equal": equal,
            "mirrored_loss": abs(split_loss - loss) / abs(loss),
            "mirrored_weights": self._share(weights, split_weights),
        }

    def _share(self, one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
        """Returns the sum of all differences as a share of the sum of all changes by training."""
        changes = sum(float(abs(array - self.initial_weights[name]).sum()) for name, array in one.items())
        return sum(float(abs(array - other[name]).sum()) for name, array in one.items()) / changes


def shape_of(module: Any, size: str, length: int) -> Any:
    """Returns the `Size` called ``size``, which may be `LARGE`, for inputs of ``length`` tokens."""
    from ptmbench.bench.engine.networks import sized

    if size != LARGE:
        return sized(module, size, length)
    base = sized(module, "base", length)
    heads = base.heads * 4 // 3
    width = base.width // base.heads * heads if heads > 1 else base.width * 4 // 3 // 64 * 64
    return replace(base, layers=2 * base.layers, width=width, heads=heads, inner=base.inner * 4 // 3 // 64 * 64)


def kind() -> str:
    """Returns the kind of devices that train: "TPU", "GPU" or "CPU"."""
    import tensorflow as tf

    if os.environ.get("TPU_NAME") or tf.config.list_physical_devices("TPU"):
        return "TPU"
    return "GPU" if tf.config.list_physical_devices("GPU") else "CPU"


def memory() -> dict[str, Any]:
    """Returns the peak memory of the first device in bytes; on a processor, of the whole process."""
    import tensorflow as tf

    from ptmbench.bench import environment

    if kind() == "CPU":
        return {"memory_bytes": environment.peak_memory_bytes()}
    try:
        return {"memory_bytes": tf.config.experimental.get_memory_info(f"{kind()}:0")["peak"]}
    except (ValueError, tf.errors.OpError):  # a device without memory statistics
        return {}


def device() -> dict[str, Any]:
    """Describes the devices, and measures the FLOP/s of a product of square matrices in bfloat16 (best of several)."""
    import tensorflow as tf

    from ptmbench.bench import environment
    from ptmbench.bench.engine import distribute

    found, wide = kind(), 1024 if kind() == "CPU" else 8192
    if found == "TPU":
        distribute.strategy_of("tpu")  # initialises it
    with tf.device(f"/{found}:0"):
        one = tf.cast(tf.random.stateless_normal((wide, wide), (0, 0)), tf.bfloat16)
        product, best = tf.function(tf.linalg.matmul, jit_compile=True), float("inf")
        product(one, one).numpy()
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end:
            begun = time.perf_counter()
            product(one, one)[0, 0].numpy()
            best = min(best, time.perf_counter() - begun)
    return {
        "kind": found,
        "device": environment.device(),
        "devices": len(tf.config.list_logical_devices(found)),
        "matrix_flops_per_second": 2 * wide**3 / best,
        "width": wide,
        "tensorflow": tf.__version__,
    }


def main(argument: str) -> None:
    """Runs the checks of a `Case`, given as JSON; "{}" measures the `device`."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # output of libraries goes to stderr
    from ptmbench.bench import environment
    from ptmbench.bench.errors import sentence

    environment.prepare()
    import tensorflow as tf

    def tell(**line: Any) -> None:
        print(json.dumps(line), file=out, flush=True)

    values = json.loads(argument)
    if kind() == "CPU" and values:
        logical = [tf.config.LogicalDeviceConfiguration()] * values["devices"]
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], logical)
    checks: dict[str, Callable[[], dict[str, Any]]] = {}
    with TemporaryDirectory() as folder:
        try:
            if values:
                case = Case(**{**values, "checks": tuple(values["checks"])})
                tell(begun="build")
                proof = Proof(case, Path(folder))
                checks = {name: getattr(proof, name) for name in CHECKS if name in case.checks}
            else:
                checks = {"device": device}
            for name, check in checks.items():
                tell(begun=name)
                tell(found=check())
                gc.collect()
        except Exception as error:
            tell(failed=sentence(error).partition("\n")[0][:300])


if __name__ == "__main__":
    main(sys.argv[1])
