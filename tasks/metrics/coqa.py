"""CoQA's scores (Reddy et al., 2019, section 6.1; the script evaluate-v1.0): exact match and word F1, macro-averaged.

If a question has several gold answers, each is left out once, and the best match among the others counts. The score of
the question is the mean of these. Human performance is measured in the same way. Texts are compared as in SQuAD 2.0:
two texts that are both empty after normalisation agree.
"""

from collections.abc import Sequence

import numpy as np

from ptmbench.tasks.forms import Answer
from ptmbench.tasks.metrics.additive import Additive
from ptmbench.tasks.metrics.common import percent
from ptmbench.tasks.metrics.squad2 import agreement
from ptmbench.tasks.task import DataError


def _statistics(gold: Sequence[Sequence[Answer]], predictions: Sequence[str | None]) -> np.ndarray:
    rows = np.zeros((len(gold), 3))  # [N, 3] exact match, F1, one
    for row, (answers, guess) in enumerate(zip(gold, predictions, strict=True)):
        if not answers:
            raise DataError(
                f"Question {row + 1} has no gold answer; CoQA's unanswerable ones have the answer 'unknown'."
            )
        rows[row, 2] = 1.0
        if guess is None:
            continue
        each = np.array([agreement(answer.text, str(guess)) for answer in answers])  # [answers, 2]
        others = [np.delete(each, left_out, axis=0) for left_out in range(len(each))] if len(each) > 1 else [each]
        rows[row, :2] = np.mean([part.max(axis=0) for part in others], axis=0)
    return rows


def _value(sums: np.ndarray) -> dict[str, float]:
    exact, f1, questions = sums
    return {"exact_match": percent(exact, questions), "f1": percent(f1, questions)}


coqa = Additive(_statistics, _value)
"""{"exact_match", "f1"} in percent, over all questions of all domains."""
