"""Estimates drops by resampling examples: for metrics that are not means over examples, and for systems that were not
trained."""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ptmbench.leaderboard.gate.comparison import (
    Drop,
    SideEstimate,
    clusters_of,
    estimate_side,
    make_drop,
    members_of,
    variance_of,
)
from ptmbench.leaderboard.stats import CONFIDENCE, Interval

_POINTS = 100.0  # size of a changed example if no two scores differ


@dataclass(frozen=True, kw_only=True)
class Scored:
    """The predictions of one seed, which can be scored again on resampled examples."""

    ids: tuple[str, ...]
    groups: tuple[Hashable, ...] | None
    """Clusters of examples that are drawn together; None for an example on its own."""
    value: float
    """The headline over all examples, from the record."""
    each: np.ndarray | None
    """Scores per example [N] if the headline is their mean; None for F1, Matthews correlation, BLEU and similar
    metrics."""
    redraw: Callable[[np.ndarray], np.ndarray]
    """Maps the number of times that each example was drawn [R, N] to the headline of each draw [R]."""
    replicates: int = 1000


def averaged(scored: Sequence[Scored]) -> Scored:
    """Returns the mean of several seeds' scores as if it were one seed's score. All seeds have the same examples."""
    if len(scored) == 1:
        return scored[0]
    each = None if any(one.each is None for one in scored) else np.mean([one.each for one in scored], axis=0)
    return replace(
        scored[0], value=float(np.mean([one.value for one in scored])), each=each,
        redraw=lambda counts: np.mean([one.redraw(counts) for one in scored], axis=0),
        replicates=min(one.replicates for one in scored),
    )  # fmt: skip


def multi_bootstrap(
    base: Sequence[Scored], head: Sequence[Scored], paired: bool, seed: int = 0, pooled: bool = False
) -> Drop:
    """Returns the drop of a metric that is not a mean, by the Multi-Bootstrap (Sellam et al., 2022, algorithm 1).

    The parts of its variance are combined as in `comparison.mixed_t`, because percentiles over few seeds are too
    narrow. The percentiles are kept for display. The draws depend on the examples only, so cells of one task have the
    same draws.
    """
    first = base[0]
    replicates = min(one.replicates for one in (*base, *head))
    counts = draws(len(first.ids), first.groups, replicates, seed)  # [R, N]
    values = [np.array([one.redraw(counts) for one in side]) for side in (base, head)]  # [seeds, R] each
    whole = [np.array([one.value for one in side]) for side in (base, head)]  # [seeds] each
    seeds = (len(base), len(head))
    if paired:
        values, whole = [values[0] - values[1]], [whole[0] - whole[1]]
    sides, drawn, signs = [], 0.0, (1.0, -1.0)
    rng = np.random.default_rng(seed + 1)
    shift: np.ndarray | float = 0.0
    for sign, redrawn, own in zip(signs, values, whole, strict=False):
        count = len(own)
        inner = redrawn - redrawn.mean(axis=1, keepdims=True)
        rest = (inner - inner.mean(axis=0)).var(axis=1, ddof=1).sum() / max(count - 1, 1) / count
        sides.append(SideEstimate(float(own.mean()), inner.mean(axis=0), variance_of(own) / count, float(rest), count))
        shift = shift + sign * inner.mean(axis=0)
        picked = rng.integers(0, count, (count, replicates))
        drawn = drawn + sign * np.take_along_axis(redrawn, picked, axis=0).mean(axis=0)
    value = sum(sign * side.mean for sign, side in zip(signs, sides, strict=False))
    low, high = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return make_drop(
        float(value), sides, np.asarray(shift) / math.sqrt(replicates - 1), paired=paired, seeds=seeds, pooled=pooled,
        method="Multi-Bootstrap variance, t" + (", seeds paired" if paired else ""), examples=len(first.ids),
        clusters=len(members_of(len(first.ids), first.groups)), percentiles=Interval(float(low), float(high)),
    )  # fmt: skip


def untrained_drop(base: Sequence[Scored], head: Sequence[Scored]) -> Drop:
    """Returns the drop if nothing was trained: a paired bootstrap over examples, or for right-or-wrong scores the exact
    McNemar test (Dietterich, 1998, section 3.1). If there are several seeds, both sides have the same ones."""
    from scipy.stats import binomtest

    first, p = base[0], None
    members = clusters_of(len(first.ids), first.groups)
    seeds = (len(base), len(head))
    if all(one.each is not None for one in (*base, *head)):
        each = np.mean([a.each - b.each for a, b in zip(base, head, strict=True)], axis=0)  # [N]
        side = estimate_side(each[None], members)
        clusters = len(side.inner)
        spread = side.inner * math.sqrt(clusters / max(clusters - 1, 1)) / len(each)
        method = "paired over examples"
        if len(base) == 1 and members is None and len(np.unique(np.abs(each[each != 0]))) <= 1:
            worse, better = int((each > 0).sum()), int((each < 0).sum())
            p = binomtest(worse, worse + better, alternative="greater").pvalue if worse + better else 1.0
            method = "McNemar, exact"
            size = _disagreement(worse, better, len(each)) * (np.abs(each).max() or _POINTS)
            length = float(np.linalg.norm(spread))
            spread = spread * (size / length) if length else np.full(len(each), size / math.sqrt(len(each)))
        drop = make_drop(side.mean, [], spread, method=method, seeds=seeds, examples=len(each), clusters=clusters)
        return drop if p is None else replace(drop, exact_p=float(p))
    counts = draws(len(first.ids), first.groups, min(one.replicates for one in (*base, *head)), 0)
    shift = np.mean([a.redraw(counts) - b.redraw(counts) for a, b in zip(base, head, strict=True)], axis=0)  # [R]
    value = float(np.mean([a.value - b.value for a, b in zip(base, head, strict=True)]))
    clusters = len(members_of(len(first.ids), first.groups))
    spread = (shift - shift.mean()) / math.sqrt(len(shift) - 1)
    method = "paired bootstrap over examples"
    return make_drop(value, [], spread, method=method, seeds=seeds, examples=len(first.ids), clusters=clusters)


def _disagreement(worse: int, better: int, n: int) -> float:
    """Returns the standard error of (worse - better) / n after adding one example to each count (Bonett and Price,
    2012). Without that, no change on a few examples would count as proof that nothing changed."""
    a, b = (worse + 1) / (n + 2), (better + 1) / (n + 2)
    return math.sqrt((a + b - (a - b) ** 2) / (n + 2))


def draws(n: int, groups: Sequence[Hashable] | None, replicates: int, seed: int) -> np.ndarray:
    """Returns how often each of ``n`` examples is drawn in each replicate, [R, N]. Whole groups are drawn."""
    rng, members = np.random.default_rng(seed), members_of(n, groups)
    counts = np.zeros((replicates, n))
    index = np.empty(n, dtype=int)
    for number, one in enumerate(members):
        index[one] = number
    for row in counts:
        picked = rng.integers(0, len(members), len(members))
        row += np.bincount(picked, minlength=len(members))[index]
    return counts
