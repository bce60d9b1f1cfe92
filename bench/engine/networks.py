"""Builds a model's network, and reads and sets its weights."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
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


def sized(module: Any, size: str, length: int) -> Size:
    """The model's `Size` called ``size``, long enough for inputs of ``length`` tokens."""
    if size not in module.SIZES:
        raise models.UnknownModel(f"{module.CARD.title} has no size '{size}'; it has {', '.join(module.SIZES)}.")
    shape = module.SIZES[size]
    return replace(shape, length=max(shape.length, length))


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
