"""Estimates how much worse HEAD is than BASE on one cell, and how certain that is.

Two questions need two tests (Sellam et al., 2022, "The MultiBERTs", section 2). *Artifact*: the weights are the same,
so only the examples are drawn by chance. *Procedure*: the same recipe is trained again, so seeds are drawn too.

For the second, scores x[i, e] of seed i on example e are a two-way table of random effects, the layout of readers and
cases in imaging trials (Obuchowski and Rockette, 1995; Gallas, 2006). The variance of a drop is the variance between
seeds, plus the variance over examples of the mean difference, less the residual that is in both. Degrees of freedom are
Satterthwaite's (1946), as Hillis (2007) uses them for that layout. They grow with the share of the examples in the
variance, which is overestimated if two or three seeds happen to agree. So an interval is never narrower than Student's
over the seeds alone, and neither is the region of a test (docs/statistics.md has the error rates).

If the two sides start from different pre-trained weights, the pre-training is drawn as well (Sellam et al., section 3).
Fine-tuning seeds do not show its spread, because they share the weights. With several pre-trainings it is measured: the
mean over the seeds of each pre-training takes the place of a seed. Otherwise it has to be stated (`with_pretraining`).

A drop is positive if HEAD is worse, in the units of the headline.
"""

import bisect
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ptmbench.leaderboard.stats import CONFIDENCE, Interval

POWER = 0.8
MOST_SEEDS = 200


@dataclass(frozen=True, kw_only=True)
class Drop:
    """An estimated drop with its uncertainty; variances are in squared units of the headline."""

    value: float
    variance: float
    freedom: float
    from_seeds: float = 0.0
    freedom_of_seeds: float = math.inf
    shared: float = 0.0
    """The variance from examples that all seeds share. More seeds do not reduce it."""
    residual: float = 0.0
    from_pretraining: float = 0.0
    """The part of ``variance`` that comes from different pre-trainings; 0 if both sides have the same weights."""
    freedom_of_pretraining: float = math.inf
    method: str = ""
    seeds: tuple[int, int] = (0, 0)
    paired: bool = False
    examples: int = 0
    exact_p: float | None = None
    """The p-value of an exact test, if there is one. It replaces that of Student's t."""
    percentiles: Interval | None = None
    """Percentile interval of the Multi-Bootstrap, for display only."""
    spread: np.ndarray = field(default_factory=lambda: np.zeros(0), compare=False)
    """A vector whose squared length is the variance from examples. The vectors of cells on the same examples can be
    added."""

    @property
    def p(self) -> float:
        """One-sided p-value of the hypothesis that there is no drop."""
        if self.exact_p is not None:
            return self.exact_p
        if math.isnan(self.variance):
            return 1.0
        if self.variance <= 0:
            return 0.0 if self.value > 0 else 1.0
        return max(
            1 - _cdf(self.value / math.sqrt(variance), freedom) for variance, freedom in self._parts if variance > 0
        )

    def interval(self, confidence: float = CONFIDENCE) -> Interval:
        """Returns Student's two-sided t interval."""
        half = _widest(self._parts, 0.5 + confidence / 2)
        return Interval(self.value - half, self.value + half)

    @property
    def _parts(self) -> tuple[tuple[float, float], ...]:
        """(variance, degrees of freedom) of the total, of the seeds alone and of the pre-trainings alone."""
        return (
            (self.variance, self.freedom),
            (self.from_seeds, self.freedom_of_seeds),
            (self.from_pretraining, self.freedom_of_pretraining),
        )

    def detectable(self, alpha: float) -> float:
        """Returns the smallest true drop that a one-sided test at ``alpha`` detects with a probability of 80 %."""
        return _detectable_drop(self._parts, alpha)

    def seeds_needed(self, margin: float, alpha: float) -> int | None:
        """Returns the seeds per side that detect a drop of ``margin`` with a probability of 80 %. None if no number up
        to `MOST_SEEDS` is enough, because there are too few examples or pre-trainings."""
        have = max(min(self.seeds), 1)

        def is_detectable(seeds: int) -> bool:
            from_seeds = self.from_seeds * have / seeds
            total = from_seeds + self.shared + self.from_pretraining
            own = (1 if self.paired else 2) * (seeds - 1)
            freedom = own * (total / from_seeds) ** 2 if from_seeds > 0 else math.inf
            return _detectable_drop(((total, freedom), (from_seeds, own), self._parts[-1]), alpha) <= margin

        # More seeds never detect less.
        found = 2 + bisect.bisect_left(range(2, MOST_SEEDS + 1), True, key=is_detectable)
        return found if found <= MOST_SEEDS else None

    def enough_examples(self, margin: float, alpha: float) -> bool:
        """Whether infinitely many seeds would detect a drop of ``margin``."""
        return _detectable_drop(((self.shared + self.from_pretraining, math.inf), self._parts[-1]), alpha) <= margin


