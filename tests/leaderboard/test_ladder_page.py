"""The ladder on the board: pictures, tables, exports and labels."""

import math
from pathlib import Path

import pytest

from ptmbench.leaderboard import board, charts, ladder_page, tables
from ptmbench.leaderboard.arrange import arrange
from ptmbench.leaderboard.record import RecordError, write
from tests.leaderboard.ladders import rung, rungs
from tests.leaderboard.made import record
from tests.leaderboard.pages import Page, run


def test_a_board_of_one_budget_has_no_ladder():
    made = [record(seed=seed) for seed in (0, 1)]
    assert ladder_page.section(arrange(made))["pictures"] == [] and 'id="ladder"' not in board.render(made)
    assert not len(tables.ladder(made)) and not len(tables.scaling(made)) and not len(tables.crossings(made))


def test_the_page_has_a_picture_of_every_task_and_its_table():
    made = [*rungs("bert", 60.0, 2.0), *rungs("gpt", 66.0, 0.5)]
    page = Page(board.render(made))
    assert sum(tag == "svg" and "ladder" in (attrs.get("class") or "") for tag, attrs in page.elements) == 4
    assert "1 BERT" in page.text and "2 GPT" in page.text and "Where curves cross" in page.text
    assert "Average (higher is better) over FLOPs of pre-training" in page.text
    floors = sum(tag == "line" and attrs.get("class") == "floor" for tag, attrs in page.elements)
    assert floors == 6  # the twin of each model in each picture
    frame = tables.ladder(made)
    assert len(frame) == 2 * 4 * 3 and set(frame.task) == {"average", "CoLA", "SST-2", "held-out loss (MLM + NSP)"}
    line = tables.scaling(made).set_index(["model", "task"]).loc[("1 BERT", "average")]
    assert line["per doubling low"] < 2.0 < line["per doubling high"] and line["note"] == ""
    loss = tables.scaling(made).set_index(["model", "task"]).loc[("1 BERT", "held-out loss (MLM + NSP)")]
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
    places = charts._apart([100.0, 101.0, 99.0, 250.0, 260.0, 258.0], 10.0, 270.0)
    ordered = sorted(places)
    assert all(b - a >= charts._LINE - 1e-9 for a, b in zip(ordered, ordered[1:], strict=False))
    assert ordered[-1] <= 270.0 and sorted(range(6), key=lambda i: places[i]) == [2, 0, 1, 3, 5, 4]
