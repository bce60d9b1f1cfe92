"""Metrics on the rank of the right candidate, as in knowledge graph completion and cloze tests.

Mean rank, mean reciprocal rank and Hits@k are defined by Bordes et al. (2013), section 4.1. Ranks leave out other right
candidates ("filtered"). Candidates with equal scores share their middle rank. The best rank would reward a model that
scores all candidates alike, and the worst rank would punish it for ties (Sun et al., 2020, A re-evaluation of knowledge
graph completion methods; Berrendorf et al., 2020).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ptmbench.tasks.metrics.additive import Additive
from ptmbench.tasks.metrics.common import percent

HITS = (1, 3, 10)


def rank(scores: np.ndarray, right: int, others: Sequence[int] = ()) -> float:
    """The rank, from 1, of the candidate ``right`` by ``scores`` [C] (higher is better), without the candidates
    ``others``.

    NaN is the worst score.
    """
    scores = np.nan_to_num(np.asarray(scores, np.float64), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
    mine = scores[right]
    before, equal = int((scores > mine).sum()), int((scores == mine).sum())
    removed = scores[[other for other in others if other != right]]
    before -= int((removed > mine).sum())
    equal -= int((removed == mine).sum())
    return before + (equal + 1) / 2


def _statistics(gold: Sequence[Any], predictions: Sequence[float]) -> np.ndarray:
    """[N, 6]: hits for each k of `HITS`, reciprocal rank, rank, 1."""
    ranks = np.array([float(value) for value in predictions], np.float64).reshape(-1, 1)
    return np.concatenate([ranks <= HITS, 1.0 / ranks, ranks, np.ones_like(ranks)], axis=1)


def _rank_values(sums: np.ndarray, suffix: str = "") -> dict[str, float]:
    *hits, reciprocal, total, examples = sums
    values = {"mrr": percent(reciprocal, examples), "mr": float(total / examples) if examples else 0.0}
    values |= {f"hits_at_{k}": percent(count, examples) for k, count in zip(HITS, hits, strict=True)}
    return {name + suffix: value for name, value in values.items()}


ranking = Additive(_statistics, _rank_values)
"""{"mrr", "mr", "hits_at_1", "hits_at_3", "hits_at_10"} over all examples. All but "mr" are in percent."""


def _statistics_by_direction(gold: Sequence[Any], predictions: Sequence[float]) -> np.ndarray:
    """[N, 12]: the columns of `_statistics`, first for questions about tails and then for questions about heads."""
    table = _statistics(gold, predictions)
    kinds = np.array([getattr(target, "kind", None) == "head" for target in gold], bool)[:, None]
    return np.concatenate([table * ~kinds, table * kinds], axis=1)


def _values_by_direction(sums: np.ndarray) -> dict[str, float]:
    return _rank_values(sums[:6], "_tail") | _rank_values(sums[6:], "_head")


directions = Additive(_statistics_by_direction, _values_by_direction)
"""The values of `ranking` with the suffixes "_tail" and "_head", by the kind of the question (gold's kind)."""


def _by_relation(gold: Sequence[Any], predictions: Sequence[float]) -> np.ndarray:
    """Hits at 1 and at 10, reciprocal rank and 1 for each kind of gold, flattened to [N, 4 K].

    K depends on the data, so statistics of different data sets must not be added.
    """
    table = _statistics(gold, predictions)[:, [0, 2, 3, 5]]  # [N, 4]
    kinds = [getattr(target, "kind", None) or "" for target in gold]
    number = {kind: place for place, kind in enumerate(sorted(set(kinds)))}
    rows = np.zeros((len(table), len(number), 4))
    rows[np.arange(len(table)), [number[kind] for kind in kinds]] = table
    return rows.reshape(len(table), -1)  # [N, 4 K]


def _mean_of_relations(sums: np.ndarray) -> dict[str, float]:
    # Relations that are missing in a bootstrap sample are left out of the mean.
    means = [part[:3] / part[3] for part in sums.reshape(-1, 4) if part[3]]
    values = 100.0 * np.mean(means, axis=0) if means else np.zeros(3)
    return dict(zip(("p_at_1", "p_at_10", "relations_mrr"), map(float, values), strict=True))


by_relation = Additive(_by_relation, _mean_of_relations)
"""{"p_at_1", "p_at_10", "relations_mrr"} in percent: means over relations of the mean over examples, as LAMA reports
them."""
