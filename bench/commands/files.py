"""Commands that read and write files: ``score``, ``record``, ``predict``, ``encode``, ``diagnose``, ``board``."""

import json
import math
from pathlib import Path
from typing import Any

import click

from ptmbench.bench import environment
from ptmbench.bench.commands.options import ABOVE_ZERO, BATCH, SEED, Existing, Location, Name, Number
from ptmbench.bench.errors import OK, UsageError
from ptmbench.bench.keywords import built
from ptmbench.bench.options import PredictOptions

FORMATS = ("markdown", "csv", "json", "latex", "every-eval-ever")
"""The formats of `leaderboard.board.text`. Listed here, because that module is imported only when the command runs."""


@click.command()
@click.argument("task", type=Name("tasks"))
@click.option("--gold", type=Existing("gold file"), required=True, help="Official file with the answers.")
@click.option(
    "--predictions",
    type=Existing("file of predictions"),
    required=True,
    help="Predictions in the task's official format (see `info TASK`), or as `predict` writes them.",
)
@click.option(
    "--na-prob-file",
    "no_answer",
    type=Existing("file of no-answer scores"),
    help="SQuAD 2.0 only: JSON file {question id: no-answer score}, as the official script reads it.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def score(task: str, gold: Path, predictions: Path, no_answer: Path | None, as_json: bool) -> None:
    """Score a file of predictions of TASK, with the same result as the official scorer."""
    from ptmbench.bench.scoring.score_files import score as work

    values = work(task, gold, predictions, no_answer)
    if as_json:
        click.echo(dumps(values))
        return
    width = max(len(name) for name in values)
    for name, value in values.items():
        click.echo(f"{name:<{width}}  {value:.6g}" if isinstance(value, float) else f"{name:<{width}}  {value}")


@click.command()
@click.argument("task", type=Name("tasks"))
@click.option(
    "--predictions",
    type=Existing("file of predictions"),
    required=True,
    help="Predictions for the reported split, in a format that `score` reads.",
)
@click.option("--name", required=True, help="Name of the system on the board.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed that the system was trained with.")
@click.option("--out", type=Location("folder"), required=True, help="Run folder to write the record to.")
@click.option("--data", type=Existing("data folder", folder=True), help="Data folder (default: the microworld).")
@click.option(
    "--fixed", is_flag=True, help="The system is fixed and has no other seeds: `gate` then compares one seed."
)
@click.option(
    "--parameters", type=Number(min=1, max=1e15), help="Number of parameters of the system; shown as declared."
)
@click.option("--flops", type=ABOVE_ZERO, help="FLOPs of the system's whole training; shown as declared.")
@click.option("--note", help="Note about the system, one line; shown as declared.")
def record(**options: Any) -> int:
    """Record predictions of TASK that were made elsewhere.

    They are scored as `score` does, and sealed as a record of the external division. Records of several seeds give an
    interval over seeds. `board`, `gate` and `accept` read them like all other records.
    """
    environment.prepare()
    from ptmbench.bench.runs.external.options import RecordOptions
    from ptmbench.bench.runs.external.predictions import record as work

    click.echo(work(RecordOptions(**options)))
    return OK


@click.command()
@click.argument("checkpoints", metavar="CHECKPOINT...", type=Existing("checkpoint"), nargs=-1, required=True)
@click.option("--split", default="test", show_default=True, help="Split to predict.")
@click.option("--data", type=Existing("data folder", folder=True), help="Data folder (required).")
@click.option(
    "--out",
    type=Location("folder"),
    required=True,
    help="Output folder; for GLUE and SuperGLUE, a zip file for the server is written too.",
)
def predict(**options: Any) -> int:
    """Predict a split with adapted checkpoints, which `run --keep` writes.

    Writes lines {"id": ..., "prediction": ...}, which `score` reads. For the test splits of GLUE and SuperGLUE, also
    writes the zip file that the server takes.
    """
    environment.prepare()
    from ptmbench.bench.runs.predict import predict as work

    work(built(PredictOptions, options))
    return OK


@click.command()
@click.argument("checkpoint", type=Existing("checkpoint"))
@click.option(
    "--input", "source", type=Existing("input file"), required=True, help="Text file with one example per line."
)
@click.option(
    "--out",
    type=Location("file"),
    required=True,
    help="Output file (.npz): pooled, the vector of each line; tokens, the vectors of all tokens; offsets, the first "
    "token of each line; ids.",
)
@click.option("--batch", type=BATCH, default=32, show_default=True, help="Lines per batch.")
def encode(**options: Any) -> int:
    """Write the hidden states that CHECKPOINT computes for each line of a text file."""
    environment.prepare()
    from ptmbench.bench.runs.predict import encode as work

    return work(**options)


@click.command()
@click.argument(
    "checkpoints", metavar="CHECKPOINT...", type=Existing("checkpoint", folder=True), nargs=-1, required=True
)
@click.option(
    "--corpus",
    type=Existing("corpus"),
    multiple=True,
    required=True,
    help="Text to measure on: files or folders. Where held-out text lies next to it, this is used instead.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list.")
def diagnose(checkpoints: tuple[Path, ...], corpus: tuple[Path, ...], as_json: bool) -> int:
    """Show why pre-trained checkpoints score low, from text alone.

    Prints the loss, the effective rank of the vectors of tokens (near 1: the encoder has collapsed) and, for
    encoder-decoders, the source gain: the loss with the source of another row minus the loss with the own source, in
    nats (near 0: the decoder ignores its source).
    """
    from ptmbench.bench.runs import diagnose as work

    lines = work.diagnose(checkpoints, corpus)
    click.echo(dumps(lines) if as_json else work.table(lines))
    return OK


@click.command()
@click.argument("folders", metavar="FOLDER...", type=Existing("run folder", folder=True), nargs=-1, required=True)
@click.option("--out", type=Location("folder"), help="Output folder of the pages (default: print the tables).")
@click.option("--format", "form", type=click.Choice(FORMATS), help="Print the tables in this format.")
@click.option("--exports", is_flag=True, help="With --out: write files of every export format to OUT/exports.")
@click.option(
    "--data",
    type=Existing("data folder", folder=True),
    help="With --out: data folder whose texts are shown with the predictions. Do not publish such a board.",
)
def board(folders: tuple[Path, ...], out: Path | None, form: str | None, exports: bool, data: Path | None) -> None:
    """Build the board from the records below FOLDER....

    With --out, writes a static page, or one page per run for a folder of runs. Otherwise prints tables.
    """
    from ptmbench.bench.runs.catalogue import catalogue
    from ptmbench.bench.runs.texts import reader
    from ptmbench.leaderboard import board as work

    if exports and out is None:
        raise UsageError("--exports writes files, so it needs --out, the folder to write them to.")
    if data is not None and out is None:
        raise UsageError("--data shows texts on the page, so it needs --out, the folder to write the page to.")
    if out is not None:
        page = work.build(list(folders), out, catalogue(), reader(list(folders), data))
        click.echo(page, err=form is not None)
        if exports:
            click.echo(work.write_exports(list(folders), out), err=form is not None)
    if form is not None or out is None:
        click.echo(work.text(list(folders), form or "markdown"), nl=False)


def dumps(value: Any) -> str:
    """Converts ``value`` to JSON. Numbers that are not finite become "nan", "inf" or "-inf", since JSON has no NaN."""
    return json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, indent=2, default=_plain)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _plain(value: Any) -> Any:
    """Converts a NumPy scalar to a Python number, and any other value (such as a path) to text."""
    return _finite(value.item()) if hasattr(value, "item") else str(value)
