"""HotpotQA's scores (Yang et al., 2018, section 5.1; the script hotpot_evaluate_v1): answer, evidence, and both.

The words of the answer count as in SQuAD, but "yes", "no" and "noanswer" are right or wrong as a whole. The evidence is
a set of sentences. The joint exact match, precision and recall of a question are products of the two parts, and the
joint F1 follows from them.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from ptmbench.tasks.forms import Answers
from ptmbench.tasks.metrics.additive import Additive
from ptmbench.tasks.metrics.common import percent
from ptmbench.tasks.metrics.squad import normalise
from ptmbench.tasks.task import DataError

_WHOLE = ("yes", "no", "noanswer")
_NAMES = ("exact_match", "f1", "precision", "recall")
_PARTS = ("", "facts_", "joint_")


def _answer(gold: str, guess: str) -> tuple[float, float, float]:
    """(exact match, precision, recall), from 0 to 1."""
    right, found = normalise(gold), normalise(guess)
    common = sum((Counter(right.split()) & Counter(found.split())).values())
    if not common or (right != found and (right in _WHOLE or found in _WHOLE)):
        return float(right == found), 0.0, 0.0
    return float(right == found), common / len(found.split()), common / len(right.split())


def _evidence(gold: frozenset[Any], guess: frozenset[Any]) -> tuple[float, float, float]:
    common = len(gold & guess)
    return float(gold == guess), common / len(guess) if guess else 0.0, common / len(gold) if gold else 0.0


def _statistics(gold: Sequence[Answers], predictions: Sequence[str | None]) -> np.ndarray:
    rows = np.zeros((len(gold), 13))  # [N, 13] four scores each of the answer, the evidence and both, then 1
    for row, (answers, guess) in enumerate(zip(gold, predictions, strict=True)):
        if not answers:
            raise DataError(f"Question {row + 1} has no gold answer: HotpotQA's test set is not public.")
        rows[row, 12] = 1.0
        if guess is None:
            continue
        first = _answer(answers[0].text, str(guess))
        named = getattr(guess, "facts", None)
        second = (0.0, 0.0, 0.0) if named is None else _evidence(answers.facts, frozenset(named))
        for part, (exact, p, r) in enumerate((first, second, tuple(np.multiply(first, second)))):
            rows[row, 4 * part : 4 * part + 4] = exact, 2 * p * r / (p + r) if p + r else 0.0, p, r
    return rows


def _value(sums: np.ndarray) -> dict[str, float]:
    names = [f"{part}{name}" for part in _PARTS for name in _NAMES]
    return {name: percent(total, sums[12]) for name, total in zip(names, sums[:12], strict=True)}


hotpotqa = Additive(_statistics, _value)
"""{"exact_match", "f1", "precision", "recall"} of the answer, and the same with the prefixes "facts_" and "joint_", in
percent. A prediction without evidence, not even an empty set, has 0 for "facts_" and "joint_"."""
