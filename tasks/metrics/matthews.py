"""Matthews correlation (Matthews, 1975), in its form for any number of classes (Gorodkin, 2004, equation 8)."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ptmbench.tasks.metrics.additive import Additive


def _statistics(gold: Sequence[Any], predictions: Sequence[Any]) -> np.ndarray:
    """Each example's cell of the confusion matrix as a one-hot vector, [N, C * C] for the C labels in gold or
    predictions.

    C depends on the data, so statistics of different data sets must not be added.
    """
    labels = {label: index for index, label in enumerate(sorted({*gold, *predictions}, key=repr))}
    one_hot = np.zeros((len(gold), len(labels) ** 2))  # [N, C * C]
    cells = [labels[right] * len(labels) + labels[guess] for right, guess in zip(gold, predictions, strict=True)]
    one_hot[np.arange(len(gold)), cells] = 1.0
    return one_hot


def _value(sums: np.ndarray) -> dict[str, float]:
    classes = math.isqrt(len(sums))
    confusion = sums.reshape(classes, classes)  # [C, C] gold x predicted
    total, right = confusion.sum(), np.trace(confusion)
    actual, predicted = confusion.sum(axis=1), confusion.sum(axis=0)  # [C], [C]
    spread = (total**2 - actual @ actual) * (total**2 - predicted @ predicted)
    # If gold or predictions are constant, the official value is 0, not "undefined".
    return {"mcc": 100.0 * float((total * right - actual @ predicted) / math.sqrt(spread)) if spread > 0 else 0.0}


matthews = Additive(_statistics, _value)
"""{"mcc"} in percent (-100 to 100). 0 if gold or predictions are constant."""
