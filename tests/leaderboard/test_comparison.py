"""The statistics of a comparison, checked against SciPy, by hand, and by simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from ptmbench.leaderboard.gate.comparison import Drop, from_scores, mixed_t
from ptmbench.leaderboard.gate.resampling import Scored, draws, multi_bootstrap, untrained_drop
from ptmbench.leaderboard.gate.verdicts import fisher, holm


def scored(each, groups=None, nonlinear=False):
    each = np.asarray(each, dtype=float)

    def redraw(counts):
        return counts @ each / counts.sum(axis=1)

    ids = tuple(map(str, range(len(each))))
    shown = None if nonlinear else each
    return Scored(ids=ids, groups=groups, value=float(each.mean()), each=shown, redraw=redraw)


def table(rng, seeds, n, level=80.0, seed_sd=1.0, ease=None, noise=20.0):
    ease = rng.normal(0, 20, n) if ease is None else ease
    return level + ease + rng.normal(0, seed_sd, (seeds, 1)) + rng.normal(0, noise, (seeds, n))


def test_mixed_t_without_example_variance_is_welchs_test():
    """Without spread between examples, the mixed t is Welch's test on the scores of the seeds."""
    base, head = np.array([80.0, 81.0, 83.0]), np.array([78.0, 79.5, 77.0, 80.0])
    drop = mixed_t(np.repeat(base[:, None], 50, 1), np.repeat(head[:, None], 50, 1), paired=False)
    expected = stats.ttest_ind(base, head, equal_var=False, alternative="greater")
    assert drop.p == pytest.approx(expected.pvalue, abs=1e-9) and drop.freedom == pytest.approx(expected.df)
    interval = stats.ttest_ind(base, head, equal_var=False).confidence_interval()
    assert drop.interval() == pytest.approx((interval.low, interval.high))


def test_mixed_t_of_paired_seeds_is_the_paired_t_test():
    base, head = np.array([80.0, 81.0, 83.0]), np.array([79.0, 80.5, 81.0])
    drop = mixed_t(np.repeat(base[:, None], 9, 1), np.repeat(head[:, None], 9, 1), paired=True)
    assert drop.p == pytest.approx(stats.ttest_rel(base, head, alternative="greater").pvalue, abs=1e-9)


def test_variance_components_by_hand():
    """Two seeds per side and two examples. The means of the seeds are 3 and 4 on one side, 1 and 1 on the other."""
    base, head = np.array([[2.0, 4.0], [4.0, 4.0]]), np.array([[1.0, 1.0], [0.0, 2.0]])
    drop = mixed_t(base, head, paired=False)
    assert drop.value == 2.5
    assert drop.from_seeds == pytest.approx(0.5 / 2 + 0)
    per_example = base.mean(0) - head.mean(0)
    assert drop.spread @ drop.spread == pytest.approx(per_example.var(ddof=1) / 2)
    rest = [sum((x - x.mean(1, keepdims=True) - x.mean(0) + x.mean()).ravel() ** 2) for x in (base, head)]
    assert drop.residual == pytest.approx(sum(rest) / (1 * 1) / (2 * 2))  # mean squares over seeds x examples
    assert drop.variance == pytest.approx(max(0.25 + drop.spread @ drop.spread - drop.residual, 0.25))


def test_variance_is_unbiased_and_the_interval_covers_the_true_drop():
    rng, values, variances, hits = np.random.default_rng(0), [], [], 0
    for _ in range(600):
        ease = rng.normal(0, 20, 200)
        base = table(rng, 5, 200, ease=ease)
        head = table(rng, 5, 200, ease=ease + rng.normal(-2, 15, 200))
        drop = mixed_t(base, head, paired=False)
        values.append(drop.value)
        variances.append(drop.variance)
        low, high = drop.interval()
        hits += low <= 2 <= high
    assert np.mean(variances) == pytest.approx(np.var(values), rel=0.15)
    assert 0.93 <= hits / 600 <= 0.98


