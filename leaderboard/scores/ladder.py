"""Ladders of budgets: scores of a model by pre-training budget, gains per doubling of FLOPs, and crossings of curves.

`leaderboard.tables` and `leaderboard.page.ladder` show them. FLOPs include earlier pre-trainings (base, teacher).
Intervals come from a parametric bootstrap. Every score is drawn again as its mean plus its standard error (over seeds,
pre-trainings and examples: `leaderboard.stats.error`) times Student's t with the error's degrees of freedom. Scores of
different rungs and models are drawn independently, although they share examples and seeds. The shared part mostly
cancels in differences, so the intervals are rather too wide.
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
"""Fewest rungs for a fit. A line always passes through two rungs, so such a fit shows nothing."""
_MOST_UNDEFINED = 0.05  # share of undefined replicates above which there is no interval


@dataclass(frozen=True, kw_only=True)
class Rung(Estimate):
    """One rung of a curve."""

    budget: str
    """The requested budget, such as "1e13 FLOPs". Rungs of different models are matched by it."""
    flops: float
    """The spent FLOPs."""


@dataclass(frozen=True, kw_only=True, eq=False)
class BudgetLadder:
    """A model with one adaptation, pre-trained with several budgets."""

    number: int
    label: str
    words: str
    rows: tuple[Row, ...]
    """By rising FLOPs."""
    twin: Row | None = None
    """The same network with random weights."""


@dataclass(frozen=True, kw_only=True)
class DoublingGain:
    """The gain per doubling of the FLOPs between two rungs."""

    below: Rung
    above: Rung
    value: float
    interval: Interval


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Unweighted least squares over the logarithm of the FLOPs, each with its 95 % interval.

    ``slope`` is k of value = v0 + k log2 C. ``exponent`` is b of the power law a C^-b of the error, without a floor.
    The error is the distance to the best possible score, or the value itself if lower is better (Kaplan et al., 2020,
    "Scaling Laws for Neural Language Models", equation 1.3 for the loss). A handful of rungs cannot distinguish a floor
    from a slower decay, so no floor is fitted. ``bend`` shows whether the line fits: the gain per doubling of the last
    step minus that of the first step.
    """

    slope: float
    slope_interval: Interval
    bend: float
    bend_interval: Interval
    exponent: float
    exponent_interval: Interval


@dataclass(frozen=True, kw_only=True, eq=False)
class LadderCurve:
    """The values of one measure for one ladder."""

    ladder: BudgetLadder
    measure: Measure
    rungs: tuple[Rung, ...]
    """By rising FLOPs."""
    draws: np.ndarray = field(repr=False)
    """[R, K]: replicates of the values of the K rungs."""

    @property
    def gains(self) -> list[DoublingGain]:
        steps, drawn = _gains(self._values, self._doublings), _gains(self.draws, self._doublings)
        return [
            DoublingGain(below=below, above=above, value=float(steps[i]), interval=_interval(drawn[:, i]))
            for i, (below, above) in enumerate(itertools.pairwise(self.rungs))
        ]

    @property
    def refusal(self) -> str:
        """A sentence that says why there is no fit; "" if there is one."""
        if (n := len(self.rungs)) < LEAST_RUNGS:
            return f"A fit needs {LEAST_RUNGS} rungs; {self.ladder.label} has {n} here. Run another budget."
        return ""

    @cached_property
    def fit(self) -> Fit | None:
        """None with fewer than `LEAST_RUNGS` rungs."""
        if self.refusal:
            return None
        x = self._doublings
        found = {}
        for name, of in (("slope", _slope), ("bend", _bend), ("exponent", self._exponent)):
            found |= {name: float(of(self._values[None], x)[0]), f"{name}_interval": _interval(of(self.draws, x))}
        return Fit(**found)

    @cached_property
    def _values(self) -> np.ndarray:
        return np.array([rung.value for rung in self.rungs])

    @cached_property
    def _doublings(self) -> np.ndarray:
        return np.log2([rung.flops for rung in self.rungs])

    def _exponent(self, values: np.ndarray, x: np.ndarray) -> np.ndarray:
        missing = self.measure.best - values if self.measure.higher_is_better else values
        with np.errstate(invalid="ignore", divide="ignore"):
            return -_slope(np.where(missing > 0, np.log2(missing), math.nan), x)


@dataclass(frozen=True, kw_only=True, eq=False)
class CurvePair:
    """Two curves of one measure at the rungs that both have."""

    first: LadderCurve
    second: LadderCurve
    budgets: tuple[str, ...]
    ahead: tuple[float, ...]
    """Share of the replicates in which ``first`` is ahead, by rung."""
    crossing: float
    """FLOPs at which the lines between the rungs cross for the first time; NaN if they do not."""
    crossed: float
    """Share of the replicates in which the curve that is behind at the first rung is ahead at the last rung."""


def curves(grid: Grid) -> tuple[LadderCurve, ...]:
    """Returns all curves with at least two rungs: for each ladder the average, its tasks and its loss, in this order.
    Ladders that adapt the same pre-trainings share one curve of the loss."""
    rng, shown = np.random.default_rng(0), measures(grid)
    found: list[LadderCurve] = []
    with_loss: set[str] = set()
    for one in budget_ladders(grid):
        for measure in shown:
            rungs = [
                Rung(budget=budget_of(row), flops=cost_of(row)["pre-training FLOPs"], **vars(estimate))
                for row in one.rows
                if (estimate := measure.of(row))
            ]
            if len(rungs) < 2 or (measure.is_loss and with_loss & _weights(one)):
                continue
            with_loss |= _weights(one) if measure.is_loss else set()
            found.append(bootstrap_curve(one, measure, rungs, rng))
    return tuple(found)


