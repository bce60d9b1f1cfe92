"""Ranks with uncertainty: an interval of ranks per row. Rows that no interval separates share a rank.

A row is certainly better than another if its interval lies wholly above. The intervals are widened together, so that
with 95 % confidence all of them hold their true means at once. Then every true rank lies in its interval of ranks, too
(Klein, Wright and Wieczorek, 2020, "A joint confidence region for an overall ranking of populations", J. R. Stat. Soc.
C 69, theorem 1). Rows share seeds and examples, which makes the intervals of ranks too wide rather than too narrow.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from ptmbench.leaderboard.stats import CONFIDENCE, Interval

_Row = TypeVar("_Row", bound=Hashable)


@dataclass(frozen=True, kw_only=True)
class Rank:
    """The ranks that a row can have, from ``best`` to ``worst``. Rows of one tie group share ``best``."""

    best: int
    worst: int

    def __str__(self) -> str:
        return str(self.best) if self.best == self.worst else f"{self.best}–{self.worst}"


def simultaneous_confidence(rows: int, confidence: float = CONFIDENCE) -> float:
    """Returns the confidence of each of ``rows`` intervals that makes all of them hold at once with ``confidence``
    (Šidák)."""
    return confidence ** (1 / max(rows, 1))


def ranks(intervals: Mapping[_Row, Interval], higher_is_better: bool = True) -> dict[_Row, Rank]:
    """Returns the ranks of the rows whose simultaneous interval is known. Other rows have none."""
    known = [row for row, one in intervals.items() if math.isfinite(one.low) and math.isfinite(one.high)]
    if not known:
        return {}
    low, high = np.array([intervals[row] for row in known]).T  # [R], [R]
    above = low[:, None] > high[None, :]  # [R, R]: whether the first lies wholly above the second
    better = above if higher_is_better else above.T
    ahead, behind = better.sum(axis=0), better.sum(axis=1)  # [R]: how many certainly beat it, how many it beats
    return {
        row: Rank(best=1 + int(a), worst=len(known) - int(b)) for row, a, b in zip(known, ahead, behind, strict=True)
    }


def separable(ordered: Sequence[Interval], higher_is_better: bool = True) -> tuple[int, int]:
    """Returns the number of neighbours in a ranking that are certainly different, and the number of pairs of
    neighbours."""
    pairs = list(zip(ordered, ordered[1:], strict=False))
    if not higher_is_better:
        pairs = [(second, first) for first, second in pairs]
    return sum(1 for first, second in pairs if first.low > second.high), len(pairs)
