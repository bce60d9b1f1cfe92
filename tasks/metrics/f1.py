"""F1 of one class, as GLUE reports it for MRPC and QQP."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from ptmbench.tasks.metrics.additive import Additive
from ptmbench.tasks.metrics.common import f_measure


@cache
def binary_f1(positive: Any) -> Additive:
    """{"f1"} of the class ``positive`` in percent. 0 if the class is neither predicted nor present."""

    def statistics(gold: Sequence[Any], predictions: Sequence[Any]) -> np.ndarray:
        pairs = [(guess == positive, right == positive) for right, guess in zip(gold, predictions, strict=True)]
        counts = [(guess and right, guess, right) for guess, right in pairs]
        return np.array(counts, np.float64).reshape(-1, 3)  # [N, 3] true positive, predicted, actual

    def value(sums: np.ndarray) -> dict[str, float]:
        return {"f1": f_measure(*sums)["f1"]}

    return Additive(statistics, value)
