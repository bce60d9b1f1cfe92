"""Ladders of budgets: the scores of a model after pre-trainings with several budgets, the gain per doubling of the
FLOPs, and where the curves of two models cross.

`leaderboard.tables` and `leaderboard.page.ladder` show them. FLOPs include earlier pre-trainings (base,
teacher). Intervals come from a parametric bootstrap: every score is drawn again as its mean plus its standard error
(over seeds, pre-trainings and examples: `leaderboard.stats.error`) times Student's t with the error's degrees of
freedom. Scores of different rungs and models are drawn independently, although they share examples and seeds. What they
share mostly cancels in differences, so the intervals are rather too wide.
"""

import itertools
import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ptmbench.leaderboard.scores.costs import budget_words, cost_of
from ptmbench.leaderboard.scores.grid import Grid, Row
from ptmbench.leaderboard.scores.measures import Estimate, Measure, measures
from ptmbench.leaderboard.scores.twins import twin_rows
from ptmbench.leaderboard.stats import CONFIDENCE, LARGEST, Interval

REPLICATES = 2000
LEAST_RUNGS = 3
"""Two rungs lie on every line, so a fit to them cannot be wrong."""
_MOST_UNDEFINED = 0.05  # share of undefined replicates from which an interval says nothing


@dataclass(frozen=True, kw_only=True)
class Point(Estimate):
    """One rung of a curve."""

    rung: str
    """The budget that was asked for, "1e13 FLOPs", by which rungs of different models are matched."""
    flops: float
    """The FLOPs that were spent."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Series:
    """A model with one adaptation, pre-trained with several budgets."""

    number: int
    label: str
    words: str
    rows: tuple[Row, ...]
    """By rising FLOPs."""
    twin: Row | None = None
    """The same network with random weights."""


@dataclass(frozen=True, kw_only=True)
class Gain:
    """What a doubling of the FLOPs bought between two rungs."""

    below: Point
    above: Point
    value: float
    interval: Interval


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Least squares over the logarithm of the FLOPs, unweighted, each with its 95 % interval.

    ``slope`` is k of value = v0 + k log2 C. ``exponent`` is b of the pure power law a C^-b, without a floor, of the
    error: what is missing to the best possible score, or the value itself where lower is better (Kaplan et al., 2020,
    "Scaling Laws for Neural Language Models", equation 1.3 for the loss). A floor cannot be told from a slower decay by
    a handful of rungs, so none is fitted; ``bend`` says whether the line holds: gain per doubling of the last step less
    the gain of the first.
    """

    slope: float
    slope_interval: Interval
    bend: float
    bend_interval: Interval
    exponent: float
    exponent_interval: Interval


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """The values of one measure for one series."""

    series: Series
    measure: Measure
    points: tuple[Point, ...]
    """By rising FLOPs."""
    draws: np.ndarray = field(repr=False)
    """[R, K]: the values of the K points, drawn again."""

    @property
    def gains(self) -> list[Gain]:
        steps, drawn = _gains(self._values, self._doublings), _gains(self.draws, self._doublings)
        return [
            Gain(below=below, above=above, value=float(steps[i]), interval=_interval(drawn[:, i]))
            for i, (below, above) in enumerate(itertools.pairwise(self.points))
        ]

    @property
    def refusal(self) -> str:
        """Why there is no fit, in a sentence; "" where there is one."""
        if (n := len(self.points)) < LEAST_RUNGS:
            return f"A fit needs {LEAST_RUNGS} rungs; {self.series.label} has {n} here. Run another budget."
        return ""

    @cached_property
    def fit(self) -> Fit | None:
        """None under `LEAST_RUNGS` rungs."""
        if self.refusal:
            return None
        x = self._doublings
        found = {}
        for name, of in (("slope", _slope), ("bend", _bend), ("exponent", self._exponent)):
            found |= {name: float(of(self._values[None], x)[0]), f"{name}_interval": _interval(of(self.draws, x))}
        return Fit(**found)

    @cached_property
    def _values(self) -> np.ndarray:
        return np.array([point.value for point in self.points])

    @cached_property
    def _doublings(self) -> np.ndarray:
        return np.log2([point.flops for point in self.points])

    def _exponent(self, values: np.ndarray, x: np.ndarray) -> np.ndarray:
        missing = self.measure.best - values if self.measure.higher_is_better else values
        with np.errstate(invalid="ignore", divide="ignore"):
            return -_slope(np.where(missing > 0, np.log2(missing), math.nan), x)


