"""Ladders of budgets on the board: no two budgets in one row, intervals that include the spread between pre-trainings,
and curves whose intervals hold what is known to be true of simulated ones."""

import json
import math
import random
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ptmbench.leaderboard import board, ladder, ladder_page, tables
from ptmbench.leaderboard.arrange import arrange
from ptmbench.leaderboard.ladder import Point, Series
from ptmbench.leaderboard.record import RecordError, planned, write
from ptmbench.leaderboard.sides import match
from ptmbench.leaderboard.sides import read as read_sides
from ptmbench.leaderboard.stats import Interval, difference, error, from_examples, summarise, units
from ptmbench.leaderboard.view import board as shown
from tests.leaderboard import gates
from tests.leaderboard.made import record
from tests.leaderboard.pages import Page, run

RUNGS = (1e12, 1e13, 1e14)


def rung(flops=1e12, pretraining=0, budget=None, **more):
    """What a record says of a pre-training with that budget; its whole steps cost a little less."""
    made = {
        "budget": budget or {"flops": flops},
        "flops": 0.99 * flops,
        "tokens": int(flops / 1e6),
        "seed": pretraining,
    }
    return (
        made
        | {"steps": int(flops / 1e9), "weights_sha256": f"{flops:g}-{pretraining}", "loss": 9 * flops**-0.06}
        | more
    )


def rungs(name="bert", base=60.0, slope=2.0, seeds=3, pretrainings=1, tasks=("cola", "sst2"), spread=1.0, **changes):
    """Records of a ladder whose scores rise by ``slope`` per doubling, and of its twin."""
    rng = random.Random(name)
    for task in tasks:
        for flops in RUNGS:
            for pretraining in range(pretrainings):
                for seed in range(seeds):
                    value = base + slope * math.log2(flops / 1e12) + rng.gauss(0, spread)
                    command = f"ptmbench run ladder --models {name} --flops {flops:g} --tasks {task}"
                    command += f" --pretraining-seed {pretraining} --seed {seed}"
                    made = rung(flops, pretraining, weights_sha256=f"{name}-{flops:g}-{pretraining}")
                    yield record(task, name, seed, value, pretraining=made, command=command, **changes)
        for seed in range(seeds):
            yield record(task, name, seed, base - 8, kind="random", row={"label": name.upper()})


def test_two_budgets_of_a_model_are_two_rows_that_say_which():
    grid = arrange(rungs())
    titles = [row.title for row in grid.rows if row.kind == "pretrained"]
    assert titles == [f"BERT (mini · pre-trained · fine-tuning · {name} FLOPs)" for name in ("1e14", "1e13", "1e12")]
    assert not any(grid.notes) and all(len(cell.records) == 3 for cell in grid.cells.values())
    apart = [record(seed=0, pretraining=rung(1e12)), record(seed=1, pretraining=rung(1e13))]
    assert len(arrange(apart).rows) == 2  # though no seed was run with both
    mixed = [record(seed=0), record(seed=1, pretraining=rung(1e13))]
    assert len(arrange(mixed).rows) == 2  # the first is of a version that did not say what was asked for
    (row,) = arrange([record(seed=seed, pretraining=rung(1e12)) for seed in (0, 1)]).rows
    assert row.part == ""  # one budget needs no name
    steps = [record(seed=0, pretraining=rung(flops, budget={"steps": int(flops / 1e11)})) for flops in (1e13, 1e14)]
    assert {row.part for row in arrange(steps).rows} == {"100 steps", "1,000 steps"}


def test_minutes_that_gave_other_numbers_of_tokens_are_one_budget():
    made = [record(seed=seed, pretraining=rung(1e12, tokens=1000 + seed, budget={"minutes": 5.0})) for seed in (0, 1)]
    made.append(record(seed=0, pretraining=rung(1e12, 1, tokens=900, budget={"minutes": 5.0})))
    assert len(arrange(made).rows) == 1
    made.append(record(seed=0, pretraining=rung(1e12, 1, tokens=900, budget={"minutes": 50.0})))
    assert {row.part for row in arrange(made).rows} == {"5 minutes", "50 minutes"}


