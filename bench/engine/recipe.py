"""How pre-training runs: its settings, and what they may be. No TensorFlow."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from bench.engine.rates import SCHEDULES
from bench.errors import UsageError
from models.card import Size

CHOICES: dict[str, tuple] = {
    "schedule": tuple(SCHEDULES),
    "optimizer": ("adamw", "lamb", "adagrad"),
    "precision": ("float32", "bfloat16"),
    "xla": ("auto", True, False),
    "rematerialise": (True, False),
}
"""The settings that take one of a few values."""

LEAST = {"batch": 1, "length": 8, "accumulate": 1}
"""The settings that count something, and their smallest values; all others are numbers of at least 0."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How pre-training runs. A model's file may name its own peak rate as ``LEARNING_RATE``; the rest is the same for
    all.

    ``batch`` sequences make one optimizer step, whatever they are split into: over replicas, and on each of them into
    ``accumulate`` parts that are computed one after the other. ``clip`` is the largest norm that the gradient of a step
    may have; 0 leaves it as it is. ``xla`` "auto" compiles where it pays (`bench.engine.numerics.compiles`).
    ``rematerialise`` computes the activations of each Transformer block again in the backward pass, and keeps only its
    input. With ``precision`` "bfloat16" the weights stay float32 and the network between them is rounded.
    ``optimizer`` "adagrad" reads and writes only those rows of a table that a batch looked up: of word vectors with a
    large vocabulary a step is a fraction of the work. It has no decay unless one is given, and ten times Adam's rate.

    No dropout: at these budgets no document is seen often enough to overfit (Geiping & Goldstein, 2023).
    """

    batch: int = 32
    length: int = 128
    learning_rate: float | None = None
    schedule: str = "linear"
    warmup: float = 0.06
    optimizer: str = "adamw"
    weight_decay: float = 0.01
    clip: float = 1.0
    dropout: float = 0.0
    accumulate: int = 1
    precision: str = "float32"
    xla: bool | str = "auto"
    rematerialise: bool = False


def recipe_of(changes: Mapping[str, Any]) -> Recipe:
    """The default `Recipe` with ``changes``; `UsageError` names a field that does not exist or a value that does not
    fit."""
    for name, value in changes.items():
        if name not in Recipe.__dataclass_fields__:
            raise UsageError(f"Pre-training has no setting '{name}'; it has {', '.join(Recipe.__dataclass_fields__)}.")
        if name in CHOICES:
            if not any(value is choice or (value == choice and isinstance(choice, str)) for choice in CHOICES[name]):
                choices = ", ".join(str(choice).lower() for choice in CHOICES[name])
                raise UsageError(f"{name} is one of {choices}, not '{value}'.")
        elif isinstance(value, bool) or not isinstance(value, int if name in LEAST else int | float):
            raise UsageError(f"{name} takes a {'whole ' if name in LEAST else ''}number, not '{value}'.")
        elif not value >= LEAST.get(name, 0):
            raise UsageError(f"{name} takes a number of at least {LEAST.get(name, 0)}, not '{value}'.")
        elif name == "warmup" and value > 1 or name == "dropout" and value >= 1:
            most = "up to" if name == "warmup" else "below"
            raise UsageError(f"{name} is a share, and takes a number {most} 1, not '{value}'.")
    if changes.get("optimizer") == "adagrad":  # decay would move every row of every table
        changes = {"weight_decay": 0.0, **changes}
    recipe = replace(Recipe(), **changes)
    if recipe.batch % recipe.accumulate:
        raise UsageError(
            f"A batch of {recipe.batch} cannot be split into accumulate={recipe.accumulate} equal parts. "
            f"Take a multiple of {recipe.accumulate} for batch."
        )
    return recipe


def peak_rate(module: Any, shape: Size, optimizer: str = "adamw") -> float:
    """The peak learning rate at ``shape``: 1e-3 at width 128, falling with the width (Yang et al., 2022, table 3).

    Measured here: at 1e-3, GPT learns at width 128 and stays at unigram loss at width 256; at 3e-4 it learns there
    too. A model's file may name its own rate at width 128 as ``LEARNING_RATE``. "adagrad" has ten times that: its first
    steps are as long as Adam's, and later ones shorter the more a weight has moved.
    """
    return getattr(module, "LEARNING_RATE", 1e-3) * 128 / shape.width * (10 if optimizer == "adagrad" else 1)
