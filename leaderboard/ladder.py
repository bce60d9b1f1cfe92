"""Ladders of budgets: what a model scores after pre-trainings of several sizes, what each doubling of the FLOPs buys,
and where two models change places.

`leaderboard.tables` and `leaderboard.ladder_page` show it. All of it follows from the grid of records. FLOPs are those
that the pre-training spent, and the ones before it. Chance enters by a parametric bootstrap: every score is drawn again
as its mean plus its standard error (over seeds, pre-trainings and examples: `leaderboard.stats.error`) times Student's
t with the error's degrees of freedom. Scores of different rungs and models are drawn independently, although they share
examples and seeds. What is shared mostly cancels in differences, so the intervals are cautious.
"""

import itertools
import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ptmbench.leaderboard.costs import budget_words, cost_of, is_number
from ptmbench.leaderboard.grid import Column, Grid, Row
from ptmbench.leaderboard.stats import CONFIDENCE, LARGEST, Error, Interval, error, summarise, units
from ptmbench.leaderboard.twins import twin_rows

REPLICATES = 2000
LEAST_RUNGS = 3
"""Two rungs lie on every line, so a fit to them cannot be wrong."""
LOSS = "pre-training loss"
_MOST_UNDEFINED = 0.05  # share of undefined replicates from which an interval says nothing