def bootstrap_curve(
    ladder: BudgetLadder, measure: Measure, rungs: Sequence[Rung], rng: np.random.Generator
) -> LadderCurve:
    """Returns the curve through ``rungs``, at least one, with replicates of their values drawn by ``rng``."""
    errors = [one.error.widest() for one in rungs]
    drawn = [one.value + size * _student(rng, freedom) for one, (size, freedom) in zip(rungs, errors, strict=True)]
    return LadderCurve(ladder=ladder, measure=measure, rungs=tuple(rungs), draws=np.array(drawn).T)


def budget_ladders(grid: Grid) -> tuple[BudgetLadder, ...]:
    """Returns the models of the grid that have rows of several budgets, with their twins."""
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
        BudgetLadder(number=i, label=rows[0].label, words=_words(rows[0]), rows=rows, twin=twins.get(rows[0]))
        for i, rows in enumerate(found, 1)
    )


def pairs(found: Sequence[LadderCurve]) -> Iterator[CurvePair]:
    """Yields each pair of curves of one measure that have at least two rungs in common."""
    by_measure: dict[Measure, list[LadderCurve]] = {}
    for one in found:
        by_measure.setdefault(one.measure, []).append(one)
    for same in by_measure.values():
        for first, second in itertools.combinations(same, 2):
            if (pair := _pair(first, second)) is not None:
                yield pair


def _pair(first: LadderCurve, second: LadderCurve) -> CurvePair | None:
    places = [{rung.budget: i for i, rung in enumerate(one.rungs)} for one in (first, second)]
    budgets = [budget for budget in places[0] if budget in places[1]]
    if len(budgets) < 2:
        return None
    at = [[place[budget] for budget in budgets] for place in places]
    sign = 1 if first.measure.higher_is_better else -1
    drawn = sign * (first.draws[:, at[0]] - second.draws[:, at[1]])  # [R, K]
    lead = [sign * (first.rungs[i].value - second.rungs[j].value) for i, j in zip(*at, strict=True)]
    x = [(math.log2(first.rungs[i].flops) + math.log2(second.rungs[j].flops)) / 2 for i, j in zip(*at, strict=True)]
    behind_first = lead[0] < 0
    crossed = (drawn[:, 0] < 0) & (drawn[:, -1] > 0) if behind_first else (drawn[:, 0] > 0) & (drawn[:, -1] < 0)
    known = np.isfinite(drawn).all()
    return CurvePair(
        first=first, second=second, budgets=tuple(budgets), crossing=_crossing(x, lead),
        ahead=tuple(float(share) if known else math.nan for share in (drawn > 0).mean(axis=0)),
        crossed=float(crossed.mean()) if known else math.nan,
    )  # fmt: skip


def _crossing(x: Sequence[float], lead: Sequence[float]) -> float:
    """Returns the FLOPs at which ``lead`` at the logarithms ``x`` changes its sign for the first time: between two
    rungs, or at a rung with a tie. NaN if it never does."""
    before, place, tie = 0.0, math.nan, math.nan
    for at, value in zip(x, lead, strict=True):
        if value == 0:
            tie = at if math.isnan(tie) else tie
            continue
        if before * value < 0:
            return 2 ** (place + (at - place) * before / (before - value) if math.isnan(tie) else tie)
        before, place, tie = value, at, math.nan
    return math.nan


def _weights(ladder: BudgetLadder) -> set[str]:
    """Returns the SHA-256 of the pre-trained weights of ``ladder``."""
    return {str(one.pretraining["weights_sha256"]) for row in ladder.rows for one in row.records if one.pretraining}


def budget_of(row: Row) -> str:
    """Returns the requested budget. If the records do not state it, returns the spent FLOPs, rounded to 12 %."""
    if words := next(filter(None, (budget_words(one.pretraining) for one in row.records if one.pretraining)), ""):
        return words
    nearly = 10 ** (round(20 * math.log10(cost_of(row)["pre-training FLOPs"])) / 20)
    return f"{nearly:.3g} FLOPs".replace("e+0", "e").replace("e+", "e")


def _without_budget(row: Row) -> Hashable:
    """Returns a key that is equal for all rows of one ladder."""
    corpora = {one.pretraining.get("corpus_sha256") for one in row.records if one.pretraining}
    read = tuple(name for name, *_ in row.extra_encoders or ())
    return (row.name, row.label, row.size, row.division, row.adaptation, row.tokenizer, frozenset(corpora), read)


def _words(row: Row) -> str:
    """Returns the words of ``row`` without its budget."""
    return row.words.removesuffix(f" · {row.part}") if row.part else row.words


def _student(rng: np.random.Generator, freedom: float) -> np.ndarray:
    return rng.standard_t(freedom, REPLICATES) if math.isfinite(freedom) else rng.standard_normal(REPLICATES)


def _gains(values: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Maps [..., K] values over [K] doublings to [..., K - 1] gains per doubling."""
    return np.diff(values, axis=-1) / np.diff(x)


def _slope(values: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Returns the slopes [R] of least squares fits of values [R, K] over [K] doublings."""
    centred = x - x.mean()
    return values @ centred / (centred @ centred)


def _bend(values: np.ndarray, x: np.ndarray) -> np.ndarray:
    gains = _gains(values, x)
    return gains[:, -1] - gains[:, 0]


def _interval(drawn: np.ndarray) -> Interval:
    """Returns percentiles of the defined values; NaN if too many are undefined."""
    defined = drawn[np.isfinite(drawn)]
    if len(defined) < (1 - _MOST_UNDEFINED) * len(drawn):
        return Interval(math.nan, math.nan)
    low, high = np.quantile(defined, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Interval(float(low), float(high))
