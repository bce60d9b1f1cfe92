"""Extra encoders: other pre-trained models that a cell reads together with its own, its *neighbours*.

A setting names them (`bench.adapt.settings.Settings.models`). They are planned like any pre-training
(`bench.runs.artefacts.Cell.neighbours`) and always frozen. Each has its own checkpoint, shape and tokenizer.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from ptmbench import models
from ptmbench.bench.engine.checkpoint import Checkpoint
from ptmbench.bench.engine.networks import sized
from ptmbench.bench.errors import UsageError
from ptmbench.models.card import Size
from ptmbench.models.text.tokenizers import Tokenizer


class Neighbour(NamedTuple):
    """The model, shape and tokenizer from which the network of an extra encoder is built."""

    model: str
    shape: Size
    tokenizer: Tokenizer


def unfit(model: str | None, others: Iterable[str]) -> str:
    """Why ``model`` cannot be read together with the ``others``; "" if it can."""
    return f"the extra encoder {model} is the model itself." if model in others else ""


def kind_of(name: str, size: str, cut: str) -> str:
    """The kind of tokens that the model ``name`` reads as an extra encoder: ``cut``, or the kind of its paper if
    ``cut`` is "". Raises `UnknownModel` if there is no such model or it has no such ``size``."""
    module = models.load(name)
    sized(module, size, 0)  # raises the error of an unknown size
    return cut or module.CARD.tokenizer


def find_checkpoint(checkpoints: Sequence[Checkpoint], name: str, cut: str) -> Checkpoint:
    """The checkpoint of the model ``name`` among the ``checkpoints`` that ``evaluate`` was given. Raises `UsageError`
    if there is none, or if it reads another kind of tokens than ``cut``."""
    models.load(name)
    found = next((one for one in checkpoints if one.about["model"] == name), None)
    if found is None:
        others = "".join(f" {one.folder} is {one.about['model']}." for one in checkpoints)
        raise UsageError(
            f"A cell has the extra encoder {name}, and no checkpoint of it is given. Give its folder with "
            f"--extra-encoder, or choose others with --adaptation stacked:encoders=MODEL or "
            f"distil:augment_vectors=MODEL.{others}"
        )
    kind = found.about["tokenizer"]["kind"]
    if cut not in ("", kind):
        raise UsageError(f"{found.folder} reads {kind} tokens, but a cell asks for tokenizer={cut}.")
    return found


def of(found: Checkpoint) -> Neighbour:
    """The extra encoder whose pre-training is saved in ``found``."""
    return Neighbour(found.about["model"], Size(**found.about["shape"]), tokenizer(found.path("tokenizer.json")))


def load_saved(found: Checkpoint) -> tuple[Neighbour, ...]:
    """The extra encoders of the adapted model in ``found``."""
    return tuple(
        Neighbour(about["model"], Size(**about["shape"]), tokenizer(found.path(file_of(number))))
        for number, about in enumerate(found.about.get("neighbours", ()), 1)
    )


def file_of(number: int) -> str:
    """The file with the tokenizer of the ``number``-th extra encoder, counted from 1, in an adapted checkpoint."""
    return f"tokenizer_{number}.json"


@lru_cache(maxsize=8)
def tokenizer(path: Path) -> Tokenizer:
    """Reads a tokenizer once per process, so that cells with the same extra encoders share a traced network."""
    return Tokenizer.load(path)
