"""Tokens per second of pre-training, ours and a peer's, turn by turn in one run.

    python -m bench perf pretrain --peer transformers [--models bert,gpt --sizes tiny,mini] [--peer-python PYTHON]

Both sides train the same network on the same shape of batch in float32 without dropout, with AdamW and clipping. FLOPs
are the model's own formula (`flops_per_token`), which counts what has to be computed once; a peer that computes more
for the same loss gets no credit for it. The machine's peak is the best product of two 2048 x 2048 matrices that either
library reached in the same run.
"""

import importlib.util
import itertools
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

import models
from bench import environment
from bench.errors import OK, UsageError
from bench.perf.table import Table
from bench.perf.worker import Worker, interleave, ours
from models.tokenizers import Vocabulary

PEERS = Path(__file__).parent / "peers"
MODELS = ("bert", "gpt", "electra", "elmo", "lm_lstm", "t5")


def peer_worker(name: str, python: str, settings: dict[str, Any]) -> Worker:
    """The worker of the peer called ``name``, in the interpreter ``python``."""
    return Worker(name, [python, "-P", str(PEERS / f"{name}.py"), json.dumps(settings)])


def check_peer(python: str, needed: Sequence[str] = ("torch", "transformers")) -> None:
    """`UsageError` where ``python`` has not what the peer needs."""
    if python == sys.executable:
        missing = [name for name in needed if importlib.util.find_spec(name) is None]
    else:
        code = f"import importlib.util as u; print(*[n for n in {tuple(needed)} if u.find_spec(n) is None])"
        try:
            found = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise UsageError(f"{python} is no Python that runs: {error}.") from error
        missing = found.stdout.split()
    if missing:
        raise UsageError(
            f"The peer needs {' and '.join(missing)}: `{python} -m pip install {' '.join(missing)}`, "
            "or name another interpreter with --peer-python."
        )


def settings_of(model: str, size: str, batch: int, length: int, vocabulary: int, threads: int) -> dict[str, Any]:
    """What both workers need to know of one case."""
    from bench.engine.networks import sized

    module, words = models.load(model), Vocabulary(size=vocabulary)
    shape = sized(module, size, length)
    settings = {
        "model": model,
        "size": size,
        "batch": batch,
        "length": length,
        "vocabulary": vocabulary,
        "threads": threads,
        "positions": shape.length,
        **{name: getattr(shape, name) for name in ("layers", "width", "heads", "inner")},
        "flops": module.flops_per_token(shape, words, length) * batch * length,
    }
    if model == "electra":
        settings["generator"] = asdict(module.generator(shape))
    if model == "t5":
        from models.objectives.seq2seq_mlm import plan

        _, noise, spans = plan(length)
        settings["targets"] = noise + spans + 1
    return settings


def compare(
    names: Sequence[str],
    sizes: Sequence[str],
    *,
    peer: str | None,
    python: str,
    batch: int,
    length: int,
    vocabulary: int,
    threads: int,
    rounds: int,
    seconds: float,
) -> Iterator[dict[str, Any]]:
    """Rows of the table, as they are measured: for each model and size our step as a graph, compiled by XLA, and the
    peer's.

    ``seconds`` is the median over ``rounds`` turns, ``low`` and ``high`` the extremes; ``ratio`` our tokens per second
    over the peer's.
    """
    for model, size in itertools.product(names, sizes):
        case = settings_of(model, size, batch, length, vocabulary, threads)
        workers = [ours("ours", case | {"xla": False}), ours("ours, XLA", case | {"xla": True})]
        if peer:
            workers.append(peer_worker(peer, python, case))
        interleave(workers, rounds, seconds)
        peak = max(2 * 2048**3 / worker.best("sgemm") for worker in workers)
        for worker in workers:
            step = worker.median("step")
            yield {
                "model": f"{model}-{size}",
                "by": worker.name,
                "seconds": step,
                "low": min(worker.seconds["step"]),
                "high": max(worker.seconds["step"]),
                "tokens_per_second": batch * length / step,
                "gflops": case["flops"] / step / 1e9,
                "peak_gflops": peak / 1e9,
                "share_of_peak": case["flops"] / step / peak,
                "ratio": workers[-1].median("step") / step if peer else None,
            }


COLUMNS = {
    "model": ("model", "{}"),
    "by": ("by", "{}"),
    "seconds": ("s/step", "{:.3f}"),
    "low": ("fastest", "{:.3f}"),
    "high": ("slowest", "{:.3f}"),
    "tokens_per_second": ("tokens/s", "{:.0f}"),
    "gflops": ("GFLOP/s", "{:.1f}"),
    "peak_gflops": ("sgemm", "{:.1f}"),
    "share_of_peak": ("of it", "{:.0%}"),
    "ratio": ("x peer", "{:.2f}"),
}


@click.command("pretrain")
@click.option("--peer", type=click.Choice(("transformers",)), help="Whom to run beside us.")
@click.option(
    "--peer-python", default=sys.executable, metavar="PYTHON", help="Interpreter that has the peer's packages."
)
@click.option("--models", "names", default=",".join(MODELS), show_default=True, help="Models, by commas.")
@click.option("--sizes", default="mini", show_default=True, help="Sizes, by commas.")
@click.option("--batch", default=32, show_default=True, help="Sequences per step.")
@click.option("--length", default=128, show_default=True, help="Tokens per sequence.")
@click.option("--vocabulary", default=8192, show_default=True, help="Number of token ids.")
@click.option("--threads", default=2, show_default=True, help="Threads of each worker.")
@click.option("--rounds", default=5, show_default=True, help="Turns of each worker.")
@click.option("--seconds", default=5.0, show_default=True, help="Length of a turn, about.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(peer: str | None, peer_python: str, names: str, sizes: str, as_json: bool, **shape: Any) -> int:
    """Tokens per second of pre-training steps, as a Markdown table."""
    environment.prepare()
    if peer:
        check_peer(peer_python)
    table = Table(COLUMNS, as_json)
    for row in compare(names.split(","), sizes.split(","), peer=peer, python=peer_python, **shape):
        table.add(row)
    return OK
