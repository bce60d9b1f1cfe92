"""Records of tuned adaptations on the board: separate rows, twins with as many trials, and the cost of tuning."""

from ptmbench.leaderboard.page import sheets, view
from ptmbench.leaderboard.scores import twins
from ptmbench.leaderboard.scores.arrange import arrange
from tests.leaderboard import made

TUNED = {"tuning": {"trials": 10, "flops": 2e12}}


def records(kind, adaptation, value):
    tasks = ("cola", "sst2", "wikitext2")
    return [
        made.record(task, kind=kind, adaptation=adaptation, value=value) for task in tasks[: 2 if adaptation else 3]
    ]


def test_tuned_and_untuned_adaptations_have_separate_rows():
    """The two are not averaged. Both rows show the perplexity, for which nothing is tuned."""
    grid = arrange([*records("pretrained", {}, 60.0), *records("pretrained", TUNED, 70.0)])
    assert not grid.notes
    found = {row.part: row for row in grid.rows}
    assert set(found) == {"adaptation tuned with 10 trials", "adaptation untuned"}
    for part, value in (("adaptation tuned with 10 trials", 70.0), ("adaptation untuned", 60.0)):
        cells = {column.task["name"]: cell for (row, column), cell in grid.cells.items() if row is found[part]}
        assert set(cells) == {"cola", "sst2", "wikitext2"} and cells["sst2"].summary.mean == value
    (alone,) = arrange(records("pretrained", TUNED, 70.0)).rows
    assert alone.part == "" and alone.tuning == TUNED["tuning"]


def test_twins_are_paired_only_with_equal_tuning():
    """A tuned model is not compared with an untuned twin, nor an untuned model with a tuned one."""
    grid = arrange(
        [
            *records("pretrained", {}, 60.0), *records("pretrained", TUNED, 70.0),
            *records("random", {}, 50.0), *records("random", TUNED, 55.0),
        ]
    )  # fmt: skip
    pairs = twins.twin_rows(grid)
    assert len(pairs) == 2 and all(row.tuning == twin.tuning for row, twin in pairs)
    mixed = arrange([*records("pretrained", TUNED, 70.0), *records("random", {}, 50.0)])
    assert twins.twin_rows(mixed) == []


def test_sheet_shows_the_number_of_trials_and_their_cost():
    (row,) = arrange(records("pretrained", TUNED, 70.0)).rows
    assert sheets._adaptation_tuning(row.records) == ["adaptation tuned with 10 trials for each task (4 TFLOP)"], (
        "2e12 for each of two tasks"
    )
    assert sheets._adaptation_tuning(arrange(records("pretrained", {}, 70.0)).rows[0].records) == []
    assert "adaptation tuned with 10 trials" in view._axis(row, "tuning")
