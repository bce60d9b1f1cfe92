"""Official scores of benchmarks: which tasks count, how much, and that the definition stands beside the number."""

import pytest

import tasks
from leaderboard import board, tables
from leaderboard.benchmarks import BENCHMARKS
from tests.leaderboard.made import record

GLUE, SUPERGLUE = BENCHMARKS


def _whole(benchmark, values: dict[str, float], **more):
    return [record(task=name, value=values.get(name, 50.0), **more) for name in benchmark.tasks]


def test_the_parts_are_tasks_that_exist_with_the_metrics_that_the_definition_names() -> None:
    for benchmark in BENCHMARKS:
        assert len(set(benchmark.tasks)) == len(benchmark.tasks)
        assert all(tasks.load(name).higher_is_better for name in benchmark.tasks)
    assert len(GLUE.parts) == 9 and len(SUPERGLUE.parts) == 8
    for name, headline in (
        ("mrpc", "accuracy+f1"), ("qqp", "accuracy+f1"), ("stsb", "pearson+spearman"), ("cb", "accuracy+macro_f1"),
        ("multirc", "f1a+exact_match"), ("record", "f1+exact_match"),
    ):  # fmt: skip
        assert tasks.load(name).headline == headline


def test_superglue_is_the_mean_over_its_tasks() -> None:
    made = _whole(SUPERGLUE, {"boolq": 90.0, "wsc": 66.0}) + [record(task="axb", value=0.0)]
    frame = tables.benchmarks(made)
    assert frame["benchmark"].tolist() == ["SuperGLUE"]
    assert frame["mean"].tolist() == pytest.approx([(90 + 66 + 6 * 50) / 8])
    assert "mean over eight tasks" in frame.attrs["definition"] and "AX-b and AX-g are not" in frame.attrs["definition"]


def test_mnli_is_one_of_nine() -> None:
    frame = tables.benchmarks(_whole(GLUE, {"mnli": 90.0, "mnli_mm": 70.0}))
    assert frame["mean"].tolist() == pytest.approx([(8 * 50 + 80) / 9])


def test_a_row_that_lacks_a_task_has_no_score_and_says_which() -> None:
    made = _whole(SUPERGLUE, {}) + [one for one in _whole(SUPERGLUE, {}, name="gpt") if one.task["name"] != "wic"]
    frame = tables.benchmarks(made).set_index("model")
    assert frame.loc["GPT", "seeds"] == 0 and frame.loc["GPT", "missing"] == "wic"
    assert frame.loc["BERT", "mean"] == 50.0


def test_seeds_are_scored_one_by_one() -> None:
    made = [one for seed in range(3) for one in _whole(SUPERGLUE, {"cb": 50.0 + 8 * seed}, seed=seed)]
    frame = tables.benchmarks(made)
    assert frame["seeds"].tolist() == [3] and frame["mean"].tolist() == pytest.approx([51.0])
    assert frame["sd"].tolist() == pytest.approx([1.0])


def test_other_data_in_the_same_format_is_no_benchmark() -> None:
    made = _whole(SUPERGLUE, {}, task_={"source": "microworld"})
    assert tables.benchmarks(made).empty and "definition" not in tables.benchmarks(made).attrs
    assert tables.benchmarks([record()]).empty


def test_the_page_shows_score_and_definition() -> None:
    page = board.render(_whole(SUPERGLUE, {"boolq": 90.0}))
    assert "Official scores of benchmarks" in page and "mean over eight tasks" in page and "55.0" in page
    assert 'id="benchmarks"' not in board.render([record()])
