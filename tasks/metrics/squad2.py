"""The scores of SQuAD 2.0 (Rajpurkar et al., 2018; the script evaluate-v2.0): half of the questions have no answer.

Answers are compared as in version 1.1, but "no answer" is an empty text. If either text has no word left, F1 is 1 if
both have none and 0 otherwise. Gold answers that are empty after normalisation ("the") do not count. If no gold answer
is left, only the empty text is right.

If predictions have a score for "no answer" (`tasks.forms.Reply`), `thresholds` gives the best values that a single
threshold on it reaches. The threshold is tuned on the reported questions, as in published "best F1" scores on the dev
set. `squad2` itself is not tuned.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ptmbench.tasks.forms import Answer
from ptmbench.tasks.metrics.additive import Additive
from ptmbench.tasks.metrics.common import percent
from ptmbench.tasks.metrics.squad import normalise, word_f1


@lru_cache(maxsize=1 << 17)
def agreement(gold: str, guess: str) -> tuple[float, float]:
    """(exact match, F1) of two texts, from 0 to 1. Either may be empty."""
    exact = float(normalise(gold) == normalise(guess))
    if not normalise(gold) or not normalise(guess):
        return exact, exact
    return exact, word_f1(gold, guess)


def _best(answers: Sequence[Answer], guess: str) -> tuple[float, float]:
    """The best exact match and the best F1 over the gold answers, which may be of different answers."""
    texts = [answer.text for answer in answers if normalise(answer.text)] or [""]
    exact, f1 = zip(*(agreement(text, str(guess)) for text in texts), strict=True)
    return max(exact), max(f1)


def _statistics(gold: Sequence[Sequence[Answer]], predictions: Sequence[str | None]) -> np.ndarray:
    """[N, 6]: exact match, F1 and 1 for questions with an answer, then the same for those without."""
    rows = np.zeros((len(gold), 6))
    for row, (answers, guess) in enumerate(zip(gold, predictions, strict=True)):
        side = 0 if answers else 3
        rows[row, side + 2] = 1.0
        if guess is None:
            continue
        refused = getattr(guess, "span", None) is not None  # a threshold replaced the answer by "no answer"
        rows[row, side : side + 2] = float(not answers) if refused else _best(answers, guess)
    return rows


def _value(sums: np.ndarray) -> dict[str, float]:
    answered, unanswered = sums[:3], sums[3:]
    parts = {"": answered + unanswered, "has_answer_": answered, "no_answer_": unanswered}
    return {
        f"{part}{name}": percent(total, questions)
        for part, (*totals, questions) in parts.items()
        for name, total in zip(("exact_match", "f1"), totals, strict=True)
    }


squad2 = Additive(_statistics, _value)
"""{"exact_match", "f1"} in percent, also with the prefixes "has_answer_" and "no_answer_" for the questions with and
without an answer (0 if there are none). An empty prediction means "no answer", whatever threshold led to it."""


def thresholds(gold: Sequence[Sequence[Answer]], predictions: Sequence[Any]) -> dict[str, float]:
    """{"best_exact_match", "best_f1"} in percent, and the thresholds on ``no_answer`` that reach them. {} unless every
    prediction has a ``no_answer`` score.

    As in the official script, thresholds are tried in ascending order, one prediction at a time even if several are
    equal. The threshold is 0 if it is best to answer no question.
    """
    odds = [getattr(guess, "no_answer", None) for guess in predictions]
    if not odds or any(value is None for value in odds):
        return {}
    spans = [str(guess) if guess.span is None else guess.span for guess in predictions]
    scores = [_best(answers, span) for answers, span in zip(gold, spans, strict=True)]
    order = sorted(range(len(odds)), key=odds.__getitem__)
    values: dict[str, float] = {}
    for place, name in enumerate(("exact_match", "f1")):
        score = best = float(sum(not answers for answers in gold))
        threshold = 0.0
        for row in order:
            score += scores[row][place] if gold[row] else -float(bool(spans[row]))
            if score > best:
                best, threshold = score, float(odds[row])
        values |= {f"best_{name}": percent(best, len(gold)), f"best_{name}_threshold": threshold}
    return values
