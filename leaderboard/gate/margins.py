"""How much worse is still the same: the margin of every task, in the units of its headline.

A regression must exceed it, and a pass must stay below it with confidence. One point is what people report tables
to; Matthews correlation moves twice as far as accuracy does for the same answers. No margin is smaller than two
examples are worth: less than that cannot be told on a test set of that size.
"""

from collections.abc import Mapping
from typing import Any

from ptmbench.leaderboard.records.layout import is_number

MACRO = 1.0
"""Margin of the mean drop over all cells, in points."""
DEFAULT = 1.0
BY_METRIC = {"mcc": 2.0, "bleu": 0.5, "bits_per_character": 0.02, "bits_per_byte": 0.02}
RELATIVE = {"perplexity": 0.02}
"""Shares of BASE's value, for metrics whose units depend on the data."""
PRETRAINING = 7.0
"""Standard deviation of a score between pre-trainings where nobody states it, in margins of the metric: 7 points of
accuracy, 14 of Matthews correlation.

Measured on the suite "regress" (tiny models, 300,000 tokens, four pre-trainings of three seeds each): 6.3 and 6.8
points of F1 for word2vec and BERT on CoNLL-2003, 10.9 points of accuracy for GPT on SST-2, where one pre-training
failed, and less than the seeds' own spread shows for the other three cells."""
_EXAMPLES = 2


def margin(task: Mapping[str, Any], base: float, chosen: Mapping[str, float] | None = None) -> float:
    """The margin of ``task`` (the part of a record) where BASE scored ``base``; ``chosen`` has {task name: margin}."""
    if chosen and task["name"] in chosen:
        return chosen[task["name"]]
    usual = _of_metric(task, base)
    examples = task.get("examples")
    if str(task["headline"]) in RELATIVE or not task["higher_is_better"] or not is_number(examples):
        return usual
    return max(usual, 100 * _EXAMPLES / examples) if examples > 0 else usual


def pretraining_sd(task: Mapping[str, Any], base: float, stated: Mapping[str, float] | None = None) -> float:
    """The standard deviation of a score of ``task`` from pre-training to pre-training, in the units of its headline.

    ``stated`` has {task name or "all": deviation}; otherwise it is `PRETRAINING` margins of the metric.
    """
    for name in (task["name"], "all"):
        if stated and name in stated:
            return stated[name]
    return PRETRAINING * _of_metric(task, base)


def _of_metric(task: Mapping[str, Any], base: float) -> float:
    """The margin that follows from the metric alone."""
    metric = str(task["headline"])
    if metric in RELATIVE:
        return RELATIVE[metric] * abs(base)
    return max((BY_METRIC.get(part, DEFAULT) for part in metric.split("+")), default=DEFAULT)