def test_corpora_and_tokenizers_are_named_beside_the_budget_where_they_differ_too():
    other = {"corpus": "books", "corpus_sha256": "9" * 64}
    made = [*rungs(), record(pretraining=rung(1e12) | other)]
    parts = {row.part for row in arrange(made).rows if row.kind == "pretrained"}
    assert len(parts) == 4 and "books 999999, tokenizer dddddd, 1e12 FLOPs" in parts


def failed(flops, pretraining=0, seed=0):
    """The record of a cell whose pre-training, one of several, came to nothing."""
    about = {"budget": {"flops": flops}, "seed": pretraining, "corpus": "c", "corpus_sha256": "c" * 64}
    reason = {"code": "diverged", "text": "Its pre-training failed: the loss was not finite."}
    made = record(seed=seed, status="diverged", reason=reason, scores={}, row={"planned": about})
    return replace(made, pretraining=None, key=f"{int(flops):x}".rjust(12, "0") + f"{pretraining}{seed}")


def test_a_rung_whose_pretraining_failed_stands_at_its_rung():
    made = [one for one in rungs(tasks=("cola",), pretrainings=2) if one.pretraining]
    made = [one for one in made if one.pretraining["budget"] != {"flops": 1e14}]
    lost = [failed(1e13, 2, seed) for seed in range(3)] + [failed(1e14, 0, seed) for seed in range(3)]
    grid = arrange([*made, *lost])
    (column,) = grid.columns
    cells = {row.part: grid.cells[row, column] for row in grid.rows}
    assert set(cells) == {"1e12 FLOPs", "1e13 FLOPs", "1e14 FLOPs"}
    assert [len(cells[f"{name} FLOPs"].ok) for name in ("1e12", "1e13", "1e14")] == [6, 6, 0]
    assert cells["1e13 FLOPs"].marks == ("3 of 9 seeds diverged",) and cells["1e12 FLOPs"].marks == ()
    assert "the loss was not finite" in Page(board.render([*made, *lost])).text


def test_pretrainings_are_one_row_and_their_spread_is_in_its_interval():
    values = {(0, 0): 50.0, (0, 1): 52.0, (1, 0): 60.0, (1, 1): 62.0}
    made = [record(seed=seed, value=value, pretraining=rung(1e12, p)) for (p, seed), value in values.items()]
    (cell,) = arrange(made).cells.values()
    assert cell.drawn == "2 pre-trainings, 2 seeds each" and cell.summary.n == 2 and cell.summary.mean == 56.0
    assert cell.summary.sd == pytest.approx(math.sqrt(50))  # of 51 and 61
    expected = error(summarise([51.0, 61.0]), from_examples([Interval(48.0, 52.0)])).around(56.0)
    assert cell.interval == pytest.approx(expected.within(Interval(-100, 100)))
    alone = [one for one in made if one.pretraining["seed"] == 0]
    (single,) = arrange(alone).cells.values()
    assert single.summary.n == 2 and single.interval.high - single.interval.low < 60
    page = Page(board.render(made)).text
    assert "pre-training 1, 0: 60.00" in page and "2 pre-trainings, 2 seeds each" in page
    frame = tables.scores(made)
    assert frame["CoLA"].tolist() == ["56.0 ± 7.1 (2); 2 pre-trainings, 2 seeds each"]
    again = [*made, record(seed=0, value=99.0, pretraining=rung(1e12, 1), finished="2030-01-01T00:00:00Z")]
    grid = arrange(again)
    assert "1 older record" in grid.notes[0] and next(iter(grid.cells.values())).values[("1",), 0] == 99.0


