"""Speed of tokenising a corpus, and its peak memory as the corpus grows.

    python -m ptmbench.bench.perf.corpus FILE... --megabytes 25 --megabytes 250

Makes text of each size in a temporary folder by repeating the documents of FILE... in random order. Two words in a
hundred are changed to new words: English adds about as many from 30 to 300 MB, by Heaps' law. Without new words, an
implementation with a table of known words would look too fast. Then both sides are measured in turns:

    ours    `data tokenise` in a separate process, with its workers: sentences, ids, word heads, shards, manifest
    peer    a loop over the same lines with encode_batch of the `tokenizers` package: ids, kept in memory

Rates are in MB (10^6 bytes of text) per second of wall time and of processor time. Processor time varies less if the
machine does other work. Memory is the largest resident set of the command and of its largest worker, measured ten times
per second.
"""

import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import click

from ptmbench.bench import environment
from ptmbench.bench.commands.options import COUNT, JOBS, Existing
from ptmbench.bench.errors import OK
from ptmbench.bench.perf.table import Table

NEW_WORDS = 0.02
COLUMNS = {
    "megabytes": ("MB", "{:.0f}"),
    "training": ("vocabulary MB/s", "{:.2f}"),
    "ours": ("ours MB/s", "{:.2f}"),
    "peer": ("peer MB/s", "{:.2f}"),
    "ratio": ("x peer", "{:.2f}"),
    "ours_cpu": ("ours MB/cpu s", "{:.2f}"),
    "peer_cpu": ("peer MB/cpu s", "{:.2f}"),
    "ratio_cpu": ("x peer", "{:.2f}"),
    "parent": ("parent MB", "{:.0f}"),
    "worker": ("worker MB", "{:.0f}"),
    "terabyte": ("core hours per TB", "{:.0f}"),
}


def main(
    files: Sequence[Path], megabytes: Sequence[int], *, rounds: int = 3, processes: int | None = None
) -> Iterator[dict[str, Any]]:
    """Yields one row of `COLUMNS` per size: medians over ``rounds`` turns of each side, and the peak memory of all
    turns."""
    from ptmbench.models.text.corpus import train_tokenizer

    with tempfile.TemporaryDirectory(prefix="ptmbench-perf-") as name:
        folder = Path(name)
        for size in megabytes:
            text = make(files, folder / f"{size}.jsonl", size)
            actual = text.stat().st_size / 1e6
            began = time.perf_counter()
            train_tokenizer([text], "wordpiece", 8000)
            training = actual / (time.perf_counter() - began)
            like = folder / "like"
            tokenise([*files], like, [])
            ours, peers = [], []
            for turn in range(rounds):
                out = folder / f"out-{size}-{turn}"
                ours.append(tokenise([text], out, ["--like", str(like)], processes))
                peers.append(peer(text, like / "tokenizer.json"))
            text.unlink()
            wall, cpu, parent, worker = zip(*ours, strict=True)
            peer_wall, peer_cpu = zip(*peers, strict=True)
            yield {"megabytes": actual, "training": training, "parent": max(parent), "worker": max(worker)} | _rates(
                actual, wall, cpu, peer_wall, peer_cpu
            )


def make(files: Sequence[Path], path: Path, megabytes: int) -> Path:
    """Writes about ``megabytes`` of JSON lines to ``path``. The same files and size always give the same text."""
    from ptmbench.models.text.corpus import read

    draw = random.Random(0)
    documents = ["\n".join(document) for document in read(files)]
    written = 0
    with path.open("w", encoding="utf-8") as out:
        while written < megabytes * 1e6:
            draw.shuffle(documents)
            for document in documents:
                written += out.write(json.dumps({"text": _altered(document, draw)}, ensure_ascii=False) + "\n")
                if written >= megabytes * 1e6:
                    break
    return path


def _altered(document: str, draw: random.Random) -> str:
    words = document.split(" ")
    for place in draw.choices(range(len(words)), k=round(NEW_WORDS * len(words))):
        words[place] += "".join(draw.choices("aeinorst", k=6))
    return " ".join(words)


def tokenise(
    files: Sequence[Path], out: Path, options: Sequence[str], processes: int | None = None
) -> tuple[float, float, float, float]:
    """Runs `data tokenise`. Returns the seconds of wall time and of processor time, and the peak memory in MB of the
    command and of its largest worker."""
    import psutil

    named = [str(path.resolve()) for path in files]  # the command runs in another folder
    command = [sys.executable, "-m", "ptmbench", "data", "tokenise", *named, "--out", str(out), *options]
    command += ["--processes", str(processes)] if processes else []
    before, began = _children_seconds(), time.perf_counter()
    worker = subprocess.Popen(command, cwd=environment.ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    watched, parent, largest = psutil.Process(worker.pid), 0, 0
    while worker.poll() is None:
        try:
            parent = max(parent, watched.memory_info().rss)
            largest = max([largest, *(child.memory_info().rss for child in watched.children(recursive=True))])
        except psutil.Error:
            continue  # a process has just ended
        time.sleep(0.1)
    if worker.returncode:
        raise subprocess.CalledProcessError(worker.returncode, command)
    return time.perf_counter() - began, _children_seconds() - before, parent / 1e6, largest / 1e6


def peer(text: Path, tokenizer: Path) -> tuple[float, float]:
    """The seconds of wall time and of processor time that encode_batch takes for the lines of ``text``, 1000 per
    call."""
    import numpy as np
    import tokenizers

    impl = tokenizers.Tokenizer.from_str(json.dumps(json.loads(tokenizer.read_text())["tokenizer"]))
    began, began_cpu = time.perf_counter(), time.process_time()
    ids = []
    with text.open(encoding="utf-8") as file:
        lines = (line for row in file for line in json.loads(row)["text"].splitlines())
        while batch := list(islice(lines, 1000)):
            ids += [
                np.array(encoding.ids, np.uint16) for encoding in impl.encode_batch(batch, add_special_tokens=False)
            ]
    return time.perf_counter() - began, time.process_time() - began_cpu


def _rates(megabytes: float, *seconds: Sequence[float]) -> dict[str, float]:
    """The columns of speed. ``seconds`` are those of all turns: our wall time and processor time, then the peer's."""
    ours, ours_cpu, peer, peer_cpu = (megabytes / statistics.median(turns) for turns in seconds)
    return {
        "ours": ours,
        "peer": peer,
        "ratio": ours / peer,
        "ours_cpu": ours_cpu,
        "peer_cpu": peer_cpu,
        "ratio_cpu": ours_cpu / peer_cpu,
        "terabyte": 1e6 / ours_cpu / 3600,
    }


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@click.command("corpus")
@click.argument("files", type=Existing("corpus file"), nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--megabytes",
    type=COUNT,
    multiple=True,
    default=(25, 250),
    show_default=True,
    help="Sizes of text; may be repeated.",
)
@click.option("--rounds", type=COUNT, default=3, show_default=True, help="Number of timed rounds per side.")
@click.option("--processes", type=JOBS, help="Processes of ptmbench (default: one per core).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def command(
    files: tuple[Path, ...], megabytes: tuple[int, ...], rounds: int, processes: int | None, as_json: bool
) -> int:
    """Measure the speed and memory of tokenising a corpus.

    The corpus is made from FILE.... The peer is the `tokenizers` package. Prints a Markdown table.
    """
    table = Table(COLUMNS, as_json)
    for row in main(files, megabytes, rounds=rounds, processes=processes):
        table.add(row)
    return OK


if __name__ == "__main__":
    command()
