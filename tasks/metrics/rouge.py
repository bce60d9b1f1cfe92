"""ROUGE (Lin, 2004) as computed by Google's rouge-score package, with its Porter stemmer as T5 and PEGASUS report it.

The values are F-measures: the best over the references, then the mean over examples. ``rougeL`` treats a text as one
sequence. ``rougeLsum`` treats each line as a sentence. All characters except ASCII letters and digits are dropped, so
the values are meaningless for other scripts.
"""

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

from ptmbench.tasks.metrics.additive import Additive
from ptmbench.tasks.metrics.common import hypotheses, percent, references

KINDS = ("rouge1", "rouge2", "rougeL", "rougeLsum")


@cache
def _scorer() -> Any:
    from rouge_score.rouge_scorer import RougeScorer  # imports nltk, which takes a second

    return RougeScorer(list(KINDS), tokenizer=_Tokenizer())


class _Tokenizer:
    """The package's own tokenizer with a cache: stemming is nearly all of the cost, and every text is tokenized several
    times."""

    def __init__(self) -> None:
        from rouge_score.tokenizers import DefaultTokenizer

        self.tokenize = lru_cache(maxsize=1 << 14)(DefaultTokenizer(use_stemmer=True).tokenize)


def _statistics(gold: Sequence[Sequence[str]], predictions: Sequence[str]) -> np.ndarray:
    rows = np.ones((len(gold), len(KINDS) + 1))  # [N, 5] four F-measures (0 to 1), one
    for row, (texts, guess) in enumerate(zip(references(gold), hypotheses(predictions), strict=True)):
        best = _scorer().score_multi(texts, guess)
        rows[row, :-1] = [best[kind].fmeasure for kind in KINDS]
    return rows


def _value(sums: np.ndarray) -> dict[str, float]:
    return {kind: percent(part, sums[-1]) for kind, part in zip(KINDS, sums, strict=False)}


rouge = Additive(_statistics, _value)
"""{"rouge1", "rouge2", "rougeL", "rougeLsum"} in percent."""
