"""How sure a number is: spread over seeds, intervals over examples, and both together.

Two sources of chance are kept apart because they shrink differently: more seeds average out training noise, but every
seed is scored on the same examples, so only more examples shrink the rest (Sellam et al., 2022, "The MultiBERTs",
section 4).
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

CONFIDENCE = 0.95
_CHUNK = 4_000_000  # counts held at once by the bootstrap, about 32 MB
_MOST_UNDEFINED = 0.05  # share of undefined replicates from which an interval says nothing


class Interval(NamedTuple):
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Values of one quantity over seeds: ``sd`` is the sample standard deviation (n - 1); NaN when n = 1."""

    n: int
    mean: float
    sd: float
    interval: Interval
    """t interval of the mean over seeds; NaN when n = 1."""


def summarise(values: Sequence[float], confidence: float = CONFIDENCE) -> Summary:
    """Mean, sample standard deviation and Student's t interval of the mean. NaN throughout for no values."""
    x = np.asarray(values, dtype=float)
    if not len(x) or not np.isfinite(x).all():
        nan = math.nan
        return Summary(n=len(x), mean=float(x.mean()) if len(x) else nan, sd=nan, interval=Interval(nan, nan))
    mean = float(x.mean())
    if len(x) == 1:
        return Summary(n=1, mean=mean, sd=math.nan, interval=Interval(math.nan, math.nan))
    sd = float(x.std(ddof=1))
    half = _t(len(x) - 1, confidence) * sd / math.sqrt(len(x))
    return Summary(n=len(x), mean=mean, sd=sd, interval=Interval(mean - half, mean + half))


def combined(values: Sequence[float], examples: Sequence[Interval], confidence: float = CONFIDENCE) -> Interval:
    """Interval of the mean over new seeds and new examples of the same kind.

    ``examples`` holds each seed's own interval over examples (95 %). Variance of the mean = s^2 / n from seeds + the
    mean squared standard error from examples, which n does not divide because all seeds share the examples. Degrees
    of freedom after Satterthwaite, the example part taken as known. One seed: the interval over examples alone. No
    usable interval over examples: the one over seeds alone.
    """
    summary = summarise(values, confidence)
    # the intervals in records are 95 % ones, whatever ``confidence`` asks for here
    errors = [(high - low) / (2 * 1.959963984540054) for low, high in examples if math.isfinite(high - low)]
    if len(errors) < len(values) or not math.isfinite(summary.mean):
        return summary.interval
    if summary.n == 1:
        return Interval(*examples[0])
    from_examples = float(np.mean(np.square(errors)))
    from_seeds = summary.sd**2 / summary.n
    total = from_examples + from_seeds
    freedom = (summary.n - 1) * (total / from_seeds) ** 2 if from_seeds > 0 else math.inf
    half = _t(freedom, confidence) * math.sqrt(total)
    return Interval(summary.mean - half, summary.mean + half)


def differences(ours: Mapping[int, float], theirs: Mapping[int, float], confidence: float = CONFIDENCE) -> Summary:
    """``ours - theirs`` seed by seed (both sides of a seed share data order and head initialisation), then
    `summarise`."""
    shared = sorted(set(ours) & set(theirs))
    return summarise([ours[seed] - theirs[seed] for seed in shared], confidence)


def overlap(one: Interval, other: Interval) -> bool:
    """Whether two intervals meet; undefined bounds count as meeting, since nothing is known."""
    return not (one.low > other.high or other.low > one.high)


