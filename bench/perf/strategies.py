"""Compares the same training on one device, on two devices, in two processes, and with batches in two parts.

    ptmbench perf strategies [--models bert,gpt]

Every model is trained for 20 steps at size `tiny` in each way. The table shows the largest difference of a weight from
the training on one device, and for comparison the largest change of a weight by training. Sums are added in another
order, so float32 allows differences of about 1e-7. Differences of 1e-5 and more mean that this rounding has changed the
sign at a ReLU of T5, or a sample of ELECTRA's generator.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np

from ptmbench import models
from ptmbench.bench.engine import checkpoint, networks
from ptmbench.bench.errors import OK
from ptmbench.bench.perf.table import Table

STEPS, BATCH, LENGTH, VOCABULARY = 20, 8, 32, 400
TRAINING_MODES = {
    "one": "one device",
    "mirrored": "two devices (mirrored)",
    "multiworker": "two processes (multiworker)",
    "accumulate": "two parts (accumulate=2)",
}
COLUMNS = {
    "model": ("model", "{}"),
    **{way: (title, "{:.1e}") for way, title in TRAINING_MODES.items() if way != "one"},
    "change": ("largest change by training", "{:.1e}"),
}


@click.command("strategies")
@click.option("--models", "names", default=",".join(models.names()), help="Models, separated by commas (default: all).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def command(names: str, as_json: bool) -> int:
    """Compare trainings that split batches with one device.

    Trains each model in several ways, and prints how far the weights end from the training on one device.
    """
    chosen = names.split(",")
    for name in chosen:
        models.load(name)  # reports an unknown name here, before any process starts
    table = Table(COLUMNS, as_json)
    with TemporaryDirectory() as folder:
        for model, row in measure(chosen, Path(folder)).items():
            table.add({"model": model, **row})
    return OK


def measure(names: Sequence[str], folder: Path) -> dict[str, dict[str, float]]:
    """Trains each of ``names`` in each way. Returns figures by model.

    The figure of a way is the largest difference of a weight from the training on one device. "change" is the largest
    difference between initial and trained weights. "WAY_share" is the sum of all differences divided by the sum of all
    changes. If rounding changes a single ReLU, a few weights change much, but this share hardly changes.
    """
    _run([["single", folder, names]])
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    _run([["multiworker", folder, names]] * 2, [tf_config(addresses, index) for index in range(2)])
    return {model: _compare(folder, model) for model in names}


def tf_config(addresses: Sequence[str], index: int) -> str:
    """TF_CONFIG of worker ``index`` in a cluster of workers at ``addresses``."""
    return json.dumps({"cluster": {"worker": list(addresses)}, "task": {"type": "worker", "index": index}})


def free_ports(count: int) -> list[int]:
    """Finds ``count`` ports on which no process listens."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def made_text() -> list[list[str]]:
    """Makes 60 documents of 30 sentences. A sentence consists of consecutive words of a list, from a random place."""
    rng = np.random.default_rng(0)
    words = [f"{first}{middle}{last}" for first in "bdfgk" for middle in "aeiou" for last in "lmnrst"]
    return [
        [
            " ".join([*(words[(begin + i) % len(words)] for i in range(size)), "."])
            for begin, size in zip(rng.integers(0, len(words), 30), rng.integers(5, 20, 30), strict=True)
        ]
        for _ in range(60)
    ]


