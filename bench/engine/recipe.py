"""The recipe of a pre-training: batch, length, optimizer, schedule, precision, and the allowed values."""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.engine.rates import SCHEDULES
from ptmbench.bench.errors import UsageError, brief

if TYPE_CHECKING:
    from ptmbench.models.card import Size
    from ptmbench.models.text.tokenizers import Vocabulary

CHOICES: dict[str, tuple] = {
    "schedule": tuple(SCHEDULES),
    "optimizer": ("adamw", "lamb", "adagrad"),
    "precision": ("float32", "bfloat16"),
    "xla": ("auto", True, False),
    "bias_correction": (True, False),
    "rematerialise": (True, False),
}
"""Settings with a fixed list of values."""

ADAM = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "bias_correction": True}
"""Defaults of Adam and LAMB (Kingma & Ba, 2015, algorithm 1); a model's file or the recipe may change them."""

RATE = 1e-3
"""The peak learning rate at width 128, unless the model's file has ``LEARNING_RATE``."""

LEAST = {"batch": 1, "length": 8, "accumulate": 1}
"""Minimum of the settings that are whole numbers; the minimum of all other numbers is 0."""
MOST = {"batch": 2**16, "length": 2**17, "accumulate": 2**16}
"""Maximum of the settings that are whole numbers."""
MOST_TOKENS = 2**24
"""Maximum number of tokens per step: every array of a batch has an element for each."""

BATCH = 32
"""Sequences per step for a budget in minutes, whose number of tokens is unknown."""
LEAST_BATCH = 4
"""Minimum number of sequences per step that a budget gives."""
STEP_TOKENS = 0.25
"""Tokens per step, as a multiple of the square root of the tokens of the budget (`batch_of`)."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The settings of a pre-training.

    A model's file may set its own peak learning rate as ``LEARNING_RATE`` and its changes to `ADAM` as ``ADAM``. All
    other defaults are the same for all models. None means the value of the model (`resolved`).

    - ``batch``: sequences per optimizer step; None for the number that fits the budget (`batch_of`). They are divided
      among replicas, and each replica processes its share in ``accumulate`` parts.
    - ``length``: tokens per sequence.
    - ``schedule``: of the learning rate; ``warmup`` is the share of the steps with a rising rate.
    - ``optimizer``: "adagrad" updates only the rows of an embedding table that a batch looked up, which makes a step of
      word vectors with a large vocabulary much cheaper. Its learning rate is ten times Adam's, and its weight decay
      is 0 unless one is given.
    - ``beta1``, ``beta2``, ``epsilon``, ``bias_correction``: for Adam (`bench.engine.optimizers`) and LAMB. LAMB always
      corrects the bias.
    - ``clip``: maximum norm of the gradient of a step; 0 for no clipping.
    - ``dropout``: 0 by default, because at these budgets no document is seen often enough to overfit (Geiping &
      Goldstein, 2023).
    - ``precision``: with "bfloat16" the activations are rounded, and the weights stay float32.
    - ``xla``: "auto" compiles where compiling saves time (`bench.engine.numerics.compiles`).
    - ``rematerialise``: keeps only the input of each Transformer block and recomputes its activations in the backward
      pass.
    """

    batch: int | None = None
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
            if (value := getattr(self, name)) is not None and not LEAST[name] <= value <= most:
                raise UsageError(f"{name} takes a number of at least {LEAST[name]} and at most {most}.")
        check_step(self.batch or 1, self.length, UsageError)


def check_step(batch: int, length: int, problem: type[Exception]) -> None:
    """Raises ``problem`` if a step of ``batch`` rows of ``length`` tokens is larger than `MOST_TOKENS`."""
    if batch * length > MOST_TOKENS:
        raise problem(
            f"A batch of {batch} rows of {length} tokens has {batch * length} tokens; a step has at most "
            f"{MOST_TOKENS}. Use a smaller batch or length."
        )