@dataclass(frozen=True, kw_only=True)
class Point:
    """One rung of a curve."""

    rung: str
    """What was asked for, "1e13 FLOPs", by which rungs of different models are matched."""
    flops: float
    value: float
    error: Error
    interval: Interval
    """As the board has it, within the bounds of the metric."""
    drawn: str = ""
    """What ``value`` is the mean over, in words."""


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
    that of the first.
    """

    slope: float
    slope_interval: Interval
    bend: float
    bend_interval: Interval
    exponent: float
    exponent_interval: Interval


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """The points of one series on one task (`Column`), on the average over tasks (None) or its losses (`LOSS`)."""

    series: Series
    column: Column | str | None
    points: tuple[Point, ...]
    higher_is_better: bool = True
    best: float = 100.0
    """The best value there can be, where higher is better."""
    draws: np.ndarray = field(repr=False)
    """[R, K]: the values of the K points, drawn again."""

    @property
    def title(self) -> str:
        """Of what the values are."""
        return "average" if self.column is None else self.column if isinstance(self.column, str) else self.column.title

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

    def predicted(self, flops: float) -> float:
        """The value of the fitted line, for a picture within the rungs; it says nothing about larger budgets."""
        x = self._doublings
        return float(self._values.mean() + self.fit.slope * (math.log2(flops) - x.mean()))

    @cached_property
    def _values(self) -> np.ndarray:
        return np.array([point.value for point in self.points])

    @cached_property
    def _doublings(self) -> np.ndarray:
        return np.log2([point.flops for point in self.points])

    def _exponent(self, values: np.ndarray, x: np.ndarray) -> np.ndarray:
        missing = self.best - values if self.higher_is_better else values
        with np.errstate(invalid="ignore", divide="ignore"):
            return -_slope(np.where(missing > 0, np.log2(missing), math.nan), x)


@dataclass(frozen=True, kw_only=True, eq=False)
class Pair:
    """Two curves of one task at the rungs that both have."""

    first: Curve
    second: Curve
    rungs: tuple[str, ...]
    ahead: tuple[float, ...]
    """Share of the replicates in which the first is ahead, by rung."""
    crossing: float
    """FLOPs at which the lines between the points cross for the first time; NaN where they do not."""
    crossed: float
    """Share of the replicates in which the one that is behind at the first rung is ahead at the last."""


def curves(grid: Grid) -> tuple[Curve, ...]:
    """All curves with at least two rungs: of each series the average, its tasks and its loss, in this order."""
    rng = np.random.default_rng(0)
    found: list[Curve] = []
    told: set[Hashable] = set()  # pre-trainings whose losses have a curve: other adaptations begin with the same ones
    for one in series(grid):
        for column in (None, *grid.columns):
            better = column is None or column.task["higher_is_better"]
            best = grid.macro_bounds.high if column is None else column.bounds.high
            if len(points := tuple(_points(grid, one, column))) > 1:
                found.append(curve(one, column, points, rng, higher_is_better=better, best=best))
        if len(points := tuple(_losses(one))) > 1 and not told & (made := _weights(one)):
            told |= made
            found.append(curve(one, LOSS, points, rng, higher_is_better=False))
    return tuple(found)


def curve(
    of: Series, column: Column | str | None, points: Sequence[Point], rng: np.random.Generator, **more: Any
) -> Curve:
    """The curve through ``points``, at least one, with their values drawn again by ``rng``."""
    drawn = [one.value + one.error.size * _student(rng, one.error.freedom) for one in points]
    return Curve(series=of, column=column, points=tuple(points), draws=np.array(drawn).T, **more)


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
    """Each two curves of one task or of the average that have two rungs in common. Losses of different objectives do
    not compare."""
    by_task: dict[Hashable, list[Curve]] = {}
    for one in found:
        if one.column != LOSS:
            by_task.setdefault(one.column, []).append(one)
    for same in by_task.values():
        for first, second in itertools.combinations(same, 2):
            if (pair := _pair(first, second)) is not None:
                yield pair


def _pair(first: Curve, second: Curve) -> Pair | None:
    places = [{point.rung: i for i, point in enumerate(one.points)} for one in (first, second)]
    rungs = [rung for rung in places[0] if rung in places[1]]
    if len(rungs) < 2:
        return None
    at = [[place[rung] for rung in rungs] for place in places]
    sign = 1 if first.higher_is_better else -1
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
    for (x0, before), (x1, after) in itertools.pairwise(zip(x, lead, strict=True)):
        if before * after < 0:
            return 2 ** (x0 + (x1 - x0) * before / (before - after))
    return math.nan


def _points(grid: Grid, of: Series, column: Column | None) -> Iterator[Point]:
    for row in of.rows:
        flops = cost_of(row)["pre-training FLOPs"]
        if column is None:
            summary, off, interval = grid.macro_summary(row), grid.macro_error(row), grid.macro_interval(row)
            words = f"{summary.n} draws"
        elif (cell := grid.cells.get((row, column))) and cell.ok:
            summary, off, interval, words = cell.summary, cell.error, cell.interval, cell.drawn
        else:
            continue
        if summary.n and abs(summary.mean) < LARGEST:
            yield Point(rung=rung_of(row), flops=flops, value=summary.mean, error=off, interval=interval, drawn=words)


def _weights(of: Series) -> set[Hashable]:
    """The seals of the weights behind a series."""
    return {str(one.pretraining["weights_sha256"]) for row in of.rows for one in row.records if one.pretraining}


def _losses(of: Series) -> Iterator[Point]:
    """Final losses of pre-training: over the last hundredth of the steps, of the model's own objective. Where several
    pre-trainings have one, with the error of their mean."""
    for row in of.rows:
        made = {str(one.pretraining["weights_sha256"]): one.pretraining for one in row.records if one.pretraining}
        values = {(name, 0): float(one["loss"]) for name, one in made.items() if is_number(one.get("loss"))}
        summary = summarise(units(values))
        if not summary.n or not 0 < summary.mean < LARGEST:
            continue
        off = error(summary, math.nan)
        yield Point(
            rung=rung_of(row), flops=cost_of(row)["pre-training FLOPs"], value=summary.mean, error=off,
            interval=off.around(summary.mean), drawn=f"{summary.n} pre-training{'s' * (summary.n > 1)}",
        )  # fmt: skip


def rung_of(row: Row) -> str:
    """The budget that was asked for; where the records do not say, the FLOPs that were spent, to within 12 %."""
    if words := next(filter(None, (budget_words(one.pretraining) for one in row.records if one.pretraining)), ""):
        return words
    nearly = 10 ** (round(20 * math.log10(cost_of(row)["pre-training FLOPs"])) / 20)
    return f"{nearly:.3g} FLOPs".replace("e+0", "e").replace("e+", "e")


def _without_budget(row: Row) -> Hashable:
    """What rows of one series share."""
    corpora = {one.pretraining.get("corpus_sha256") for one in row.records if one.pretraining}
    read = tuple(name for name, *_ in row.beside or ())
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
