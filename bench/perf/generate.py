"""Tokens per second of beam search, ours and a peer's, measured in turns in one run.

    ptmbench perf generate --peer transformers [--models t5,bart --sizes mini] [--peer-python PYTHON]

Both sides have the same encoder-decoder with the same weights, written in the layout of `ptmbench export`. The weights
are random, with added noise that makes them far from uniform. Both sides generate for the same sources with the same
beam, length penalty, stopping rule and maximum length, with a cache. So they should also generate the same texts: the
table has the share of equal texts. Tokens per second count the tokens of the best texts, not of other hypotheses.
"""

import itertools
import json
import statistics
import sys
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from ptmbench import models
from ptmbench.bench import environment
from ptmbench.bench.commands.options import BATCH, BEAM, COUNT, LENGTH, VOCABULARY
from ptmbench.bench.errors import OK, UsageError
from ptmbench.bench.perf import peer as peers
from ptmbench.bench.perf.table import Table
from ptmbench.bench.perf.worker import Worker, interleave, serve
from ptmbench.models.text.tokenizers import Vocabulary

MODELS = ("t5", "bart")


def prepare(folder: Path, case: dict[str, Any]) -> None:
    """Writes the network to ``folder`` in a layout that both sides read, and ``sources.json``, rows of half to full
    length."""
    import numpy as np

    from ptmbench.bench.engine import networks
    from ptmbench.models.published import folder as published
    from ptmbench.models.text.tokenizers import Tokenizer

    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdefghijklmnop"), 5)) for _ in range(2 * case["vocabulary"])]
    tokenizer = Tokenizer.train("wordpiece", [" ".join(words)], case["vocabulary"])
    size = networks.sized(models.load(case["model"]), case["size"], case["length"])
    network = networks.build(case["model"], size, tokenizer, 0)
    arrays = networks.weights(network.loss.variables)
    arrays = {path: a + rng.normal(0.0, 0.1, a.shape).astype(np.float32) for path, a in arrays.items()}
    published.write(folder, model=case["model"], size=size, tokenizer=tokenizer, arrays=arrays)
    vocabulary = tokenizer.vocabulary
    rows = []
    for _ in range(case["batch"]):
        count = int(rng.integers(case["length"] // 2, case["length"] + 1))
        text = rng.integers(vocabulary.first, vocabulary.size, count - 2).tolist()
        rows.append([vocabulary.cls, *text, vocabulary.sep] + [vocabulary.pad] * (case["length"] - count))
    (folder / "sources.json").write_text(json.dumps(rows))


def compare(
    names: Sequence[str],
    sizes: Sequence[str],
    *,
    peer: str | None,
    python: str,
    rounds: int,
    seconds: float,
    **case: Any,
) -> Iterator[dict[str, Any]]:
    """Yields rows of the table as they are measured. ``ratio`` is the median over rounds of the peer's seconds divided
    by those of the row, ``equal`` the share of sources with the same text as the peer's."""
    for model, size in itertools.product(names, sizes):
        with tempfile.TemporaryDirectory() as place:
            settings = {**case, "model": model, "size": size, "folder": place}
            prepare(Path(place), settings)
            workers = [Worker("ours", [sys.executable, "-m", "ptmbench.bench.perf.generate", json.dumps(settings)])]
            if peer:
                workers.append(Worker(peer, peers.command("generate", python, settings)))
            interleave(workers, rounds, seconds, jobs=("write",))
        theirs = workers[-1]
        for worker in workers:
            each, written = worker.seconds["write"], worker.answer["value"]
            same = [a == b for a, b in zip(written["texts"], theirs.answer["value"]["texts"], strict=True)]
            turns = zip(each, theirs.seconds["write"], strict=True)
            yield {
                "model": f"{model}-{size}",
                "by": worker.name,
                "seconds": statistics.median(each),
                "low": min(each),
                "high": max(each),
                "tokens_per_second": written["tokens"] / statistics.median(each),
                "equal": statistics.mean(same) if peer else None,
                "ratio": statistics.median(other / own for own, other in turns) if peer else None,
            }


def main(argument: str) -> None:
    """Runs the worker of our side, whose job generates for all sources. ``argument`` is a case of `compare` as JSON."""
    settings = json.loads(argument)
    environment.prepare(threads=settings["threads"])
    import numpy as np

    from ptmbench.bench.engine import networks
    from ptmbench.bench.engine.generate import Generator, Writing
    from ptmbench.models.published import folder as published

    found = published.read(Path(settings["folder"]))
    network = networks.build(found.model, found.size, found.tokenizer, 0)
    arrays, _, _ = found.weights({v.path: tuple(v.shape) for v in network.loss.variables})
    networks.assign(network.loss.variables, arrays)
    network.encoder.dropout = 0.0
    generator = Generator(network, found.tokenizer.vocabulary, Writing(beam=settings["beam"]))
    sources = np.array(json.loads((Path(settings["folder"]) / "sources.json").read_text()), np.int32)

    def write() -> dict[str, Any]:
        rows = [[int(id) for id in ids if id] for ids in generator(sources, settings["tokens"]).ids[:, 0]]
        return {"tokens": sum(map(len, rows)), "texts": [zlib.crc32(str(row).encode()) for row in rows]}

    serve({"write": write})


COLUMNS = {
    "model": ("model", "{}"),
    "by": ("by", "{}"),
    "seconds": ("s/batch", "{:.3f}"),
    "low": ("fastest", "{:.3f}"),
    "high": ("slowest", "{:.3f}"),
    "tokens_per_second": ("tokens/s", "{:.0f}"),
    "equal": ("same texts", "{:.0%}"),
    "ratio": ("x peer", "{:.2f}"),
}


def _writes(name: str) -> bool:
    module = models.load(name)
    return module.describe(module.SIZES["tiny"], Vocabulary(size=1000)).writes


@click.command("generate")
@peers.peer_option("transformers")
@click.option(
    "--models", "names", default=",".join(MODELS), show_default=True, help="Encoder-decoders, separated by commas."
)
@click.option("--sizes", default="mini", show_default=True, help="Sizes, separated by commas.")
@click.option("--batch", type=BATCH, default=16, show_default=True, help="Number of sources per batch.")
@click.option("--length", type=LENGTH, default=64, show_default=True, help="Length of the longest source in tokens.")
@click.option(
    "--tokens", type=COUNT, default=48, show_default=True, help="Maximum length of a generated text in tokens."
)
@click.option("--beam", type=BEAM, default=4, show_default=True, help="Number of hypotheses per source.")
@click.option("--vocabulary", type=VOCABULARY, default=8192, show_default=True, help="Number of token ids.")
@peers.turns
def command(peer: str | None, peer_python: str, names: str, sizes: str, as_json: bool, **shape: Any) -> int:
    """Measure tokens per second of beam search.

    Prints a Markdown table.
    """
    environment.prepare()
    chosen = names.split(",")
    if silent := [name for name in chosen if not _writes(name)]:
        raise UsageError(f"`perf generate` takes models with a decoder, such as {MODELS[0]}; '{silent[0]}' has none.")
    if peer:
        peers.check(peer_python)
    table = Table(COLUMNS, as_json)
    for row in compare(chosen, sizes.split(","), peer=peer, python=peer_python, **shape):
        table.add(row)
    return OK


if __name__ == "__main__":
    main(sys.argv[1])
