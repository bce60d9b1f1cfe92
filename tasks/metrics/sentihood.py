"""SentiHood's metrics as Sun, Huang & Qiu (2019) and Ma et al. (2018) compute them.

``gold`` is None, Positive or Negative. Its whole is a place in a text, and its kind is the aspect. Some definitions
differ from what their names suggest; published values use them:

- strict accuracy of "aspect detection" is the share of places with all aspects right, including their sentiments;
- macro-F1 is the harmonic mean of the mean precision and the mean recall over places; places without any opinion are
  left out;
- sentiment is evaluated wherever gold has one, only by p(Negative) / (p(Positive) + p(Negative)), even if None is
  predicted. Above 1/2 is Negative;
- AUC is the mean over aspects.

A prediction without probabilities (see `tasks.forms.Scored`) has probability 1 for its label. If that label is None,
the ratio for the sentiment is 1/2.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ptmbench.tasks.metrics.additive import Additive, Rowwise
from ptmbench.tasks.metrics.common import label_scores, percent, wholes

LABELS = ("None", "Positive", "Negative")


def _aspect_statistics(gold: Sequence[Any], predictions: Sequence[Any]) -> np.ndarray:
    """[N, 5]. The statistics of a place are in the row of its first aspect."""
    rows = np.zeros((len(gold), 5))
    for place in wholes(gold):
        actual = {row for row in place if gold[row] != "None"}
        predicted = {row for row in place if predictions[row] != "None"}
        both = len(actual & predicted)
        precision, recall = (both / len(predicted), both / len(actual)) if actual and both else (0.0, 0.0)
        strict = all(gold[row] == predictions[row] for row in place)
        rows[place[0]] = strict, 1.0, precision, recall, bool(actual)
    return rows


def _aspect_value(sums: np.ndarray) -> dict[str, float]:
    strict, places, precision, recall, spoken_of = sums
    p, r = percent(precision, spoken_of), percent(recall, spoken_of)
    return {
        "aspect_accuracy": percent(strict, places),
        "aspect_f1": 2.0 * p * r / (p + r) if p + r else 0.0,
    }


aspects = Additive(_aspect_statistics, _aspect_value)
"""{"aspect_accuracy", "aspect_f1"} in percent."""


def _negative(predictions: Sequence[Any]) -> np.ndarray:
    """p(Negative) given that there is a sentiment, [N]."""
    _, positive, negative = label_scores(predictions, LABELS).T
    either = positive + negative
    return np.divide(negative, either, out=np.full(len(either), 0.5), where=either > 0)


def _sentiment_statistics(gold: Sequence[Any], predictions: Sequence[Any]) -> np.ndarray:
    guess = _negative(predictions) > 0.5
    right = np.array([(label == "Negative") == negative for label, negative in zip(gold, guess, strict=True)], bool)
    judged = np.array([label != "None" for label in gold], bool)
    return np.stack([right & judged, judged], axis=1).astype(float)  # [N, 2] right, judged


def _sentiment_value(sums: np.ndarray) -> dict[str, float]:
    return {"sentiment_accuracy": percent(*sums)}


sentiment = Additive(_sentiment_statistics, _sentiment_value)
"""{"sentiment_accuracy"} in percent."""


def _aspect_table(gold: Sequence[Any], predictions: Sequence[Any]) -> np.ndarray:
    return _table(gold, [label == "None" for label in gold], label_scores(predictions, LABELS)[:, 0])


def _sentiment_table(gold: Sequence[Any], predictions: Sequence[Any]) -> np.ndarray:
    rows = _table(gold, [label == "Negative" for label in gold], _negative(predictions))
    rows[[label == "None" for label in gold], 0] = -1.0
    return rows


def _table(gold: Sequence[Any], truth: Sequence[bool], scores: np.ndarray) -> np.ndarray:
    """[N, 3]: the number of the gold's kind, whether the class of interest is true, and the score of this class."""
    kinds: dict[Any, int] = {}
    numbers = [kinds.setdefault(getattr(label, "kind", None), len(kinds)) for label in gold]
    return np.stack([np.array(numbers, float), np.array(truth, float), scores], axis=1)


def _mean_area(rows: np.ndarray) -> float:
    """The mean AUC over kinds, in percent. Rows of kind -1 are ignored, and so are kinds with only one class. If no
    kind is left, the value is 50, chance."""
    parts = [rows[rows[:, 0] == kind] for kind in np.unique(rows[:, 0]) if kind >= 0]
    areas = [area(part[:, 1] > 0, part[:, 2]) for part in parts]
    defined = [value for value in areas if value is not None]
    return 100.0 * float(np.mean(defined)) if defined else 50.0


aspect_auc = Rowwise(_aspect_table, lambda rows: {"aspect_auc": _mean_area(rows)})
"""{"aspect_auc"} in percent: how well p(None) separates aspects without an opinion from the others."""

sentiment_auc = Rowwise(_sentiment_table, lambda rows: {"sentiment_auc": _mean_area(rows)})
"""{"sentiment_auc"} in percent: how well p(Negative) separates negative from positive opinions."""


def area(truth: np.ndarray, scores: np.ndarray) -> float | None:
    """The area under the ROC curve, 0 to 1: the share of (true, false) pairs in which the true one has the higher
    score. Ties count half.

    None if there is no such pair.
    """
    positive = int(truth.sum())
    negative = len(truth) - positive
    if not positive or not negative:
        return None
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]  # [N] from 1, ties share the middle rank
    return float((ranks[truth].sum() - positive * (positive + 1) / 2) / (positive * negative))
