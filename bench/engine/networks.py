"""Builds a model's network, and reads and sets its weights."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from ptmbench import models
from ptmbench.bench.engine.checkpoint import CheckpointError
from ptmbench.models._importing import broken
from ptmbench.models.card import Size
from ptmbench.models.costs import Model
from ptmbench.models.pretrainable import Pretrainable
from ptmbench.models.text.tokenizers import Tokenizer

_ENCODER = ("width", "depth", "length", "causal", "recurrent", "variables", "trainable_variables")
"""Attributes that the harness reads from every encoder."""


_SHAPE = re.compile(r"[1-9]\d{0,5}x[1-9]\d{0,5}(x[1-9]\d{0,5}){0,2}")
_UNITS = 64
"""The units of a head of a network whose shape does not name its heads."""


def sized(module: Any, size: str, length: int) -> Size:
    """The model's `Size` called ``size``, long enough for inputs of ``length`` tokens.

    Transformers also have every size "LxD", "LxDxH" and "LxDxHxI": L layers of width D with H heads (D / 64) and I
    units in the feed-forward layers (4 D). Raises `models.UnknownModel` for any other size.
    """
    shape = module.SIZES.get(size) or _shaped(module, size)
    return replace(shape, length=max(shape.length, length))


def size_name(module: Any, size: Size) -> str:
    """The shortest name by which `sized` knows ``size``; inputs may differ in length. Raises `models.UnknownModel` if
    there is none."""
    parts = [str(part) for part in (size.layers, size.width, size.heads, size.inner)]
    for name in (*module.SIZES, *("x".join(parts[:count]) for count in (2, 3, 4))):
        try:
            if replace(sized(module, name, 0), length=size.length) == size:
                return name
        except models.UnknownModel:
            pass
    raise models.UnknownModel(f"{module.CARD.title} has no size like {size}; it has {', '.join(module.SIZES)}.")


def differences(shape: Mapping[str, int], wanted: Size) -> str:
    """The parts of ``shape``, of a checkpoint, that differ from ``wanted``: "width is 384 and not 128, ..."."""
    return ", ".join(
        f"{name} is {shape.get(name)} and not {value}"
        for name, value in asdict(wanted).items()
        if shape.get(name) != value
    )


def _shaped(module: Any, size: str) -> Size:
    """The `Size` of a network of the shape ``size``."""
    title, base = module.CARD.title, module.SIZES["base"]
    known = f"{title} has no size '{size}'; it has {', '.join(module.SIZES)}"
    if base.heads < 2 or not base.inner or base.embedding:
        raise models.UnknownModel(f"{known}.")
    if not _SHAPE.fullmatch(size):
        raise models.UnknownModel(f"{known}, and shapes such as 6x384x12 (layers, width, heads).")
    layers, width, *others = map(int, size.split("x"))
    heads, inner = (*others, *(width / _UNITS, 4 * width)[len(others) :])
    if width % heads or heads % 1:
        raise models.UnknownModel(
            f"{title} {size}: a width of {width} cannot be divided into {heads:g} heads. Name a number of heads that "
            f"divides it, such as {layers}x{width}x{math.gcd(width, 12)}."
        )
    return Size(layers=layers, width=width, heads=int(heads), inner=inner)


def build(model: str, size: Size, tokenizer: Tokenizer, seed: int, *, ending: bool = False, teacher: Any = None) -> Any:
    """Builds the model's `Pretrainable` with random weights from ``seed``.

    A published model gives no probability to ids that its vocabulary lacks. With ``ending``, [SEP] is an exception (see
    `models.text.tokenizers.Vocabulary.ending`), which fine-tuning needs. ``teacher`` is the network that a student
    learns from in pre-training. The student may be initialised with its weights. Raises `models.BrokenModel` if the
    model's file builds something else, cannot import what it needs, or describes another network than it builds.
    """
    import keras

    from ptmbench.bench.engine import objectives

    module = models.load(model)
    path = Path(module.__file__)
    keras.utils.set_random_seed(seed)
    vocabulary = tokenizer.vocabulary.ending() if ending else tokenizer.vocabulary
    try:
        with objectives.mistakes_in(path):
            made = module.build(size, vocabulary) if teacher is None else module.build(size, vocabulary, teacher)
    except (ImportError, SyntaxError, NameError, SystemExit) as error:
        raise broken(path, error, models.BrokenModel) from error
    if not isinstance(made, Pretrainable):
        raise models.BrokenModel(f"{path}: build gives {made!r:.80}, where a models.pretrainable.Pretrainable belongs.")
    if missing := [name for name in _ENCODER if not hasattr(made.encoder, name)]:
        raise models.BrokenModel(f"{path}: the encoder that build makes has no {', '.join(missing)}.")
    objectives.check(made, path, module.CARD.objectives)
    for wrong in _contradictions(module.describe(size, vocabulary), made):
        raise models.BrokenModel(f"{path}: describe and build contradict each other. {wrong}")
    return made


def _contradictions(described: Model, made: Pretrainable) -> Iterator[str]:
    """Sentences about the differences between the description of a network and the network that was built."""
    counted = described.parameters()[0]
    there = sum(math.prod(variable.shape) for variable in model_variables(made.loss))
    if counted != there:
        yield f"describe counts {counted} weights, and the network has {there}. Does one of them leave out a head?"
    if described.writes != (made.decode is not None):
        yield "Give writes=True and a decode, or neither."
    if described.writes and described.reads_again == (made.writer is not None):
        yield "Give either reads_again=True or a writer."
    if described.tells_likelihood != (made.log_likelihood is not None):
        yield "Give tells_likelihood=True and a log_likelihood, or neither."


def model_variables(loss: Any) -> list:
    """The variables of ``loss`` that are part of its model: all except the `models.objective.Objective.scaffold`."""
    return [variable for variable in loss.variables if not variable.path.startswith(loss.scaffold)]


def without_scaffold(loss: Any, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns those of ``arrays``, by path, that belong to `model_variables`."""
    return {path: array for path, array in arrays.items() if not path.startswith(loss.scaffold)}


def weights(variables: list) -> dict[str, np.ndarray]:
    """Arrays by variable path."""
    return {v.path: v.numpy() for v in variables}


def assign(variables: list, arrays: Mapping[str, np.ndarray]) -> None:
    """Sets every variable from ``arrays``. Raises `CheckpointError` if an array is missing or has another shape."""
    for variable in variables:
        array = arrays.get(variable.path)
        if array is None or tuple(array.shape) != tuple(variable.shape):
            found = "is missing in the checkpoint" if array is None else f"has shape {array.shape} in the checkpoint"
            raise CheckpointError(
                f"The array {variable.path} {found}. The network needs shape {tuple(variable.shape)}."
            )
        variable.assign(array)