def test_means_over_pretrainings_cover_the_truth_as_often_as_they_say():
    """Two levels of chance, 2, 3 and 5 pre-trainings of 3 seeds: 93 to 97 % of the intervals hold the true mean."""
    rng = np.random.default_rng(3)
    for count in (2, 3, 5):
        held, trials = 0, 4000
        between, within = rng.normal(0, 1.0, (trials, count, 1)), rng.normal(0, 0.5, (trials, count, 3))
        for scores in 50 + between + within:
            values = {(p, seed): scores[p, seed] for p in range(count) for seed in range(3)}
            low, high = summarise(units(values)).interval
            held += low <= 50 <= high
        assert 0.93 <= held / trials <= 0.97
    naive = sum(
        low <= 50 <= high
        for low, high in (summarise(list(scores.ravel())).interval for scores in 50 + between + within)
    )
    assert naive / trials < 0.75  # what the interval would hold if seeds of one pre-training were new pre-trainings


def test_differences_know_the_spread_of_each_side():
    ours = {(p, s): 60.0 + 4 * p + s for p in (0, 1) for s in (0, 1)}
    theirs = {((), s): 50.0 + s for s in (0, 1)}
    found = difference(ours, theirs)
    assert (found.n, found.mean) == (2, 12.0)
    parts = [(summarise([60.5, 64.5]).sd ** 2 / 2, 1), (summarise([50.0, 51.0]).sd ** 2 / 2, 1)]
    total = sum(variance for variance, _ in parts)
    freedom = total**2 / sum(variance**2 / of for variance, of in parts)
    from scipy.stats import t

    assert found.interval.high - 12.0 == pytest.approx(t.ppf(0.975, freedom) * math.sqrt(total))
    assert difference({((), s): v for s, v in enumerate((3.0, 5.0))}, {((), 0): 1.0, ((), 1): 1.0}).interval == (
        summarise([2.0, 4.0]).interval
    )
    assert difference(ours, {}).n == 0
    (line,) = (
        one
        for one in tables.twins(rungs(pretrainings=2, tasks=("cola",))).to_dict("records")
        if one["variant"] == "1e12 FLOPs"
    )
    assert line["mean"] == pytest.approx(8.0, abs=1.5) and line["low"] < line["mean"] < line["high"]


def test_commands_of_all_draws_are_one_command():
    (cell, *_) = arrange(one for one in rungs(pretrainings=2, tasks=("cola",)) if one.pretraining).cells.values()
    assert cell.commands == (
        "ptmbench run ladder --models bert --flops 1e+12 --tasks cola --pretraining-seeds 2 --seeds 3",
    )
    lacking = [one for one in cell.records[:-1]]
    (cell,) = arrange(lacking).cells.values()
    assert len(cell.commands) == 5


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed, so the script cannot be called")
def test_the_script_adds_the_spread_between_pretrainings():
    made = list(rungs(pretrainings=2, tasks=("cola",)))
    grid = arrange(made)
    data = json.loads(json.dumps(shown(grid, made, {})["data"]))
    twin = next(i for i, row in enumerate(grid.rows) if row.kind == "random")
    other = 0 if twin else 1
    cell = grid.cells[grid.rows[other], grid.columns[0]]
    variance, freedom = data["cells"][other][0][3]
    assert freedom == 1 and variance == pytest.approx(cell.summary.sd**2 / 2, abs=1e-5)
    assert len(data["cells"][twin][0]) == 2
    logic = Path(board.__file__).parent / "site" / "logic.js"
    code = "const logic = require(process.argv[1]); const a = JSON.parse(process.argv[2]);"
    code += "console.log(JSON.stringify(logic.difference(...a)))"

    def told(first, second):
        arguments = ["node", "-e", code, logic, json.dumps([first, second, data["seeds"], data["t"]])]
        return json.loads(subprocess.run(arguments, capture_output=True, text=True, check=True).stdout)

    sides = [data["cells"][other][0], data["cells"][twin][0]]
    found, narrower = told(*sides), told(sides[0][:2], sides[1])
    assert found["mean"] == pytest.approx(
        cell.summary.mean - grid.cells[grid.rows[twin], grid.columns[0]].summary.mean, abs=0.01
    )
    assert found["high"] - found["low"] > narrower["high"] - narrower["low"]


