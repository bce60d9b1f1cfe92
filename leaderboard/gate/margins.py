"""Margins: the drop per task, in the units of its headline, that still counts as no change.

A regression must exceed the margin, and a pass must stay below it with confidence. Results are usually reported to one
point. For the same answers, Matthews correlation moves twice as far as accuracy. No margin is smaller than two examples
are worth, because a test set of that size cannot resolve less.
"""

from collections.abc import Mapping
from typing import Any

from ptmbench.leaderboard.records.layout import is_number

MACRO = 1.0
"""Margin of the mean drop over all cells, in points."""
DEFAULT = 1.0
BY_METRIC = {"mcc": 2.0, "bleu": 0.5, "bits_per_character": 0.02, "bits_per_byte": 0.02}
RELATIVE = {"perplexity": 0.02}
"""Margins as shares of BASE's value, for metrics whose units depend on the data."""
PRETRAINING = 7.0
"""Default standard deviation of a score between pre-trainings, in margins of the metric: 7 points of accuracy, 14 of
Matthews correlation.

Measured on the suite "regress" (tiny models, 300,000 tokens, four pre-trainings of three seeds each): 6.3 and 6.8
points of F1 for word2vec and BERT on CoNLL-2003, and 10.9 points of accuracy for GPT on SST-2, where one pre-training
failed. For the other three cells it was less than the spread between seeds can show.
"""
_EXAMPLES = 2


def margin(task: Mapping[str, Any], base: float, chosen: Mapping[str, float] | None = None) -> float:
    """Returns the margin of ``task`` (the part of a record) if BASE scored ``base``. ``chosen`` has {task name:
    margin}."""
    if chosen and task["name"] in chosen:
        return chosen[task["name"]]
    usual = _of_metric(task, base)
    examples = task.get("examples")
    if str(task["headline"]) in RELATIVE or not task["higher_is_better"] or not is_number(examples):
        return usual
    return max(usual, 100 * _EXAMPLES / examples) if examples > 0 else usual


def pretraining_sd(task: Mapping[str, Any], base: float, stated: Mapping[str, float] | None = None) -> float:
    """Returns the standard deviation of a score of ``task`` between pre-trainings, in the units of its headline.

    ``stated`` has {task name or "all": deviation}. By default, it is `PRETRAINING` margins of the metric.
    """
    for name in (task["name"], "all"):
        if stated and name in stated:
            return stated[name]
    return PRETRAINING * _of_metric(task, base)


def _of_metric(task: Mapping[str, Any], base: float) -> float:
    """Returns the margin that follows from the metric alone."""
    metric = str(task["headline"])
    if metric in RELATIVE:
        return RELATIVE[metric] * abs(base)
    return max((BY_METRIC.get(part, DEFAULT) for part in metric.split("+")), default=DEFAULT)
