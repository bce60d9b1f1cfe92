"""SemEval-2014 task 4's metrics for aspect categories: subtask 3 as in the organisers' script, and the accuracies of
subtask 4 as Sun, Huang & Qiu (2019) compute them.

Precision, recall and F1 are over all categories of all sentences, regardless of polarity. Polarity is evaluated for
gold categories only: in four classes, in three (without gold conflicts) and in two (positive, negative). If the
prediction is not one of these classes, it is replaced by the most probable of them. Ties go to the first class. A
prediction without probabilities (see `tasks.forms.Scored`) has equal probabilities for them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ptmbench.tasks.metrics.additive import Additive
from ptmbench.tasks.metrics.common import f_measure, label_scores, percent

LABELS = ("positive", "neutral", "negative", "conflict", "none")
CLASSES = {4: (0, 1, 2, 3), 3: (0, 1, 2), 2: (0, 2)}


def _statistics(gold: Sequence[Any], predictions: Sequence[Any]) -> np.ndarray:
    """[N, 9]: category right, predicted, actual; then, for each number of classes, polarity right and polarity
    evaluated."""
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
