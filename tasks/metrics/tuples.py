"""Exact match of tuples, as BARTABSA (Yan et al., 2021, section 4.2) counts it in each of the seven subtasks.

A tuple is right if all of its elements are right: the first and the last word of every span, and the class. The tuples
of a sentence are a set, so repeated tuples count once. Precision, recall and F1 are over the tuples of all sentences.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ptmbench.tasks.metrics.additive import Additive
from ptmbench.tasks.metrics.common import f_measure, percent


def _statistics(gold: Sequence[Iterable[Any]], predictions: Sequence[Iterable[Any]]) -> np.ndarray:
    """[N, 5]: right, predicted and actual tuples, whether all are right, and 1."""
    rows = np.zeros((len(gold), 5))
    for row, (right, guess) in enumerate(zip(gold, predictions, strict=True)):
        actual, predicted = {tuple(one) for one in right}, {tuple(one) for one in guess}
        rows[row] = len(actual & predicted), len(predicted), len(actual), actual == predicted, 1.0
    return rows


def _value(sums: np.ndarray) -> dict[str, float]:
    return f_measure(*sums[:3]) | {"exact_match": percent(*sums[3:])}


tuple_f1 = Additive(_statistics, _value)
"""{"f1", "precision", "recall", "exact_match"} in percent, the last as the share of examples with all tuples right."""
