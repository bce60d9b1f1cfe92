"""Metrics whose value follows from sums over examples, or at least from a row of numbers for each.

Accuracy, F1, Matthews, BLEU and most others are functions of per-example counts added up. Keeping the counts apart
from the function makes the bootstrap over examples a matrix product instead of thousands of scorer calls.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Additive:
    """A metric as per-example statistics and a function of their sum.

    ``statistics(gold, predictions)`` gives float64 [N, K]; ``value(sums [K])`` gives {name: value}.
    ``signatures(gold)`` gives {name: the scorer's own line on how it computes that value}, for the record.
    """

    statistics: Callable[[Sequence[Any], Sequence[Any]], np.ndarray]
    value: Callable[[np.ndarray], dict[str, float]]
    signatures: Callable[[Sequence[Any]], dict[str, str]] | None = None

    def __call__(self, gold: Sequence[Any], predictions: Sequence[Any]) -> dict[str, float]:
        return self.value(self.statistics(gold, predictions).sum(axis=0))


@dataclass(frozen=True)
class Rowwise:
    """A metric that does not add up (it ranks, say) as a row of numbers per example and a function of any such rows.

    ``table(gold, predictions)`` gives float64 [N, K]; ``value(rows [M, K])`` gives {name: value}.
    """

    table: Callable[[Sequence[Any], Sequence[Any]], np.ndarray]
    value: Callable[[np.ndarray], dict[str, float]]

    def __call__(self, gold: Sequence[Any], predictions: Sequence[Any]) -> dict[str, float]:
        return self.value(self.table(gold, predictions))
