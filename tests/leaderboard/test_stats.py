"""Statistics, checked against SciPy, by hand, and by simulation."""

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from ptmbench.leaderboard.stats import (
    Interval,
    bootstrap_interval,
    bootstrap_metric,
    bootstrap_rows,
    combined,
    differences,
    from_examples,
    summarise,
)


def accuracy(sums):
    return {"accuracy": 100 * sums[0] / sums[1]}


def rows(correct):
    correct = np.asarray(correct, dtype=float)
    return np.stack([correct, np.ones_like(correct)], axis=1)  # [N, 2]


def test_summary_equals_scipy():
    values = [71.2, 69.9, 73.4, 70.1, 72.5]
    summary = summarise(values)
    low, high = scipy_stats.t.interval(0.95, 4, loc=np.mean(values), scale=scipy_stats.sem(values))
    assert (
        summary.n == 5
        and summary.mean == pytest.approx(np.mean(values))
        and summary.sd == pytest.approx(np.std(values, ddof=1))
    )
    assert summary.interval == pytest.approx((low, high), abs=1e-9)


def test_summary_of_few_or_odd_values():
    assert summarise([]).n == 0 and math.isnan(summarise([]).mean)
    one = summarise([4.0])
    assert one.mean == 4 and math.isnan(one.sd) and math.isnan(one.interval.low)
    assert math.isnan(summarise([1.0, math.nan]).mean)
    assert summarise([2.0, 2.0]).interval == (2, 2)
    huge = summarise([1e308, 1e308])  # the sum is too large for a float
    assert huge.mean == math.inf and math.isnan(huge.sd) and math.isnan(huge.interval.low)
    assert summarise([1e200, 3e200]).mean == 2e200 and math.isnan(from_examples([Interval(0.0, 1e200)]))


def test_within_clips_an_interval_to_the_range_of_the_metric():
    percent = Interval(0.0, 100.0)
    assert summarise([99.0, 91.0]).interval.high > 100
    assert summarise([99.0, 91.0]).interval.within(percent) == pytest.approx((95 - 12.7062 * 4, 100), abs=1e-3)
    assert summarise([0.0, 3.0]).interval.within(percent).low == 0
    assert summarise([0.0, 3.0]).interval.within(Interval(-100.0, 100.0)) == summarise([0.0, 3.0]).interval
    assert math.isnan(Interval(math.nan, math.nan).within(percent).low)


def test_clipping_an_interval_loses_no_coverage():
    """With accuracies near their bound over three seeds, the part that is cut off never contains the true mean."""
    rng = np.random.default_rng(0)
    found, cut = [], 0
    for _ in range(2000):
        whole = summarise(list(100 * rng.binomial(40, 0.97, 3) / 40)).interval
        found.append(
            (whole.low <= 97 <= whole.high, (inside := whole.within(Interval(0, 100))).low <= 97 <= inside.high)
        )
        cut += inside != whole
    assert cut > 500 and all(one == other for one, other in found)


def test_combined_by_hand():
    """Two seeds, 70 and 72, with a standard error over examples of 10 each: the variance of the mean is 1 + 100, with
    101^2 degrees of freedom (Satterthwaite). With a standard error of 1 the variance is 2, with 4 degrees of freedom;
    the interval of the seeds alone (1 degree of freedom) is wider and therefore used."""
    for error, freedom, scale in ((10, 101**2, math.sqrt(101)), (1, 1, 1)):
        half = 1.959963984540054 * error
        interval = combined([70, 72], [Interval(70 - half, 70 + half), Interval(72 - half, 72 + half)])
        expected = scipy_stats.t.interval(0.95, freedom, loc=71, scale=scale)
        assert tuple(interval) == pytest.approx(expected, abs=1e-9)
    assert combined([70], [Interval(66, 75)]) == (66, 75)
    nan = math.nan
    assert combined([70, 72], [Interval(nan, nan)] * 2) == summarise([70, 72]).interval
    same = combined([50, 50], [Interval(50 - half, 50 + half)] * 2)
    assert same == pytest.approx((50 - half, 50 + half))


def test_more_seeds_do_not_reduce_the_example_variance():
    wide = combined([70, 71] * 50, [Interval(65, 75)] * 100)
    assert wide.high - wide.low > 9.9


def test_differences_pair_seeds():
    summary = differences({0: 10.0, 1: 12.0, 7: 99.0}, {0: 8.0, 1: 9.0, 5: 1.0})
    assert summary.n == 2 and summary.mean == 2.5 and summary.sd == pytest.approx(math.sqrt(0.5))
    assert differences({0: 1.0}, {1: 1.0}).n == 0


def test_bootstrap_agrees_with_the_binomial_interval():
    correct = np.arange(1000) < 800
    low, high = bootstrap_interval(rows(correct), accuracy, replicates=4000)["accuracy"]
    error = 100 * math.sqrt(0.8 * 0.2 / 1000)
    assert low == pytest.approx(80 - 1.96 * error, abs=0.2) and high == pytest.approx(80 + 1.96 * error, abs=0.2)


def test_bootstrap_of_distinct_rows_has_the_standard_error_of_the_mean():
    """Rows that all differ are not pooled. The interval must have the standard error of the mean."""
    values = np.random.default_rng(0).normal(50, 10, 500)
    table = np.stack([values, np.ones(500)], axis=1)
    low, high = bootstrap_interval(table, lambda sums: {"mean": sums[0] / sums[1]}, replicates=3000)["mean"]
    assert (high - low) / (2 * 1.96) == pytest.approx(values.std(ddof=1) / math.sqrt(500), rel=0.08)


