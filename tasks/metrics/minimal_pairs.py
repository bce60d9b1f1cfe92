"""Accuracy on minimal pairs: how often the acceptable sentence has the higher score.

Warstadt et al. (2020), BLiMP, section 4: a pair is right if the model assigns the acceptable sentence the higher
probability. Equal scores are no preference, so a tie is wrong. NaN is wrong, too.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from ptmbench.tasks.metrics.additive import Additive
from ptmbench.tasks.metrics.common import percent


@cache
def preference(kinds: tuple[str, ...] = ()) -> Additive:
    """{"accuracy"} over all pairs in percent, and the accuracy over the pairs of each of the ``kinds`` under its name.

    The gold answer of a pair has its kind (`tasks.forms.Part`). A kind without a pair has no value. Chance is 50.
    """
    names = ("accuracy", *kinds)

    def statistics(gold: Sequence[Any], predictions: Sequence[tuple[float, float]]) -> np.ndarray:
        """[N, 2 (1 + K)]: hits for all pairs and each kind, then the counts of pairs in the same order."""
        hits = np.array([float(acceptable > other) for acceptable, other in predictions])
        of_kind = np.array([[getattr(one, "kind", None) == kind for kind in kinds] for one in gold], float)
        counted = np.hstack([np.ones((len(gold), 1)), of_kind.reshape(len(gold), len(kinds))])  # [N, 1 + K]
        return np.hstack([counted * hits.reshape(-1, 1), counted])

    def value(sums: np.ndarray) -> dict[str, float]:
        hits, pairs = np.split(np.asarray(sums), 2)
        return {name: percent(h, n) for name, h, n in zip(names, hits, pairs, strict=True) if n or name == "accuracy"}

    return Additive(statistics, value)
