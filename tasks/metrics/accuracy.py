"""Accuracy: the share of predictions that are the gold label."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ptmbench.tasks.metrics.additive import Additive
from ptmbench.tasks.metrics.common import percent
from ptmbench.tasks.task import DataError


def _statistics(gold: Sequence[Any], predictions: Sequence[Any]) -> np.ndarray:
    hits = [float(right == guess) for right, guess in zip(gold, predictions, strict=True)]
    return np.array([hits, [1.0] * len(hits)]).T.reshape(-1, 2)  # [N, 2] hit, one


def _value(sums: np.ndarray) -> dict[str, float]:
    hits, examples = sums
    return {"accuracy": percent(hits, examples)}


def _words(gold: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]) -> np.ndarray:
    """[N, 2]: for each sentence the number of words with the right tag, and the number of all words."""
    rows = np.zeros((len(gold), 2))
    for row, (right, guess) in enumerate(zip(gold, predictions, strict=True)):
        if len(right) != len(guess):
            raise DataError(
                f"Sentence {row + 1} has {len(right)} words but {len(guess)} predicted tags; give every word one tag."
            )
        rows[row] = sum(one == other for one, other in zip(right, guess, strict=True)), len(right)
    return rows


accuracy = Additive(_statistics, _value)
"""{"accuracy"} in percent, for classification and choice."""
word_accuracy = Additive(_words, _value)
"""{"accuracy"} in percent over the words of all sentences, for tagging."""
