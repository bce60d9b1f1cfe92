"""How our training step scales with the length, the batch size, the number of devices and the size of the corpus.

    ptmbench perf scaling [--model bert --size mini --change model_parallel]

Every line differs from the first one in a single setting. Each is measured in turns with the first line. Two replicas
are two logical devices that share the cores of the machine, so they show only the overhead of tf.distribute. In the
same way, `model_parallel` shows the overhead of splitting weights over 2 and 4 logical devices
(`bench.engine.tensor_parallel`). The time per batch is the time that the input pipeline needs for one, in one thread.
"""

from collections.abc import Iterator
from typing import Any

import click

from ptmbench.bench.commands.options import ABOVE_ZERO, COUNT, THREADS, VOCABULARY
from ptmbench.bench.errors import OK
from ptmbench.bench.perf.pretrain import settings_of
from ptmbench.bench.perf.table import Table
from ptmbench.bench.perf.worker import interleave, ours

BASE = {"batch": 32, "length": 128}
CHANGES = (
    {},
    *({"length": length} for length in (64, 256, 512)),
    *({"batch": batch} for batch in (8, 16, 64, 128)),
    {"replicas": 2},
    *({"model_parallel": devices} for devices in (2, 4)),
    {"corpus_tokens": 8 * 400_000},
)


def measure(
    model: str, size: str, changed: str | None, vocabulary: int, threads: int, rounds: int, seconds: float
) -> Iterator[dict]:
    """Yields rows of the table: medians over ``rounds`` turns, for the setting ``changed`` (None for each setting).

    ``ratio`` is the processor time of the step divided by that of the first line.
    """
    cases, workers = {}, []
    for change in CHANGES:
        if changed and change and changed not in change:
            continue
        setting = BASE | change
        name = ", ".join(f"{key} {value}" for key, value in change.items()) or "batch 32, length 128"
        cases[name] = settings_of(model, size, setting["batch"], setting["length"], vocabulary, threads) | change
        workers.append(ours(name, cases[name] | {"xla": False}))
    for others in (
        workers[first : first + 3] for first in range(1, len(workers), 3)
    ):  # only some at a time, because each worker holds its activations in memory
        interleave([workers[0], *others], rounds, seconds, jobs=("step", "batch"))
    for worker in workers:
        case, step = cases[worker.name], worker.median("step")
        yield {
            "case": worker.name,
            "seconds": step,
            "tokens_per_second": case["batch"] * case["length"] / step,
            "gflops": case["flops"] / step / 1e9,
            "input": worker.median("batch") / step,
            "processor": worker.median_processor("step"),
            "ratio": worker.median_processor("step") / workers[0].median_processor("step"),
        }


COLUMNS = {
    "case": ("changed", "{}"),
    "seconds": ("s/step", "{:.3f}"),
    "tokens_per_second": ("tokens/s", "{:.0f}"),
    "gflops": ("GFLOP/s", "{:.1f}"),
    "input": ("time to make a batch / step", "{:.2%}"),
    "processor": ("CPU s/step", "{:.3f}"),
    "ratio": ("x first line, by CPU", "{:.2f}"),
}


@click.command("scaling")
@click.option("--model", default="bert", show_default=True, help="Model to train.")
@click.option("--size", default="mini", show_default=True, help="Size of the network.")
@click.option(
    "--change",
    "changed",
    type=click.Choice(sorted({name for change in CHANGES for name in change})),
    help="Setting to change (default: each of them).",
)
@click.option("--vocabulary", type=VOCABULARY, default=8192, show_default=True, help="Number of token ids.")
@click.option("--threads", type=THREADS, default=2, show_default=True, help="Number of threads.")
@click.option("--rounds", type=COUNT, default=3, show_default=True, help="Number of timed rounds per variant.")
@click.option(
    "--seconds", type=ABOVE_ZERO, default=4.0, show_default=True, help="Approximate length of a round in seconds."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def command(as_json: bool, **settings: Any) -> int:
    """Measure tokens per second at other lengths and batches.

    Also measures more replicas and other corpora. Prints a Markdown table.
    """
    table = Table(COLUMNS, as_json)
    for row in measure(**settings):
        table.add(row)
    return OK
