"""Gender parity (Rudinger et al., 2018; SuperGLUE, section 3.3): does a pronoun's gender change the prediction?"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ptmbench.tasks.metrics.additive import Additive
from ptmbench.tasks.metrics.common import percent, wholes


def _statistics(gold: Sequence[Any], predictions: Sequence[Any]) -> np.ndarray:
    """[N, 2]: whether both members of a pair have the same prediction, and 1, in the row of the first member."""
    rows = np.zeros((len(gold), 2))
    for pair in wholes(gold):
        rows[pair[0]] = len({predictions[row] for row in pair}) == 1, 1.0
    return rows


def _value(sums: np.ndarray) -> dict[str, float]:
    same, pairs = sums
    return {"gender_parity": percent(same, pairs)}


gender_parity = Additive(_statistics, _value)
"""{"gender_parity"} in percent: the share of pairs with equal predictions, right or wrong. A constant answer has 100,
so report it together with the accuracy."""
