"""Scores of word vectors on similarities and analogies, ours and those of other libraries, after the same text.

    ptmbench perf questions --data DIR --peer gensim --peer mittens [--corpus FILE] [--peer-python PYTHON]

All sides train vectors of the same width on the same words of the same sentences, with the same window, subsampling and
number of negatives. They answer the same questions in the same way (`bench.adapt.words`): those in ``wordsim353`` and
``google_analogy`` of DIR, or files in the same layouts. Word2vec and CBOW are compared with gensim, GloVe with mittens
(Dingwall and Potts, 2018). The program of GloVe's authors is written in C and is in no package index.

Our side runs the step that `bench.perf.vectors` times: Adagrad with a learning rate that falls to 0, and noise words
that rows share. gensim has its own learning rates; mittens fits all counts at once. Words are sequences of letters and
digits, or single punctuation marks, in lower case. ``+-`` is the standard deviation over seeds, which determine the
order, the noise and the initial weights.
"""

import math
import re
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from ptmbench.bench import environment
from ptmbench.bench.commands.options import ABOVE_ZERO, BATCH, COUNT, LENGTH, SEEDS, THREADS, WIDTH, Existing
from ptmbench.bench.errors import OK, UsageError
from ptmbench.bench.perf import peer as peers
from ptmbench.bench.perf import vectors
from ptmbench.bench.perf.peers import mittens
from ptmbench.bench.perf.table import Table
from ptmbench.bench.perf.worker import Worker

PEERS = {"word2vec": "gensim", "cbow": "gensim", "glove": "mittens"}
TASKS = ("word_similarity", "word_analogy")
_CUT = re.compile(r"\w+|[^\w\s]").findall


def ours(settings: Mapping[str, Any], text: Any) -> Any:
    """Trains our side and returns its vectors, float32 [N, D], in the order of ids."""
    import keras
    import numpy as np

    from ptmbench.bench.engine.prefetch import prefetch

    seed, first = settings["seed"], int(text.ids.min())
    keras.utils.set_random_seed(seed)
    own = vectors.training(settings, text)
    batches = prefetch(lambda number: own.make(number, seed), 0)
    steps = math.ceil(settings["epochs"] * text.tokens / own.read)
    for number in range(steps):
        own.step(next(batches), (seed, number), settings["rate"] * (1 - number / steps))
    rows = np.arange(first, int(text.ids.max()) + 1, dtype=np.int32)
    parts = [rows[begin : begin + settings["length"]] for begin in range(0, len(rows), settings["length"])]
    return np.concatenate([own.network.encoder({"tokens": part[None]}).layers[0][0] for part in parts])


def theirs(peer: str, python: str, settings: Mapping[str, Any], folder: Path) -> Any:
    """Trains ``peer`` and returns its vectors like `ours`."""
    import numpy as np

    made = folder / "vectors.npy"
    made.unlink(missing_ok=True)
    with Worker(peer, peers.command(peer, python, {**settings, "vectors": str(made)})) as worker:
        worker.ask("train", 1)
    return np.load(made)


def tasks_in(data: Path) -> list[tuple[Any, list[Any]]]:
    """The `TASKS` whose data are in ``data``, with their examples. Raises `MissingData` if there are none."""
    from ptmbench import tasks

    found = [task for task in map(tasks.load, TASKS) if any((data / name).is_dir() for name in task.folders)]
    if not found:
        tasks.load(TASKS[0]).folder(data)  # raises MissingData
    return [(task, task.examples(data, task.report)) for task in found]


def score_vectors(asked: Sequence[tuple[Any, list[Any]]], words: Sequence[str], found: Any) -> dict[str, float]:
    """The headline metric of each task in ``asked`` (see `tasks_in`), with the vectors ``found`` [N, D] of ``words``.

    Other words have zero vectors.
    """
    import numpy as np

    from ptmbench.bench.adapt.words.network import Places, predictions, words_of
    from ptmbench.tasks.forms import Form

    number = {word: place for place, word in enumerate(words)}
    table = np.vstack([found, np.zeros_like(found[:1])])
    table /= np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-12)
    values = {}
    for task, examples in asked:
        spoken = words_of(task.form, examples)
        rows = table[[number.get(word.lower(), -1) for word in spoken]]
        place = {word: i for i, word in enumerate(spoken)}
        candidates = examples[0].gold.candidates if task.form is Form.ANALOGY else ()
        places = Places([[place[word] for word in e.inputs] for e in examples], [place[word] for word in candidates])
        gold = [example.gold for example in examples]
        values[task.name] = task.score(gold, predictions(task.form, examples, places, rows))["headline"]
    return values