def with_pretraining(drop: Drop, sd: float) -> Drop:
    """Adds to ``drop`` the variance of one pre-training per side. Scores are taken to have a standard deviation of
    ``sd`` between pre-trainings, in the units of the headline; ``sd`` is taken as known."""
    added = 2 * sd**2
    total = drop.variance + added
    denominator = drop.variance**2 / drop.freedom
    return replace(
        drop, variance=total, freedom=total**2 / denominator if denominator > 0 else math.inf, from_pretraining=added,
        exact_p=None, percentiles=None,
    )  # fmt: skip


def over_pretrainings(drop: Drop) -> Drop:
    """Relabels a ``drop`` whose "seeds" are means of pre-trainings, so that their spread is the spread between
    pre-trainings."""
    return replace(
        drop, from_seeds=0.0, freedom_of_seeds=math.inf, from_pretraining=drop.from_seeds,
        freedom_of_pretraining=drop.freedom_of_seeds, method=f"{drop.method} over pre-trainings",
    )  # fmt: skip


def mixed_t(
    base: np.ndarray, head: np.ndarray, paired: bool, groups: Sequence[Hashable] | None = None, pooled: bool = False
) -> Drop:
    """Returns the drop of a mean of per-example scores: ``base`` [seeds, N] minus ``head`` [seeds, N].

    With ``paired``, row i of both sides is the same seed of the same weights, so seeds are compared one by one. For
    ``pooled`` see `make_drop`.
    """
    members = clusters_of(base.shape[-1], groups)
    method = "mixed t, seeds paired" if paired else "mixed t"
    if paired:
        base, head = base - head, np.zeros((0, base.shape[-1]))
    sides = [estimate_side(scores, members) for scores in (base, head) if len(scores)]
    signs = (1.0, -1.0)
    value = sum(sign * side.mean for sign, side in zip(signs, sides, strict=False))
    inner = sum(sign * side.inner for sign, side in zip(signs, sides, strict=False))
    clusters, n = len(inner), base.shape[-1]
    spread = inner * math.sqrt(clusters / max(clusters - 1, 1)) / n
    return make_drop(
        float(value), sides, spread, method=method, paired=paired, examples=n, clusters=clusters, pooled=pooled,
        seeds=(len(base), len(base) if paired else len(head)),
    )  # fmt: skip


def from_scores(
    base: Sequence[float], head: Sequence[float], errors: Sequence[float], examples: int, pooled: bool = False
) -> Drop:
    """Returns the drop if only scores are known. Seeds are treated as in `mixed_t`.

    The standard ``errors`` of both sides over examples are combined as if the sides had different examples. The
    interval is then too wide, because the error of shared examples cancels in the difference. So the verdict tends to
    "inconclusive".
    """
    sides = [
        SideEstimate(float(np.mean(x)), np.zeros(0), variance_of(np.asarray(x)) / len(x), 0.0, len(x))
        for x in (base, head)
    ]
    return make_drop(
        sides[0].mean - sides[1].mean, sides, np.array(errors, dtype=float), method="scores and their intervals only",
        seeds=(len(base), len(head)), examples=examples, clusters=examples, pooled=pooled,
    )  # fmt: skip


@dataclass(frozen=True)
class SideEstimate:
    """The contribution of one side, or of the difference of two sides, to a drop."""

    mean: float
    inner: np.ndarray
    """[G]: for each cluster, its deviation from the mean of its seed, averaged over seeds."""
    from_seeds: float
    residual: float
    count: int


def estimate_side(scores: np.ndarray, members: tuple[np.ndarray, np.ndarray] | None) -> SideEstimate:
    """Returns the contribution of the ``scores`` [seeds, N] of one side."""
    count, n = scores.shape
    means = scores.mean(axis=1)
    inner = scores - means[:, None]
    if members is not None:
        inner = np.add.reduceat(inner[:, members[0]], members[1], axis=1)  # [seeds, G]
    clusters, shared = inner.shape[1], inner.mean(axis=0)
    rest = float(((inner - shared) ** 2).sum()) * clusters / max(clusters - 1, 1) / max(count - 1, 1) / (count * n**2)
    return SideEstimate(float(means.mean()), shared, variance_of(means) / count, rest, count)


