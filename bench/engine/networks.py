"""A model's network and its weights: built, read out, set."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

import models
from bench.checkpoint import CheckpointError
from models.card import Size
from models.tokenizers import Tokenizer


def sized(module: Any, size: str, length: int) -> Size:
    """The model's `Size` called ``size``, long enough for inputs of ``length`` tokens."""
    if size not in module.SIZES:
        raise models.UnknownModel(f"{module.CARD.title} has no size '{size}'; it has {', '.join(module.SIZES)}.")
    shape = module.SIZES[size]
    return replace(shape, length=max(shape.length, length))


def build(model: str, size: Size, tokenizer: Tokenizer, seed: int, *, ending: bool = False) -> Any:
    """The model's `Pretrainable` with fresh weights that follow from ``seed``.

    A published model gives the ids that its vocabulary lacks no probability. With ``ending`` [SEP] is an exception (see
    `models.tokenizers.Vocabulary.ending`): fine-tuning asks for that.
    """
    import keras

    keras.utils.set_random_seed(seed)
    vocabulary = tokenizer.vocabulary
    return models.load(model).build(size, vocabulary.ending() if ending else vocabulary)


def weights(variables: list) -> dict[str, np.ndarray]:
    """Arrays by variable path."""
    return {v.path: v.numpy() for v in variables}


def assign(variables: list, arrays: Mapping[str, np.ndarray]) -> None:
    """Set every variable from ``arrays``; a missing one or another shape is a `CheckpointError`, never left as it
    is."""
    for variable in variables:
        array = arrays.get(variable.path)
        if array is None or tuple(array.shape) != tuple(variable.shape):
            found = "is missing" if array is None else f"has shape {array.shape}"
            raise CheckpointError(
                f"The weights of {variable.path} {tuple(variable.shape)}: the array {found} in the checkpoint."
            )
        variable.assign(array)
