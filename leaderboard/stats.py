"""Uncertainty of scores: spread over seeds, intervals over examples, and both together.

Two sources of chance are kept apart because they shrink differently. More seeds average out training noise. But every
seed is scored on the same examples, so only more examples shrink the rest (Sellam et al., 2022, "The MultiBERTs",
section 4).
"""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

CONFIDENCE = 0.95
LARGEST = 1e150
"""Values of this size or more cannot be squared: their spread is unknown, and they are not drawn."""
_CHUNK = 4_000_000  # counts held at once by the bootstrap, about 32 MB
_MOST_UNDEFINED = 0.05  # share of undefined replicates above which there is no interval


class Interval(NamedTuple):
    low: float
    high: float

    def within(self, bounds: "Interval") -> "Interval":
        """Returns the part of the interval that lies within ``bounds``, for a bounded quantity; NaN stays NaN.

        A t interval ignores that a percentage lies between 0 and 100. The part cut off cannot hold the true value, so
        the coverage stays the same (Mandelkern, 2002, "Setting confidence intervals for bounded parameters",
        Statistical Science 17). An interval on the logit scale respects the bounds by itself. But it would say nothing
        about a score near 0, the likeliest score of a metric such as Matthews correlation.
        """
        return Interval(max(self.low, bounds.low), min(self.high, bounds.high))


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Values of one quantity over seeds. ``sd`` is the sample standard deviation (n - 1); NaN when n = 1."""

    n: int
    mean: float
    sd: float
    interval: Interval
    """The t interval of the mean over seeds; NaN when n = 1."""


def mean_of(values: Sequence[float]) -> float:
    """Returns the mean of ``values``; infinite or NaN if a value is, or if the sum overflows."""
    try:
        return math.fsum(values) / len(values)
    except (OverflowError, ValueError):  # partial sums overflow, or there are infinities of both signs
        return sum(values) / len(values)


def summarise(values: Sequence[float], confidence: float = CONFIDENCE) -> Summary:
    """Returns the mean, the sample standard deviation and Student's t interval of the mean. Without values, all are
    NaN. If a value is not finite or is too large to be squared, all but the mean are NaN."""
    x = [float(value) for value in values]  # few values, but thousands of cells: arrays would be slower
    nowhere = Interval(math.nan, math.nan)
    mean = mean_of(x) if x else math.nan
    if len(x) < 2 or not all(abs(value) < LARGEST for value in x):
        return Summary(n=len(x), mean=mean, sd=math.nan, interval=nowhere)
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in x) / (len(x) - 1))
    half = _t(len(x) - 1, confidence) * sd / math.sqrt(len(x))
    return Summary(n=len(x), mean=mean, sd=sd, interval=Interval(mean - half, mean + half))


class Error(NamedTuple):
    """The standard error of a mean, and its degrees of freedom."""

    size: float
    freedom: float
    seeds: float = 0.0
    """The part of ``size`` that comes from seeds, or from pre-trainings if there are several."""
    freedom_of_seeds: float = math.inf

    def widest(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Returns the standard error and degrees of freedom behind the interval: for seeds and examples together, or
        for seeds alone if that interval is wider.

        Satterthwaite's degrees of freedom grow with the share of the examples in the variance. If two seeds happen to
        agree, that share is overestimated, and an interval with these degrees of freedom alone holds the truth in 88 %
        of cases instead of 95 % (docs/statistics.md).
        """
        pairs = ((self.size, self.freedom), (self.seeds, self.freedom_of_seeds))
        return max(pairs, key=lambda one: _t(one[1], confidence) * one[0])

    def around(self, mean: float, confidence: float = CONFIDENCE) -> Interval:
        if not math.isfinite(self.size):
            return Interval(math.nan, math.nan)
        size, freedom = self.widest(confidence)
        half = _t(freedom, confidence) * size
        return Interval(mean - half, mean + half)


def from_examples(examples: Sequence[Interval]) -> float:
    """Returns the variance over examples: the mean squared standard error behind 95 % intervals; NaN if one is
    unknown."""
    errors = [(high - low) / (2 * 1.959963984540054) for low, high in examples]
    known = errors and all(abs(error) < LARGEST for error in errors)
    return math.fsum(error**2 for error in errors) / len(errors) if known else math.nan