def make_drop(
    value: float, sides: Sequence[SideEstimate], spread: np.ndarray, clusters: int, pooled: bool = False, **rest: Any
) -> Drop:
    """Returns the drop ``value`` with the parts of its variance combined. ``rest`` are further fields of `Drop`.

    With ``pooled``, both sides have the same variance between seeds, estimated from both, so one of them may have a
    single seed. Otherwise each side has its own, and a single seed makes the variance unknown (NaN).
    """
    freedom = sum(side.count - 1 for side in sides)
    if pooled and freedom:
        one = sum(side.from_seeds * side.count * (side.count - 1) for side in sides) / freedom
        sides = [replace(side, from_seeds=one / side.count) for side in sides]
    from_seeds = sum(side.from_seeds for side in sides)
    residual = sum(side.residual for side in sides)
    examples = float(spread @ spread)
    variance = max(from_seeds + examples - residual, from_seeds, examples)
    seeds = [(from_seeds, freedom)] if pooled else [(side.from_seeds, side.count - 1) for side in sides]
    parts = [*seeds, (examples, clusters - 1)]
    denominator = _satterthwaite_denominator(parts)
    seeds_denominator = _satterthwaite_denominator(parts[:-1])
    if not freedom if pooled else any(side.count < 2 for side in sides):
        variance = math.nan  # one seed shows no spread
    return Drop(
        value=value, variance=variance, freedom=variance**2 / denominator if denominator > 0 else math.inf,
        from_seeds=from_seeds,
        freedom_of_seeds=from_seeds**2 / seeds_denominator if seeds_denominator > 0 else math.inf,
        shared=max(examples - residual, 0.0), residual=residual, spread=spread, **rest,
    )  # fmt: skip


def _satterthwaite_denominator(parts: Sequence[tuple[float, float]]) -> float:
    """Returns Satterthwaite's denominator for independent (variance, degrees of freedom) pairs."""
    return sum(variance**2 / freedom for variance, freedom in parts if variance > 0 and freedom > 0)


def clusters_of(n: int, groups: Sequence[Hashable] | None) -> tuple[np.ndarray, np.ndarray] | None:
    """Returns (order [N], first place of each cluster [G]) for `numpy.add.reduceat`; None without clusters."""
    if groups is None or all(group is None for group in groups):
        return None
    members = members_of(n, groups)
    starts = np.cumsum([0, *(len(one) for one in members[:-1])])
    return np.concatenate(members), starts


def members_of(n: int, groups: Sequence[Hashable] | None) -> list[np.ndarray]:
    """Returns the examples of each cluster, in order of first appearance."""
    found: dict[Hashable, list[int]] = {}
    for i in range(n):
        group = groups[i] if groups else None
        found.setdefault(("alone", i) if group is None else ("group", group), []).append(i)
    return [np.array(one) for one in found.values()]


def variance_of(values: np.ndarray) -> float:
    """Returns the sample variance; 0 for one value."""
    return float(values.var(ddof=1)) if len(values) > 1 else 0.0


def _widest(parts: Sequence[tuple[float, float]], level: float) -> float:
    """Returns the largest product of Student's t quantile at ``level`` and the standard error, over (variance, degrees
    of freedom) pairs. The first pair is the total; if its variance is NaN, so is the result."""
    return max(_quantile(level, freedom) * math.sqrt(variance) for variance, freedom in parts)


def _detectable_drop(parts: Sequence[tuple[float, float]], alpha: float) -> float:
    """Returns the drop that a test at ``alpha`` detects with a probability of 80 %: the critical value of the test plus
    the 80 % quantile of the estimate's error."""
    return _widest(parts, 1 - alpha) + _widest(parts[:1], POWER)


def _quantile(level: float, freedom: float) -> float:
    from scipy.special import ndtri, stdtrit

    return float(ndtri(level) if math.isinf(freedom) else stdtrit(max(freedom, 1e-3), level))


def _cdf(value: float, freedom: float) -> float:
    from scipy.special import ndtr, stdtr

    return float(ndtr(value) if math.isinf(freedom) else stdtr(max(freedom, 1e-3), value))
