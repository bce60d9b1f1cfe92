"""Precision at k of word translation: the share of source words with a right translation among the first k.

Conneau et al. (2018), section 4.2, and their program: a word with several translations is one question, and one of them
is enough. Here each translation is an example, ranked without the other translations. The best of these filtered ranks
is the rank of the first right answer among all candidates. Gold's ``kind`` is the source word.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ptmbench.tasks.metrics.additive import Additive
from ptmbench.tasks.metrics.common import percent

AT = (1, 5, 10)


def _statistics(gold: Sequence[Any], predictions: Sequence[float]) -> np.ndarray:
    """[N, 4]: hits at 1, 5 and 10, and 1, in the row of each word's first translation. Other rows are 0."""
    first: dict[Any, int] = {}
    table = np.zeros((len(gold), len(AT) + 1))
    for row, (target, rank) in enumerate(zip(gold, predictions, strict=True)):
        kind = getattr(target, "kind", None)
        place = first.setdefault(("alone", row) if kind is None else kind, row)
        table[place] = np.maximum(table[place], [*(float(rank) <= k for k in AT), 1.0])
    return table


def _named(sums: np.ndarray) -> dict[str, float]:
    *hits, words = sums
    return {f"p_at_{k}": percent(count, words) for k, count in zip(AT, hits, strict=True)}


translations = Additive(_statistics, _named)
"""{"p_at_1", "p_at_5", "p_at_10"} in percent. A bootstrap should draw the examples of one word together."""