def error(summary: Summary, examples: float) -> Error:
    """Returns the standard error of a mean over new seeds and new examples of the same kind.

    Its square is s^2 / n from seeds plus the variance ``examples``, which is not divided by n because all seeds share
    the examples. Degrees of freedom are Satterthwaite's, with the variance over examples taken as known. With one seed,
    only ``examples`` counts. An unknown variance over examples (NaN) is left out.
    """
    if summary.n <= 1:
        return Error(math.sqrt(examples), math.inf)
    seeds = summary.sd**2 / summary.n
    total = seeds + (examples if math.isfinite(examples) else 0.0)
    more = total / seeds if seeds > 0 else math.inf
    freedom = (summary.n - 1) * (more * more) if seeds > 0 or total > 0 else summary.n - 1
    return Error(math.sqrt(total), freedom, math.sqrt(seeds), summary.n - 1)


def combined(values: Sequence[float], examples: Sequence[Interval], confidence: float = CONFIDENCE) -> Interval:
    """Returns the interval of the mean over new seeds and new examples (see `error`). For one seed, it is the interval
    over examples.

    ``examples`` holds each seed's own interval over examples (95 %, whatever ``confidence`` is).
    """
    summary = summarise(values, confidence)
    variance = from_examples(examples) if len(examples) == len(values) else math.nan
    if not math.isfinite(summary.mean):
        return summary.interval
    if summary.n == 1 and math.isfinite(variance):
        return Interval(*examples[0])
    return error(summary, variance).around(summary.mean, confidence)


def differences(ours: Mapping[int, float], theirs: Mapping[int, float], confidence: float = CONFIDENCE) -> Summary:
    """Summarises ``ours - theirs`` seed by seed. Both sides of a seed share data order and head initialisation."""
    shared = sorted(set(ours) & set(theirs))
    return summarise([ours[seed] - theirs[seed] for seed in shared], confidence)


def units(values: Mapping[tuple[Hashable, int], float]) -> list[float]:
    """Returns the independent draws behind scores by (pre-training, seed): the score of each seed. If there are several
    pre-trainings, it is the mean score of each pre-training over its seeds.

    With S seeds each, the mean over P pre-trainings has the variance sigma_a^2 / P + sigma_e^2 / (P S). The sample
    variance of the pre-trainings' own means has the expectation sigma_a^2 + sigma_e^2 / S. Divided by P, it estimates
    the variance of the mean, with P - 1 degrees of freedom.
    """
    parts: dict[Hashable, list[float]] = {}
    for (pretraining, _), value in values.items():
        parts.setdefault(pretraining, []).append(value)
    return list(values.values()) if len(parts) < 2 else [mean_of(part) for part in parts.values()]


def by_seed(values: Mapping[tuple[Hashable, int], float]) -> dict[int, float]:
    """Returns the scores by (pre-training, seed) as means over pre-trainings, by seed."""
    parts: dict[int, list[float]] = {}
    for (_, seed), value in values.items():
        parts.setdefault(seed, []).append(value)
    return {seed: mean_of(part) for seed, part in parts.items()}


def redrawable(draws: Iterable[tuple[Hashable, int]]) -> bool:
    """Whether ``draws`` started from pre-trained weights that could be drawn again. A network with random weights has
    no pre-training, and a published checkpoint has a pre-training without a seed."""
    return any(pretraining not in ((), ("null",)) for pretraining, _ in draws)