def _run(jobs: Sequence[Sequence[Any]], configs: Sequence[str] = ("{}",)) -> None:
    """Runs ``jobs`` of this file in parallel processes and waits for all. Raises `RuntimeError` if one has failed."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "ptmbench.bench.perf.strategies", what, str(folder), *names],
            env=os.environ | {"TF_CONFIG": config},
            stderr=subprocess.PIPE,
            text=True,
        )
        for (what, folder, names), config in zip(jobs, configs, strict=True)
    ]
    ends = [process.communicate()[1] for process in processes]
    for process, said in zip(processes, ends, strict=True):
        if process.returncode:
            raise RuntimeError(f"A measuring process ended with status {process.returncode}:\n{said[-3000:]}")


def _compare(folder: Path, model: str) -> dict[str, float]:
    arrays = {way: checkpoint.read(folder / f"{model}-{way}").arrays() for way in TRAINING_MODES}
    with np.load(folder / f"{model}-fresh.npz") as fresh:
        arrays["change"] = dict(fresh)
    one = arrays.pop("one")
    away = {way: [np.abs(one[name] - other[name]) for name in one] for way, other in arrays.items()}
    largest = {way: max(float(each.max()) for each in found) for way, found in away.items()}
    total = {way: sum(float(each.sum(dtype=np.float64)) for each in found) for way, found in away.items()}
    return largest | {f"{way}_share": total[way] / total["change"] for way in total if way != "change"}


def _train(what: str, folder: Path, names: Sequence[str]) -> None:
    """Runs in a process that `_run` starts: trains all models, "single" in the three ways of one process."""
    from ptmbench.bench import environment

    environment.prepare()
    import tensorflow as tf

    from ptmbench import models
    from ptmbench.bench.engine import distribute
    from ptmbench.bench.engine.budget import Budget
    from ptmbench.bench.engine.recipe import recipe_of
    from ptmbench.bench.runs import teachers
    from ptmbench.bench.runs.pretrain import pretrain
    from ptmbench.models.objective import PAIRS
    from ptmbench.models.text.annotations import symbols_of
    from ptmbench.models.text.corpus import tokenise
    from ptmbench.models.text.pieces import VECTORS
    from ptmbench.models.text.sidecars import write as write_sidecar
    from ptmbench.models.text.tokenizers import Tokenizer

    if what == "single":
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    ways = ("one", "accumulate", "mirrored") if what == "single" else (what,)
    strategies = {way: distribute.strategy_of("one" if way == "accumulate" else way) for way in ways}
    documents = made_text()
    text, pairs = (folder / f"{os.getpid()}.{ending}" for ending in ("txt", "pairs.tsv"))
    text.write_text("\n\n".join("\n".join(document) for document in documents))
    pairs.write_text("\n".join("\t".join(two) for document in documents for two in pairwise(document)))
    write_sidecar(pairs, [], default={"languages": ["en", "xx"]})
    words = sorted({document[0].split()[0] for document in documents})
    (folder / f"{os.getpid()}.vectors").mkdir()
    indices, vectors = (folder / f"{os.getpid()}.vectors" / name for name in VECTORS)
    indices.write_text(f"{len(words)}\n" + "".join(f"{word}\t{index}\n" for index, word in enumerate(words)))
    np.savetxt(vectors, np.random.default_rng(0).normal(size=(len(words), 12)), delimiter="\t")
    mentions = [(number, line.split()[0]) for number, line in enumerate(text.read_text().split("\n"), 1) if line]
    firsts = np.cumsum([1, *(len(document) + 1 for document in documents)]).tolist()  # lines that begin a document
    pictures, count = folder / f"{os.getpid()}.npz", len(documents)
    regions, boxes = np.random.default_rng(1).normal(size=(count, 5)), np.tile([0.0, 0.0, 1.0, 1.0], (count, 1))
    np.savez(pictures, ids=np.arange(count).astype("U"), ends=np.arange(1, count + 1), regions=regions, boxes=boxes)
    named = {line: {"picture": str(number)} for number, line in enumerate(firsts[:-1])}
    spans = [(number, {"entities": [[0, len(word), word]]} | named.get(number, {})) for number, word in mentions]
    write_sidecar(text, spans, folders={"entities": indices.parent}, pictures=pictures)
    tokenizer = Tokenizer.train("wordpiece", [sentence for document in documents for sentence in document], VOCABULARY)
    tokenizer = tokenizer.with_symbols(symbols_of([text, pairs]), {"entities": 12, "regions": 5})
    corpus = {False: tokenise([text], tokenizer), True: tokenise([pairs], tokenizer)}

    def network(model: str, size: str, teacher: checkpoint.Checkpoint | None) -> Any:
        taught = teachers.build_network(teacher, 0) if teacher else None
        return networks.build(model, networks.sized(models.load(model), size, LENGTH), tokenizer, 0, teacher=taught)

    def train(
        model: str, size: str, out: Path, way: str = "one", teacher: checkpoint.Checkpoint | None = None, **more: Any
    ) -> checkpoint.Checkpoint:
        return pretrain(
            model,
            size,
            corpus=corpus[PAIRS in network(model, size, teacher).batches.needs],
            tokenizer=tokenizer,
            budget=Budget(steps=STEPS),
            out=out,
            recipe=recipe_of({"batch": BATCH, "length": LENGTH, "accumulate": 2 if way == "accumulate" else 1}),
            teacher=teacher,
            **more,
        )

    for model in names:
        found = teachers.of(model, "tiny")  # each process makes the same one
        teacher = train(*found, folder / f"{os.getpid()}.{model}-teacher") if found else None
        for way, strategy in strategies.items():
            train(model, "tiny", folder / f"{model}-{way}", way, teacher, strategy=strategy)
        if what == "single":
            fresh = network(model, "tiny", teacher)
            np.savez(folder / f"{model}-fresh.npz", **networks.weights(fresh.loss.variables))


if __name__ == "__main__":
    if sys.argv[1:2] in (["single"], ["multiworker"]):
        _train(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
    else:
        command()
