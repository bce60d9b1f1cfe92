"""Metrics that are computed from one row of numbers per example, in most cases from the sum of these rows.

Accuracy, F1, Matthews correlation, BLEU and most other metrics are functions of sums of per-example counts. Separating
the counts from the function turns the bootstrap over examples into a matrix product instead of thousands of scorer
calls.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Additive:
    """A metric given by per-example statistics and a function of their sum.

    ``statistics(gold, predictions)`` returns float64 [N, K]. ``value(sums [K])`` returns {name: value}.
    ``signatures(gold)`` returns {name: the scorer's own description of how the value is computed}, for the record.
    """

    statistics: Callable[[Sequence[Any], Sequence[Any]], np.ndarray]
    value: Callable[[np.ndarray], dict[str, float]]
    signatures: Callable[[Sequence[Any]], dict[str, str]] | None = None

    def __call__(self, gold: Sequence[Any], predictions: Sequence[Any]) -> dict[str, float]:
        return self.value(self.statistics(gold, predictions).sum(axis=0))


@dataclass(frozen=True)
class Rowwise:
    """A metric that is not a function of sums, such as one that ranks: a row of numbers per example and a function of
    rows.

    ``table(gold, predictions)`` returns float64 [N, K]. ``value(rows [M, K])`` returns {name: value} for any such rows.
    """

    table: Callable[[Sequence[Any], Sequence[Any]], np.ndarray]
    value: Callable[[np.ndarray], dict[str, float]]

    def __call__(self, gold: Sequence[Any], predictions: Sequence[Any]) -> dict[str, float]:
        return self.value(self.table(gold, predictions))
