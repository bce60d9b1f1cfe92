"""Pearson's and Spearman's correlation, as GLUE reports them for STS-B."""

import math
import warnings
from collections.abc import Sequence

from ptmbench.tasks.task import DataError


def correlation(gold: Sequence[float], predictions: Sequence[float]) -> dict[str, float]:
    """{"pearson", "spearman"} in percent (-100 to 100), by scipy. Ties share their mean rank.

    If gold or predictions are constant, or if there is only one example, the correlation is undefined: scipy and GLUE's
    scorer return NaN. This function returns 0, because a collapsed regressor has learnt nothing, and because NaN can
    neither be averaged over seeds nor ranked.
    """
    for row, value in enumerate(predictions, start=1):
        if not math.isfinite(value):
            raise DataError(
                f"Prediction {row} is {value}, not a finite number; did the training diverge? Lower the learning rate."
            )
    if len(set(gold)) < 2 or len(set(predictions)) < 2:
        return {"pearson": 0.0, "spearman": 0.0}
    from scipy import stats  # the import takes half a second

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nearly constant input: the result is checked here
        found = {"pearson": stats.pearsonr(gold, predictions)[0], "spearman": stats.spearmanr(gold, predictions)[0]}
    return {name: 100.0 * float(value) if math.isfinite(value) else 0.0 for name, value in found.items()}
