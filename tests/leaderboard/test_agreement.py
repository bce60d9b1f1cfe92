"""Kendall's tau between seeds of pre-training, with its interval."""

import math

import numpy as np
import pytest
from scipy.stats import kendalltau

from ptmbench.leaderboard import board, tables
from ptmbench.leaderboard.records.record import write
from ptmbench.leaderboard.scores.agreement import agreement, interval, kendall
from ptmbench.leaderboard.scores.arrange import arrange
from tests.leaderboard.made import record

FIRST = {"bert": 70.0, "gpt": 60.0, "elmo": 65.0, "t5": 40.0, "bart": 55.0}
SECOND = {"bert": 68.0, "gpt": 61.0, "elmo": 69.0, "t5": 42.0, "bart": 50.0}


def world(*orders, seeds=2):
    return [
        record(name=name, value=value + 0.1 * seed, seed=seed, pretraining={"seed": i, "weights_sha256": f"{i}{name}"})
        for i, order in enumerate(orders)
        for name, value in order.items()
        for seed in range(seeds)
    ]


def agreement_of(records):
    grid = arrange(records)
    return agreement(grid, grid.columns[0])


def test_tau_compares_the_orders_of_two_seeds():
    one = agreement_of(world(FIRST, SECOND))
    assert one.tau == pytest.approx(kendalltau(list(FIRST.values()), list(SECOND.values())).statistic) == 0.8
    assert (one.models, one.pretrainings) == (5, 2)
    assert one.interval.low < 0.8 < one.interval.high == pytest.approx(1, abs=0.02)


def test_ties_are_handled_as_in_scipy():
    first, second = (1, 2, 2, 4, 5), (2, 1, 3, 3, 3)
    assert kendall(first, second) == pytest.approx(kendalltau(first, second).statistic)
    assert math.isnan(kendall(first, (1,) * 5))


def test_tau_of_three_seeds_is_the_mean_over_pairs():
    turned = {name: -value for name, value in FIRST.items()}
    assert agreement_of(world(FIRST, FIRST, turned)).tau == pytest.approx((1 - 1 - 1) / 3)


def test_models_without_a_score_at_every_seed_are_left_out():
    short = {name: value for name, value in SECOND.items() if name != "elmo"}
    assert agreement_of(world(FIRST, short)).models == 4
    few = {name: SECOND[name] for name in ("bert", "gpt", "elmo")}
    assert agreement_of(world(FIRST, few)) is None
    assert agreement_of(world(FIRST)) is None


@pytest.mark.parametrize(("models", "true"), [(5, 0.5), (9, 0.0), (9, 0.85)])
def test_interval_covers_the_true_tau(models, true):
    """The scores of two seeds are correlated normal numbers. 95 % of the intervals should contain the true tau, and at
    least 92 % of 400 have to."""
    source = np.random.default_rng(1)
    correlation = np.sin(np.pi * true / 2)
    covered = []
    for _ in range(400):
        first, noise = source.standard_normal((2, models))
        second = correlation * first + np.sqrt(1 - correlation**2) * noise
        low, high = interval(round(kendall(first, second), 9), models)
        covered.append(low <= true <= high)
    assert np.mean(covered) >= 0.92


def test_interval_stays_within_the_range_of_tau():
    assert interval(1.0, 12).high == 1 and 0.8 < interval(1.0, 12).low < 1
    assert interval(-1.0, 12) == pytest.approx((-1, -interval(1.0, 12).low), abs=0.03)


def test_table_and_page_show_tau(tmp_path):
    for one in world(FIRST, SECOND):
        write(tmp_path / "run", one)
    (line,) = tables.agreement(world(FIRST, SECOND)).to_dict("records")
    assert (line["task"], line["tau"], line["models"], line["pre-trainings"]) == ("CoLA", pytest.approx(0.8), 5, 2)
    page = board.build([tmp_path / "run"], tmp_path / "site").read_text()
    section = page[page.index('id="agreement"') :]
    assert "0.80 (" in section[: section.index("</section>")]
    assert not len(tables.agreement(world(FIRST)))
    for one in world(FIRST):
        write(tmp_path / "one", one)
    assert 'id="agreement"' not in board.build([tmp_path / "one"], tmp_path / "site").read_text()
