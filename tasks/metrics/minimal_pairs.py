"""Accuracy on minimal pairs: how often the acceptable sentence has the higher score.

Warstadt et al. (2020), BLiMP, section 4: a pair is right where the model assigns the acceptable sentence the higher
probability. Two equal scores are no preference, so a tie is wrong, and so is a score that is not a number.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from ptmbench.tasks.metrics.additive import Additive
from ptmbench.tasks.metrics.common import percent


@cache
def preference(kinds: tuple[str, ...] = ()) -> Additive:
    """The accuracy over all pairs in percent, as "accuracy", and over the pairs of each of the ``kinds`` by its name.

    The gold answer of a pair has its kind (`tasks.forms.Part`). A kind without a pair has no value. Chance is 50.
    """
    names = ("accuracy", *kinds)

    def statistics(gold: Sequence[Any], predictions: Sequence[tuple[float, float]]) -> np.ndarray:
        """[N, 2 (1 + K)]: hits and pairs, of all pairs and of each kind."""
        hits = np.array([float(acceptable > other) for acceptable, other in predictions])
        of_kind = np.array([[getattr(one, "kind", None) == kind for kind in kinds] for one in gold], float)
        counted = np.hstack([np.ones((len(gold), 1)), of_kind.reshape(len(gold), len(kinds))])  # [N, 1 + K]
        return np.hstack([counted * hits.reshape(-1, 1), counted])

    def value(sums: np.ndarray) -> dict[str, float]:
        hits, pairs = np.split(np.asarray(sums), 2)
        return {name: percent(h, n) for name, h, n in zip(names, hits, pairs, strict=True) if n or name == "accuracy"}

    return Additive(statistics, value)
