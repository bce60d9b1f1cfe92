"""Trains with split weights and on one device, in a process with several logical devices.

The tests of `bench.engine.tensor_parallel` start it. It reads a job as JSON from its argument and prints the results as
one line of JSON."""

import json
import os
import shutil
import signal
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

BATCH, LENGTH, VOCABULARY, STEPS, RATE = 8, 32, 400, 4, 2e-4


def compared(case: dict[str, Any]) -> dict[str, Any]:
    """Returns the differences between `STEPS` steps of ``case["model"]`` on split weights and on one device."""
    import keras
    import numpy as np

    from ptmbench import models
    from ptmbench.bench.engine import networks, objectives
    from ptmbench.bench.engine.step import TrainStep
    from ptmbench.bench.engine.tensor_parallel import layouts
    from ptmbench.bench.engine.tensor_parallel.devices import TensorParallel
    from ptmbench.bench.engine.tensor_parallel.step import TensorStep
    from ptmbench.bench.runs.proof import text

    module, words = models.load(case["model"]), text.vocabulary(VOCABULARY)
    size = replace(networks.sized(module, "tiny", LENGTH), heads=4, **case.get("size", {}))
    options = {name: case[name] for name in ("optimizer", "accumulate") if name in case}
    teacher = getattr(module, "TEACHER", None)

    def build(strategy: Any = None) -> tuple[Any, Any]:
        keras.backend.clear_session()
        vocabulary = SimpleNamespace(vocabulary=words)
        taught = teacher and networks.build(teacher.model, teacher.size(size), vocabulary, 1)
        network = networks.build(case["model"], size, vocabulary, 0, teacher=taught)
        network.encoder.dropout = case.get("dropout", 0.0)
        trainable = list(network.loss.trainable_variables)
        step = TrainStep(objectives.checked(network.loss), trainable, totals=network.loss.totals, **options)
        return network, step if strategy is None else TensorStep(step, network.loss, strategy)

    strategy = TensorParallel(case["model_parallel"])
    (whole_network, whole_step), (split_network, split_step) = build(), build(strategy)
    initial_weights = networks.weights(whole_network.loss.variables)
    corpus = text.corpus(words, whole_network.batches.needs, 20_000, LENGTH)
    make = [objectives.batches_of(network, corpus, BATCH, LENGTH) for network in (split_network, whole_network)][-1]
    results: dict[str, Any] = {"loss": 0.0}
    for number in range(STEPS):
        batch = make(number, 0)
        left, right = (
            {name: float(value) for name, value in step(batch, (0, number), RATE).items()}
            for step in (whole_step, split_step)
        )
        results["loss"] = max(
            results["loss"], *(abs(left[name] - right[name]) / (1 + abs(left[name])) for name in left)
        )
        if number == 0:  # after one step, the first moment is a tenth of the gradient
            results["gradient"] = 10 * _max_difference(whole_step.state(), split_step.state())
    results["bytes"] = split_step.bytes_per_device()
    results["moments"] = _max_difference(whole_step.state(), split_step.state())
    weights = networks.weights(whole_network.loss.variables)
    results["weights"] = _max_difference(weights, networks.weights(split_network.loss.variables))
    results["change"] = _max_difference(weights, initial_weights)
    memory = layouts.memory(module.describe(size, words), case["model_parallel"])
    fixed = sum(8 * int(np.prod(variable.shape)) for variable in whole_network.loss.non_trainable_variables)
    return results | {"each": memory.each - fixed, "one": memory.one - fixed}


def _max_difference(these: Any, those: Any) -> float:
    return max(float(abs(these[name] - those[name]).max()) for name in these)


class Halt(Exception):
    """Ends a pre-training after a training state was written."""


def pretrained(case: dict[str, Any]) -> dict[str, Any]:
    """Pre-trains into ``case["out"]`` in each of ``case["ways"]``, "split" or "one" device, one after the other.

    A training state is written after every step. The first pre-training ends after the step ``case["halt"]``, and the
    whole process is killed after the step ``case["kill"]``. The states of the run ``case["copy"]`` are copied first."""
    from ptmbench.bench.engine import checkpoint
    from ptmbench.bench.engine.budget import Budget
    from ptmbench.bench.engine.recipe import recipe_of
    from ptmbench.bench.engine.tensor_parallel.devices import TensorParallel
    from ptmbench.bench.perf.strategies import made_text
    from ptmbench.bench.runs.pretrain import pretrain
    from ptmbench.models.text.corpus import tokenise
    from ptmbench.models.text.tokenizers import Tokenizer

    out, strategy = Path(case["out"]), TensorParallel(2)
    if "copy" in case:
        shutil.copytree(f"{case['copy']}.training", f"{out}.training")
    sentences = [sentence for document in made_text() for sentence in document]
    path = out.with_name(f"{out.name}.txt")
    path.write_text("\n".join(sentences))
    tokenizer = Tokenizer.train("wordpiece", sentences, VOCABULARY)
    corpus, write = tokenise([path], tokenizer), checkpoint.write_state
    ends = {"halt": case.get("halt"), "kill": case.get("kill")}

    def write_and_end(folder: Path, step: int, **content: Any) -> None:
        write(folder, step, **content)
        if step == ends["kill"]:
            os.kill(os.getpid(), signal.SIGKILL)
        if step == ends["halt"]:
            ends["halt"] = None
            raise Halt

    checkpoint.write_state = write_and_end
    for way in case["ways"]:
        try:
            finished = pretrain(
                "bert",
                "tiny",
                corpus=corpus,
                tokenizer=tokenizer,
                budget=Budget(steps=6),
                out=out,
                recipe=recipe_of({"batch": 4, "length": 32, "dropout": 0.1}),
                strategy=strategy if way == "split" else None,
                save_every=1e-6,
            )
        except Halt:
            continue
    return {"manifest": finished.about["tensor_parallel"] if case["ways"][-1] == "split" else None}


if __name__ == "__main__":
    job = json.loads(sys.argv[1])
    from ptmbench.bench import environment

    environment.prepare()
    import tensorflow as tf

    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * job["devices"]
    )
    do = {"compared": compared, "pretrained": pretrained}[job["do"]]
    print(json.dumps([do(case) for case in job["cases"]]))
