"""What is tuned, and the draws that every model tries. Pure; no TensorFlow.

A draw changes a model's own recipe by factors, so that the same draws are tried for models whose peak rates differ.
Draw 0 changes nothing.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ptmbench.bench.engine.recipe import MOST, MOST_TOKENS, Recipe

RATE = 8.0
"""The peak learning rate is the model's own, divided and multiplied by this at most; the logarithm is uniform."""
BATCHES = (-2, -1, 0, 1, 2)
"""Powers of two that the batch is multiplied by. The length of a row stays: steps follow from the budget."""
WARMUPS = (0.02, 0.06, 0.15, 0.3)
"""Shares of the steps in which the rate rises."""
_BASES = (2, 3, 5)


@dataclass(frozen=True, kw_only=True)
class Draw:
    """Changes to a recipe: factors of the learning rate and of the batch, and a warm-up share."""

    rate: float
    batch: float
    warmup: float

    def changes(self, recipe: Recipe) -> dict[str, Any]:
        """The settings that this draw gives a model whose own recipe is ``recipe``, which names its learning rate."""
        rate = float(f"{recipe.learning_rate * self.rate:.3g}")
        return {"learning_rate": rate, "batch": round(recipe.batch * self.batch), "warmup": self.warmup}


def draws(count: int, seed: int, recipe: Recipe) -> tuple[Draw, ...]:
    """``count`` draws for models with the batch and the length of ``recipe``; those of a smaller count come first.

    The points are Halton's (1960) in bases 2, 3 and 5, which cover the space more evenly than random ones do, shifted
    by a random vector that follows from ``seed`` (Cranley and Patterson, 1976); seed 0 shifts nothing.
    """
    shift = np.random.default_rng(seed).random(len(_BASES)) if seed else np.zeros(len(_BASES))
    batches = [2.0**power for power in BATCHES if _possible(recipe, 2.0**power)]
    found = []
    for number in range(1, count + 1):
        rate, batch, warmup = (np.array([_inverse(number, base) for base in _BASES]) + shift) % 1.0
        found.append(
            Draw(
                rate=float(RATE ** (2 * rate - 1)),
                batch=batches[int(batch * len(batches))],
                warmup=WARMUPS[int(warmup * len(WARMUPS))],
            )
        )
    return tuple(found)


def about(recipe: Recipe) -> dict[str, Any]:
    """The space of models with the batch and the length of ``recipe``, as the result of a tuning tells it."""
    batches = [recipe.batch * 2.0**power for power in BATCHES]
    possible = [round(batch) for batch in batches if _possible(recipe, batch / recipe.batch)]
    return {"learning_rate_factors": [1 / RATE, RATE], "batch": possible, "warmup": list(WARMUPS)}


def _possible(recipe: Recipe, factor: float) -> bool:
    """Whether ``recipe`` could have ``factor`` times its batch."""
    batch = recipe.batch * factor
    whole = batch >= 1 and batch == int(batch) and int(batch) % recipe.accumulate == 0
    return whole and batch <= MOST["batch"] and batch * recipe.length <= MOST_TOKENS


def _inverse(number: int, base: int) -> float:
    """The radical inverse: the digits of ``number`` in ``base``, mirrored behind the point."""
    found, place = 0.0, 1.0
    while number:
        place /= base
        number, digit = divmod(number, base)
        found += digit * place
    return found
