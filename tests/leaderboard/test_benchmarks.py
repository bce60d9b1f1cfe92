"""Official benchmark scores: their tasks and weights, and the definition that is shown next to the score."""

import pytest

from ptmbench import models, tasks
from ptmbench.leaderboard import board, tables
from ptmbench.leaderboard.records.record import Record
from ptmbench.leaderboard.scores.benchmarks import BENCHMARKS
from tests.leaderboard.made import record

GLUE, SURVEY, SUPERGLUE = BENCHMARKS


def _all_tasks(benchmark, values: dict[str, float], **more):
    return [record(task=name, value=values.get(name, 50.0), **more) for name in benchmark.tasks]


def _scored(task: str, **values: float) -> Record:
    """Makes a record with several metrics. ``values`` maps their names to scores."""
    return record(task=task, scores={k: {"value": v, "low": v - 1, "high": v + 1} for k, v in values.items()})


def test_parts_are_existing_tasks_with_the_metrics_of_the_definition() -> None:
    for benchmark in BENCHMARKS:
        assert len(set(benchmark.tasks)) == len(benchmark.tasks)
        assert all(tasks.load(name).higher_is_better for name in benchmark.tasks)
    assert len(GLUE.parts) == 9 and len(SUPERGLUE.parts) == 8
    for name, metric in SURVEY.metrics.items():
        value = {"stsb": 2.5}.get(name, "1")
        assert metric in tasks.load(name).score([value] * 2, [value] * 2)
    for name, headline in (
        ("mrpc", "accuracy+f1"), ("qqp", "accuracy+f1"), ("stsb", "pearson+spearman"), ("cb", "accuracy+macro_f1"),
        ("multirc", "f1a+exact_match"), ("record", "f1+exact_match"),
    ):  # fmt: skip
        assert tasks.load(name).headline == headline


def test_superglue_is_the_mean_over_its_tasks() -> None:
    made = _all_tasks(SUPERGLUE, {"boolq": 90.0, "wsc": 66.0}) + [record(task="axb", value=0.0)]
    frame = tables.benchmarks(made)
    assert frame["benchmark"].tolist() == ["SuperGLUE"]
    assert frame["mean"].tolist() == pytest.approx([(90 + 66 + 6 * 50) / 8])
    assert "mean over eight tasks" in frame.attrs["definition"] and "AX-b and AX-g are not" in frame.attrs["definition"]


def test_both_mnli_sets_count_as_one_of_nine_glue_tasks() -> None:
    frame = tables.benchmarks(_all_tasks(GLUE, {"mnli": 90.0, "mnli_mm": 70.0})).set_index("benchmark")
    assert frame.loc["GLUE", "mean"] == pytest.approx((8 * 50 + 80) / 9)


def test_survey_average_reproduces_the_printed_figure() -> None:
    """The figures of BERT-base in table 1 of its paper (from the card; mismatched MNLI by hand) give the 79.6 of the
    survey's table 3. The official average would also count accuracies and Pearson's correlations."""
    printed = {one.task: one.value for one in models.load("bert").CARD.reported if "table 1" in one.source}
    printed |= {"mnli_mm": 83.4}
    made = [_scored(name, headline=printed[name]) for name in SURVEY.tasks if name not in SURVEY.metrics]
    made += [_scored(name, headline=1.0, **{metric: printed[name]}) for name, metric in SURVEY.metrics.items()]
    frame = tables.benchmarks(made)
    assert frame["benchmark"].tolist() == [SURVEY.title] and round(frame["mean"][0], 1) == 79.6
    assert "MRPC and QQP count with F1 alone" in frame.attrs["definition"]
    lacks = [one for one in made if one.task["name"] != "qqp"] + [_scored("qqp", headline=70.0)]
    assert tables.benchmarks(lacks)["missing"].tolist() == ["qqp"]


def test_interval_of_an_average_stays_within_its_bounds() -> None:
    """Two seeds, 100 and 88, have the mean 94 and a t interval of +- 12.706 x 6. The lower bound is -100 / 9, because
    CoLA, one of nine tasks, may be negative."""
    names = GLUE.tasks
    made = [record(task=name, value=value, seed=seed) for seed, value in enumerate((100.0, 88.0)) for name in names]
    frame = tables.benchmarks(made).set_index("benchmark")
    assert frame.loc["GLUE", "high"] == 100 and frame.loc["GLUE", "low"] == pytest.approx(94 - 12.7062 * 6, abs=1e-3)
    low = [record(task=name, value=value, seed=seed) for seed, value in enumerate((0.0, 12.0)) for name in names]
    bounds = tables.benchmarks(low).set_index("benchmark").loc["GLUE"]
    assert bounds["low"] == pytest.approx(-100 / 9) and bounds["high"] == pytest.approx(6 + 12.7062 * 6, abs=1e-3)


def test_row_that_lacks_a_task_has_no_score_and_names_the_task() -> None:
    made = _all_tasks(SUPERGLUE, {}) + [
        one for one in _all_tasks(SUPERGLUE, {}, name="gpt") if one.task["name"] != "wic"
    ]
    frame = tables.benchmarks(made).set_index("model")
    assert frame.loc["GPT", "seeds"] == 0 and frame.loc["GPT", "missing"] == "wic"
    assert frame.loc["BERT", "mean"] == 50.0


def test_benchmark_scores_are_computed_per_seed() -> None:
    made = [one for seed in range(3) for one in _all_tasks(SUPERGLUE, {"cb": 50.0 + 8 * seed}, seed=seed)]
    frame = tables.benchmarks(made)
    assert frame["seeds"].tolist() == [3] and frame["mean"].tolist() == pytest.approx([51.0])
    assert frame["sd"].tolist() == pytest.approx([1.0])


def test_other_data_in_the_same_format_has_no_benchmark_score() -> None:
    made = _all_tasks(SUPERGLUE, {}, task_={"source": "microworld"})
    assert tables.benchmarks(made).empty and "definition" not in tables.benchmarks(made).attrs
    assert tables.benchmarks([record()]).empty


def test_the_page_shows_score_and_definition() -> None:
    page = board.render(_all_tasks(SUPERGLUE, {"boolq": 90.0}))
    assert "Official scores of benchmarks" in page and "mean over eight tasks" in page and "55.0" in page
    assert 'id="benchmarks"' not in board.render([record()])