def bootstrap_interval(
    statistics: np.ndarray,
    value: Callable[[np.ndarray], Mapping[str, float]],
    groups: Sequence[Hashable] | None = None,
    replicates: int = 1000,
    seed: int = 0,
    confidence: float = CONFIDENCE,
) -> dict[str, Interval]:
    """Percentile bootstrap over examples for metrics that are functions of summed statistics.

    ``statistics`` [N, K] per example and ``value(sums [K]) -> {name: value}``. With ``groups`` (one per example, None
    for an example on its own) whole groups are drawn: questions of one passage are not independent. Equal rows are
    pooled first, so a replicate is one multinomial draw over the distinct rows and all replicates are one matrix
    product; the distribution is exactly that of drawing examples.
    """
    units = _pool(np.asarray(statistics, dtype=float), groups)  # [G, K]
    if not len(units):
        raise ValueError("The bootstrap needs at least one example.")
    rows, multiplicity = np.unique(units, axis=0, return_counts=True)  # [U, K], [U]
    rng = np.random.default_rng(seed)
    step, sums = max(1, _CHUNK // len(rows)), []
    for start in range(0, replicates, step):
        size = min(step, replicates - start)
        counts = rng.multinomial(len(units), multiplicity / len(units), size=size)  # [R, U]
        sums.append(counts @ rows)  # [R, K]
    return _intervals([value(row) for row in np.concatenate(sums)], confidence)


def bootstrap_metric(
    metric: Callable[[Sequence[Any], Sequence[Any]], Mapping[str, float]],
    gold: Sequence[Any],
    predictions: Sequence[Any],
    groups: Sequence[Hashable] | None = None,
    replicates: int = 200,
    seed: int = 0,
    confidence: float = CONFIDENCE,
) -> dict[str, Interval]:
    """The same for a metric that does not add up: it is called once per replicate, hence the fewer replicates."""
    if not gold or len(gold) != len(predictions):
        raise ValueError(
            f"The bootstrap needs gold and predictions of one length, not {len(gold)} and {len(predictions)}."
        )
    members = _members(len(gold), groups)
    rng = np.random.default_rng(seed)
    values = []
    for _ in range(replicates):
        drawn = np.concatenate([members[i] for i in rng.integers(0, len(members), len(members))])
        values.append(metric([gold[i] for i in drawn], [predictions[i] for i in drawn]))
    return _intervals(values, confidence)


def _members(n: int, groups: Sequence[Hashable] | None) -> list[np.ndarray]:
    """The indexes of each group, in order of first appearance; an example without a group is a group of its own."""
    if groups is None:
        return [np.array([i]) for i in range(n)]
    if len(groups) != n:
        raise ValueError(f"There are {n} examples but {len(groups)} groups.")
    found: dict[Hashable, list[int]] = {}
    for i, group in enumerate(groups):
        found.setdefault(("alone", i) if group is None else ("group", group), []).append(i)
    return [np.array(indexes) for indexes in found.values()]


def _pool(statistics: np.ndarray, groups: Sequence[Hashable] | None) -> np.ndarray:
    """[N, K] per example to [G, K] per group."""
    if statistics.ndim != 2:
        raise ValueError(f"The statistics must have the shape [examples, statistics], not {list(statistics.shape)}.")
    if groups is None:
        return statistics
    return np.array([statistics[indexes].sum(axis=0) for indexes in _members(len(statistics), groups)])


def _intervals(values: Sequence[Mapping[str, float]], confidence: float) -> dict[str, Interval]:
    """Percentiles of every named value; NaN where too many replicates leave the value undefined."""
    tail = (1 - confidence) / 2
    result = {}
    for name in values[0]:
        x = np.array([value[name] for value in values], dtype=float)
        defined = x[np.isfinite(x)]
        if len(defined) < (1 - _MOST_UNDEFINED) * len(x):
            result[name] = Interval(math.nan, math.nan)
        else:
            low, high = np.quantile(defined, [tail, 1 - tail])
            result[name] = Interval(float(low), float(high))
    return result


def _t(freedom: float, confidence: float) -> float:
    """Two-sided quantile of Student's t."""
    from scipy.special import ndtri, stdtrit  # scipy.stats takes a second to import and uses these

    return float(ndtri(0.5 + confidence / 2) if math.isinf(freedom) else stdtrit(freedom, 0.5 + confidence / 2))