def simulated(rng, truth, sd, off, seeds=3, pretrainings=1, between=0.0, flops=(1e12, 1e13, 1e14, 1e15)):
    """Points of a ladder whose true scores are ``truth(flops)``, as the board would have them: noise ``sd`` of each
    seed, ``between`` of each pre-training, and ``off`` of the examples, which all seeds of a rung share."""
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
        yield Point(rung=f"{c:g}", flops=c, value=summary.mean, error=at, interval=at.around(summary.mean))


NOBODY = Series(number=1, label="BERT", words="", rows=())


@pytest.mark.slow
@pytest.mark.parametrize(
    "draws",
    [{"seeds": 3}, {"seeds": 5}, {"seeds": 2, "pretrainings": 3, "between": 1.0}],
    ids=["3 seeds", "5 seeds", "3 pre-trainings"],
)
def test_intervals_of_known_curves_hold_the_truth(draws):
    """400 ladders of four rungs each: a straight line, and a power law of the error, with more noise at some rungs."""
    rng, drawn = np.random.default_rng(7), np.random.default_rng(8)
    held = {"slope": 0, "gain": 0, "bend": 0, "exponent": 0}
    trials = 400
    for _ in range(trials):
        points = tuple(simulated(rng, lambda c: 40 + 1.5 * math.log2(c / 1e12), (1.0, 1.0, 0.5, 2.0), 0.8, **draws))
        line = ladder.curve(NOBODY, None, points, drawn)
        held["slope"] += inside(1.5, line.fit.slope_interval)
        held["gain"] += inside(1.5, line.gains[1].interval)
        held["bend"] += inside(0.0, line.fit.bend_interval)
        points = tuple(simulated(rng, lambda c: 100 - 60 * (c / 1e12) ** -0.1, (1.0, 1.0, 0.5, 2.0), 0.8, **draws))
        law = ladder.curve(NOBODY, None, points, drawn)
        held["exponent"] += inside(0.1, law.fit.exponent_interval)
    share = {name: count / trials for name, count in held.items()}
    assert all(0.90 <= one <= 0.98 for one in share.values()), share


def inside(value, interval):
    return interval.low <= value <= interval.high


def test_examples_that_rungs_share_make_intervals_of_gains_cautious():
    """What the examples do to all rungs alike cancels in a gain; the intervals do not know that, and hold more."""
    rng, drawn, held = np.random.default_rng(1), np.random.default_rng(2), 0
    for _ in range(300):
        shift = rng.normal(0, 1.0)
        points = tuple(
            Point(rung=one.rung, flops=one.flops, value=one.value + shift, interval=one.interval,
                  error=error(summarise([one.value - 0.5, one.value + 0.5, one.value]), 1.0))
            for one in simulated(rng, lambda c: 2 * math.log2(c / 1e12), (0.5,) * 4, 0.0)
        )  # fmt: skip
        held += inside(2.0, ladder.curve(NOBODY, None, points, drawn).gains[0].interval)
    assert held / 300 >= 0.97


def test_fits_recover_a_known_curve_and_refuse_two_rungs():
    sure = error(summarise([0.0]), 0.0)

    def exact(truth, flops, **more):
        points = tuple(
            Point(rung=f"{c:g}", flops=c, value=truth(c), error=sure, interval=Interval(0, 0)) for c in flops
        )
        return ladder.curve(NOBODY, None, points, np.random.default_rng(0), **more)

    law = exact(lambda c: 100 - 50 * (c / 1e12) ** -0.2, (1e12, 1e13, 1e14))
    assert law.fit.exponent == pytest.approx(0.2) and law.fit.bend < 0
    assert law.fit.exponent_interval == pytest.approx((0.2, 0.2))
    loss = exact(lambda c: 7 * (c / 1e12) ** -0.05, (1e12, 1e14, 1e15), higher_is_better=False)
    assert loss.fit.exponent == pytest.approx(0.05)
    line = exact(lambda c: 10 + 3 * math.log2(c / 1e12), (1e12, 1e13, 1e15))
    assert line.fit.slope == pytest.approx(3.0) and line.fit.bend == pytest.approx(0.0)
    assert line.predicted(2e12) == pytest.approx(13.0) and [gain.value for gain in line.gains] == pytest.approx([3, 3])
    two = exact(lambda c: 50.0, (1e12, 1e13))
    assert two.fit is None and two.refusal == "A fit needs 3 rungs; BERT has 2 here. Run another budget."
    perfect = exact(lambda c: 100.0, (1e12, 1e13, 1e14))
    assert math.isnan(perfect.fit.exponent) and math.isnan(perfect.fit.exponent_interval.low)


