"""CMRC 2018's scores (Cui et al., 2019, section 4; the script cmrc2018_evaluate): exact match, and F1 of the longest
common run of segments.

Answers are cut into segments: each Chinese character is one, and the text between them is cut into words by NLTK's
English tokenizer. F1 counts the longest common run of segments, not the bag of segments. A list of punctuation marks is
removed from both answers. It is shorter than it looks: its six dots are two characters, so an ellipsis stays, and so do
the ASCII comma, full stop and quotes.

The script calls NLTK's word_tokenize, which first splits sentences with a trained model. The tokenizer here has no such
model. It differs for an answer with several English sentences without a Chinese character between them.
"""

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

from ptmbench.tasks.forms import Answer
from ptmbench.tasks.metrics.additive import Additive
from ptmbench.tasks.metrics.common import percent
from ptmbench.tasks.task import DataError

_MARKS = frozenset("-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
_PIECES = re.compile(r"[\u4e00-\u9fa5]|[^\u4e00-\u9fa5]+")


def _plain(text: str) -> str:
    return "".join(character for character in text.lower().strip() if character not in _MARKS)


@lru_cache(maxsize=1 << 16)
def segments(text: str) -> tuple[str, ...]:
    """The Chinese characters and English words of ``text`` in lower case, without the punctuation marks."""
    found: list[str] = []
    for piece in _PIECES.findall(_plain(text)):
        found += [piece] if "\u4e00" <= piece[0] <= "\u9fa5" else _english().tokenize(piece)
    return tuple(found)


@cache
def _english() -> Any:
    from nltk.tokenize import NLTKWordTokenizer  # the import takes two seconds

    return NLTKWordTokenizer()


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """The length of the longest common run."""
    best, above = 0, [0] * (len(other) + 1)
    for left in one:
        row = [0] * (len(other) + 1)
        for j, right in enumerate(other, 1):
            if left == right:
                row[j] = above[j - 1] + 1
        best, above = max(best, *row), row
    return best


@lru_cache(maxsize=1 << 16)
def _f1(gold: str, guess: str) -> float:
    right, found = segments(gold), segments(guess)
    return 2 * _common(right, found) / (len(right) + len(found)) if right and found else 0.0


def _statistics(gold: Sequence[Sequence[Answer]], predictions: Sequence[str | None]) -> np.ndarray:
    rows = np.zeros((len(gold), 3))  # [N, 3] exact match, F1, one
    for row, (answers, guess) in enumerate(zip(gold, predictions, strict=True)):
        if not answers:
            raise DataError(f"Question {row + 1} has no gold answer: CMRC 2018 has one for each.")
        rows[row, 2] = 1.0
        if guess is not None:
            guess = str(guess)
            rows[row, 0] = any(_plain(answer.text) == _plain(guess) for answer in answers)
            rows[row, 1] = max(_f1(answer.text, guess) for answer in answers)
    return rows


def _value(sums: np.ndarray) -> dict[str, float]:
    exact, f1, questions = sums
    return {"exact_match": percent(exact, questions), "f1": percent(f1, questions)}


cmrc = Additive(_statistics, _value)
"""{"exact_match", "f1"} in percent; the script's "average" is their mean."""
