"""Rows of several budgets and pre-trainings: each budget has its own row, and intervals include the spread between
pre-trainings."""

import json
import math
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from ptmbench.leaderboard import board, tables
from ptmbench.leaderboard.page.view import board as shown
from ptmbench.leaderboard.scores import export
from ptmbench.leaderboard.scores.arrange import arrange
from ptmbench.leaderboard.stats import Interval, difference, error, from_examples, summarise, units
from tests.leaderboard.ladders import failed, rung, rungs
from tests.leaderboard.made import record
from tests.leaderboard.pages import Page


def test_two_budgets_of_a_model_are_two_rows_that_name_them():
    grid = arrange(rungs())
    titles = [row.title for row in grid.rows if row.kind == "pretrained"]
    assert titles == [f"BERT (mini · pre-trained · fine-tuning · {name} FLOPs)" for name in ("1e14", "1e13", "1e12")]
    assert not any(grid.notes) and all(len(cell.records) == 3 for cell in grid.cells.values())
    apart = [record(seed=0, pretraining=rung(1e12)), record(seed=1, pretraining=rung(1e13))]
    assert len(arrange(apart).rows) == 2  # although no seed was run with both budgets
    mixed = [record(seed=0), record(seed=1, pretraining=rung(1e13))]
    assert len(arrange(mixed).rows) == 2  # the first is of an older version, which did not store the budget
    (row,) = arrange([record(seed=seed, pretraining=rung(1e12)) for seed in (0, 1)]).rows
    assert row.part == ""  # one budget needs no name
    steps = [record(seed=0, pretraining=rung(flops, budget={"steps": int(flops / 1e11)})) for flops in (1e13, 1e14)]
    assert {row.part for row in arrange(steps).rows} == {"100 steps", "1,000 steps"}


def test_equal_minutes_with_different_token_counts_are_one_budget():
    made = [record(seed=seed, pretraining=rung(1e12, tokens=1000 + seed, budget={"minutes": 5.0})) for seed in (0, 1)]
    made.append(record(seed=0, pretraining=rung(1e12, 1, tokens=900, budget={"minutes": 5.0})))
    assert len(arrange(made).rows) == 1
    made.append(record(seed=0, pretraining=rung(1e12, 1, tokens=900, budget={"minutes": 50.0})))
    assert {row.part for row in arrange(made).rows} == {"5 minutes", "50 minutes"}


def test_differing_corpora_and_tokenizers_are_named_with_the_budget():
    other = {"corpus": "books", "corpus_sha256": "9" * 64}
    made = [*rungs(), record(pretraining=rung(1e12) | other)]
    parts = {row.part for row in arrange(made).rows if row.kind == "pretrained"}
    assert len(parts) == 4 and "books 999999, tokenizer dddddd, 1e12 FLOPs" in parts


def test_a_failed_pretraining_is_shown_at_its_rung():
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


def test_pretrainings_share_a_row_whose_interval_includes_their_spread():
    values = {(0, 0): 50.0, (0, 1): 52.0, (1, 0): 60.0, (1, 1): 62.0}
    made = [record(seed=seed, value=value, pretraining=rung(1e12, p)) for (p, seed), value in values.items()]
    (cell,) = arrange(made).cells.values()
    assert cell.drawn == "2 pre-trainings, 2 seeds each" and cell.summary.n == 2 and cell.summary.mean == 56.0
    assert cell.summary.sd == pytest.approx(math.sqrt(50))  # the standard deviation of 51 and 61
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


def test_intervals_of_means_over_pretrainings_have_nominal_coverage():
    """Simulates 2, 3 and 5 pre-trainings with 3 seeds each, with noise at both levels. 93 to 97 % of the intervals
    contain the true mean."""
    rng = np.random.default_rng(3)
    for count in (2, 3, 5):
        covered, trials = 0, 4000
        between, within = rng.normal(0, 1.0, (trials, count, 1)), rng.normal(0, 0.5, (trials, count, 3))
        for scores in 50 + between + within:
            values = {(p, seed): scores[p, seed] for p in range(count) for seed in range(3)}
            low, high = summarise(units(values)).interval
            covered += low <= 50 <= high
        assert 0.93 <= covered / trials <= 0.97
    naive = sum(
        low <= 50 <= high
        for low, high in (summarise(list(scores.ravel())).interval for scores in 50 + between + within)
    )
    assert naive / trials < 0.75  # coverage if every seed counted as a new pre-training