def test_curves_cross_where_their_lines_do():
    made = [
        *rungs("bert", 60.0, 2.0, spread=0.3),
        *rungs("gpt", 66.0, 0.5, spread=0.3),
        *rungs("t5", 40.0, 0.1, spread=0.3),
    ]
    found = ladder.curves(arrange(made))
    assert [one.series.label for one in found if one.column is None] == ["BERT", "GPT", "T5"]
    pair = next(one for one in ladder.pairs(found) if one.first.column is None)
    assert (pair.first.series.label, pair.second.series.label) == ("BERT", "GPT")
    assert pair.crossing == pytest.approx(0.99e12 * 2**4, rel=0.5)  # 60 + 2 x = 66 + 0.5 x after four doublings
    assert pair.ahead[0] < 0.01 and pair.ahead[2] > 0.99 and pair.crossed > 0.99
    never = [one for one in ladder.pairs(found) if one.second.series.label == "T5"]
    assert all(math.isnan(one.crossing) and one.crossed < 0.01 and min(one.ahead) > 0.99 for one in never)
    assert not any(isinstance(one.first.column, str) for one in ladder.pairs(found))  # losses do not compare
    lower = [
        record("wikitext2", name, value=value, pretraining=rung(flops))
        for name, values in (("bert", (90.0, 50.0, 30.0)), ("gpt", (80.0, 60.0, 45.0)))
        for flops, value in zip(RUNGS, values, strict=True)
    ]
    (pair,) = ladder.pairs(ladder.curves(arrange(lower)))
    assert pair.ahead[0] < 0.05 and pair.ahead[2] > 0.95  # perplexity: the lower one is ahead


def test_rungs_of_several_models_are_matched_by_what_was_asked_for():
    bert = [record(seed=0, pretraining=rung(c, budget={"tokens": int(c / 1e6)})) for c in RUNGS]
    gpt = [
        record(name="gpt", pretraining=rung(c, budget={"tokens": int(c / 1e6)}) | {"flops": 2 * c}) for c in RUNGS[1:]
    ]
    (pair, *_) = ladder.pairs(ladder.curves(arrange([*bert, *gpt])))
    assert pair.rungs == ("10,000,000 tokens", "100,000,000 tokens")
    old = [record(name=name, pretraining=rung(c, budget={}, tokens=int(c))) for name in ("bert", "gpt") for c in RUNGS]
    (pair, *_) = ladder.pairs(ladder.curves(arrange(old)))
    assert pair.rungs == ("1e12 FLOPs", "1e13 FLOPs", "1e14 FLOPs")


def test_a_board_of_one_budget_has_no_ladder():
    made = [record(seed=seed) for seed in (0, 1)]
    assert ladder_page.section(arrange(made))["pictures"] == [] and 'id="ladder"' not in board.render(made)
    assert not len(tables.ladder(made)) and not len(tables.scaling(made)) and not len(tables.crossings(made))


