"""Stars and gaps, which compare pairs of rows by seeds and examples and agree with the printed intervals."""

import math
import random

import pytest

from ptmbench.leaderboard.scores.arrange import arrange
from ptmbench.leaderboard.scores.contrast import Sample, gap, not_worse, samples, stars
from ptmbench.leaderboard.stats import Error, Interval
from tests.leaderboard.made import record


def one(name, value, task="cola", half=2.0, seed=0):
    scores = {"headline": {"value": value, "low": value - half, "high": value + half}}
    return record(task=task, name=name, value=value, seed=seed, scores=scores)


def starred(made):
    grid = arrange(made)
    return {row.name for row in stars(grid, grid.columns[0])}


def test_stars_mark_rows_that_are_not_shown_to_be_worse_than_the_best():
    assert starred([one("a", 80), one("b", 79), one("c", 70), one("d", 60)]) == {"a", "b"}
    assert starred([one("a", 80, "wikitext2"), one("b", 30, "wikitext2")]) == {"b"}
    assert starred([one("a", 80)]) == set()  # there is no other row


def test_a_column_in_which_most_rows_would_have_a_star_has_none():
    assert starred([one("a", 80), one("b", 79), one("c", 60)]) == set()
    assert starred([one("a", 80), one("b", 79), one("c", 60), one("d", 61)]) == {"a", "b"}


def test_gap_pairs_seeds_and_adds_the_variance_over_examples():
    shift = (0.0, 10.0, -10.0)
    ours = Sample({((), i): 71.0 + x for i, x in enumerate(shift)}, 0.0, Interval(0, 100))
    theirs = Sample({((), i): 70.0 + x for i, x in enumerate(shift)}, 0.0, Interval(0, 100))
    assert gap(ours, theirs).interval == (1.0, 1.0) and gap(ours, theirs).above
    wide = gap(ours._replace(examples=0.16), theirs._replace(examples=0.09))
    assert wide.interval == pytest.approx((1 - 1.959964 * 0.5, 1 + 1.959964 * 0.5))
    single = theirs._replace(values={((), 0): 70.0}, examples=1.0)
    alone = gap(ours, single)  # other seeds: the variance over seeds is 10^2 / 3, with two degrees of freedom
    total = 100 / 3 + 1.0
    expected = Error(math.sqrt(total), total**2 / ((100 / 3) ** 2 / 2), 10 / math.sqrt(3), 2).around(1.0)
    assert alone.interval == pytest.approx(expected) and not alone.above


def test_stars_never_contradict_the_printed_intervals():
    """Checks the stars of many made-up columns. The best row is never called worse. A row whose interval is completely
    below that of the best row has no star. A row is not called worse if its interval contains the best mean, or if its
    mean is in the interval of the best row. The gap decides only between these cases."""
    rng = random.Random(0)
    between = 0
    for _ in range(300):
        made, seeds = [], rng.choice([1, 2, 3, 5])
        for i in range(rng.randint(2, 9)):
            level, half = rng.gauss(60, 3), rng.choice([0.2, 1.0, 4.0])
            count = rng.choice([1, seeds])
            made += [
                one(f"m{i}", level + rng.gauss(0, rng.choice([0.1, 2.0])), half=half, seed=s) for s in range(count)
            ]
        grid = arrange(made)
        column = grid.columns[0]
        found = samples(grid, column)
        leading, shown = not_worse(found), stars(grid, column)
        best = max(found, key=lambda row: found[row].mean)
        assert best in leading and shown in (set(), leading)
        assert 2 * len(shown) <= len(found)
        for row, sample in found.items():
            assert sample.interval == grid.cells[row, column].interval  # the interval on the page
            low, high = sample.interval
            if high < found[best].interval.low:
                assert row not in leading
            elif high >= found[best].mean or found[best].interval.low <= sample.mean:
                assert row in leading
            else:
                between += 1
                assert (row in leading) == (not gap(sample, found[best]).below)
    assert between > 20  # the gap decides often enough


def test_rows_without_a_number_have_no_star():
    nan = record(name="nan", scores={"headline": {"value": math.nan, "low": None, "high": None}})
    unknown = [record(name=name, scores={"headline": {"value": v}}) for name, v in (("x", 50.0), ("y", 40.0))]
    grid = arrange([nan, *unknown])
    assert {row.name for row in not_worse(samples(grid, grid.columns[0]))} == {"x", "y"}  # neither is shown to be worse
    assert stars(grid, grid.columns[0]) == set()