def test_differences_include_the_spread_of_each_side():
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


def scores_of(rng, pretrainings, seeds, between, within, name="p"):
    """Draws scores around 0, by (pre-training, seed). The standard deviation is ``between`` pre-trainings and
    ``within`` a pre-training."""
    made = rng.normal(0, between, pretrainings)
    return {((f"{name}{p}",), s): made[p] + rng.normal(0, within) for p in range(pretrainings) for s in range(seeds)}


@pytest.mark.parametrize("pretrainings", [2, 3, 5])
@pytest.mark.parametrize("examples", [0.0, 0.3, 1.0])
def test_intervals_of_cells_cover_new_pretrainings_seeds_and_examples(pretrainings, examples):
    """The standard deviation is 1 between pre-trainings and 0.5 between seeds. All share one draw of the examples.
    Without the floor of `Error.widest`, the coverage with two pre-trainings and 0.3 of examples is 88 %."""
    rng = np.random.default_rng(pretrainings)
    covered, trials = 0, 3000
    for _ in range(trials):
        shift = rng.normal(0, examples)
        summary = summarise(units(scores_of(rng, pretrainings, 2, 1.0, 0.5)))
        low, high = error(summary, examples**2).around(summary.mean + shift)
        covered += low <= 0 <= high
    assert 0.93 <= covered / trials <= 0.985


@pytest.mark.parametrize("pretrainings", [2, 3, 5])
@pytest.mark.parametrize("other", ["as many", "one", "one seed of it", "twin", "one seed of its twin"])
def test_intervals_of_differences_cover_new_pretrainings(pretrainings, other):
    """Compares with another model with as many pre-trainings or with one, and with the random twin. The seeds of the
    twin have the variance of both pre-trainings and seeds. Two sides with t intervals of one degree of freedom are
    cautious, as is known of Welch's test: the coverage is 98 %."""
    rng = np.random.default_rng(pretrainings)
    covered, trials = 0, 3000
    for _ in range(trials):
        ours = scores_of(rng, pretrainings, 2, 1.0, 0.5)
        if "twin" in other:
            theirs = {((), s): rng.normal(0, math.hypot(1.0, 0.5)) for s in range(1 if "one" in other else 2)}
        else:
            count = pretrainings if other == "as many" else 1
            theirs = scores_of(rng, count, 1 if "seed" in other else 2, 1.0, 0.5, "q")
        low, high = difference(ours, theirs).interval
        covered += low <= 0 <= high
    assert 0.925 <= covered / trials <= 0.99


def test_every_output_states_what_an_interval_covers():
    values = {(0, 0): 50.0, (0, 1): 52.0, (1, 0): 60.0, (1, 1): 62.0}
    made = [record(seed=seed, value=value, pretraining=rung(1e12, p)) for (p, seed), value in values.items()]
    several = "pre-trainings, seeds and examples"
    for records, words in (
        (made, several),
        (made[:2], "adaptation seeds and examples, one pre-training"),
        (made[:1], "examples"),
        ([record(seed=s, kind="random", name="random-bert", value=50.0 + s) for s in (0, 1)], "seeds and examples"),
    ):
        (cell,) = arrange(records).cells.values()
        assert cell.covers == words and tables.cells(records)["interval over"].tolist() == [words]
        (entry,) = export.every_eval_ever(arrange(records))
        told = entry["evaluation_results"][0]["score_details"]["uncertainty"]["confidence_interval"]["method"]
        assert told == f"over {words}"
    assert "It covers another pre-training only where a cell names several" in Page(board.render(made)).text


def test_commands_of_all_seeds_are_merged_into_one():
    (cell, *_) = arrange(one for one in rungs(pretrainings=2, tasks=("cola",)) if one.pretraining).cells.values()
    assert cell.commands == (
        "ptmbench run ladder --models bert --flops 1e+12 --tasks cola --pretraining-seeds 2 --seeds 3",
    )
    lacking = [one for one in cell.records[:-1]]
    (cell,) = arrange(lacking).cells.values()
    assert len(cell.commands) == 5


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed, so the script cannot be called")
def test_script_includes_the_spread_between_pretrainings():
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
