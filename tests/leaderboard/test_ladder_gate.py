"""The gate on ladders of budgets: each rung is compared with the same rung of the other run."""

import json

from ptmbench.leaderboard.gate.sides import match
from ptmbench.leaderboard.gate.sides import read as read_sides
from ptmbench.leaderboard.records.record import planned
from tests.leaderboard import gates
from tests.leaderboard.ladders import RUNGS, failed, rung


def groups(drop=0.0, fail=()):
    """Yields the rungs of a ladder with rising levels. The middle one is lower by ``drop``; those in ``fail`` have no
    score."""
    for i, c in enumerate(RUNGS):
        if c in fail:
            yield [failed(c, 0, seed) for seed in range(5)]
        else:
            made = rung(c, weights_sha256=f"{c:g}-{drop}")
            level = 0.5 + 0.4 * i - drop * (i == 1)
            yield gates.cells(level=level, salt=i + 10 * bool(drop), task="cola", pretraining=made)


def test_gate_compares_each_rung_with_the_same_rung(tmp_path):
    found = gates.between(tmp_path, groups(), groups(drop=0.3))
    drops = [one.drop.value for one in found.cells]
    assert len(drops) == 3 and sum(abs(drop) < 1 for drop in drops) == 2 and max(drops) > 5


def test_a_failed_rung_is_compared_with_the_same_rung(tmp_path):
    found = gates.between(tmp_path, groups(), groups(fail=RUNGS[1:]))
    assert len(found.cells) == 3 and sum(one.drop is not None for one in found.cells) == 1
    sides = [read_sides(tmp_path / name) for name in ("base", "head")]
    for one, other, _ in match(*sides):
        budgets = {
            json.dumps((of.pretraining or planned(of))["budget"])
            for side in (one, other)
            for of in side.records.values()
        }
        assert len(budgets) == 1  # a failed rung is matched with the rung of the same budget in BASE
