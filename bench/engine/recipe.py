"""How pre-training runs: its settings, and what they may be. No TensorFlow."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ptmbench.bench.engine.rates import SCHEDULES
from ptmbench.bench.errors import UsageError, brief

if TYPE_CHECKING:
    from ptmbench.models.card import Size

CHOICES: dict[str, tuple] = {
    "schedule": tuple(SCHEDULES),
    "optimizer": ("adamw", "lamb", "adagrad"),
    "precision": ("float32", "bfloat16"),
    "xla": ("auto", True, False),
    "bias_correction": (True, False),
    "rematerialise": (True, False),
}
"""The settings that take one of a few values."""

ADAM = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "bias_correction": True}
"""What Adam and LAMB have unless a model's file or the recipe says otherwise (Kingma & Ba, 2015, algorithm 1)."""

RATE = 1e-3
"""The peak learning rate at width 128 of a model whose file names none."""

LEAST = {"batch": 1, "length": 8, "accumulate": 1}
"""The settings that count something, and their smallest values; all others are numbers of at least 0."""
MOST = {"batch": 2**16, "length": 2**17, "accumulate": 2**16}
"""Their largest values."""
MOST_TOKENS = 2**24
"""Tokens of a step at most: every array of a batch has a number for each."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How pre-training runs. A model's file may name its own peak rate as ``LEARNING_RATE``, and what its paper changes
    of `ADAM` as ``ADAM``; the rest is the same for all. None stands for what the model says (`resolved`).

    ``batch`` sequences make one optimizer step, whatever they are split into: over replicas, and on each of them into
    ``accumulate`` parts that are computed one after the other. ``clip`` is the largest norm that the gradient of a step
    may have; 0 leaves it as it is. ``xla`` "auto" compiles where it pays (`bench.engine.numerics.compiles`).
    ``rematerialise`` computes the activations of each Transformer block again in the backward pass, and keeps only its
    input. With ``precision`` "bfloat16" the weights stay float32 and the network between them is rounded.
    ``optimizer`` "adagrad" reads and writes only those rows of a table that a batch looked up: of word vectors with a
    large vocabulary a step is a fraction of the work. It has no decay unless one is given, and ten times Adam's rate;
    ``beta1``, ``beta2``, ``epsilon`` and ``bias_correction`` are those of Adam (`bench.engine.optimizers`) and LAMB, of
    which LAMB always corrects the bias.

    No dropout: at these budgets no document is seen often enough to overfit (Geiping & Goldstein, 2023).
    """

    batch: int = 32
    length: int = 128
    learning_rate: float | None = None
    schedule: str = "linear"
    warmup: float = 0.06
    optimizer: str = "adamw"
    beta1: float | None = None
    beta2: float | None = None
    epsilon: float | None = None
    bias_correction: bool | None = None
    weight_decay: float = 0.01
    clip: float = 1.0
    dropout: float = 0.0
    accumulate: int = 1
    precision: str = "float32"
    xla: bool | str = "auto"
    rematerialise: bool = False

    def __post_init__(self) -> None:
        for name, most in MOST.items():
            if not LEAST[name] <= getattr(self, name) <= most:
                raise UsageError(f"{name} takes a number of at least {LEAST[name]} and at most {most}.")
        check_step(self.batch, self.length, UsageError)


def check_step(batch: int, length: int, problem: type[Exception]) -> None:
    """``problem`` where a step of ``batch`` rows of ``length`` tokens is larger than `MOST_TOKENS`."""
    if batch * length > MOST_TOKENS:
        raise problem(
            f"A batch of {batch} rows of {length} tokens has {batch * length} tokens; at most {MOST_TOKENS} make a "
            "step. Take a smaller batch or length."
        )


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
        elif not LEAST.get(name, 0) <= value <= MOST.get(name, sys.float_info.max):
            most = f" and at most {MOST[name]}" if name in MOST else ""
            raise UsageError(
                f"{name} takes a finite number of at least {LEAST.get(name, 0)}{most}, not '{brief(value)}'."
            )
        elif name == "epsilon" and value == 0:
            raise UsageError("epsilon takes a number above 0: weights without a gradient are divided by it.")
        elif name == "warmup" and value > 1 or name in ("dropout", "beta1", "beta2") and value >= 1:
            most = "up to" if name == "warmup" else "below"
            raise UsageError(f"{name} is a share, and takes a number {most} 1, not '{value}'.")
    kind = changes.get("optimizer", Recipe.optimizer)
    lacking = set(ADAM) if kind == "adagrad" else {"bias_correction"} if kind == "lamb" else set()
    if given := sorted(lacking & changes.keys()):
        raise UsageError(f"The optimizer {kind} has no setting '{given[0]}': leave it away, or take optimizer=adamw.")
    if kind == "adagrad":  # decay would move every row of every table
        changes = {"weight_decay": 0.0, **changes}
    # -0.0 is 0, with which it shares a key
    changes = {name: value + 0 if type(value) is float else value for name, value in changes.items()}
    recipe = replace(Recipe(), **changes)
    if recipe.batch % recipe.accumulate:
        raise UsageError(
            f"A batch of {recipe.batch} cannot be split into accumulate={recipe.accumulate} equal parts. "
            f"Take a multiple of {recipe.accumulate} for batch."
        )
    return recipe


def resolved(recipe: Recipe, module: Any, shape: "Size") -> Recipe:
    """``recipe`` with the peak rate and Adam's settings of a model's ``module`` at ``shape``, where it leaves them
    open. Adagrad's recipe has None for Adam's settings."""
    own = adam_of(recipe, module) | {"learning_rate": peak_rate(module, shape, recipe.optimizer)}
    return replace(recipe, **{name: value for name, value in own.items() if getattr(recipe, name) is None})


def adam_of(recipe: Recipe, module: Any) -> dict[str, Any]:
    """Adam's settings by name, those of ``recipe`` before those of a model's ``module``; {} where it has another
    optimizer without them."""
    if recipe.optimizer == "adagrad":
        return {}
    given = {name: value for name in ADAM if (value := getattr(recipe, name)) is not None}
    found = ADAM | getattr(module, "ADAM", {}) | given
    return found if recipe.optimizer == "adamw" else {n: v for n, v in found.items() if n != "bias_correction"}


def peak_rate(module: Any, shape: "Size", optimizer: str = "adamw") -> float:
    """The peak learning rate at ``shape``: 1e-3 at width 128, falling with the width (Yang et al., 2022, table 3).

    Measured here: at 1e-3, GPT learns at width 128 and stays at unigram loss at width 256; at 3e-4 it learns there
    too. A model's file may name its own rate at width 128 as ``LEARNING_RATE``. "adagrad" has ten times that: its first
    steps are as long as Adam's, and later ones shorter the more a weight has moved.
    """
    return getattr(module, "LEARNING_RATE", RATE) * 128 / shape.width * (10 if optimizer == "adagrad" else 1)
