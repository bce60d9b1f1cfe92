"""Agreement of pre-trainings on the order of models: Kendall's tau between seeds of pre-training.

tau is the share of pairs of models that two seeds put in the same order, minus the share that they put in opposite
orders. Ties count as neither (tau-b, Kendall, 1945, "The treatment of ties in ranking problems", Biometrika 33). tau is
1 if the orders are the same, and 0 if they are unrelated.
"""

import math
from collections.abc import Sequence
from functools import cache
from itertools import combinations
from typing import NamedTuple

import numpy as np

from ptmbench.leaderboard.scores.grid import Column, Grid
from ptmbench.leaderboard.stats import CONFIDENCE, Interval, mean_of

FEWEST = 4
"""Fewest models whose orders are compared. Three models have the same order by chance once in six times."""
_REPLICATES = 2000
_HALVINGS = 14


class Agreement(NamedTuple):
    """Kendall's tau of ``models`` models between ``pretrainings`` seeds: the mean over pairs of seeds, with the 95 %
    interval of a single pair."""

    tau: float
    interval: Interval
    models: int
    pretrainings: int


def agreement(grid: Grid, column: Column) -> Agreement | None:
    """Returns the agreement on ``column``; None with fewer than two seeds of pre-training that `FEWEST` models share,
    or if all models are equal at one seed.

    A score is the mean over the seeds of adaptation. Only models with several pre-trainings count, and only those with
    a score at every seed of pre-training that any of them has.
    """
    scores = []
    for row in grid.rows:
        cell = grid.cells.get((row, column))
        if row.kind == "pretrained" and cell and cell.ok:
            parts: dict[tuple[str, ...], list[float]] = {}
            for (pretraining, _), value in cell.values.items():
                parts.setdefault(pretraining, []).append(value)
            scores.append({pretraining: mean_of(part) for pretraining, part in parts.items()})
    several = [one for one in scores if len(one) > 1]
    seeds = sorted(set().union(*several))
    whole = [one for one in several if one.keys() == set(seeds) and all(map(math.isfinite, one.values()))]
    if len(seeds) < 2 or len(whole) < FEWEST:
        return None
    orders = [[one[seed] for one in whole] for seed in seeds]
    taus = [kendall(first, second) for first, second in combinations(orders, 2)]
    if not all(map(math.isfinite, taus)):  # at one seed all models are equal
        return None
    found = mean_of(taus)
    return Agreement(found, interval(found, len(whole)), len(whole), len(seeds))


def kendall(first: Sequence[float], second: Sequence[float]) -> float:
    """Returns tau-b of two lists of the same length; NaN if all values of one are equal."""
    pairs = np.triu_indices(len(first), 1)
    ours, theirs = (_signs(np.array(one, float), pairs) for one in (first, second))
    norm = math.sqrt(float((ours**2).sum() * (theirs**2).sum()))
    return float((ours * theirs).sum()) / norm if norm else math.nan


@cache
def interval(tau: float, models: int, confidence: float = CONFIDENCE) -> Interval:
    """Returns the values that a test would not reject if ``tau`` is observed on ``models`` models, for normal scores of
    both seeds. With fewer than 30 models, intervals from a standard error miss a high tau too often."""
    tail = (1 - confidence) / 2
    source = np.random.default_rng(0)
    first, noise = source.standard_normal((2, _REPLICATES, models))
    pairs = np.triu_indices(models, 1)
    order = _signs(first, pairs)

    def drawn(true: float) -> np.ndarray:
        """Returns taus [_REPLICATES] of samples from normal scores whose tau is ``true``."""
        correlation = math.sin(
            math.pi * true / 2
        )  # Kruskal (1958), "Ordinal measures of association", J. Am. Stat. Assoc. 53
        second = correlation * first + math.sqrt(1 - correlation**2) * noise
        return (order * _signs(second, pairs)).mean(axis=1)

    def bound(sign: int) -> float:
        low, high = -1.0, 1.0  # of sign * true
        if sign * tau <= -1 + 1e-9:
            return -sign
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            likely = (sign * drawn(sign * middle) >= sign * tau - 1e-9).mean() > tail
            low, high = (low, middle) if likely else (middle, high)
        return sign * (low + high) / 2

    return Interval(bound(1), bound(-1))


def _signs(scores: np.ndarray, pairs: Sequence[np.ndarray]) -> np.ndarray:
    """Compares each pair: maps scores [..., models] to 1, 0 or -1 [..., pairs]."""
    return np.sign(scores[..., pairs[0]] - scores[..., pairs[1]])