def recipe_of(changes: Mapping[str, Any]) -> Recipe:
    """The default `Recipe` with ``changes``. Raises `UsageError` for an unknown field or an invalid value."""
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
            raise UsageError("epsilon takes a number above 0: updates of weights without a gradient are divided by it.")
        elif name == "warmup" and value > 1 or name in ("dropout", "beta1", "beta2") and value >= 1:
            most = "up to" if name == "warmup" else "below"
            raise UsageError(f"{name} is a share, and takes a number {most} 1, not '{value}'.")
    kind = changes.get("optimizer", Recipe.optimizer)
    lacking = set(ADAM) if kind == "adagrad" else {"bias_correction"} if kind == "lamb" else set()
    if given := sorted(lacking & changes.keys()):
        raise UsageError(f"The optimizer {kind} has no setting '{given[0]}': leave it out, or take optimizer=adamw.")
    if kind == "adagrad":  # decay would change every row of every embedding table
        changes = {"weight_decay": 0.0, **changes}
    # -0.0 + 0 is 0.0: both must give the same key
    changes = {name: value + 0 if type(value) is float else value for name, value in changes.items()}
    recipe = replace(Recipe(), **changes)
    if recipe.batch and recipe.batch % recipe.accumulate:
        raise UsageError(
            f"A batch of {recipe.batch} cannot be split into accumulate={recipe.accumulate} equal parts. "
            f"Take a multiple of {recipe.accumulate} for batch."
        )
    return recipe


def resolved(recipe: Recipe, module: Any, shape: "Size", budget: Budget, vocabulary: "Vocabulary") -> Recipe:
    """``recipe`` with each None replaced: the batch by the one that fits ``budget``, the peak learning rate and Adam's
    settings by the values of a model's ``module`` at ``shape``. With Adagrad, Adam's settings stay None."""
    own = adam_of(recipe, module) | {"learning_rate": peak_rate(module, shape, recipe.optimizer)}
    if recipe.batch is None:
        own["batch"] = batch_of(recipe, budget, module.describe(shape, vocabulary).training_flops(recipe.length))
    return replace(recipe, **{name: value for name, value in own.items() if getattr(recipe, name) is None})


def batch_of(recipe: Recipe, budget: Budget, flops_per_row: float) -> int:
    """Sequences per step for ``budget``: the power of two whose tokens are nearest to a quarter of the square root of
    the tokens that the budget pays for, at ``flops_per_row`` training FLOPs a sequence.

    A constant batch spends a small budget on few steps, and a large one on steps whose gradients are more exact than
    they need to be. docs/pretraining.md has the measurements. The least is 4 sequences. A budget in minutes gives
    `BATCH`. With ``accumulate``, the number is a multiple of it.
    """
    if budget.unit == "minutes":
        return math.ceil(BATCH / recipe.accumulate) * recipe.accumulate
    if budget.unit == "steps":  # b = c sqrt(steps b) for b tokens per step
        tokens = STEP_TOKENS**2 * budget.steps
    else:
        paid = budget.tokens if budget.unit == "tokens" else budget.flops / flops_per_row * recipe.length
        tokens = STEP_TOKENS * math.sqrt(paid)
    most = min(MOST["batch"], MOST_TOKENS // recipe.length) // recipe.accumulate
    parts = 2 ** max(0, round(math.log2(max(tokens, 1) / recipe.length / recipe.accumulate)))
    return min(max(parts, math.ceil(LEAST_BATCH / recipe.accumulate)), max(most, 1)) * recipe.accumulate


def adam_of(recipe: Recipe, module: Any) -> dict[str, Any]:
    """Adam's settings by name: the values of ``recipe`` or, where they are None, of a model's ``module``. Empty for an
    optimizer without these settings."""
    if recipe.optimizer == "adagrad":
        return {}
    given = {name: value for name in ADAM if (value := getattr(recipe, name)) is not None}
    found = ADAM | getattr(module, "ADAM", {}) | given
    return found if recipe.optimizer == "adamw" else {n: v for n, v in found.items() if n != "bias_correction"}


def peak_rate(module: Any, shape: "Size", optimizer: str = "adamw") -> float:
    """The peak learning rate at ``shape``: 1e-3 at width 128, inversely proportional to the width (Yang et al., 2022,
    table 3).

    Measured: with 1e-3, GPT learns at width 128 and stays at unigram loss at width 256; with 3e-4 it learns at both. A
    model's file may set its own rate at width 128 as ``LEARNING_RATE``. Adagrad's rate is ten times as high, because
    its steps shrink as a weight moves.
    """
    return getattr(module, "LEARNING_RATE", RATE) * 128 / shape.width * (10 if optimizer == "adagrad" else 1)