def test_interval_covers_clustered_examples_only_if_groups_are_given():
    rng, hits = np.random.default_rng(1), {"groups": 0, "alone": 0}
    groups = [i // 10 for i in range(300)]
    for _ in range(300):
        base = table(rng, 5, 300, seed_sd=0.2)
        shift = np.repeat(rng.normal(-1, 12, 30), 10)
        head = base + shift + rng.normal(0, 5, (5, 300))
        for name, chosen in (("groups", groups), ("alone", None)):
            low, high = mixed_t(base, head, True, chosen).interval()
            hits[name] += low <= 1 <= high
    assert hits["groups"] >= 0.91 * 300 > hits["alone"] + 30


def test_multi_bootstrap_agrees_with_mixed_t_where_both_apply():
    rng = np.random.default_rng(2)
    ease = rng.normal(0, 20, 400)
    base, head = table(rng, 5, 400, ease=ease), table(rng, 5, 400, 78.0, ease=ease)
    exact = mixed_t(base, head, paired=False)
    drawn = multi_bootstrap([scored(x) for x in base], [scored(x) for x in head], paired=False)
    assert drawn.value == pytest.approx(exact.value)
    assert math.sqrt(drawn.variance) == pytest.approx(math.sqrt(exact.variance), rel=0.1)
    assert drawn.percentiles.low < drawn.value < drawn.percentiles.high
    again = multi_bootstrap([scored(x) for x in base], [scored(x) for x in head], paired=False)
    assert again.variance == drawn.variance


def test_drop_without_training_is_mcnemars_test():
    base, head = np.zeros(100), np.zeros(100)
    base[:30], head[12:33] = 100, 100  # 12 lost, 3 won
    drop = untrained_drop([scored(base)], [scored(head)])
    assert drop.method == "McNemar, exact" and drop.value == 9.0
    assert drop.p == pytest.approx(stats.binomtest(12, 15, alternative="greater").pvalue)
    more = np.array([100.0] * 13 + [-100.0] * 4 + [0.0] * 85)  # one more lost and one more won
    half = stats.t.ppf(0.975, 99) * more.std() / math.sqrt(102)
    assert drop.interval() == pytest.approx((9 - half, 9 + half), rel=1e-6)


def test_no_change_on_a_hundred_examples_does_not_exclude_a_drop_of_two_points():
    """With a true drop of 2 points, 13 of 100 such test sets contain no example on which the models differ."""
    each = np.repeat([0.0, 100.0], 50)
    for right in (each, np.zeros(100)):
        drop = untrained_drop([scored(right)], [scored(right)])
        assert drop.value == 0 and drop.p == 1 and drop.interval().high > 2
        assert drop.spread @ drop.spread == pytest.approx(drop.variance)
    many = np.repeat(each, 10)
    assert untrained_drop([scored(many)], [scored(many)]).interval().high < 1


def test_drop_without_training_or_per_example_scores_resamples_examples():
    rng = np.random.default_rng(3)
    base, head = rng.normal(50, 10, 400), rng.normal(49, 10, 400)
    drop = untrained_drop([scored(base, nonlinear=True)], [scored(head, nonlinear=True)])
    error = stats.sem(base - head)
    assert drop.value == pytest.approx(base.mean() - head.mean())
    assert math.sqrt(drop.variance) == pytest.approx(error, rel=0.1)


def test_variance_from_scores_alone_is_larger_than_mixed_t():
    rng = np.random.default_rng(4)
    ease = rng.normal(0, 20, 300)
    base, head = table(rng, 5, 300, ease=ease), table(rng, 5, 300, ease=ease)
    errors = [float(np.mean(x.std(axis=1, ddof=1))) / math.sqrt(300) for x in (base, head)]
    alone = from_scores(base.mean(1), head.mean(1), errors, 300)
    assert alone.value == pytest.approx(mixed_t(base, head, False).value)
    assert alone.variance > mixed_t(base, head, False).variance


def test_one_seed_gives_no_variance_and_no_interval():
    drop = mixed_t(np.zeros((1, 10)), np.ones((1, 10)), paired=False)
    assert math.isnan(drop.variance) and drop.p == 1.0 and math.isnan(drop.interval().low)


@pytest.mark.parametrize("seeds", [2, 3])
def test_seeds_that_agree_by_chance_raise_no_false_alarm(seeds):
    """An interval is at least as wide as that of the seeds alone. Without this floor, only 91 % of the intervals of two
    seeds contain 0."""
    rng = np.random.default_rng(7)
    drops = [
        mixed_t(table(rng, seeds, 100, ease=ease, noise=5.0), table(rng, seeds, 100, ease=ease, noise=5.0), paired=True)
        for ease in rng.normal(0, 20, (3000, 100))
    ]
    coverage = np.mean([low <= 0 <= high for low, high in (drop.interval() for drop in drops)])
    assert 0.94 <= coverage <= 0.985
    for alpha in (0.025, 0.0025):
        assert np.mean([drop.p <= alpha for drop in drops]) <= alpha * 1.6
        assert all((drop.p <= alpha) == (drop.interval(1 - 2 * alpha).low > 0) for drop in drops)


def test_drop_without_variance():
    assert Drop(value=0.0, variance=0.0, freedom=math.inf).interval() == (0, 0)
    assert Drop(value=0.0, variance=0.0, freedom=math.inf).p == 1.0
    assert Drop(value=1.0, variance=0.0, freedom=math.inf).p == 0.0


def test_holm_and_fisher_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == [] and holm([0.9, 0.8]) == [1.0, 1.0]
    assert fisher((0, 5), (5, 5)) == pytest.approx(1 / math.comb(10, 5))
    assert fisher((1, 5), (1, 5)) > 0.5 and fisher((5, 5), (0, 5)) == 1.0


def test_needed_seeds_detect_the_drop_in_80_percent_of_cases():
    """With the number of seeds that `seeds_needed` returns, the drop is detected in about 80 % of the cases."""
    rng = np.random.default_rng(5)
    first = mixed_t(table(rng, 5, 2000, noise=5), table(rng, 5, 2000, noise=5), False)
    drop = Drop(value=0, variance=0.4, freedom=8, from_seeds=0.4, shared=0.0, seeds=(5, 5))
    seeds = drop.seeds_needed(1.5, 0.025)
    tests = [
        stats.ttest_ind(rng.normal(1.5, 1, seeds), rng.normal(0, 1, seeds), equal_var=False, alternative="greater")
        for _ in range(600)
    ]
    assert 0.74 <= np.mean([test.pvalue < 0.025 for test in tests]) <= 0.9
    assert first.detectable(0.025) > first.detectable(0.2)
    floor = Drop(value=0, variance=2.0, freedom=8, from_seeds=1.0, shared=1.0, seeds=(5, 5))
    assert floor.seeds_needed(1.0, 0.025) is None and not floor.enough_examples(1.0, 0.025)


def test_draws_resample_whole_groups():
    counts = draws(9, ["a", "b", "b", None, None, "c", "c", "c", "d"], 50, 0)
    assert counts.shape == (50, 9) and (counts[:, 1] == counts[:, 2]).all() and (counts[:, 5] == counts[:, 7]).all()
    assert (draws(5, None, 20, 1).sum(axis=1) == 5).all()


def test_seeds_needed_is_the_smallest_number_that_detects_the_margin():
    for from_seeds, shared, margin in ((0.4, 0.01, 1.0), (0.2, 0.05, 0.9), (3.0, 0.0, 1.0), (0.01, 0.0, 2.0)):
        drop = Drop(value=0, variance=1, freedom=8, from_seeds=from_seeds, shared=shared, seeds=(5, 5))
        reach = []
        for seeds in range(2, 201):
            part = from_seeds * 5 / seeds
            freedom = 2 * (seeds - 1) * ((part + shared) / part) ** 2
            quantiles = stats.t.ppf(0.975, freedom) + stats.t.ppf(0.8, freedom)
            reach.append(quantiles * math.sqrt(part + shared))
        assert drop.seeds_needed(margin, 0.025) == next(i for i, one in enumerate(reach, 2) if one <= margin)
    assert Drop(value=0, variance=1, freedom=8, from_seeds=90.0, seeds=(5, 5)).seeds_needed(1.0, 0.025) is None
    assert Drop(value=0, variance=9, freedom=8, from_pretraining=8.0, seeds=(5, 5)).seeds_needed(1.0, 0.025) is None
