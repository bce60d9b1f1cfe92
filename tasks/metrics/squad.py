"""Exact match and F1 of SQuAD 1.1 (Rajpurkar et al., 2016, section 6.1; the script evaluate-v1.1).

Both compare normalised texts and take the best of the gold answers. If an answer is empty after normalisation ("the"),
an equal text matches exactly but shares no word, so exact match can be 100 and F1 0. Version 1.1 counts in this way,
2.0 does not.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence

import numpy as np

from ptmbench.tasks.forms import Answer
from ptmbench.tasks.metrics.additive import Additive
from ptmbench.tasks.metrics.common import percent
from ptmbench.tasks.task import DataError

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)  # ASCII only, as in the official script
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


def normalise(text: str) -> str:
    """Lower-cases ``text``, removes ASCII punctuation, then English articles, and joins words by single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def word_f1(gold: str, prediction: str) -> float:
    """F1 (0 to 1) of the bags of normalised words. 0 if either is empty."""
    right, guess = normalise(gold).split(), normalise(prediction).split()
    common = sum((Counter(right) & Counter(guess)).values())
    if not common:
        return 0.0
    precision, recall = common / len(guess), common / len(right)
    return 2 * precision * recall / (precision + recall)


def closest(context: str, start: int, end: int, text: str) -> tuple[int, int]:
    """The first and past-the-last character of the passage between ``start`` and ``end`` that agrees best with
    ``text``.

    This is a literal occurrence of ``text``, or else the run of words with the highest F1. If no word is shared, it is
    everything from ``start`` to ``end``.
    """
    literal = re.search(rf"(?<!\w){re.escape(text.strip())}(?!\w)", context[start:end], re.IGNORECASE)
    if literal and literal.group():
        return start + literal.start(), start + literal.end()
    words, wanted = [], Counter(normalise(text).split())
    at = start
    for word in context[start:end].split():
        at = context.index(word, at)
        words.append((at, at + len(word), normalise(word).split()))
        at += len(word)
    best, found = (0.0, start - end), (start, end)
    for i in range(len(words)):
        seen: Counter[str] = Counter()
        for first, last in ((words[i][0], word) for word in words[i:]):
            seen.update(last[2])
            f1 = 2 * sum((seen & wanted).values()) / max(1, seen.total() + wanted.total())
            if f1 and (f1, first - last[1]) > best:  # of two equally good passages the shorter one
                best, found = (f1, first - last[1]), (first, last[1])
    return found


def _statistics(gold: Sequence[Sequence[Answer]], predictions: Sequence[str | None]) -> np.ndarray:
    rows = np.zeros((len(gold), 3))  # [N, 3] exact match, F1, one
    for row, (answers, guess) in enumerate(zip(gold, predictions, strict=True)):
        if not answers:
            raise DataError(
                f"Question {row + 1} has no gold answer: SQuAD 1.1 has one for each, and its test set is not public."
            )
        rows[row, 2] = 1.0
        if guess is not None:  # None is no answer at all and scores 0. An empty text is compared like any other.
            rows[row, 0] = max(normalise(answer.text) == normalise(guess) for answer in answers)
            rows[row, 1] = max(word_f1(answer.text, guess) for answer in answers)
    return rows


def _value(sums: np.ndarray) -> dict[str, float]:
    exact, f1, questions = sums
    return {"exact_match": percent(exact, questions), "f1": percent(f1, questions)}


squad = Additive(_statistics, _value)
"""{"exact_match", "f1"} in percent."""
