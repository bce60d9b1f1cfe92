"""Curves of ladders: fits, intervals that contain the true values of simulated curves, and crossings."""

import math
from dataclasses import replace

import numpy as np
import pytest

from ptmbench.leaderboard.scores import ladder
from ptmbench.leaderboard.scores.arrange import arrange
from ptmbench.leaderboard.scores.ladder import BudgetLadder, Rung
from ptmbench.leaderboard.scores.measures import Measure
from ptmbench.leaderboard.stats import Interval, error, summarise, units
from tests.leaderboard.ladders import RUNGS, rung, rungs
from tests.leaderboard.made import record


def simulated(rng, truth, sd, off, seeds=3, pretrainings=1, between=0.0, flops=(1e12, 1e13, 1e14, 1e15)):
    """Yields rungs of a ladder, as on the board. The true scores are ``truth(flops)``. The standard deviations of the
    noise are ``sd`` between seeds (by rung), ``between`` between pre-trainings, and ``off`` of the examples, which all
    seeds of a rung share."""
    for i, c in enumerate(flops):
        shared = truth(c) + rng.normal(0, off)
        values = {
            (p, s): made + rng.normal(0, sd[i])
            for p in range(pretrainings)
            for made in [shared + rng.normal(0, between)]
            for s in range(seeds)
        }
        summary = summarise(units(values))
        at = error(summary, off**2)
        yield Rung(budget=f"{c:g}", flops=c, value=summary.mean, error=at, interval=at.around(summary.mean))


NOBODY = BudgetLadder(number=1, label="BERT", words="", rows=())
SCORE = Measure(title="score", of=lambda row: None)


@pytest.mark.slow
@pytest.mark.parametrize(
    "draws",
    [{"seeds": 3}, {"seeds": 5}, {"seeds": 2, "pretrainings": 3, "between": 1.0}],
    ids=["3 seeds", "5 seeds", "3 pre-trainings"],
)
def test_intervals_of_simulated_curves_cover_the_true_values(draws):
    """Simulates 400 ladders of four rungs: straight lines, and power laws of the error. Some rungs have more noise."""
    rng, drawn = np.random.default_rng(7), np.random.default_rng(8)
    covered = {"slope": 0, "gain": 0, "bend": 0, "exponent": 0}
    trials = 400
    for _ in range(trials):
        made = tuple(simulated(rng, lambda c: 40 + 1.5 * math.log2(c / 1e12), (1.0, 1.0, 0.5, 2.0), 0.8, **draws))
        line = ladder.bootstrap_curve(NOBODY, SCORE, made, drawn)
        covered["slope"] += inside(1.5, line.fit.slope_interval)
        covered["gain"] += inside(1.5, line.gains[1].interval)
        covered["bend"] += inside(0.0, line.fit.bend_interval)
        made = tuple(simulated(rng, lambda c: 100 - 60 * (c / 1e12) ** -0.1, (1.0, 1.0, 0.5, 2.0), 0.8, **draws))
        law = ladder.bootstrap_curve(NOBODY, SCORE, made, drawn)
        covered["exponent"] += inside(0.1, law.fit.exponent_interval)
    share = {name: count / trials for name, count in covered.items()}
    assert all(0.90 <= one <= 0.995 for one in share.values()), share


def inside(value, interval):
    return interval.low <= value <= interval.high


def test_intervals_of_gains_are_conservative_for_shared_examples():
    """A deviation of the examples that is the same for all rungs cancels in a gain. The intervals do not use this, so
    they contain the true gain more often."""
    rng, drawn, covered = np.random.default_rng(1), np.random.default_rng(2), 0
    for _ in range(300):
        shift = rng.normal(0, 1.0)
        made = tuple(
            Rung(budget=one.budget, flops=one.flops, value=one.value + shift, interval=one.interval,
                  error=error(summarise([one.value - 0.5, one.value + 0.5, one.value]), 1.0))
            for one in simulated(rng, lambda c: 2 * math.log2(c / 1e12), (0.5,) * 4, 0.0)
        )  # fmt: skip
        covered += inside(2.0, ladder.bootstrap_curve(NOBODY, SCORE, made, drawn).gains[0].interval)
    assert covered / 300 >= 0.97


