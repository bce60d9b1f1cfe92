"""SemEval-2014 task 4's measures of aspect categories: subtask 3 as the organisers' script counts it, and accuracies of
subtask 4 as Sun, Huang & Qiu (2019) compute them.

Precision, recall and F1 are over all categories of all sentences together, whatever their polarity. Polarity is judged
for gold categories only, in four classes, in three (without gold conflicts) and in two (positive, negative). Where the
prediction is not one of these classes, the likeliest of them takes its place, and of equally likely ones the first.
A prediction without probabilities (`tasks.forms.Scored` has them) finds all of them equally likely.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ptmbench.tasks.metrics.additive import Additive
from ptmbench.tasks.metrics.common import f_measure, label_scores, percent

LABELS = ("positive", "neutral", "negative", "conflict", "none")
CLASSES = {4: (0, 1, 2, 3), 3: (0, 1, 2), 2: (0, 2)}


def _statistics(gold: Sequence[Any], predictions: Sequence[Any]) -> np.ndarray:
    """[N, 9] category right, predicted, actual; for each number of classes: polarity right, judged."""
    right = np.array([LABELS.index(label) for label in gold], int)
    guess = np.array([LABELS.index(label) for label in predictions], int)
    actual, predicted = right != LABELS.index("none"), guess != LABELS.index("none")
    columns = [actual & predicted, predicted, actual]
    scores = label_scores(predictions, LABELS)
    for classes in CLASSES.values():
        instead = np.array(classes)[scores[:, classes].argmax(axis=1)]
        judged = np.isin(right, classes)
        columns += [judged & (np.where(np.isin(guess, classes), guess, instead) == right), judged]
    return np.stack(columns, axis=1).astype(float)


def _value(sums: np.ndarray) -> dict[str, float]:
    accuracies = {f"accuracy_{n}": percent(*sums[3 + 2 * i : 5 + 2 * i]) for i, n in enumerate(CLASSES)}
    return f_measure(*sums[:3]) | accuracies


categories = Additive(_statistics, _value)
"""{"f1", "precision", "recall", "accuracy_4", "accuracy_3", "accuracy_2"} in percent."""