def difference(ours: Mapping[tuple[Hashable, int], float], theirs: Mapping[tuple[Hashable, int], float]) -> Summary:
    """Returns the summary of ``ours - theirs``, for scores by (pre-training, seed): `differences` by seed. If a side
    has several pre-trainings, the interval includes the spread between them.

    In that case the sides are taken as independent: the variances of both means are added, with Satterthwaite's degrees
    of freedom. A side with one value, or with a single pre-training that could be drawn again, does not show its
    spread. Its spread is taken to be as large as that of the other side's pre-trainings, as in Crawford and Howell's
    comparison of one case with a sample (1998, The Clinical Neuropsychologist 12), with their degrees of freedom.
    """
    sides = [units(ours), units(theirs)]
    shared = differences(by_seed(ours), by_seed(theirs))
    several = [len({pretraining for pretraining, _ in side}) > 1 for side in (ours, theirs)]
    if not shared.n or not any(several):
        return shared
    parts = [summarise(side) for side in sides]
    known = [
        one.n > 1 and (own or not redrawable(side))
        for one, own, side in zip(parts, several, (ours, theirs), strict=True)
    ]
    if all(known):
        found = independent_error(parts)
    else:
        other = parts[known.index(True)]
        found = Error(other.sd * math.sqrt(1 + 1 / other.n), other.n - 1)
    mean = parts[0].mean - parts[1].mean
    n = min(one.n for one, own in zip(parts, several, strict=True) if own)
    return Summary(n=n, mean=mean, sd=found.size * math.sqrt(n), interval=found.around(mean))


def independent_error(sides: Sequence[Summary], examples: float = 0.0) -> Error:
    """Returns the standard error of the difference of independent means. It adds their variances over seeds, with
    Satterthwaite's degrees of freedom, and the variance over ``examples``, which is taken as known. A side with one
    value adds no variance."""
    variances = [(one.sd**2 / one.n, one.n - 1) for one in sides if one.n > 1]
    seeds = math.fsum(variance for variance, _ in variances)
    squares = math.fsum(variance**2 / freedom for variance, freedom in variances)
    total = seeds + (examples if math.isfinite(examples) else 0.0)
    least = min((freedom for _, freedom in variances), default=math.inf)
    if squares <= 0:
        return Error(math.sqrt(total), least if not total else math.inf)
    return Error(math.sqrt(total), total**2 / squares, math.sqrt(seeds), seeds**2 / squares)