def test_fits_recover_a_known_curve_and_need_three_rungs():
    sure = error(summarise([0.0]), 0.0)

    def exact(truth, flops, measure=SCORE):
        made = tuple(Rung(budget=f"{c:g}", flops=c, value=truth(c), error=sure, interval=Interval(0, 0)) for c in flops)
        return ladder.bootstrap_curve(NOBODY, measure, made, np.random.default_rng(0))

    law = exact(lambda c: 100 - 50 * (c / 1e12) ** -0.2, (1e12, 1e13, 1e14))
    assert law.fit.exponent == pytest.approx(0.2) and law.fit.bend < 0
    assert law.fit.exponent_interval == pytest.approx((0.2, 0.2))
    lower = Measure(title="loss", of=lambda row: None, higher_is_better=False)
    loss = exact(lambda c: 7 * (c / 1e12) ** -0.05, (1e12, 1e14, 1e15), lower)
    assert loss.fit.exponent == pytest.approx(0.05)
    line = exact(lambda c: 10 + 3 * math.log2(c / 1e12), (1e12, 1e13, 1e15))
    assert line.fit.slope == pytest.approx(3.0) and line.fit.bend == pytest.approx(0.0)
    assert [gain.value for gain in line.gains] == pytest.approx([3, 3])
    two = exact(lambda c: 50.0, (1e12, 1e13))
    assert two.fit is None and two.refusal == "A fit needs 3 rungs; BERT has 2 here. Run another budget."
    perfect = exact(lambda c: 100.0, (1e12, 1e13, 1e14))
    assert math.isnan(perfect.fit.exponent) and math.isnan(perfect.fit.exponent_interval.low)


def test_crossings_of_known_curves_are_found():
    made = [
        *rungs("bert", 60.0, 2.0, spread=0.3),
        *rungs("gpt", 66.0, 0.5, spread=0.3),
        *rungs("t5", 40.0, 0.1, spread=0.3),
    ]
    found = ladder.curves(arrange(made))
    assert [one.ladder.label for one in found if one.measure.title == "average"] == ["BERT", "GPT", "T5"]
    pair = next(one for one in ladder.pairs(found) if one.first.measure.title == "average")
    assert (pair.first.ladder.label, pair.second.ladder.label) == ("BERT", "GPT")
    assert pair.crossing == pytest.approx(0.99e12 * 2**4, rel=0.5)  # 60 + 2 x = 66 + 0.5 x after four doublings
    assert pair.ahead[0] < 0.01 and pair.ahead[2] > 0.99 and pair.crossed > 0.99
    never = [one for one in ladder.pairs(found) if one.second.ladder.label == "T5" and not one.first.measure.is_loss]
    assert all(math.isnan(one.crossing) and one.crossed < 0.01 and min(one.ahead) > 0.99 for one in never)
    lower = [
        record("wikitext2", name, value=value, pretraining=rung(flops))
        for name, values in (("bert", (90.0, 50.0, 30.0)), ("gpt", (80.0, 60.0, 45.0)))
        for flops, value in zip(RUNGS, values, strict=True)
    ]
    (pair,) = ladder.pairs(ladder.curves(arrange(lower)))
    assert pair.ahead[0] < 0.05 and pair.ahead[2] > 0.95  # a lower perplexity is better


def test_curves_that_touch_at_a_rung_cross_only_if_the_order_changes():
    assert ladder._crossing([1.0, 2.0, 3.0], [-1.0, 0.0, 1.0]) == 4.0
    assert ladder._crossing([1.0, 2.0, 3.0], [-1.0, 1.0, -1.0]) == 2**1.5
    assert all(math.isnan(ladder._crossing([1.0, 2.0, 3.0], lead)) for lead in ([1.0, 0.0, 1.0], [0.0, 1.0, 1.0]))


def test_rungs_of_several_models_are_matched_by_requested_budget():
    bert = [record(seed=0, pretraining=rung(c, budget={"tokens": int(c / 1e6)})) for c in RUNGS]
    gpt = [
        record(name="gpt", pretraining=rung(c, budget={"tokens": int(c / 1e6)}) | {"flops": 2 * c}) for c in RUNGS[1:]
    ]
    (pair, *_) = ladder.pairs(ladder.curves(arrange([*bert, *gpt])))
    assert pair.budgets == ("10,000,000 tokens", "100,000,000 tokens")
    old = [record(name=name, pretraining=rung(c, budget={}, tokens=int(c))) for name in ("bert", "gpt") for c in RUNGS]
    (pair, *_) = ladder.pairs(ladder.curves(arrange(old)))
    assert pair.budgets == ("1e12 FLOPs", "1e13 FLOPs", "1e14 FLOPs")


