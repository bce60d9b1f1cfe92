"""Imports published checkpoints and exports ours. `models.published` knows the file layouts."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ptmbench import models
from ptmbench.bench.console import say
from ptmbench.bench.engine import checkpoint, networks
from ptmbench.bench.engine.checkpoint import CheckpointError
from ptmbench.bench.errors import OK, UsageError
from ptmbench.models.card import Size
from ptmbench.models.published import PublishedError, vectors
from ptmbench.models.published import folder as folders
from ptmbench.models.text.tokenizers import Tokenizer

_SHOWN = 4  # names in a message
_MORE = 4
"""Maximum number of the network's weights per stored byte: heads may be missing, but not most of the network."""


def import_(
    *, source: Path, out: Path, name: str | None = None, model: str | None = None, vocabulary: int | None = None
) -> int:
    """Writes the published model in ``source`` as the checkpoint ``out``. ``source`` is a folder, or a file of word
    vectors, whose first ``vocabulary`` words become ``model``. Missing weights of the objective are initialised with
    seed 0."""
    if (out / checkpoint.MANIFEST).exists():
        raise UsageError(f"{out} holds a finished checkpoint already. Give another --out, or delete it.")
    checkpoint.check_free(out)
    found = _read(source, model, vocabulary)
    module, words = models.load(found.model), found.tokenizer.vocabulary
    parameters, embedding = module.describe(found.size, words).parameters()
    if source.is_dir() and parameters > _MORE * found.stored:
        raise PublishedError(
            f"{source / 'config.json'} tells of {parameters:,} weights, but the files of weights hold {found.stored:,} "
            "bytes. Are both from one model?"
        )
    network = networks.build(found.model, found.size, found.tokenizer, 0)
    arrays = networks.weights(network.loss.variables)
    read, absent, unused = found.weights({path: array.shape for path, array in arrays.items()})
    if broken := [path for path, array in read.items() if not np.isfinite(array).all()]:
        raise PublishedError(
            f"{source} holds weights that are NaN or infinite (here {_some(broken)}): its model diverged, or was saved "
            "in a precision that cannot hold it."
        )
    if absent:
        say(f"Not there, so the objective's weights begin afresh: {_some(absent)}.")
    if unused:
        say(f"There, but of no use here: {_some(unused)}.")
    unknown: dict[str, Any] = dict.fromkeys(("seed", "steps", "tokens", "flops", "seconds", "loss", "corpus_sha256"))
    about = unknown | {
        "kind": "pretrained",
        "division": "published",
        "name": name or source.resolve().name,
        "model": found.model,
        "size": _size_name(module, found.size),
        "shape": asdict(found.size),
        "corpus": "published",
        "source": {"folder": source.resolve().name, "sha256": found.sha256, "config": dict(found.config)},
        "afresh": absent,
        "parameters": parameters,
        "parameters_embedding": embedding,
        "tokenizer": found.tokenizer.about,
    }
    texts = {"tokenizer.json": found.tokenizer.to_json()}
    checkpoint.write(out, about=about, arrays={"weights": arrays | read}, texts=texts)
    say(f"{module.CARD.title}, {parameters:,} weights, {words.size:,} pieces.")
    print(out)
    return OK


def _read(source: Path, model: str | None, most: int | None) -> folders.Folder | vectors.VectorFile:
    if not source.is_dir():
        return vectors.read(source, model, most)
    if model or most:
        raise UsageError(f"{source} is a folder, which says what it holds: leave --model and --vocabulary out.")
    return folders.read(source)


def export_checkpoint(*, checkpoint: Path, out: Path) -> int:
    """Writes the pre-trained model in ``checkpoint`` in the layout of `models.published`, and word vectors in the text
    format of word2vec."""
    from ptmbench.bench.engine.checkpoint import read

    found = read(checkpoint)
    if found.about.get("kind") != "pretrained":
        raise CheckpointError(
            f"{checkpoint} holds a model that is {found.about.get('kind')}, not pretrained, "
            "and layouts of heads are not written. Export it with --format saved_model, litert or onnx."
        )
    tokenizer, arrays = Tokenizer.load(found.path("tokenizer.json")), found.arrays()
    if vectors.TABLE in arrays:
        vectors.write(out, tokenizer, arrays)
    else:
        size = Size(**found.about["shape"])
        folders.write(out, model=found.about["model"], size=size, tokenizer=tokenizer, arrays=arrays)
    print(out)
    return OK


def _size_name(module: Any, size: Size) -> str:
    """The name of ``size`` in the model's file, whatever its length; otherwise "LAYERSxWIDTH", or "WIDTH" for a
    lookup table."""
    same = (
        name for name, known in module.SIZES.items() if asdict(known) | {"length": 0} == asdict(size) | {"length": 0}
    )
    return next(same, f"{size.layers}x{size.width}" if size.layers else str(size.width))


def _some(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
