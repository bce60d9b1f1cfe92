"""Latency of a model in several inference engines, on one core.

    ptmbench perf engines CHECKPOINT [--batches 1,8,32] [--length 128]

The checkpoint is exported for every engine that is installed, and each file is compared with the model. Then each
engine predicts batches of random token ids in a process with one thread, pinned to the same core. The processes
take turns, so that other load on the machine affects all of them equally. All rows are as long as the longest input,
because LiteRT reads inputs of one length. Tokenising is not measured. The engine "ptmbench" does what `predict` does:
it stacks rows and runs a graph.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from ptmbench.bench import environment
from ptmbench.bench.commands.options import ABOVE_ZERO, COUNT, LENGTH, Existing
from ptmbench.bench.console import say
from ptmbench.bench.errors import OK, EnvironmentProblem, UsageError
from ptmbench.bench.perf.table import Table
from ptmbench.bench.perf.worker import Worker, serve

OURS = "ptmbench"
ENGINES = {
    OURS: (None, None),
    "keras int8": (None, "int8"),
    "saved_model": ("saved_model", None),
    "litert": ("litert", None),
    "litert int8": ("litert", "int8"),
    "onnxruntime": ("onnx", None),
    "onnxruntime int8": ("onnx", "int8"),
}
"""Format and quantisation of each engine. The format is None for our own graph, which needs no export."""
CHECKED_INPUTS = 16
"""Number of inputs on which the exported files are compared with the model."""


def prepare(source: Any, name: str, batches: Sequence[int], folder: Path) -> dict[str, Any]:
    """Writes the files to ``folder`` that the engine ``name`` needs for the batch sizes ``batches``.

    Returns "files" by batch size, "bytes" of one of them, and the "difference" from the model and "same_decisions" of
    `bench.runs.exports.export.compare`.
    """
    from ptmbench.bench.runs.exports import export, network
    from ptmbench.bench.runs.exports.formats import FORMATS

    kind, quantize = ENGINES[name]
    place, rows = folder / name.replace(" ", "-"), source.rows(None, CHECKED_INPUTS)[0]
    if kind is None:
        if quantize:
            save_int8(source, place)
        path = place if quantize else source.found.folder
        made = network.of(path, source.length)
        run, length = (lambda inputs: stacked(made.answered(made.inputs(inputs)))), None
        compared = export.compare(source, run, rows, 1, length)
        return {"files": dict.fromkeys(batches, str(path)), "bytes": export.bytes_of(path), **compared}
    engine, files = FORMATS[kind], {}
    for batch in batches:
        files[batch] = place / str(batch if engine.static else "any") / engine.path
        if not files[batch].exists():
            files[batch].parent.mkdir(parents=True)
            engine.write(source, files[batch], batch, quantize)
    path = files[batches[0]]
    length = source.length if engine.static else None
    compared = export.compare(source, engine.engine(path), rows, batches[0], length)
    return {"files": {b: str(file) for b, file in files.items()}, "bytes": export.bytes_of(path), **compared}


def save_int8(source: Any, folder: Path) -> None:
    """Applies the transform int8 to the adapted model of ``source`` and saves the result as a checkpoint.

    Raises `UsageError` if ``source`` is not adapted, or if no transform may follow its last one.
    """
    from ptmbench.bench.adapt import transforms
    from ptmbench.bench.adapt.course import Bookmark
    from ptmbench.bench.adapt.transforms.contract import Material
    from ptmbench.bench.runs import transformed

    if source.trained is None:
        raise UsageError("the transform int8 needs an adapted model.")
    if source.trained.chain and source.trained.chain[-1].transform.final:
        raise UsageError(f"no transform follows {source.trained.chain[-1].title}.")
    (chosen,) = transforms.choose("int8")
    chain = (*source.trained.chain, chosen)
    material = Material(
        predictor=source.trained, settings=chosen.settings, training=None, seed=0, chain=chain, bookmark=Bookmark()
    )
    made = chosen.transform.transformed(material)
    transformed.predictor_of(material, made, source.found).save(folder, {})


def stacked(outputs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Stacks the outputs of single rows to batches. All rows have the same length."""
    import numpy as np

    return {name: np.stack([one[name] for one in outputs]) for name in outputs[0]}


def compare(
    source: Any, names: Sequence[str], batches: Sequence[int], *, core: int, rounds: int, seconds: float
) -> Iterator[dict[str, Any]]:
    """Yields rows of the table, by batch size. ``ratio`` is the median over turns of our processor time divided by that
    of the engine."""
    with tempfile.TemporaryDirectory() as place, ExitStack() as running:
        made, workers = {}, {}
        for name in names:
            try:
                made[name] = prepare(source, name, batches, Path(place))
            except (EnvironmentProblem, UsageError) as error:
                say(f"Left out: {name}. {error}")
                continue
            case = {"engine": name, "files": made[name]["files"], "length": source.length, "core": core}
            command = [sys.executable, "-m", "ptmbench.bench.perf.engines", json.dumps(case)]
            workers[name] = running.enter_context(Worker(name, command))
        for batch in batches:
            spent = in_turns(list(workers.values()), str(batch), rounds, seconds)
            for name, worker in workers.items():
                each = [1000 * one for one in worker.seconds[str(batch)]]
                low, median, high = statistics.quantiles(each, n=4, method="inclusive")
                yield {
                    "batch": batch,
                    "engine": name,
                    "median": median,
                    "low": low,
                    "high": high,
                    "cpu": 1000 * statistics.median(spent[name]),
                    "ratio": statistics.median(ours / own for ours, own in zip(spent[OURS], spent[name], strict=True)),
                    "megabytes": made[name]["bytes"] / 1e6,
                    "difference": made[name]["difference"],
                    "same_decisions": made[name]["same_decisions"],
                }