def compare(
    names: Sequence[str],
    files: Sequence[Path],
    asked: Sequence[tuple[Any, list[Any]]],
    *,
    peer: Sequence[str],
    peer_python: str,
    seeds: int,
    epochs: int,
    rounds: int,
    iterations: int,
    **case: Any,
) -> Iterator[dict[str, Any]]:
    """Yields rows of the table as they are measured."""
    from ptmbench.models.objectives import glove

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        words = vectors.prepare(folder, files, _CUT)
        if "mittens" in peer and "glove" in names and len(words) > mittens.LARGEST:
            raise UsageError(
                f"The text has {len(words)} different words; mittens, which holds a table of all pairs, is asked up to "
                f"{mittens.LARGEST}. Give less text with --corpus, or leave --peer mittens out."
            )
        text = vectors.text_in(folder)
        for model in names:
            for by in ["ours", *(other for other in peer if other == PEERS[model])]:
                times = iterations if by == "mittens" else rounds if model == "glove" else epochs
                settings = {**case, **vectors.ALIKE, "model": model, "epochs": times, "data": place, "words": 1}
                if model == "glove":
                    settings["window"] = glove.WINDOW
                each: dict[str, list[float]] = {}
                for seed in range(seeds):
                    drawn = settings | {"seed": seed}
                    made = ours(drawn, text) if by == "ours" else theirs(by, peer_python, drawn, folder)
                    for task, value in score_vectors(asked, words, made).items():
                        each.setdefault(task, []).append(value)
                yield {"model": model, "by": by, "times": times} | {
                    task: f"{statistics.mean(v):.1f} +- {_deviation(v):.1f}" for task, v in each.items()
                }


def _deviation(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


COLUMNS = {
    "model": ("model", "{}"),
    "by": ("by", "{}"),
    "times": ("epochs", "{}"),
    "word_similarity": ("similarity, Spearman", "{}"),
    "word_analogy": ("analogies, % right", "{}"),
}


@click.command("questions")
@click.option("--data", type=Existing("data folder", folder=True), required=True, help="Folder with the questions.")
@click.option(
    "--corpus",
    multiple=True,
    type=Existing("corpus file"),
    help="Text in UTF-8, one sentence per line (default: the text that `run words` reads from the data folder).",
)
@click.option(
    "--peer",
    multiple=True,
    type=click.Choice(sorted(set(PEERS.values()))),
    help="Peer to measure in addition; may be repeated.",
)
@peers.interpreter
@click.option("--models", "names", default=",".join(PEERS), show_default=True, help="Models, separated by commas.")
@click.option("--epochs", type=COUNT, default=10, show_default=True, help="Number of epochs over the text.")
@click.option(
    "--rounds", type=COUNT, default=50, show_default=True, help="Number of epochs over GloVe's counts in ptmbench."
)
@click.option("--iterations", type=COUNT, default=1000, show_default=True, help="Number of iterations of mittens.")
@click.option("--seeds", type=SEEDS, default=3, show_default=True, help="Number of seeds per side.")
@click.option(
    "--rate", type=ABOVE_ZERO, default=0.1, show_default=True, help="Initial learning rate of Adagrad in ptmbench."
)
@click.option("--width", type=WIDTH, default=100, show_default=True, help="Dimension of the vectors.")
@click.option("--batch", type=BATCH, default=4, show_default=True, help="Rows per training step of ptmbench.")
@click.option("--length", type=LENGTH, default=128, show_default=True, help="Words per row in ptmbench.")
@click.option("--threads", type=THREADS, default=2, show_default=True, help="Number of threads.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def command(data: Path, corpus: tuple[Path, ...], peer: tuple[str, ...], names: str, as_json: bool, **case: Any) -> int:
    """Score word vectors on similarities and analogies.

    Trains the vectors here and with other programs, and prints a Markdown table.
    """
    chosen = names.split(",")
    if wrong := [name for name in chosen if name not in PEERS]:
        raise UsageError(f"`perf questions` trains {', '.join(PEERS)}, not '{wrong[0]}'.")
    environment.prepare(threads=case["threads"])
    if peer:
        peers.check(case["peer_python"], peer)
    from ptmbench.bench.data import corpora
    from ptmbench.bench.runs import suites

    asked = tasks_in(data)
    files = corpora.files_of(corpus, suites.load("words").corpus, data)
    table = Table(COLUMNS, as_json)
    for row in compare(chosen, files, asked, peer=peer, xla=False, **case):
        table.add(row)
    return OK
