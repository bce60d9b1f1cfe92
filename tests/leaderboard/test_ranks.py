"""Ranks with intervals: by hand, by simulation, and on the grid."""

import math

import numpy as np
import pytest

from ptmbench.leaderboard.scores.arrange import arrange
from ptmbench.leaderboard.scores.ranks import Rank, ranks, separable, simultaneous_confidence
from ptmbench.leaderboard.stats import Interval, error, from_examples, summarise
from tests.leaderboard.made import record


def test_ranks_by_hand():
    found = ranks({"a": Interval(80, 84), "b": Interval(78, 81), "c": Interval(60, 62), "d": Interval(61, 63)})
    assert found == {
        "a": Rank(best=1, worst=2),
        "b": Rank(best=1, worst=2),
        "c": Rank(best=3, worst=4),
        "d": Rank(best=3, worst=4),
    }
    assert str(found["a"]) == "1–2" and str(Rank(best=3, worst=3)) == "3"


def test_ranks_are_reversed_if_lower_is_better():
    found = ranks({"a": Interval(1, 2), "b": Interval(3, 4)}, higher_is_better=False)
    assert found == {"a": Rank(best=1, worst=1), "b": Rank(best=2, worst=2)}


def test_an_unknown_interval_has_no_rank_and_does_not_affect_others():
    nan = math.nan
    assert ranks({"a": Interval(1, 2), "b": Interval(nan, nan)}) == {"a": Rank(best=1, worst=1)}
    assert ranks({}) == {}


def test_touching_intervals_are_not_separated():
    assert ranks({"a": Interval(2, 3), "b": Interval(1, 2)})["b"] == Rank(best=1, worst=2)


def test_separable_neighbours():
    ordered = [Interval(8, 9), Interval(7, 8.5), Interval(1, 2)]
    assert separable(ordered) == (1, 2)
    assert separable(ordered[::-1], higher_is_better=False) == (1, 2)
    assert separable([]) == (0, 0)


def test_rank_intervals_cover_all_true_ranks_simultaneously():
    """Simulates 12 rows, tied in pairs, with 5 seeds. In 95 of 100 boards, all true ranks should be in their intervals
    at the same time."""
    rng = np.random.default_rng(0)
    truth = np.repeat([70.0, 71.0, 71.5, 74.0, 75.0, 80.0], 2)
    trials, hits, widths = 300, 0, []
    for _ in range(trials):
        intervals = {}
        for i, level in enumerate(truth):
            values = level + rng.normal(0, 0.6) + rng.normal(0, 1.0, 5)
            spread = error(summarise(list(values)), 0.6**2)
            intervals[i] = spread.around(float(values.mean()), simultaneous_confidence(len(truth)))
        found = ranks(intervals)
        # Tied rows may have either order, so any rank from 1 + strictly better to rows - strictly worse is true.
        best, worst = (1 + (truth[:, None] > truth).sum(0)), len(truth) - (truth[:, None] < truth).sum(0)
        hits += all(found[i].best <= best[i] and found[i].worst >= worst[i] for i in found)
        widths.append(np.mean([found[i].worst - found[i].best for i in found]))
    assert hits / trials >= 0.93
    assert np.mean(widths) < 9  # the intervals are not trivially wide


def test_sidak_confidence_of_simultaneous_intervals():
    assert simultaneous_confidence(1) == pytest.approx(0.95) and simultaneous_confidence(10) ** 10 == pytest.approx(
        0.95
    )


def test_error_by_hand():
    half = 1.959963984540054
    assert from_examples([Interval(70 - half, 70 + half), Interval(70 - 3 * half, 70 + 3 * half)]) == pytest.approx(5)
    assert math.isnan(from_examples([])) and math.isnan(from_examples([Interval(math.nan, 1)]))
    two = error(summarise([70.0, 72.0]), 1.0)
    assert two.size == pytest.approx(math.sqrt(2)) and two.freedom == pytest.approx(4)
    assert error(summarise([70.0]), 4.0)[:2] == (2.0, math.inf)
    assert error(summarise([70.0, 72.0]), math.nan) == pytest.approx((1.0, 1.0, 1.0, 1.0))
    assert error(summarise([5.0, 5.0]), math.nan).around(5.0) == (5.0, 5.0)


def test_error_of_the_average_combines_seeds_and_examples():
    half = 1.959963984540054

    def one(task, seed, value):
        bounds = {"value": value, "low": value - half, "high": value + half}  # standard error 1 over examples
        return record(task=task, seed=seed, value=value, scores={"headline": bounds})

    grid = arrange([one("cola", 0, 60.0), one("cola", 1, 62.0), one("sst2", 0, 80.0), one("sst2", 1, 82.0)])
    (row,) = grid.rows
    assert grid.macro_error(row).size == pytest.approx(math.sqrt(1.0 + 2 / 4))
    low, high = grid.macro_interval(row)
    assert (low + high) / 2 == pytest.approx(71) and high - low > 2 * half * math.sqrt(1.5)


def test_tasks_on_the_same_data_have_correlated_errors_in_the_average():
    """Two tasks with coarse and fine classes of the same questions have correlated errors over examples."""
    half = 1.959963984540054
    made = []
    for task in ("trec", "trec_fine", "sst2"):
        data = {"data_sha256": "f" * 64 if task.startswith("trec") else "0" * 64}
        bounds = {"value": 60.0, "low": 60 - half, "high": 60 + half}  # standard error 1 over examples, none over seeds
        made += [record(task=task, seed=s, scores={"headline": bounds}, task_=data) for s in (0, 1)]
    grid = arrange(made)
    assert grid.macro_error(grid.rows[0]).size == pytest.approx(math.sqrt((1 + 1) ** 2 + 1) / 3)


def test_rows_without_every_task_have_no_rank_by_average():
    made = [record(name=name, task=task, value=v) for name, v in (("a", 90), ("b", 50)) for task in ("cola", "sst2")]
    grid = arrange([*made, record(name="c", value=99.0)])
    assert {row.name: str(rank) for row, rank in grid.ranks().items()} == {"a": "1", "b": "2"}
    column = next(one for one in grid.columns if one.task["name"] == "cola")
    assert {row.name: str(rank) for row, rank in grid.ranks(column).items()} == {"a": "2", "b": "3", "c": "1"}
