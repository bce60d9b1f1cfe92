"""Exact match and F1 of MLQA (Lewis et al., 2020, section 3.4; the script mlqa_evaluation_v1), by answer language.

As in SQuAD 1.1, but all Unicode punctuation marks and the articles of the answer's language are removed, and Chinese is
cut into single characters.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from string import punctuation

import numpy as np

from ptmbench.tasks.forms import Answer
from ptmbench.tasks.metrics.additive import Additive
from ptmbench.tasks.metrics.common import percent
from ptmbench.tasks.task import DataError

_ARTICLES = {
    "en": r"\b(?:a|an|the)\b",
    "es": r"\b(?:un|una|unos|unas|el|la|los|las)\b",
    "de": r"\b(?:ein|eine|einen|einem|eines|einer|der|die|das|den|dem|des)\b",
    "vi": r"\b(?:của|là|cái|chiếc|những)\b",
    "ar": "ال",  # anywhere in a word: the script's pattern for the start of a word can never match
    "hi": None,
    "zh": None,
}
LANGUAGES = tuple(_ARTICLES)
_HAN = re.compile(r"([\u4e00-\u9fa5])")


@lru_cache(maxsize=1 << 16)
def normalise(text: str, language: str) -> str:
    """Lower-cases ``text``, removes punctuation, then articles, and joins words by single spaces. In Chinese, each
    character is a word."""
    kept = (c for c in text.lower() if not (c in punctuation or unicodedata.category(c).startswith("P")))
    text = "".join(kept)
    if pattern := _ARTICLES[language]:
        text = re.sub(pattern, " ", text)
    return " ".join((_HAN.sub(r" \1 ", text) if language == "zh" else text).split())


def _f1(gold: str, guess: str) -> float:
    """F1 of the words of two normalised texts. 0 if either has no word, as in SQuAD 1.1."""
    right, found = gold.split(), guess.split()
    common = sum((Counter(right) & Counter(found)).values())
    return 2 * common / (len(right) + len(found)) if common else 0.0


@lru_cache(maxsize=32)
def mlqa(language: str, prefix: str = "") -> Additive:
    """{"exact_match", "f1"} in percent for answers in ``language``. ``prefix`` precedes the names."""
    if language not in _ARTICLES:
        raise DataError(f"MLQA's scorer knows the languages {', '.join(LANGUAGES)}, not '{language}'.")

    def statistics(gold: Sequence[Sequence[Answer]], predictions: Sequence[str | None]) -> np.ndarray:
        rows = np.zeros((len(gold), 3))  # [N, 3] exact match, F1, one
        for row, (answers, guess) in enumerate(zip(gold, predictions, strict=True)):
            if not answers:
                raise DataError(f"Question {row + 1} has no gold answer, but each needs one.")
            rows[row, 2] = 1.0
            if guess is not None:
                found = normalise(str(guess), language)
                texts = [normalise(answer.text, language) for answer in answers]
                rows[row, :2] = max(text == found for text in texts), max(_f1(text, found) for text in texts)
        return rows

    def value(sums: np.ndarray) -> dict[str, float]:
        exact, f1, questions = sums
        return {f"{prefix}exact_match": percent(exact, questions), f"{prefix}f1": percent(f1, questions)}

    return Additive(statistics, value)