def test_the_page_has_a_picture_of_every_task_and_its_table():
    made = [*rungs("bert", 60.0, 2.0), *rungs("gpt", 66.0, 0.5)]
    page = Page(board.render(made))
    assert sum(tag == "svg" and "ladder" in (attrs.get("class") or "") for tag, attrs in page.elements) == 3
    assert "1 BERT" in page.text and "2 GPT" in page.text and "Where curves cross" in page.text
    assert "Average (higher is better) over FLOPs of pre-training" in page.text
    floors = sum(tag == "line" and attrs.get("class") == "floor" for tag, attrs in page.elements)
    assert floors == 6  # the twin of each model in each picture
    frame = tables.ladder(made)
    assert len(frame) == 2 * 4 * 3 and set(frame.task) == {"average", "CoLA", "SST-2", "pre-training loss"}
    line = tables.scaling(made).set_index(["model", "task"]).loc[("1 BERT", "average")]
    assert line["per doubling low"] < 2.0 < line["per doubling high"] and line["note"] == ""
    loss = tables.scaling(made).set_index(["model", "task"]).loc[("1 BERT", "pre-training loss")]
    assert loss["exponent"] == pytest.approx(0.06) and math.isnan(loss["exponent low"])  # of one pre-training each


def test_tables_go_into_exports(tmp_path):
    run(tmp_path / "run", rungs())
    assert "## Score against budget" in board.text([tmp_path / "run"])
    assert "1e13 FLOPs" in board.text([tmp_path / "run"], "csv", "ladder")
    run(tmp_path / "one", [record()])
    assert "Score against budget" not in board.text([tmp_path / "one"])


def test_hostile_labels_stay_text_in_the_picture():
    hostile = "</svg><script>1</script>\u202e"
    made = list(rungs(row={"label": hostile}))
    html = board.render(made)
    assert "<script>1" not in html and "\u202e" not in html
    planned_ = record(row={"planned": {"budget": ["x"]}})
    with pytest.raises(RecordError, match="row.planned.budget"):
        write(Path("/nonexistent"), planned_)
    strange = [
        record(pretraining=rung(1e12, budget={"flops": "<b>"})),
        record(pretraining=rung(1e13, budget={"": None})),
    ]
    assert "<b>" not in Page(board.render(strange)).text or "<b> flops" not in board.render(strange)


def test_labels_do_not_touch_and_stay_on_the_picture():
    from ptmbench.leaderboard import charts

    places = charts._apart([100.0, 101.0, 99.0, 250.0, 260.0, 258.0], 10.0, 270.0)
    ordered = sorted(places)
    assert all(b - a >= charts._LINE - 1e-9 for a, b in zip(ordered, ordered[1:], strict=False))
    assert ordered[-1] <= 270.0 and sorted(range(6), key=lambda i: places[i]) == [2, 0, 1, 3, 5, 4]


def groups(drop=0.0, fail=()):
    """A ladder for the gate: rungs of rising level, the middle one lower by ``drop``; ``fail`` have no score."""
    for i, c in enumerate(RUNGS):
        if c in fail:
            yield [failed(c, 0, seed) for seed in range(5)]
        else:
            made = rung(c, weights_sha256=f"{c:g}-{drop}")
            level = 0.5 + 0.4 * i - drop * (i == 1)
            yield gates.cells(level=level, salt=i + 10 * bool(drop), task="cola", pretraining=made)


def test_the_gate_compares_rung_with_rung(tmp_path):
    found = gates.between(tmp_path, groups(), groups(drop=0.3))
    drops = [one.drop.value for one in found.cells]
    assert len(drops) == 3 and sum(abs(drop) < 1 for drop in drops) == 2 and max(drops) > 5


def test_a_rung_that_fails_is_held_against_the_same_rung(tmp_path):
    found = gates.between(tmp_path, groups(), groups(fail=RUNGS[1:]))
    assert len(found.cells) == 3 and sum(one.drop is not None for one in found.cells) == 1
    sides = [read_sides(tmp_path / name) for name in ("base", "head")]
    for one, other, _ in match(*sides):
        asked = {
            json.dumps((of.pretraining or planned(of))["budget"])
            for side in (one, other)
            for of in side.records.values()
        }
        assert len(asked) == 1  # each failed rung against the one that has scores in BASE
