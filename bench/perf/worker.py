"""Processes that are timed in turns, and our own training step as one of them.

A worker reads one request per line, ``{"job": "step", "times": 4}``, and answers with the seconds that it took. Some
also answer with the processor time of all their threads. The turns of several workers are interleaved, so that other
load on the machine affects all of them equally. The other workers wait for input meanwhile and use no processor time.
"""

import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any


class WorkerFailed(RuntimeError):
    """A worker that ended before it answered. The message has the last lines of its error output."""


@dataclass
class Worker:
    """A process that runs jobs on request. ``seconds`` has the wall time per repetition of each job, by turn."""

    name: str
    command: Sequence[str]
    seconds: dict[str, list[float]] = field(default_factory=dict)
    processor: dict[str, list[float]] = field(default_factory=dict)
    """Seconds of processor time per repetition of each job, by turn; NaN if the process does not report them."""
    answer: dict[str, Any] = field(default_factory=dict)
    """The last answer."""

    def __enter__(self) -> "Worker":
        self._process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *raised: object) -> None:
        self._process.kill()
        self._process.wait()

    def ask(self, job: str, times: int, keep: bool = True) -> float:
        """Lets the process run ``job`` ``times`` times, and returns the seconds per repetition.

        The result is stored unless ``keep`` is False. Raises `WorkerFailed` if the process ends without an answer.
        """
        try:
            self._process.stdin.write(json.dumps({"job": job, "times": times}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self._process.wait()
            last = "\n".join(self._process.stderr.read().strip().splitlines()[-4:])
            raise WorkerFailed(f"The worker '{self.name}' ended before it answered. Its last lines:\n{last}")
        self.answer = json.loads(line)
        each = self.answer["seconds"] / times
        if keep:
            self.seconds.setdefault(job, []).append(each)
            self.processor.setdefault(job, []).append(self.answer.get("processor", math.nan) / times)
        return each

    def median(self, job: str) -> float:
        return statistics.median(self.seconds[job])

    def median_processor(self, job: str) -> float:
        """The median processor time per repetition; NaN if the process does not report it."""
        return statistics.median(self.processor[job])

    def best(self, job: str) -> float:
        return min(self.seconds[job])


def interleave(workers: Sequence[Worker], rounds: int, seconds: float, jobs: Sequence[str] = ("step", "sgemm")) -> None:
    """Starts ``workers`` and lets them run every job in turns: ``rounds`` turns each, of about ``seconds``. Requests
    before the first turn, for warm-up, are not counted."""
    with ExitStack() as running:
        times = {}
        for worker in workers:
            running.enter_context(worker)
            for job in jobs:
                worker.ask(job, 1, keep=False)  # loads, traces and compiles
                worker.ask(job, 2, keep=False)
                times[worker.name, job] = max(1, round(seconds / worker.ask(job, 2, keep=False)))
        for _ in range(rounds):
            for job in jobs:
                for worker in workers:
                    worker.ask(job, times[worker.name, job])


def ours(name: str, settings: Mapping[str, Any]) -> Worker:
    """A worker that trains one of our models with ``settings`` (see `main`)."""
    return Worker(name, [sys.executable, "-m", "ptmbench.bench.perf.worker", json.dumps(dict(settings))])


def serve(jobs: Mapping[str, Callable[[], float | None]]) -> None:
    """Answers requests from stdin until it ends. An answer has the seconds that the job took, and its last value."""
    for line in sys.stdin:
        request = json.loads(line)
        began, used, value = time.perf_counter(), time.process_time(), None
        for _ in range(request["times"]):
            value = jobs[request["job"]]()
        spent = {"seconds": time.perf_counter() - began, "processor": time.process_time() - used}
        print(json.dumps(spent | {"value": value}), flush=True)


def corpus(vocabulary: Any, tokens: int = 400_000, seed: int = 0) -> Any:
    """Makes a corpus of random ids for timing, with sentences of 20 tokens and documents of 200."""
    import numpy as np

    from ptmbench.models.text.corpus import Corpus

    ids = np.random.default_rng(seed).integers(vocabulary.first, vocabulary.size, tokens, dtype=np.int32)
    return Corpus(
        ids=ids,
        sentences=np.arange(0, tokens + 1, 20),
        documents=np.arange(0, tokens // 20 + 1, 10),
        heads=np.ones(tokens, bool),
    )


def main(argument: str) -> None:
    """Runs the worker of one model. Jobs: "step" trains, "batch" makes a batch, "sgemm" multiplies two matrices.

    ``argument`` is JSON with "model", "size", "batch", "length", "vocabulary", "threads", "xla", and perhaps "replicas"
    (logical devices, 1), "model_parallel" (logical devices that split the weights, 1) and "corpus_tokens" (400,000).
    """
    from ptmbench.bench import environment

    settings = json.loads(argument)
    environment.prepare(threads=settings["threads"])
    import tensorflow as tf

    from ptmbench import models
    from ptmbench.bench.engine.distribute import scope, splits_weights, strategy_of
    from ptmbench.bench.engine.networks import sized
    from ptmbench.bench.engine.step import TrainStep
    from ptmbench.models.text.tokenizers import Vocabulary

    strategy = None
    if settings.get("replicas", 1) > 1:
        device = tf.config.list_physical_devices("CPU")[0]
        logical = [tf.config.LogicalDeviceConfiguration()] * settings["replicas"]
        tf.config.set_logical_device_configuration(device, logical)
        strategy = strategy_of("mirrored")
    if settings.get("model_parallel", 1) > 1:
        strategy = strategy_of("tensor", settings["model_parallel"])
    module, vocabulary = models.load(settings["model"]), Vocabulary(size=settings["vocabulary"])
    with scope(strategy):
        network = module.build(sized(module, settings["size"], settings["length"]), vocabulary)
        network.encoder.dropout = 0.0
        step = TrainStep(
            network.loss,
            list(network.loss.trainable_variables),
            strategy=None if splits_weights(strategy) else strategy,
            totals=network.loss.totals,
            jit=settings["xla"],
        )
        if splits_weights(strategy):
            from ptmbench.bench.engine.tensor_parallel.step import TensorStep

            step = TensorStep(step, network.loss, strategy)
    text = corpus(vocabulary, settings.get("corpus_tokens", 400_000))
    make = network.batches(text, settings["batch"], settings["length"])
    batches = [make(index, 0) for index in range(4)]
    count = 0

    def train() -> float:
        nonlocal count
        loss = float(step(batches[count % 4], (0, count), 1e-4)["loss"])
        count += 1
        return loss

    def load() -> None:
        nonlocal count
        make(count, 0)
        count += 1

    square = tf.random.stateless_normal((2048, 2048), (0, 0))
    serve({"step": train, "batch": load, "sgemm": lambda: float(tf.matmul(square, square)[0, 0])})


if __name__ == "__main__":
    main(sys.argv[1])
