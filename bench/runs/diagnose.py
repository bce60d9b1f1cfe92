"""Diagnoses pre-trained checkpoints from text alone: does the encoder tell tokens apart, does the decoder read?"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ptmbench import models
from ptmbench.bench import environment
from ptmbench.bench.console import progress, say
from ptmbench.bench.data import corpora
from ptmbench.bench.engine import checkpoint
from ptmbench.bench.engine.checkpoint import CheckpointError
from ptmbench.models.card import Size
from ptmbench.models.text.pieces import CorpusUnfit
from ptmbench.models.text.tokenizers import Tokenizer

LENGTH = 64
"""Tokens per row for a checkpoint without a recipe in its manifest, such as a published one."""
HEADER = ("checkpoint", "loss", "effective rank", "width", "source gain")
_DECIMALS = {"loss": 3, "effective rank": 1, "source gain": 3}


def diagnose(folders: Sequence[Path], corpus: Sequence[Path]) -> list[dict[str, Any]]:
    """Measures each checkpoint with `bench.engine.diagnosis` and returns a dict with the keys of `HEADER` for each.

    The text is the held-out text next to ``corpus`` or, without one, a sample of ``corpus``. Loss and source gain are
    None for a published checkpoint, which may lack the heads of its objective; for a student, whose loss needs its
    teacher; and on text that lacks the annotations of the objective. The source gain is also None without a decoder
    that reads a source. Raises `CheckpointError` for a checkpoint that is not pre-trained.
    """
    environment.prepare()
    files = tuple(map(str, corpora.files_of(corpus, (), None)))
    lines = []
    with progress("diagnose", len(folders), "checkpoints", brief=True) as bar:
        for folder in folders:
            lines.append(_diagnosed(folder, files))
            bar.advance()
    return lines


def _diagnosed(folder: Path, files: tuple[str, ...]) -> dict[str, Any]:
    from ptmbench.bench.engine import diagnosis, held_out, networks

    found = checkpoint.read(folder)
    about = found.about
    if about["kind"] != "pretrained":
        raise CheckpointError(f"{folder} is adapted to a task. Give the checkpoint of a pre-training.")
    module, shape = models.load(about["model"]), Size(**about["shape"])
    tokenizer = Tokenizer.load(found.path("tokenizer.json"))
    network = networks.build(about["model"], shape, tokenizer, 0)
    networks.assign(network.loss.variables, found.arrays())
    length = min(about.get("recipe", {}).get("length", LENGTH), shape.length)
    text = corpora.measured_on(files, tokenizer) or corpora.sample(files, tokenizer)
    vectors = diagnosis.token_vectors(network, text, length, tokenizer.vocabulary.template)
    loss = gain = None
    if "recipe" in about and not hasattr(module, "TEACHER"):
        try:
            loss = held_out.measured(network, text, length)["loss"]
            gain = diagnosis.source_gain(network, text, length, module.CARD.reads, loss)
        except CorpusUnfit as error:
            say(f"{folder.name}: no loss was measured. {error}")
    values = (folder.name, loss, diagnosis.effective_rank(vectors), vectors.shape[1], gain)
    return dict(zip(HEADER, values, strict=True))


def table(lines: Sequence[dict[str, Any]]) -> str:
    """Formats ``lines`` as a text table with the columns of `HEADER`; "-" stands for values that were not measured."""
    rows = [HEADER, *([_shown(name, line[name]) for name in HEADER] for line in lines)]
    first, *others = (max(map(len, column)) for column in zip(*rows, strict=True))
    return "\n".join(
        f"{row[0]:<{first}}" + "".join(f"  {cell:>{size}}" for cell, size in zip(row[1:], others, strict=True))
        for row in rows
    )


def _shown(name: str, value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.{_DECIMALS[name]}f}" if name in _DECIMALS else str(value)
