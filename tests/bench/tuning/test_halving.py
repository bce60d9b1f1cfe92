"""Successive halving: the rungs, which trials survive, and which one wins."""

import math

from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.runs.tuning import halving
from ptmbench.bench.runs.tuning.halving import Rung


def test_rungs_keep_a_fraction_of_the_trials():
    assert halving.rungs(10, 3) == (
        Rung(trials=10, share=1 / 9), Rung(trials=4, share=1 / 3), Rung(trials=2, share=1)
    )  # fmt: skip
    assert [rung.trials for rung in halving.rungs(9, 2)] == [9, 5, 3, 2]
    assert [rung.trials for rung in halving.rungs(6, 3)] == [6, 2]
    assert halving.rungs(2, 3) == (Rung(trials=2, share=1),)


def test_the_best_trials_and_always_the_default_survive():
    losses = {0: 9.0, 1: 3.0, 2: math.inf, 3: 1.0, 4: 3.0, 5: 2.0}
    assert halving.survivors(losses, 4) == (0, 1, 3, 5), "of equal losses the earlier number"
    assert halving.survivors(losses, 2) == (0, 3)
    assert halving.winner({0: 1.0, 3: 1.0}) == 0 and halving.winner({0: 1.0, 3: 0.9}) == 3
    assert halving.winner({0: math.inf, 3: math.inf}) == 0 and halving.winner({0: math.inf, 3: 5.0}) == 3


def test_a_rung_gets_its_share_of_the_budget():
    assert halving.part(Budget(tokens=1000), 1 / 3) == Budget(tokens=333)
    assert halving.part(Budget(flops=1e12), 1 / 3) == Budget(flops=333333000000.0)
