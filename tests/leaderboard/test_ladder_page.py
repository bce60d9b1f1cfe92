"""The ladder of budgets on the board: charts, tables, exports and labels."""

import math
from pathlib import Path

import pytest

from ptmbench.leaderboard import board, tables
from ptmbench.leaderboard.page import charts
from ptmbench.leaderboard.page import ladder as ladder_page
from ptmbench.leaderboard.records.record import RecordError, write
from ptmbench.leaderboard.scores.arrange import arrange
from tests.leaderboard.ladders import rung, rungs
from tests.leaderboard.made import record
from tests.leaderboard.pages import Page, run


def test_a_board_of_one_budget_has_no_ladder():
    made = [record(seed=seed) for seed in (0, 1)]
    assert ladder_page.section(arrange(made))["pictures"] == [] and 'id="ladder"' not in board.render(made)
    assert not len(tables.ladder(made)) and not len(tables.scaling(made)) and not len(tables.crossings(made))


def test_page_has_a_chart_and_a_table_of_every_task():
    made = [*rungs("bert", 60.0, 2.0), *rungs("gpt", 66.0, 0.5)]
    page = Page(board.render(made))
    assert sum(tag == "svg" and "ladder" in (attrs.get("class") or "") for tag, attrs in page.elements) == 4
    assert "1 BERT" in page.text and "2 GPT" in page.text and "Where curves cross" in page.text
    assert "Average (higher is better) over FLOPs of pre-training" in page.text
    floors = sum(tag == "line" and attrs.get("class") == "floor" for tag, attrs in page.elements)
    assert floors == 6  # the twins of two models in each of three score charts
    frame = tables.ladder(made)
    assert len(frame) == 2 * 4 * 3 and set(frame.task) == {"average", "CoLA", "SST-2", "held-out loss (MLM + NSP)"}
    line = tables.scaling(made).set_index(["model", "task"]).loc[("1 BERT", "average")]
    assert line["per doubling low"] < 2.0 < line["per doubling high"] and line["note"] == ""
    loss = tables.scaling(made).set_index(["model", "task"]).loc[("1 BERT", "held-out loss (MLM + NSP)")]
    assert loss["exponent"] == pytest.approx(0.06) and math.isnan(loss["exponent low"])  # one pre-training per rung


def test_ladder_tables_are_exported(tmp_path):
    run(tmp_path / "run", rungs())
    assert "## Score against budget" in board.text([tmp_path / "run"])
    assert "1e13 FLOPs" in board.text([tmp_path / "run"], "csv", "ladder")
    run(tmp_path / "one", [record()])
    assert "Score against budget" not in board.text([tmp_path / "one"])


def test_hostile_labels_are_escaped_in_the_chart():
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


def test_labels_do_not_overlap_and_stay_inside_the_chart():
    places = charts._space_labels([100.0, 101.0, 99.0, 250.0, 260.0, 258.0], 270.0)
    ordered = sorted(places)
    assert all(b - a >= charts._LINE - 1e-9 for a, b in zip(ordered, ordered[1:], strict=False))
    assert ordered[-1] <= 270.0 and sorted(range(6), key=lambda i: places[i]) == [2, 0, 1, 3, 5, 4]


@pytest.mark.parametrize(
    "low, high, expected",
    [(0.0, 36.0, [0, 10, 20, 30, 40]), (44.0, 82.0, [40, 50, 60, 70, 80, 90]), (5.1, 6.9, [5, 5.5, 6, 6.5, 7])]
    + [(-3.0, 33.0, [-10, 0, 10, 20, 30, 40]), (2.0, 2.0, None), (0.0, 100.0, [0, 20, 40, 60, 80, 100])],
)
def test_axis_ticks_are_round_and_cover_the_data(low, high, expected):
    found = charts.round_levels(low, high)
    assert expected is None or found == pytest.approx(expected)
    assert found[0] <= low <= high <= found[-1] and 2 <= len(found) <= 6


def test_a_model_has_one_colour_in_all_charts():
    made = [*rungs("bert", 60.0, 2.0, tasks=("cola",)), *rungs("gpt", 66.0, 0.5, tasks=("cola", "sst2"))]
    section = ladder_page.section(arrange(made))
    pictures = {one["title"]: str(one["svg"]) for one in section["pictures"]}
    assert 'class="k0"' in pictures["CoLA"] and 'class="k1"' in pictures["CoLA"]
    assert 'class="k1"' in pictures["SST-2"] and 'class="k0"' not in pictures["SST-2"], "GPT is number 2 there, too"


def test_columns_of_gains_name_their_rungs_if_all_models_share_them():
    assert ladder_page.section(arrange(rungs()))["steps"] == ["1e12 to 1e13 FLOPs", "1e13 to 1e14 FLOPs"]
    fewer = [one for one in rungs("gpt") if not one.pretraining or one.pretraining["budget"]["flops"] > 1e12]
    assert ladder_page.section(arrange([*rungs(), *fewer]))["steps"] == ["Step 1", "1e13 to 1e14 FLOPs"]
