"""Consistency (Suhr et al., 2017, section 6): the share of sentences with right predictions for all their pictures."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ptmbench.tasks.metrics.additive import Additive
from ptmbench.tasks.metrics.common import percent, wholes


def _statistics(gold: Sequence[Any], predictions: Sequence[Any]) -> np.ndarray:
    """[N, 2]: whether all pictures of a sentence are right (1 or 0), and 1, in the row of its first picture. Other rows
    are 0."""
    rows = np.zeros((len(gold), 2))
    for sentence in wholes(gold):
        rows[sentence[0]] = float(all(gold[row] == predictions[row] for row in sentence)), 1.0
    return rows


def _value(sums: np.ndarray) -> dict[str, float]:
    return {"consistency": percent(*sums)}


consistency = Additive(_statistics, _value)
"""{"consistency"} in percent. Gold is `tasks.forms.Part`, which identifies the rows of one sentence."""
