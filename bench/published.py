"""Checkpoints of others become ours, and ours theirs; which layouts there are is the business of `models.published`."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import models
from bench import checkpoint
from bench.checkpoint import CheckpointError
from bench.console import say
from bench.engine import networks
from bench.errors import OK, UsageError
from models.card import Size
from models.published import PublishedError
from models.published import folder as folders
from models.tokenizers import Tokenizer

_SHOWN = 4  # names in a message
_MORE = 4
"""Weights that a network may have for each byte of a folder: heads may be missing, but not most of it."""


def import_folder(*, folder: Path, out: Path, name: str | None = None) -> int:
    """Write the published model in ``folder`` as the checkpoint ``out``; weights of the objective that it lacks begin
    afresh, from seed 0."""
    if (out / checkpoint.MANIFEST).exists():
        raise UsageError(f"{out} holds a finished checkpoint already. Give another --out, or delete it.")
    checkpoint.check_free(out)
    found = folders.read(folder)
    module, vocabulary = models.load(found.model), found.tokenizer.vocabulary
    parameters, embedding = module.parameters(found.size, vocabulary)
    if parameters > _MORE * found.stored:
        raise PublishedError(
            f"{folder / 'config.json'} tells of {parameters:,} weights, but the files of weights hold {found.stored:,} "
            "bytes. Are both from one model?"
        )
    network = networks.build(found.model, found.size, found.tokenizer, 0)
    arrays = networks.weights(network.loss.variables)
    read, absent, unused = found.weights({path: array.shape for path, array in arrays.items()})
    if broken := [path for path, array in read.items() if not np.isfinite(array).all()]:
        raise PublishedError(
            f"{folder} holds weights that are NaN or infinite (here {_some(broken)}): its model diverged, or was saved "
            "in a precision that cannot hold it."
        )
    if absent:
        say(f"Not in the folder, so the objective's weights begin afresh: {_some(absent)}.")
    if unused:
        say(f"In the folder, but of no use here: {_some(unused)}.")
    unknown: dict[str, Any] = dict.fromkeys(("seed", "steps", "tokens", "flops", "seconds", "loss", "corpus_sha256"))
    about = unknown | {
        "kind": "pretrained",
        "division": "published",
        "name": name or folder.resolve().name,
        "model": found.model,
        "size": _size_name(module, found.size),
        "shape": asdict(found.size),
        "corpus": "published",
        "source": {"folder": folder.resolve().name, "sha256": found.sha256, "config": dict(found.config)},
        "afresh": absent,
        "parameters": parameters,
        "parameters_embedding": embedding,
        "tokenizer": found.tokenizer.about,
    }
    texts = {"tokenizer.json": found.tokenizer.to_json()}
    checkpoint.write(out, about=about, arrays={"weights": arrays | read}, texts=texts)
    say(f"{module.CARD.title}, {parameters:,} weights, {vocabulary.size:,} pieces.")
    print(out)
    return OK


def export_checkpoint(*, checkpoint: Path, out: Path) -> int:
    """Write the pre-trained model in ``checkpoint`` in the layout of `models.published`."""
    from bench.checkpoint import read

    found = read(checkpoint)
    if found.about.get("kind") != "pretrained":
        raise CheckpointError(
            f"{checkpoint} holds a model that is {found.about.get('kind')}, not pretrained, "
            "and layouts of heads are not written."
        )
    folders.write(
        out,
        model=found.about["model"],
        size=Size(**found.about["shape"]),
        tokenizer=Tokenizer.load(found.path("tokenizer.json")),
        arrays=found.arrays(),
    )
    print(out)
    return OK


def _size_name(module: Any, size: Size) -> str:
    """What the model's file calls such a shape, whatever its length, or "LAYERSxWIDTH"."""
    same = (
        name for name, known in module.SIZES.items() if asdict(known) | {"length": 0} == asdict(size) | {"length": 0}
    )
    return next(same, f"{size.layers}x{size.width}")


def _some(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
