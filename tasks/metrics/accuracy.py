"""Accuracy: the share of predictions that are the gold label."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ptmbench.tasks.metrics.additive import Additive
from ptmbench.tasks.metrics.common import percent


def _statistics(gold: Sequence[Any], predictions: Sequence[Any]) -> np.ndarray:
    hits = [float(right == guess) for right, guess in zip(gold, predictions, strict=True)]
    return np.array([hits, [1.0] * len(hits)]).T.reshape(-1, 2)  # [N, 2] hit, one


def _value(sums: np.ndarray) -> dict[str, float]:
    hits, examples = sums
    return {"accuracy": percent(hits, examples)}


accuracy = Additive(_statistics, _value)
"""{"accuracy"} in percent, for classification and choice."""