def test_bootstrap_is_reproducible_and_independent_of_the_chunk_size(monkeypatch):
    table = rows(np.random.default_rng(1).random(300) < 0.7)
    first = bootstrap_interval(table, accuracy, seed=5)
    monkeypatch.setattr("ptmbench.leaderboard.stats._CHUNK", 7)
    assert bootstrap_interval(table, accuracy, seed=5) == first
    assert bootstrap_interval(table, accuracy, seed=6) != first


def test_bootstrap_metric_agrees_with_bootstrap_interval():
    gold, predictions = [1] * 200, [1] * 150 + [0] * 50

    def metric(gold, predictions):
        return {"accuracy": 100 * float(np.mean(np.equal(gold, predictions)))}

    additive = bootstrap_interval(rows(np.equal(gold, predictions)), accuracy, replicates=2000)["accuracy"]
    called = bootstrap_metric(metric, gold, predictions, replicates=2000)["accuracy"]
    assert tuple(called) == pytest.approx(tuple(additive), abs=1.1)  # two steps of the accuracy, 0.5 each


def test_bootstrap_rows_draws_the_same_samples_as_bootstrap_metric():
    rng = np.random.default_rng(2)
    gold, predictions = list(rng.random(60)), list(rng.random(60))
    groups = [None if i < 20 else i // 5 for i in range(60)]

    def metric(gold, predictions):
        return {"r": float(np.corrcoef(gold, predictions)[0, 1])}

    table = np.stack([gold, predictions], axis=1)
    assert bootstrap_rows(lambda rows: metric(*rows.T), table, groups) == bootstrap_metric(
        metric, gold, predictions, groups
    )


def test_undefined_values_give_no_interval():
    intervals = bootstrap_interval(rows([1, 0, 1]), lambda sums: {"a": math.nan, "b": 1.0})
    assert math.isnan(intervals["a"].low) and intervals["b"] == (1, 1)


def test_bad_input_gives_an_error_message():
    with pytest.raises(ValueError, match="at least one example"):
        bootstrap_interval(np.zeros((0, 2)), accuracy)
    with pytest.raises(ValueError, match="4 examples but 2 groups"):
        bootstrap_interval(rows([1, 0, 1, 1]), accuracy, groups=["a", "b"])
    with pytest.raises(ValueError, match="one length"):
        bootstrap_metric(lambda g, p: {}, [1], [1, 2])


def test_coverage_of_the_bootstrap_over_examples():
    """The 95 % interval contains the true value in about 95 of 100 simulated test sets."""
    rng = np.random.default_rng(2)
    hits = 0
    for trial in range(400):
        low, high = bootstrap_interval(rows(rng.random(400) < 0.85), accuracy, replicates=400, seed=trial)["accuracy"]
        hits += low <= 85 <= high
    assert 0.92 <= hits / 400 <= 0.98


def test_coverage_with_groups_needs_the_cluster_bootstrap():
    """Answers to questions of one passage are correlated. Drawing single questions gives intervals that are far too
    narrow."""
    rng = np.random.default_rng(3)
    hits = {"groups": 0, "alone": 0}
    groups = [i // 10 for i in range(600)]
    for trial in range(200):
        level = rng.beta(2, 1, 60)  # mean 2/3, one level per passage
        table = rows(rng.random(600) < np.repeat(level, 10))
        for name, chosen in (("groups", groups), ("alone", None)):
            low, high = bootstrap_interval(table, accuracy, chosen, replicates=300, seed=trial)["accuracy"]
            hits[name] += low <= 200 / 3 <= high
    assert hits["groups"] >= 0.90 * 200 > 0.8 * 200 > hits["alone"]


def test_coverage_with_few_groups():
    """Eight texts with ten questions each. Plain percentiles are too narrow: they use the sample variance without
    correction, and the normal distribution instead of Student's t."""
    rng = np.random.default_rng(5)
    hits = {0.95: 0, None: 0}
    groups = [i // 10 for i in range(80)]
    for trial in range(500):
        table = rows(rng.random(80) < np.repeat(rng.beta(2, 1, 8), 10))  # mean 2/3, one level per text
        low, high = bootstrap_interval(table, accuracy, groups, replicates=400, seed=trial)["accuracy"]
        hits[0.95] += low <= 200 / 3 <= high
        drawn = np.random.default_rng(trial).integers(0, 8, (400, 8))
        plain = np.quantile(100 * table[:, 0].reshape(8, 10).mean(axis=1)[drawn].mean(axis=1), [0.025, 0.975])
        hits[None] += plain[0] <= 200 / 3 <= plain[1]
    assert hits[None] < 0.90 * 500 < 0.91 * 500 < hits[0.95] <= 0.97 * 500


def test_one_group_has_no_spread():
    assert bootstrap_interval(rows([1, 0, 1, 1]), accuracy, groups=["a"] * 4)["accuracy"] == (75, 75)


def test_examples_without_a_group_are_drawn_one_by_one():
    table = rows([1, 0] * 50)
    assert bootstrap_interval(table, accuracy, [None] * 100) == bootstrap_interval(table, accuracy)


def test_coverage_of_the_combined_interval():
    """With noise of seeds (sd 1.5) and a shared draw of examples (standard error 1.0), about 95 % of the intervals
    contain the true value, 80."""
    rng = np.random.default_rng(4)
    hits, trials = 0, 600
    for _ in range(trials):
        values = 80 + rng.normal(0, 1.0) + rng.normal(0, 1.5, 5)
        low, high = combined(list(values), [Interval(v - 1.96, v + 1.96) for v in values])
        hits += low <= 80 <= high
    assert 0.93 <= hits / trials <= 0.985
