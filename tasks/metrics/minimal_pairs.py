"""Accuracy on minimal pairs: how often the acceptable sentence has the higher score.

Warstadt et al. (2020), BLiMP, section 4: a pair is right where the model assigns the acceptable sentence the higher
probability. Two equal scores are no preference, so a tie is wrong, and so is a score that is not a number.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ptmbench.tasks.metrics.additive import Additive
from ptmbench.tasks.metrics.common import percent


def _statistics(gold: Sequence[Any], predictions: Sequence[tuple[float, float]]) -> np.ndarray:
    """[N, 2]: hit, one."""
    hits = [float(acceptable > other) for acceptable, other in predictions]
    return np.array([hits, [1.0] * len(gold)]).T.reshape(-1, 2)


def _value(sums: np.ndarray) -> dict[str, float]:
    hits, pairs = sums
    return {"accuracy": percent(hits, pairs)}


preference = Additive(_statistics, _value)
"""{"accuracy"} in percent, over all pairs alike; chance is 50."""
