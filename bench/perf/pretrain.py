"""Tokens per second of pre-training, ours and a peer's, measured in turns in one run.

    ptmbench perf pretrain --peer transformers [--models bert,gpt --sizes tiny,mini] [--peer-python PYTHON]
    ptmbench perf pretrain --peer keras_hub

Both sides train the same network on the same shape of batch in float32 without dropout, with AdamW and clipping. The
remaining differences are printed below the table (`PEERS`). FLOPs follow from the model's formula (`training_flops`),
which counts only the necessary operations: a peer that computes more for the same loss gets no credit for it. The peak
of the machine is the fastest product of two 2048 x 2048 matrices that either library reached in the same run.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import click

from ptmbench import models
from ptmbench.bench import environment
from ptmbench.bench.commands.options import BATCH, LENGTH, VOCABULARY
from ptmbench.bench.errors import OK, UsageError
from ptmbench.bench.perf import peer as peers
from ptmbench.bench.perf.table import Table
from ptmbench.bench.perf.worker import Worker, interleave, ours
from ptmbench.models.text.tokenizers import Vocabulary

_LOGITS = "scores of the vocabulary at every position, where ours are taken only where one is asked for"
PEERS = {
    "transformers": {
        "bert": _LOGITS,
        "gpt": "GPT-2's class, with torch's fused attention",
        "electra": _LOGITS,
        "elmo": "two of torch's LSTMs with projection",
        "lm_lstm": "torch's LSTM",
        "t5": "the same network",
    },
    "keras_hub": {
        "bert": "BertMaskedLM: no next-sentence prediction, GELU in the tanh form",
        "gpt2": "GPT2CausalLM: attention across the documents of a row, where ours has a mask",
        "albert": "AlbertMaskedLM: no sentence-order prediction",
        "t5": "T5Seq2SeqLM: the same network",
        "bart": "BartSeq2SeqLM: the same network",
    },
}
"""The models of each peer, and how a peer's step differs from ours."""
_NEEDED = {"transformers": ("torch", "transformers"), "keras_hub": ("tensorflow", "keras_hub")}
_COMPILED = ("keras_hub",)
"""Peers that are measured both as a graph and compiled by XLA, like our side."""


def settings_of(model: str, size: str, batch: int, length: int, vocabulary: int, threads: int) -> dict[str, Any]:
    """The settings of one case for both workers: shapes, "flops" per step, and details of some models."""
    from ptmbench.bench.engine.networks import sized
    from ptmbench.models.objectives import mlm

    module, words = models.load(model), Vocabulary(size=vocabulary)
    shape = sized(module, size, length)
    described = module.describe(shape, words)
    settings = {
        "model": model,
        "size": size,
        "batch": batch,
        "length": length,
        "vocabulary": vocabulary,
        "threads": threads,
        "positions": shape.length,
        **{name: getattr(shape, name) for name in ("layers", "width", "heads", "inner")},
        "flops": described.training_flops(length) * batch,
    }
    if model == "electra":
        settings["generator"] = asdict(module.generator(shape))
    if model in ("bert", "albert"):
        settings["masked"] = mlm.slots(length)
    if model == "albert":
        settings["embedding"] = module.embedding(shape)
    if model == "bart":  # a text between [CLS] and [SEP]; the decoder never reads the last token
        settings["targets"] = int(described.targets(length - 2)) + 1
    if model == "t5":
        from ptmbench.models.objectives.seq2seq_mlm import plan

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
    """Yields rows of the table as they are measured: for each model and size our step as a graph, our step compiled by
    XLA, and the peer's step.

    ``seconds`` is the median over ``rounds`` turns, ``low`` and ``high`` are the extremes. ``ratio`` is the tokens per
    second of a row divided by those of the peer's faster variant. ``processor`` and ``processor_ratio`` are the same
    for processor time, which depends less on other load on the machine.
    """
    for model, size in itertools.product(names, sizes):
        case = settings_of(model, size, batch, length, vocabulary, threads)
        workers = [ours("ours", case | {"xla": False}), ours("ours, XLA", case | {"xla": True})]
        own = len(workers)
        if peer:
            workers.append(Worker(peer, peers.command(peer, python, case | {"xla": False})))
        if peer in _COMPILED:
            workers.append(Worker(f"{peer}, XLA", peers.command(peer, python, case | {"xla": True})))
        interleave(workers, rounds, seconds)
        theirs = min((worker.median("step") for worker in workers[own:]), default=None)
        used = min((worker.median_processor("step") for worker in workers[own:]), default=None)
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
                "ratio": theirs / step if theirs else None,
                "processor": worker.median_processor("step"),
                "processor_ratio": used / worker.median_processor("step") if used else None,
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
    "share_of_peak": ("share of it", "{:.0%}"),
    "ratio": ("x peer", "{:.2f}"),
    "processor": ("CPU s/step", "{:.3f}"),
    "processor_ratio": ("x peer, by CPU", "{:.2f}"),
}


@click.command("pretrain")
@peers.peer_option(*PEERS)
@click.option(
    "--models", "names", help="Models, separated by commas (default: all of the peer's; those of transformers)."
)
@click.option("--sizes", default="mini", show_default=True, help="Sizes, separated by commas.")
@click.option("--batch", type=BATCH, default=32, show_default=True, help="Sequences per step.")
@click.option("--length", type=LENGTH, default=128, show_default=True, help="Tokens per sequence.")
@click.option("--vocabulary", type=VOCABULARY, default=8192, show_default=True, help="Number of token ids.")
@peers.turns
def command(peer: str | None, peer_python: str, names: str | None, sizes: str, as_json: bool, **shape: Any) -> int:
    """Measure tokens per second of pre-training steps.

    Prints a Markdown table.
    """
    environment.prepare()
    known = PEERS[peer or "transformers"]
    chosen = names.split(",") if names else list(known)
    if peer:
        if wrong := next((name for name in chosen if name not in known), None):
            raise UsageError(f"{peer} has no {wrong!r} to compare with. Choose from {', '.join(known)}.")
        peers.check(peer_python, _NEEDED[peer])
    table = Table(COLUMNS, as_json)
    for row in compare(chosen, sizes.split(","), peer=peer, python=peer_python, **shape):
        table.add(row)
    if peer and not as_json:
        click.echo()
        for name in chosen:
            click.echo(f"{peer}'s {name}: {known[name]}.")
    return OK
