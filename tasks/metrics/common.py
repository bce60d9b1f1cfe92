"""Functions that several metrics share: ratios that are defined at zero, and checks of gold and predictions."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ptmbench.tasks.task import DataError


def percent(part: float, whole: float) -> float:
    """100 part / whole; 0 if ``whole`` is 0, as in conlleval and the other official scorers."""
    return 100.0 * float(part) / float(whole) if whole else 0.0


def f_measure(true_positives: float, predicted: float, actual: float) -> dict[str, float]:
    """F1, precision and recall in percent from three counts."""
    precision, recall = percent(true_positives, predicted), percent(true_positives, actual)
    f1 = 2.0 * precision * recall / (precision + recall) if precision + recall else 0.0
    return {"f1": f1, "precision": precision, "recall": recall}


def wholes(gold: Sequence[Any]) -> list[list[int]]:
    """The row numbers of each group that is evaluated together, in the order of their first rows. A plain label is a
    group of its own."""
    rows: dict[Any, list[int]] = {}
    for row, label in enumerate(gold):
        whole = getattr(label, "whole", None)
        rows.setdefault(("alone", row) if whole is None else whole, []).append(row)
    return list(rows.values())


def label_scores(predictions: Sequence[Any], labels: Sequence[str]) -> np.ndarray:
    """The probabilities of ``labels``, [N, C]: 1 for the label and 0 otherwise if a prediction has no probabilities."""
    rows = [getattr(guess, "scores", None) or [float(guess == label) for label in labels] for guess in predictions]
    return np.array(rows, np.float64).reshape(-1, len(labels))


def references(gold: Sequence[Any]) -> list[list[str]]:
    """Checks and returns the gold of a generation task. A bare string would otherwise be read as a list of letters."""
    for row, texts in enumerate(gold, start=1):
        if isinstance(texts, str) or not texts or not all(isinstance(text, str) for text in texts):
            raise DataError(f"Example {row} needs a tuple of at least one reference text as gold, not {texts!r:.80}.")
    return [list(texts) for texts in gold]


def hypotheses(predictions: Sequence[Any]) -> list[str]:
    """Checks and returns the predictions of a generation task."""
    for row, text in enumerate(predictions, start=1):
        if not isinstance(text, str):
            raise DataError(f"Example {row} needs a text as prediction (an empty one is allowed), not {text!r:.80}.")
    return list(predictions)