def with_objectives(made, *names):
    """Returns a copy of the record ``made`` with the objectives ``names`` on its card."""
    return replace(made, row=made.row | {"card": made.row["card"] | {"objectives": list(names)}})


def losses(made):
    """Returns the title, the label and the number of rungs of each loss curve."""
    found = [one for one in ladder.curves(arrange(made)) if one.measure.is_loss]
    return sorted((one.measure.title, one.ladder.label, len(one.rungs)) for one in found)


def test_losses_are_compared_only_for_the_same_objective_and_text():
    bert, roberta, albert, gpt = (
        [record(name=name, pretraining=rung(c, weights_sha256=f"{name}-{c}")) for c in RUNGS]
        for name in ("bert", "roberta", "albert", "gpt")
    )
    roberta = [with_objectives(one, "mlm") for one in roberta]
    albert = [with_objectives(one, "mlm") for one in albert]
    gpt = [with_objectives(one, "lm") for one in gpt]
    both = "held-out loss (MLM + NSP)", "held-out loss (lm)", "held-out loss (mlm)"
    expected = [(both[0], "BERT", 3), (both[1], "GPT", 3), (both[2], "ALBERT", 3), (both[2], "ROBERTA", 3)]
    made = [*bert, *roberta, *albert, *gpt]
    assert losses(made) == expected
    compared = {
        (one.first.ladder.label, one.second.ladder.label)
        for one in ladder.pairs(ladder.curves(arrange(made)))
        if one.first.measure.is_loss
    }
    assert compared == {("ALBERT", "ROBERTA")}
    other = rung(1e12)["held_out"] | {"corpus_sha256": "f" * 64}
    elsewhere = [replace(one, pretraining=one.pretraining | {"held_out": other}) for one in albert]
    assert losses([*roberta, *elsewhere]) == [
        ("held-out loss (mlm, text eeeeee)", "ROBERTA", 3),
        ("held-out loss (mlm, text ffffff)", "ALBERT", 3),
    ]


def test_adaptations_of_one_pretraining_share_its_loss_curve():
    made = [record(pretraining=rung(c), adaptation={"name": name}) for c in RUNGS for name in ("finetune", "features")]
    assert losses(made) == [("held-out loss (MLM + NSP)", "BERT", 3)]


@pytest.mark.parametrize("held_out", [None, "x", {}, {"loss": None}, {"loss": "nan"}, {"loss": True}, [1.0]])
def test_records_without_a_held_out_loss_have_no_loss_curve(held_out):
    """Records of older versions and damaged records have no held-out loss. Their training loss is not shown instead."""
    made = [record(pretraining=rung(c, held_out=held_out, loss=3.0)) for c in RUNGS]
    assert losses(made) == [] and len(ladder.curves(arrange(made))) == 2  # average and task
    assert losses([*made[:1], *(record(pretraining=rung(c)) for c in RUNGS[1:])])[0][2] == 2


def test_the_average_is_centred_if_minimal_pairs_are_among_the_tasks():
    """A pre-trained model is scored on pairs once, not once per seed. Still, all seeds have an average."""
    pairs = {"form": "minimal_pair", "chance": 50.0}
    made = []
    for name, base in (("bert", 0.0), ("gpt", 6.0)):
        for i, c in enumerate(RUNGS):
            about = rung(c, weights_sha256=f"{name}-{c}")
            slope = 8 if name == "bert" else 2
            arguments = {"adaptation": {"name": "acceptability"}, "task_": pairs, "pretraining": about}
            made.append(record("blimp", name, 0, 52 + base + slope * i, **arguments))
            made += [
                record("cola", name, seed, 10 + base + slope * i + noise, pretraining=about)
                for seed, noise in enumerate((-0.2, 0.0, 0.2))
            ]
    found = [one for one in ladder.curves(arrange(made)) if one.measure.title == "centred average"]
    assert [one.ladder.label for one in found] == ["BERT", "GPT"]
    assert [one.value for one in found[0].rungs] == pytest.approx([7.0, 19.0, 31.0])  # means of 4 + 16i, 10 + 8i
    assert {step.drawn for one in found for step in one.rungs} == {"3 seeds"}
    assert all(one.interval.low < one.value < one.interval.high for one in found[0].rungs)
    (pair,) = (one for one in ladder.pairs(found))
    assert pair.crossing == pytest.approx(0.99e13) and pair.ahead[0] < 0.01 and pair.ahead[2] > 0.99  # a tie at rung 2
    assert not any(one.measure.title == "average" for one in ladder.curves(arrange(made)))
