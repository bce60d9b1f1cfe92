"""Seconds from a checkpoint to a score on MRPC, for the whole process: ours and Hugging Face's run_glue.

    ptmbench perf finetune CHECKPOINT --data DIR [--peer-python PYTHON]

Both sides start with the same weights of our BERT, read the same files, and train with the same number of epochs, batch
size and peak learning rate. Ours is `ptmbench evaluate`, which also holds out a part of the training set, scores it
after every epoch, and writes a record. run_glue pads to 128 tokens and scores dev once, as its example does.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click

from ptmbench.bench.commands.options import ABOVE_ZERO, BATCH, COUNT, SEEDS, THREADS, Existing
from ptmbench.bench.errors import OK
from ptmbench.bench.perf import peer as peers
from ptmbench.bench.perf.table import Table


def run(command: list[str]) -> tuple[dict[str, float], str]:
    """Runs ``command``. Returns the seconds of wall time and processor time, with its child processes, and its output.

    Raises `RuntimeError` with the end of its error output if it fails.
    """
    began, used = time.perf_counter(), _processor()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[:4])} ... failed: {done.stderr.strip()[-600:]}")
    return {"seconds": time.perf_counter() - began, "processor": _processor() - used}, done.stdout


def _processor() -> float:
    """Seconds of processor time of all finished child processes and of their own child processes."""
    spent = os.times()
    return spent.children_user + spent.children_system


@click.command("finetune")
@click.argument("checkpoint", type=Existing("checkpoint"))
@click.option("--data", type=Existing("data folder", folder=True), required=True, help="Folder with glue/MRPC.")
@peers.interpreter
@click.option("--seeds", type=SEEDS, default=3, show_default=True, help="Number of seeds per side.")
@click.option("--epochs", type=COUNT, default=3, show_default=True, help="Passes over MRPC's training set.")
@click.option("--batch", type=BATCH, default=32, show_default=True, help="Examples per step.")
@click.option("--learning-rate", type=ABOVE_ZERO, default=3e-4, show_default=True, help="Peak learning rate.")
@click.option("--threads", type=THREADS, default=2, show_default=True, help="Number of threads.")
def command(checkpoint: Path, data: Path, peer_python: str, seeds: int, **options: Any) -> int:
    """Measure the time from a BERT checkpoint to MRPC's score.

    Trains here and with a peer, and prints a Markdown table.
    """
    peers.check(peer_python)
    from ptmbench.bench.engine import checkpoint as checkpoints
    from ptmbench.leaderboard.records import store
    from ptmbench.models.text.tokenizers import Vocabulary

    about = checkpoints.read(checkpoint).about
    words = Vocabulary(size=about["tokenizer"]["size"])
    settings = {**about["shape"], "positions": about["shape"]["length"], "vocabulary": words.size} | options
    settings |= {"checkpoint": str(checkpoint), "data": str(data / "glue" / "MRPC"), "cls": words.cls, "sep": words.sep}
    table = Table(
        {"by": ("by", "{}"), "seed": ("seed", "{}"), "seconds": ("s", "{:.1f}"), "processor": ("CPU s", "{:.1f}"),
         "accuracy": ("accuracy", "{:.1f}"), "f1": ("F1", "{:.1f}")}
    )  # fmt: skip
    rows = []
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as folder:
            changes = [f"{key}={options[key]}" for key in ("epochs", "batch", "learning_rate")]
            ours = [
                sys.executable,
                "-m",
                "ptmbench",
                "evaluate",
                str(checkpoint),
                "--tasks",
                "mrpc",
                "--data",
                str(data),
            ]
            ours += ["--seed", str(seed), "--jobs", "1", "--out", folder]
            ours += [part for change in changes for part in ("--set", change)]
            cost, _ = run(ours)
            (record,) = store.load([Path(folder)]).records
        scores = {name: score["value"] for name, score in record.scores.items() if name in ("accuracy", "f1")}
        rows.append({"by": "ours", "seed": seed, **cost, **scores})
        table.add(rows[-1])
        cost, printed = run(peers.command("run_glue", peer_python, settings | {"seed": seed}))
        rows.append({"by": "run_glue", "seed": seed, **cost, **json.loads(printed.splitlines()[-1])})
        table.add(rows[-1])
    medians = {by: {key: _median(rows, by, key) for key in ("seconds", "processor")} for by in ("ours", "run_glue")}
    wall, processor = (medians["ours"][key] / medians["run_glue"][key] for key in ("seconds", "processor"))
    click.echo(
        f"\nMedian {medians['ours']['seconds']:.1f} s, run_glue {medians['run_glue']['seconds']:.1f} s: "
        f"{wall:.2f} of its time, {processor:.2f} of its processor time."
    )
    return OK


def _median(rows: list[dict[str, Any]], by: str, key: str) -> float:
    return statistics.median(row[key] for row in rows if row["by"] == by)
