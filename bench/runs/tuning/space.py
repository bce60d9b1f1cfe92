"""The settings that are tuned, and the values that trials try. All functions are pure.

A point of a `Space` has factors for the own learning rate and batch of a model or an adaptation, and a value of a third
setting. So all models try the same points, although their learning rates differ. Trial 0 changes nothing.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptmbench.bench.adapt import settings as adaptation_settings
from ptmbench.bench.adapt.settings import SettingError, Settings
from ptmbench.bench.engine.recipe import MOST, MOST_TOKENS, Recipe

RATE = 8.0
"""Largest factor by which the own peak learning rate is divided or multiplied. Its logarithm is uniform."""
BATCHES = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Factors of the batch."""
WARMUPS = (0.02, 0.06, 0.15, 0.3)
"""Warm-up of a pre-training, as a share of its steps."""
LENGTHS = (0.5, 1.0, 2.0)
"""Factors of the epochs of an adaptation, or of its steps if these are limited."""
_BASES = (2, 3, 5)


@dataclass(frozen=True, kw_only=True)
class Space:
    """The values of a learning rate, a batch and one more setting, ``other``."""

    rate: float
    """The own peak learning rate."""
    batches: tuple[int, ...]
    other: str
    others: tuple[float, ...]

    def tried(self, count: int, seed: int) -> list[dict[str, Any]]:
        """Returns the changes of ``count`` trials, of which the first changes nothing. A smaller count gives the first
        of these.

        The points are Halton's (1960) in bases 2, 3 and 5, which cover the space more evenly than random points. They
        are shifted by a random vector drawn with ``seed`` (Cranley and Patterson, 1976); seed 0 shifts nothing.
        """
        shift = np.random.default_rng(seed).random(len(_BASES)) if seed else np.zeros(len(_BASES))
        found: list[dict[str, Any]] = [{}]
        for number in range(1, count):
            rate, batch, other = (np.array([_inverse(number, base) for base in _BASES]) + shift) % 1.0
            found.append(
                {
                    "learning_rate": float(f"{self.rate * RATE ** (2 * rate - 1):.3g}"),
                    "batch": self.batches[int(batch * len(self.batches))],
                    self.other: self.others[int(other * len(self.others))],
                }
            )
        return found

    @property
    def about(self) -> dict[str, Any]:
        """The space, for the result of a tuning."""
        return {
            "learning_rate_factors": [1 / RATE, RATE],
            "batch": list(self.batches),
            self.other: list(self.others),
        }


def of_recipe(own: Recipe) -> Space:
    """Returns the space of a pre-training with the recipe ``own``, whose learning rate is set.

    The length of rows does not change, and the number of steps follows from the budget. Batches that the recipe cannot
    have are left out.
    """
    batches = [size for size in _sizes(own.batch) if size % own.accumulate == 0]
    fitting = [size for size in batches if size <= MOST["batch"] and size * own.length <= MOST_TOKENS]
    return Space(rate=own.learning_rate, batches=tuple(fitting), other="warmup", others=WARMUPS)


def of_settings(own: Settings) -> Space:
    """Returns the space of an adaptation with the settings ``own``. If these limit the steps (``max_steps``), the limit
    is tuned in place of the epochs. Batches that the settings cannot have are left out."""
    limited = "max_steps" if own.max_steps else "epochs"
    lengths = (max(1, round(factor * getattr(own, limited))) for factor in LENGTHS)
    fitting = tuple(size for size in _sizes(own.batch) if _holds(own, {"batch": size}))
    return Space(rate=own.learning_rate, batches=fitting, other=limited, others=tuple(dict.fromkeys(lengths)))


def _sizes(batch: int) -> Iterable[int]:
    """Returns ``batch`` times each of `BATCHES`, where the product is a whole number."""
    return [int(batch * factor) for factor in BATCHES if batch * factor >= 1 and (batch * factor).is_integer()]


def _holds(settings: Settings, changes: Mapping[str, Any]) -> bool:
    """Whether ``settings`` accept ``changes``."""
    with suppress(SettingError):
        return bool(adaptation_settings.changed(settings, changes))
    return False


def _inverse(number: int, base: int) -> float:
    """Returns the radical inverse: the digits of ``number`` in ``base``, mirrored at the radix point."""
    found, place = 0.0, 1.0
    while number:
        place /= base
        number, digit = divmod(number, base)
        found += digit * place
    return found
