"""Words per second of training word vectors, ours and gensim's, measured in turns in one run.

    ptmbench perf vectors --peer gensim --corpus wiki.train.tokens [--models cbow] [--peer-python PYTHON]

Both sides train vectors of the same width on the same sentences, one per line, with the same vocabulary (all words),
window, subsampling threshold and number of negatives. The text is in memory. All words of the text are counted, for
both sides also those that subsampling drops. Our side runs the engine's training step with Adagrad and noise words that
rows share, on batches that a thread makes at the same time. gensim processes single words, each with its own noise
words and update. Learning rates do not matter here. ``x peer`` compares wall time. Words per second of processor time
are shown too, because they depend less on other load on the machine.
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ptmbench.bench import environment
from ptmbench.bench.commands.options import BATCH, LENGTH, WIDTH, Existing
from ptmbench.bench.errors import OK, UsageError
from ptmbench.bench.perf import peer as peers
from ptmbench.bench.perf.table import Table
from ptmbench.bench.perf.worker import Worker, interleave, serve

MODELS = ("word2vec", "cbow")
ALIKE = {"window": 5, "negatives": 5, "sample": 1e-3}
"""Settings that are constants in our objective. The peer is given the same values."""
PART = 100_000
"""Number of words of text that a repetition trains on."""


def prepare(folder: Path, files: Sequence[Path], cut: Callable[[str], list[str]] = str.split) -> list[str]:
    """Writes ``text.npz`` with the ``ids`` of the words of ``files``, from 37 on, and ``sentences``, the bounds of the
    sentences.

    Returns the words in the order of their ids. ``cut`` splits a line in lower case into words. Raises `UsageError` for
    files that are not text in UTF-8, or with fewer than two different words.
    """
    import numpy as np

    from ptmbench.models.text.tokenizers import Vocabulary

    numbers: dict[str, int] = {}
    ids, ends = [], [0]
    for path in files:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{path} cannot be read as text: {error}. Give files in UTF-8 with --corpus.") from error
        for words in filter(None, (cut(line.lower()) for line in lines)):
            ids += [numbers.setdefault(word, len(numbers)) for word in words]
            ends.append(len(ids))
    if len(numbers) < 2:
        raise UsageError("Vectors need text of at least two different words. Give more with --corpus.")
    first = Vocabulary(size=100).first
    np.savez(folder / "text.npz", ids=np.array(ids, np.int32) + first, sentences=np.array(ends, np.int64))
    return list(numbers)


def text_in(folder: Path) -> Any:
    """Reads the text that `prepare` wrote to ``folder`` as a `models.text.corpus.Corpus`."""
    import numpy as np

    from ptmbench.models.text.corpus import Corpus

    data = np.load(folder / "text.npz")
    return Corpus(
        ids=data["ids"],
        sentences=data["sentences"],
        documents=np.array([0, len(data["sentences"]) - 1]),
        heads=np.ones(len(data["ids"]), bool),
    )


def compare(
    names: Sequence[str],
    files: Sequence[Path],
    *,
    peer: str | None,
    python: str,
    rounds: int,
    seconds: float,
    **case: Any,
) -> Iterator[dict[str, Any]]:
    """Yields rows of the table as they are measured. ``ratio`` is the median over rounds of the peer's seconds divided
    by those of the row, ``cpu_ratio`` the ratio of words per second of processor time."""
    with tempfile.TemporaryDirectory() as place:
        prepare(Path(place), files)
        for model in names:
            settings = {**case, **ALIKE, "model": model, "data": place, "words": PART, "seed": 1}
            workers = [Worker("ours", [sys.executable, "-m", "ptmbench.bench.perf.vectors", json.dumps(settings)])]
            if peer:
                workers.append(Worker(peer, peers.command(peer, python, settings)))
            interleave(workers, rounds, seconds, jobs=("part",))
            speeds = [worker.answer["value"]["words"] / worker.answer["value"]["cpu"] for worker in workers]
            for worker, speed in zip(workers, speeds, strict=True):
                each = worker.seconds["part"]
                turns = zip(each, workers[-1].seconds["part"], strict=True)
                yield {
                    "model": model,
                    "by": worker.name,
                    "words_per_second": PART / statistics.median(each),
                    "low": PART / max(each),
                    "high": PART / min(each),
                    "ratio": statistics.median(other / own for own, other in turns) if peer else None,
                    "words_per_cpu_second": speed,
                    "cpu_ratio": speed / speeds[-1] if peer else None,
                }


@dataclass(frozen=True)
class Training:
    """A network of word vectors, its training step, and its batches."""

    network: Any
    step: Callable[..., Mapping[str, Any]]
    make: Callable[[int, int], Mapping[str, Any]]
    """Makes the batch of a step, from (step, seed)."""
    read: float
    """Number of words of text that a step corresponds to."""


def training(settings: Mapping[str, Any], text: Any) -> Training:
    """Prepares our side: the model of ``settings`` with random weights, and batches of ``text``, a
    `models.text.corpus.Corpus`."""
    from ptmbench import models
    from ptmbench.bench.engine.step import TrainStep
    from ptmbench.models.card import Size
    from ptmbench.models.objectives import glove, skipgram
    from ptmbench.models.text.tokenizers import Vocabulary

    batch, length = settings["batch"], settings["length"]
    vocabulary = Vocabulary(size=len(text.counts()))
    network = models.load(settings["model"]).build(Size(layers=0, width=settings["width"], length=length), vocabulary)
    network.encoder.dropout = 0.0
    step = TrainStep(
        network.loss,
        list(network.loss.trainable_variables),
        optimizer="adagrad",
        weight_decay=0.0,
        totals=network.loss.totals,
        jit=settings["xla"],
    )
    # Positions in a row per word of text: the share that subsampling keeps, or for GloVe the number of pairs per word.
    of_a_word = (
        len(glove.count(text)[0]) / text.tokens
        if settings["model"] == "glove"
        else skipgram.subsampling(text.counts())[1]
    )
    return Training(network, step, network.batches(text, batch, length), batch * length / of_a_word)


def main(argument: str) -> None:
    """Runs the worker of our side, whose job trains on `PART` words. ``argument`` is a case of `compare` as JSON."""
    settings = json.loads(argument)
    environment.prepare(threads=settings["threads"])
    from ptmbench.bench.engine.prefetch import prefetch

    ours = training(settings, text_in(Path(settings["data"])))
    batches = prefetch(lambda number: ours.make(number, 0), 0)
    spent = {"steps": 0, "due": 0.0, "cpu": 0.0, "words": 0.0}

    def part() -> dict[str, float]:
        began, first = time.process_time(), not spent["steps"]
        spent["due"] += PART
        while spent["steps"] * ours.read < spent["due"]:
            loss = ours.step(next(batches), (0, spent["steps"]), 0.05)["loss"]
            spent["steps"] += 1
        loss.numpy()
        if not first:  # the first call compiles
            spent["cpu"] += time.process_time() - began
            spent["words"] += PART
        return {"words": spent["words"], "cpu": spent["cpu"]}

    serve({"part": part})


COLUMNS = {
    "model": ("model", "{}"),
    "by": ("by", "{}"),
    "words_per_second": ("words/s", "{:.0f}"),
    "low": ("slowest", "{:.0f}"),
    "high": ("fastest", "{:.0f}"),
    "ratio": ("x peer", "{:.2f}"),
    "words_per_cpu_second": ("words/CPU-s", "{:.0f}"),
    "cpu_ratio": ("x peer, by CPU", "{:.2f}"),
}


@click.command("vectors")
@peers.peer_option("gensim")
@click.option(
    "--corpus",
    multiple=True,
    required=True,
    type=Existing("corpus file"),
    help="Text in UTF-8, one sentence per line; words are separated by spaces and lower-cased.",
)
@click.option(
    "--models", "names", default=",".join(MODELS), show_default=True, help="word2vec and cbow, separated by commas."
)
@click.option("--width", type=WIDTH, default=100, show_default=True, help="Dimension of the vectors.")
@click.option("--batch", type=BATCH, default=32, show_default=True, help="Rows per training step of ptmbench.")
@click.option("--length", type=LENGTH, default=512, show_default=True, help="Words per row in ptmbench.")
@click.option("--xla/--no-xla", default=True, show_default=True, help="Compile the training step of ptmbench.")
@peers.turns
def command(
    peer: str | None, peer_python: str, corpus: tuple[Path, ...], names: str, as_json: bool, **shape: Any
) -> int:
    """Measure words per second when training word vectors.

    Prints a Markdown table.
    """
    chosen = names.split(",")
    if wrong := [name for name in chosen if name not in MODELS]:
        raise UsageError(f"`perf vectors` trains {' and '.join(MODELS)}, not '{wrong[0]}'.")
    if peer:
        peers.check(peer_python, ("gensim",))
    table = Table(COLUMNS, as_json)
    for row in compare(chosen, corpus, peer=peer, python=peer_python, **shape):
        table.add(row)
    return OK


if __name__ == "__main__":
    main(sys.argv[1])