@dataclass(frozen=True, kw_only=True, eq=False)
class Pair:
    """Two curves of one measure at the rungs that both have."""

    first: Curve
    second: Curve
    rungs: tuple[str, ...]
    ahead: tuple[float, ...]
    """Share of the replicates in which ``first`` is ahead, by rung."""
    crossing: float
    """FLOPs at which the lines between the points cross for the first time; NaN where they do not."""
    crossed: float
    """Share of the replicates in which the curve that is behind at the first rung is ahead at the last rung."""


def curves(grid: Grid) -> tuple[Curve, ...]:
    """All curves with at least two rungs: of each series the average, its tasks and its loss, in this order. Series
    that adapt the same pre-trainings share one curve of the loss."""
    rng, shown = np.random.default_rng(0), measures(grid)
    found: list[Curve] = []
    with_loss: set[str] = set()
    for one in series(grid):
        for measure in shown:
            points = [
                Point(rung=rung_of(row), flops=cost_of(row)["pre-training FLOPs"], **vars(estimate))
                for row in one.rows
                if (estimate := measure.of(row))
            ]
            if len(points) < 2 or (measure.is_loss and with_loss & _weights(one)):
                continue
            with_loss |= _weights(one) if measure.is_loss else set()
            found.append(curve(one, measure, points, rng))
    return tuple(found)


def curve(of: Series, measure: Measure, points: Sequence[Point], rng: np.random.Generator) -> Curve:
    """The curve through ``points``, at least one, with their values drawn again by ``rng``."""
    errors = [one.error.widest() for one in points]
    drawn = [one.value + size * _student(rng, freedom) for one, (size, freedom) in zip(points, errors, strict=True)]
    return Curve(series=of, measure=measure, points=tuple(points), draws=np.array(drawn).T)


def series(grid: Grid) -> tuple[Series, ...]:
    """The models of the grid that stand in rows of several budgets, with their twins."""
    twins = dict(twin_rows(grid))
    parts: dict[Hashable, list[tuple[float, Row]]] = {}
    for row in grid.rows:
        flops = cost_of(row)["pre-training FLOPs"]
        if row.kind == "pretrained" and flops and 0 < flops < LARGEST:
            parts.setdefault(_without_budget(row), []).append((flops, row))
    found = []
    for rows in parts.values():
        ordered = sorted(rows, key=lambda pair: pair[0])
        if len({flops for flops, _ in ordered}) == len(ordered) > 1:
            found.append(tuple(row for _, row in ordered))
    found.sort(key=lambda rows: (rows[0].label, rows[0].size, rows[0].adaptation))
    return tuple(
        Series(number=i, label=rows[0].label, words=_words(rows[0]), rows=rows, twin=twins.get(rows[0]))
        for i, rows in enumerate(found, 1)
    )


def pairs(found: Sequence[Curve]) -> Iterator[Pair]:
    """Each two curves of one measure that have two rungs in common."""
    by_measure: dict[Measure, list[Curve]] = {}
    for one in found:
        by_measure.setdefault(one.measure, []).append(one)
    for same in by_measure.values():
        for first, second in itertools.combinations(same, 2):
            if (pair := _pair(first, second)) is not None:
                yield pair