def in_turns(workers: Sequence[Worker], job: str, rounds: int, seconds: float) -> dict[str, list[float]]:
    """Lets ``workers`` run ``job`` in turns: ``rounds`` turns each, of about ``seconds``.

    Returns the seconds of processor time of one repetition in each turn, by worker. Wall time is in the ``seconds`` of
    the workers.
    """
    times, before, spent = {}, {}, {worker.name: [] for worker in workers}
    for worker in workers:
        worker.ask(job, 2, keep=False)  # traces the graph
        times[worker.name] = max(1, round(seconds / worker.ask(job, 2, keep=False)))
        before[worker.name] = worker.answer["value"]
    for _ in range(rounds):
        for worker in workers:
            worker.ask(job, times[worker.name])
            spent[worker.name].append((worker.answer["value"] - before[worker.name]) / times[worker.name])
            before[worker.name] = worker.answer["value"]
    return spent


def main(argument: str) -> None:
    """Runs the worker of an engine, with one job per batch size. A job predicts a batch and returns the processor time
    of this process so far. ``argument`` is a case of `compare` as JSON."""
    case = json.loads(argument)
    os.sched_setaffinity(0, {case["core"]})
    environment.prepare(threads=1)
    import numpy as np

    from ptmbench.bench.runs.exports import network
    from ptmbench.bench.runs.exports.formats import FORMATS

    kind, rng, jobs = ENGINES[case["engine"]][0], np.random.default_rng(0), {}
    for batch, file in case["files"].items():
        tokens = rng.integers(40, 64, (int(batch), case["length"]), dtype=np.int32)
        inputs = {"tokens": tokens, "segments": np.zeros_like(tokens)}
        if kind is None:
            source = network.of(Path(file), case["length"])
            run, inputs = source.answered, source.inputs(inputs)
        else:
            run = FORMATS[kind].engine(Path(file))

        def job(run: Any = run, inputs: Any = inputs) -> float:
            run(inputs)
            return time.process_time()

        jobs[batch] = job
    serve(jobs)


COLUMNS = {
    "batch": ("batch", "{}"),
    "engine": ("engine", "{}"),
    "median": ("ms", "{:.2f}"),
    "low": ("lower quartile", "{:.2f}"),
    "high": ("upper quartile", "{:.2f}"),
    "cpu": ("CPU ms", "{:.2f}"),
    "ratio": ("x ptmbench", "{:.2f}"),
    "megabytes": ("MB", "{:.2f}"),
    "difference": ("difference", "{:.1e}"),
    "same_decisions": ("same decisions", "{:.1%}"),
}


@click.command("engines")
@click.argument("checkpoint", type=Existing("checkpoint"))
@click.option("--batches", default="1,8,32", show_default=True, help="Batch sizes, separated by commas.")
@click.option("--length", type=LENGTH, help="Tokens of each row (default: the length that the model was adapted with).")
@click.option(
    "--engines",
    "names",
    default=",".join(ENGINES),
    help="Engines, separated by commas, such as litert (default: all). ptmbench itself is always measured.",
)
@click.option("--core", type=click.IntRange(min=0), help="Number of the core (default: the last one allowed).")
@click.option("--rounds", type=COUNT, default=21, show_default=True, help="Number of timed rounds per engine.")
@click.option(
    "--seconds", type=ABOVE_ZERO, default=0.2, show_default=True, help="Approximate length of a round in seconds."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def command(
    checkpoint: Path, batches: str, length: int | None, names: str, core: int | None, as_json: bool, **turns: Any
) -> int:
    """Measure the latency of CHECKPOINT in inference engines.

    Runs on one core and prints a Markdown table.
    """
    chosen = list(dict.fromkeys((OURS, *(name.strip() for name in names.split(",")))))
    if wrong := [name for name in chosen if name not in ENGINES]:
        raise UsageError(f"There is no engine '{wrong[0]}'. Choices: {', '.join(ENGINES)}.")
    sizes = [one.strip() for one in batches.split(",")]
    if not all(one.isdecimal() and 0 < int(one) <= 1024 for one in sizes):
        raise UsageError(f"--batches takes numbers from 1 to 1024, separated by commas, not '{batches}'.")
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    if not allowed:
        raise EnvironmentProblem("This system cannot pin a process to a core. `perf engines` needs Linux.")
    core = max(allowed) if core is None else core
    if core not in allowed:
        raise UsageError(f"--core is one of {', '.join(map(str, sorted(allowed)))}, not {core}.")
    if turns["rounds"] < 2:
        raise UsageError("--rounds is at least 2, because quartiles need several turns.")
    environment.prepare()
    from ptmbench.bench.runs.exports import network

    table = Table(COLUMNS, as_json)
    for row in compare(network.of(checkpoint, length), chosen, [int(one) for one in sizes], core=core, **turns):
        table.add(row)
    return OK


if __name__ == "__main__":
    main(sys.argv[1])
