"""The scores of SQuAD 2.0 (Rajpurkar et al., 2018; the script evaluate-v2.0): half of the questions have no answer.

Answers compare as in version 1.1, but "no answer" is an empty text: where either side has no word left, F1 is 1 if
neither has any and 0 otherwise. Gold answers that are empty after normalisation ("the") do not count. If none counts,
only the empty text is right.

Predictions that say how sure they are that there is no answer (`tasks.forms.Reply`) also get the best scores that any
one threshold on it reaches. The threshold is tuned on the questions that are reported, as in published "best F1"
scores on the dev set; `squad2` itself is not tuned.
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
    """(exact match, F1), from 0 to 1, of two texts. Either may be empty."""
    exact = float(normalise(gold) == normalise(guess))
    if not normalise(gold) or not normalise(guess):
        return exact, exact
    return exact, word_f1(gold, guess)


def _best(answers: Sequence[Answer], guess: str) -> tuple[float, float]:
    """Exact match and F1 against the best gold answer; each may be with another one."""
    texts = [answer.text for answer in answers if normalise(answer.text)] or [""]
    exact, f1 = zip(*(agreement(text, str(guess)) for text in texts), strict=True)
    return max(exact), max(f1)


def _statistics(gold: Sequence[Sequence[Answer]], predictions: Sequence[str | None]) -> np.ndarray:
    """[N, 6]: exact match, F1 and one of questions with an answer, then of those without."""
    rows = np.zeros((len(gold), 6))
    for row, (answers, guess) in enumerate(zip(gold, predictions, strict=True)):
        side = 0 if answers else 3
        rows[row, side + 2] = 1.0
        if guess is None:
            continue
        refused = getattr(guess, "span", None) is not None  # a threshold took the answer back
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
"""{"exact_match", "f1"} and both for questions that have an answer and for those that have none, in percent; 0 where
there are no such questions. "No answer" is where the prediction is empty, whatever threshold made it so."""


def thresholds(gold: Sequence[Sequence[Answer]], predictions: Sequence[Any]) -> dict[str, float]:
    """{"best_exact_match", "best_f1"} in percent and the thresholds on ``no_answer`` that reach them; {} unless every
    prediction has one.

    As the official script: thresholds are tried from the lowest prediction up, one prediction at a time even where
    several are equal, and 0 stands where answering nothing is best.
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
