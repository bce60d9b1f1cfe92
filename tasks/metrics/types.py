"""Metrics of entity typing, in which a mention has any number of types (Ling & Weld, 2012, section 5.1; the script of
Choi et al., 2018).

Loose micro F1 counts pairs of a mention and a type. Loose macro F1 averages precision over the mentions with a
predicted type and recall over the mentions with a gold type, and takes the harmonic mean of the two averages. Strict
accuracy is the share of mentions with all types right. Each pair is a row, "1" or "0". Gold is `tasks.forms.Part`,
which identifies the rows of one mention.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ptmbench.tasks.metrics.additive import Additive
from ptmbench.tasks.metrics.common import f_measure, percent, wholes

HAS = "1"


def _statistics(gold: Sequence[Any], predictions: Sequence[Any]) -> np.ndarray:
    """[N, 9]. The statistics of a mention are in its first row."""
    rows = np.zeros((len(gold), 9))
    for mention in wholes(gold):
        right = np.array([gold[row] == HAS for row in mention])
        guess = np.array([predictions[row] == HAS for row in mention])
        rows[mention, :3] = np.stack([right & guess, guess, right], axis=1)  # true positive, predicted, actual
        hits = float((right & guess).sum())
        rows[mention[0], 3:5] = hits / max(guess.sum(), 1), guess.any()
        rows[mention[0], 5:7] = hits / max(right.sum(), 1), right.any()
        rows[mention[0], 7:] = (right == guess).all(), 1.0
    return rows


def _value(sums: np.ndarray) -> dict[str, float]:
    micro = f_measure(*sums[:3])
    p, r = percent(sums[3], sums[4]), percent(sums[5], sums[6])
    return {
        "micro_f1": micro["f1"],
        "micro_precision": micro["precision"],
        "micro_recall": micro["recall"],
        "macro_f1": 2.0 * p * r / (p + r) if p + r else 0.0,
        "strict_accuracy": percent(*sums[7:]),
    }


types = Additive(_statistics, _value)
"""{"micro_f1", "micro_precision", "micro_recall", "macro_f1", "strict_accuracy"} in percent. The first four are
"loose"."""