def _pair(first: Curve, second: Curve) -> Pair | None:
    places = [{point.rung: i for i, point in enumerate(one.points)} for one in (first, second)]
    rungs = [rung for rung in places[0] if rung in places[1]]
    if len(rungs) < 2:
        return None
    at = [[place[rung] for rung in rungs] for place in places]
    sign = 1 if first.measure.higher_is_better else -1
    drawn = sign * (first.draws[:, at[0]] - second.draws[:, at[1]])  # [R, K]
    lead = [sign * (first.points[i].value - second.points[j].value) for i, j in zip(*at, strict=True)]
    x = [(math.log2(first.points[i].flops) + math.log2(second.points[j].flops)) / 2 for i, j in zip(*at, strict=True)]
    behind_first = lead[0] < 0
    crossed = (drawn[:, 0] < 0) & (drawn[:, -1] > 0) if behind_first else (drawn[:, 0] > 0) & (drawn[:, -1] < 0)
    known = np.isfinite(drawn).all()
    return Pair(
        first=first, second=second, rungs=tuple(rungs), crossing=_crossing(x, lead),
        ahead=tuple(float(share) if known else math.nan for share in (drawn > 0).mean(axis=0)),
        crossed=float(crossed.mean()) if known else math.nan,
    )  # fmt: skip


def _crossing(x: Sequence[float], lead: Sequence[float]) -> float:
    """FLOPs at which ``lead`` at the logarithms ``x`` changes its sign for the first time: between two rungs, or at a
    rung with a tie. NaN if it never does."""
    before, place, tie = 0.0, math.nan, math.nan
    for at, value in zip(x, lead, strict=True):
        if value == 0:
            tie = at if math.isnan(tie) else tie
            continue
        if before * value < 0:
            return 2 ** (place + (at - place) * before / (before - value) if math.isnan(tie) else tie)
        before, place, tie = value, at, math.nan
    return math.nan


def _weights(of: Series) -> set[str]:
    """SHA-256 of the pre-trained weights of a series."""
    return {str(one.pretraining["weights_sha256"]) for row in of.rows for one in row.records if one.pretraining}


def rung_of(row: Row) -> str:
    """The budget that was asked for. If the records do not say it, the FLOPs that were spent, rounded to 12 %."""
    if words := next(filter(None, (budget_words(one.pretraining) for one in row.records if one.pretraining)), ""):
        return words
    nearly = 10 ** (round(20 * math.log10(cost_of(row)["pre-training FLOPs"])) / 20)
    return f"{nearly:.3g} FLOPs".replace("e+0", "e").replace("e+", "e")


def _without_budget(row: Row) -> Hashable:
    """What rows of one series share."""
    corpora = {one.pretraining.get("corpus_sha256") for one in row.records if one.pretraining}
    read = tuple(name for name, *_ in row.extra_encoders or ())
    return (row.name, row.label, row.size, row.division, row.adaptation, row.tokenizer, frozenset(corpora), read)


def _words(row: Row) -> str:
    """The words of ``row`` without its budget."""
    return row.words.removesuffix(f" · {row.part}") if row.part else row.words


def _student(rng: np.random.Generator, freedom: float) -> np.ndarray:
    return rng.standard_t(freedom, REPLICATES) if math.isfinite(freedom) else rng.standard_normal(REPLICATES)


def _gains(values: np.ndarray, x: np.ndarray) -> np.ndarray:
    """[..., K] values over [K] doublings to [..., K - 1] gains per doubling."""
    return np.diff(values, axis=-1) / np.diff(x)


def _slope(values: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Least squares: [R, K] values over [K] to [R] slopes."""
    centred = x - x.mean()
    return values @ centred / (centred @ centred)


def _bend(values: np.ndarray, x: np.ndarray) -> np.ndarray:
    gains = _gains(values, x)
    return gains[:, -1] - gains[:, 0]


def _interval(drawn: np.ndarray) -> Interval:
    """Percentiles of what is defined; NaN where too much is not."""
    defined = drawn[np.isfinite(drawn)]
    if len(defined) < (1 - _MOST_UNDEFINED) * len(drawn):
        return Interval(math.nan, math.nan)
    low, high = np.quantile(defined, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Interval(float(low), float(high))
