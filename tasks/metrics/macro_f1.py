"""F1 averaged over classes, each with the same weight, as SuperGLUE reports it for CB."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ptmbench.tasks.metrics.additive import Additive
from ptmbench.tasks.metrics.common import f_measure


def _statistics(gold: Sequence[Any], predictions: Sequence[Any]) -> np.ndarray:
    """True positive, predicted and actual for each label in gold or predictions, flattened to [N, 3 C].

    C depends on the data, so statistics of different data sets must not be added.
    """
    labels = {label: index for index, label in enumerate(sorted({*gold, *predictions}, key=repr))}
    counts = np.zeros((len(gold), len(labels), 3))
    for row, (right, guess) in enumerate(zip(gold, predictions, strict=True)):
        counts[row, labels[right], 0] = right == guess
        counts[row, labels[guess], 1] = 1.0
        counts[row, labels[right], 2] = 1.0
    return counts.reshape(len(gold), 3 * len(labels))  # [N, 3 C]


def _value(sums: np.ndarray) -> dict[str, float]:
    # Labels that are in neither gold nor predictions, as in a bootstrap sample, are left out, as in scikit-learn.
    classes = [counts for counts in sums.reshape(-1, 3) if counts[1] + counts[2]]
    return {"macro_f1": float(np.mean([f_measure(*counts)["f1"] for counts in classes])) if classes else 0.0}


macro_f1 = Additive(_statistics, _value)
"""{"macro_f1"} in percent: the mean over the classes that occur in gold or among the predictions."""
