"""MultiRC's metrics (Khashabi et al., 2018, section 5; SuperGLUE, section 3): each answer is predicted right or wrong.

F1a is the F1 of "right" over all answers of all questions. Exact match is the share of questions with all answers
predicted correctly. F1m is the harmonic mean of precision and recall after averaging them over questions. It is not the
mean of the questions' F1, which several libraries call F1m. In F1m, a question without a chosen answer has precision 1,
and a question without a right answer has recall 1, as in the authors' script.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ptmbench.tasks.metrics.additive import Additive
from ptmbench.tasks.metrics.common import f_measure, percent, wholes

RIGHT = "1"


def _statistics(gold: Sequence[Any], predictions: Sequence[Any]) -> np.ndarray:
    """[N, 7]. The statistics of a whole question are in the row of its first answer."""
    rows = np.zeros((len(gold), 7))
    for question in wholes(gold):
        right = np.array([gold[row] == RIGHT for row in question])
        guess = np.array([predictions[row] == RIGHT for row in question])
        rows[question, :3] = np.stack([right & guess, guess, right], axis=1)  # true positive, predicted, actual
        hits = float((right & guess).sum())
        precision = hits / guess.sum() if guess.any() else 1.0
        recall = hits / right.sum() if right.any() else 1.0
        rows[question[0], 3:] = float((right == guess).all()), precision, recall, 1.0
    return rows


def _value(sums: np.ndarray) -> dict[str, float]:
    exact, precision, recall, questions = sums[3:]
    p, r = percent(precision, questions), percent(recall, questions)
    return {
        "f1a": f_measure(*sums[:3])["f1"],
        "exact_match": percent(exact, questions),
        "f1m": 2.0 * p * r / (p + r) if p + r else 0.0,
    }


multirc = Additive(_statistics, _value)
"""{"f1a", "exact_match", "f1m"} in percent. Gold is `tasks.forms.Part`, which identifies the answers of a question."""
