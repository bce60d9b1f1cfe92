"""Seconds to a held-out MLM loss: our BERT and Hugging Face's run_mlm, on the same tokens.

    ptmbench perf loss --corpus wiki.train.tokens --held-out wiki.valid.tokens [--peer-python PYTHON]

Both sides train the same encoder from random weights with the same number of steps, batch size, length, vocabulary,
peak learning rate and warm-up. After every turn, both are evaluated on the same masked positions of the held-out text.
Only training time is counted. The target is the lowest loss that both sides reached. Initialisation and regularisation
are the defaults of each side: ours has no dropout and initialises positions as sinusoids, run_mlm has dropout 0.1.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import click
import numpy as np

from ptmbench.bench import environment
from ptmbench.bench.commands.options import (
    ABOVE_ZERO,
    BATCH,
    COUNT,
    LENGTH,
    SEED,
    THREADS,
    VOCABULARY,
    Existing,
    Location,
)
from ptmbench.bench.errors import OK
from ptmbench.bench.perf import peer as peers
from ptmbench.bench.perf.curves import picture
from ptmbench.bench.perf.pretrain import settings_of
from ptmbench.bench.perf.table import Table
from ptmbench.bench.perf.worker import Worker, serve

HELD_OUT_ROWS = 256


def prepare(corpus: Path, held_out: Path, vocabulary: int, length: int, folder: Path) -> dict[str, Any]:
    """Writes the training tokens and the masked held-out rows to ``folder``. Returns the size of the vocabulary and the
    ids of special tokens, which the peer needs."""
    from ptmbench.bench.data import corpora
    from ptmbench.models.objectives import mlm
    from ptmbench.models.objectives.lm import batches
    from ptmbench.models.objectives.sampling import generator
    from ptmbench.models.text.tokenizers import Tokenizer

    tokenizer = Tokenizer.load(corpora.tokenizer((corpus,), "wordpiece", vocabulary))
    words = tokenizer.vocabulary

    def rows(file: Path, count: int | None) -> np.ndarray:
        text = corpora.load((str(file),), tokenizer)
        return batches(text, words, count or text.tokens // length, length)(0, 0)["tokens"]

    np.save(folder / "train.npy", rows(corpus, None).reshape(-1))
    noised = mlm.noise({"tokens": rows(held_out, HELD_OUT_ROWS)}, generator(0, 0), words)
    labels = np.full(noised["tokens"].shape, -100, np.int32)
    used = noised["masked_weights"] > 0
    labels[np.nonzero(used)[0], noised["masked_positions"][used]] = noised["masked_labels"][used]
    np.savez(folder / "held_out.npz", tokens=noised["tokens"], labels=labels)
    np.savez(folder / "ours.npz", **noised)
    return {"vocabulary": words.size, "cls": words.cls, "sep": words.sep, "mask": words.mask, "first": words.first}


def compare(ours: Worker, peer: Worker, steps: int, turns: int) -> tuple[list[dict[str, Any]], float]:
    """Returns the curves of both sides, a row per turn and side, and the target: the lowest loss that both reached."""
    rows = []
    with ours, peer:
        for worker in (ours, peer):
            worker.ask("evaluate", 1, keep=False)
        seconds = dict.fromkeys((ours.name, peer.name), 0.0)
        for turn in range(turns):
            for worker in (ours, peer):
                seconds[worker.name] += worker.ask("step", steps // turns) * (steps // turns)
                worker.ask("evaluate", 1)
                rows.append(
                    {
                        "by": worker.name,
                        "steps": (turn + 1) * (steps // turns),
                        "seconds": seconds[worker.name],
                        "loss": worker.answer["value"],
                    }
                )
    best = [min(row["loss"] for row in rows if row["by"] == worker.name) for worker in (ours, peer)]
    return rows, max(best)


def seconds_to(rows: list[dict[str, Any]], name: str, target: float) -> float:
    """The seconds after which the curve of ``name`` first reaches ``target``, by linear interpolation between its
    points; infinity if it never does."""
    before = None
    for row in (row for row in rows if row["by"] == name):
        if row["loss"] <= target:
            if before is None or before["loss"] == row["loss"]:
                return row["seconds"]
            share = (before["loss"] - target) / (before["loss"] - row["loss"])
            return before["seconds"] + share * (row["seconds"] - before["seconds"])
        before = row
    return float("inf")


@click.command("loss")
@click.option("--corpus", type=Existing("corpus file"), required=True, help="Text to train on.")
@click.option("--held-out", type=Existing("held-out text"), required=True, help="Text to measure on.")
@peers.interpreter
@click.option("--size", default="tiny", show_default=True, help="Size of the network.")
@click.option("--steps", type=COUNT, default=4000, show_default=True, help="Training steps of each side.")
@click.option(
    "--turns", type=COUNT, default=20, show_default=True, help="Number of evaluations; the two sides train in turns."
)
@click.option("--batch", type=BATCH, default=16, show_default=True, help="Sequences per step.")
@click.option("--length", type=LENGTH, default=64, show_default=True, help="Tokens per sequence.")
@click.option("--vocabulary", type=VOCABULARY, default=8000, show_default=True, help="Size of the vocabulary.")
@click.option(
    "--learning-rate", type=ABOVE_ZERO, default=1e-3, show_default=True, help="Peak learning rate of both sides."
)
@click.option("--threads", type=THREADS, default=2, show_default=True, help="Number of threads.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of both sides.")
@click.option("--svg", type=Location("file"), help="Also draw both curves into this file.")
def command(
    corpus: Path, held_out: Path, peer_python: str, steps: int, turns: int, svg: Path | None, **options: Any
) -> int:
    """Measure the time to a held-out MLM loss that both sides reach.

    The sides are ptmbench and a peer. Prints a Markdown table and both curves.
    """
    peers.check(peer_python)
    environment.prepare()
    shape = {name: options[name] for name in ("size", "batch", "length", "vocabulary", "threads")}
    with tempfile.TemporaryDirectory() as folder:
        words = prepare(corpus, held_out, options["vocabulary"], options["length"], Path(folder))
        settings = settings_of("bert", **shape | {"vocabulary": words["vocabulary"]}) | words
        settings |= {name: options[name] for name in ("learning_rate", "seed")}
        settings |= {"steps": steps, "warmup": 0.06, "data": folder, "corpus": str(corpus.resolve())}
        ours = Worker("ours", [sys.executable, "-m", "ptmbench.bench.perf.loss", json.dumps(settings)])
        peer = Worker("run_mlm", peers.command("run_mlm", peer_python, settings))
        rows, target = compare(ours, peer, steps, turns)
    table = Table(
        {"by": ("by", "{}"), "steps": ("steps", "{}"), "seconds": ("s", "{:.1f}"), "loss": ("held-out loss", "{:.3f}")}
    )
    for row in rows:
        table.add(row)
    needed = {worker.name: seconds_to(rows, worker.name, target) for worker in (ours, peer)}
    ratio = needed["ours"] / needed["run_mlm"]
    click.echo(
        f"\nTo loss {target:.3f}: {needed['ours']:.1f} s, run_mlm {needed['run_mlm']:.1f} s; {ratio:.2f} of its time."
    )
    if svg is not None:
        curves = {by: [(row["seconds"], row["loss"]) for row in rows if row["by"] == by] for by in needed}
        svg.write_text(
            picture(curves, title=f"BERT-{options['size']}, held-out MLM loss", down="nats per masked token")
        )
    return OK


def main(argument: str) -> None:
    """Runs the worker of our side, with the jobs "step" and "evaluate". ``argument`` is the settings as JSON."""
    c = json.loads(argument)
    environment.prepare(threads=c["threads"])
    import tensorflow as tf

    from ptmbench import models
    from ptmbench.bench.data import corpora
    from ptmbench.bench.engine.networks import build, sized
    from ptmbench.bench.engine.prefetch import prefetch
    from ptmbench.bench.engine.rates import rate_at
    from ptmbench.bench.engine.step import TrainStep
    from ptmbench.models.text.tokenizers import Tokenizer

    files = (Path(c["corpus"]),)
    tokenizer = Tokenizer.load(corpora.tokenizer(files, "wordpiece", c["vocabulary"]))
    network = build("bert", sized(models.load("bert"), c["size"], c["length"]), tokenizer, c["seed"])
    network.encoder.dropout = 0.0
    train = TrainStep(network.loss, list(network.loss.trainable_variables))
    make = network.batches(corpora.load((c["corpus"],), tokenizer), c["batch"], c["length"])
    batches = prefetch(lambda step: make(step, c["seed"]), 0)
    held = {name: tf.constant(array) for name, array in np.load(Path(c["data"]) / "ours.npz").items()}
    head, done = network.loss.heads[0], 0

    def step() -> float:
        nonlocal done
        rate = rate_at(done, c["steps"], peak=c["learning_rate"], warmup=c["warmup"])
        scalars = train(next(batches), (c["seed"], done), rate)
        done += 1
        return float(scalars["loss"])

    @tf.function
    def held_out_loss() -> tf.Tensor:
        return head(network.encoder(held), held, head.totals(held))["mlm_loss"]

    serve({"step": step, "evaluate": lambda: float(held_out_loss())})


if __name__ == "__main__":
    main(sys.argv[1])