def bootstrap_interval(
    statistics: np.ndarray,
    value: Callable[[np.ndarray], Mapping[str, float]],
    groups: Sequence[Hashable] | None = None,
    replicates: int = 1000,
    seed: int = 0,
    confidence: float = CONFIDENCE,
) -> dict[str, Interval]:
    """Returns expanded percentile bootstrap intervals over examples (see `_tail`), for metrics of summed statistics.

    ``statistics`` is [N, K], one row per example, and ``value`` maps sums [K] to {name: value}. With ``groups`` (one
    per example, None for an example on its own) whole groups are drawn, because questions about one passage are not
    independent. Equal rows are pooled first. A replicate is then one multinomial draw over the distinct rows, and all
    replicates are one matrix product. The distribution is exactly the same as if examples were drawn.

    Raises `ValueError` without examples.
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
    return _intervals([value(row) for row in np.concatenate(sums)], _tail(len(units), confidence))


def bootstrap_metric(
    metric: Callable[[Sequence[Any], Sequence[Any]], Mapping[str, float]],
    gold: Sequence[Any],
    predictions: Sequence[Any],
    groups: Sequence[Hashable] | None = None,
    replicates: int = 200,
    seed: int = 0,
    confidence: float = CONFIDENCE,
) -> dict[str, Interval]:
    """Returns bootstrap intervals for a metric that is not a function of sums.

    The metric is called once per replicate, so there are fewer replicates than in `bootstrap_interval`. Raises
    `ValueError` if ``gold`` is empty or its length differs from the length of ``predictions``.
    """
    if not gold or len(gold) != len(predictions):
        raise ValueError(
            f"The bootstrap needs gold and predictions of one length, not {len(gold)} and {len(predictions)}."
        )
    members = _members(len(gold), groups)
    draws = _draws(members, replicates, seed)
    values = [metric([gold[i] for i in drawn], [predictions[i] for i in drawn]) for drawn in draws]
    return _intervals(values, _tail(len(members), confidence))


def bootstrap_rows(
    value: Callable[[np.ndarray], Mapping[str, float]],
    table: np.ndarray,
    groups: Sequence[Hashable] | None = None,
    replicates: int = 200,
    seed: int = 0,
    confidence: float = CONFIDENCE,
) -> dict[str, Interval]:
    """Does the same as `bootstrap_metric`, with the same draws. ``value`` takes rows of ``table`` [N, K], one per
    example."""
    members = _members(len(table), groups)
    values = [value(table[drawn]) for drawn in _draws(members, replicates, seed)]
    return _intervals(values, _tail(len(members), confidence))


def redrawn(
    statistics: np.ndarray,
    value: Callable[[np.ndarray], float],
    groups: Sequence[Hashable] | None = None,
    replicates: int = 200,
) -> np.ndarray:
    """Returns the values [R] of a metric on replicates of the examples. ``statistics`` and ``value`` are as in
    `bootstrap_interval`, for one metric.

    The examples of a replicate depend only on the number of examples and the groups. So two models have the same
    replicates, and their covariance is the covariance of the two scores over examples.
    """
    units = _pool(np.asarray(statistics, dtype=float), groups)  # [G, K]
    rng, share = np.random.default_rng(0), np.full(len(units), 1 / len(units))
    return np.array([value(rng.multinomial(len(units), share) @ units) for _ in range(replicates)])


def _draws(members: Sequence[np.ndarray], replicates: int, seed: int) -> Iterator[np.ndarray]:
    """Yields the indexes of the examples of each replicate."""
    rng = np.random.default_rng(seed)
    for _ in range(replicates):
        yield np.concatenate([members[i] for i in rng.integers(0, len(members), len(members))])


def _members(n: int, groups: Sequence[Hashable] | None) -> list[np.ndarray]:
    """Returns the indexes of each group, in order of first appearance. An example without a group is a group of its
    own."""
    if groups is None:
        return [np.array([i]) for i in range(n)]
    if len(groups) != n:
        raise ValueError(f"There are {n} examples but {len(groups)} groups.")
    found: dict[Hashable, list[int]] = {}
    for i, group in enumerate(groups):
        found.setdefault(("alone", i) if group is None else ("group", group), []).append(i)
    return [np.array(indexes) for indexes in found.values()]


def _pool(statistics: np.ndarray, groups: Sequence[Hashable] | None) -> np.ndarray:
    """Sums statistics per example [N, K] to statistics per group [G, K]."""
    if statistics.ndim != 2:
        raise ValueError(f"The statistics must have the shape [examples, statistics], not {list(statistics.shape)}.")
    if groups is None:
        return statistics
    return np.array([statistics[indexes].sum(axis=0) for indexes in _members(len(statistics), groups)])


def _tail(units: int, confidence: float) -> float:
    """Returns the share of replicates beyond either end of an interval over ``units`` examples or groups.

    It is less than (1 - ``confidence``) / 2 for two reasons. Replicates have the variance for n instead of n - 1, and
    their quantiles are those of a normal distribution instead of Student's t. See the "expanded percentile interval" of
    Hesterberg (2015), "What teachers should know about the bootstrap", The American Statistician 69. It matters if
    there are few texts; for a thousand examples the share is 2.48 % instead of 2.5 %.
    """
    if units < 2:
        return (1 - confidence) / 2
    from scipy.special import ndtr

    return float(ndtr(-math.sqrt(units / (units - 1)) * _t(units - 1, confidence)))


def _intervals(values: Sequence[Mapping[str, float]], tail: float) -> dict[str, Interval]:
    """Returns percentiles of every named value; NaN if too many replicates leave the value out or undefined."""
    result = {}
    for name in dict.fromkeys(name for value in values for name in value):
        x = np.array([value.get(name, math.nan) for value in values], dtype=float)
        defined = x[np.isfinite(x)]
        if len(defined) < (1 - _MOST_UNDEFINED) * len(x):
            result[name] = Interval(math.nan, math.nan)
        else:
            low, high = np.quantile(defined, [tail, 1 - tail])
            result[name] = Interval(float(low), float(high))
    return result


@lru_cache(maxsize=4096)
def _t(freedom: float, confidence: float) -> float:
    """Returns the two-sided quantile of Student's t."""
    from scipy.special import ndtri, stdtrit  # scipy.stats takes a second to import and uses these

    return float(ndtri(0.5 + confidence / 2) if math.isinf(freedom) else stdtrit(freedom, 0.5 + confidence / 2))
