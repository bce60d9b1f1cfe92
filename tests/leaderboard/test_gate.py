"""The gate: verdicts and their reasons, from records alone. Every cell has a verdict, and no failure passes."""

import json
import math
from dataclasses import replace

import pytest

from ptmbench import tasks
from ptmbench.leaderboard.gate import margins
from ptmbench.leaderboard.gate import report as gate_report
from ptmbench.leaderboard.gate.gate import gate
from ptmbench.leaderboard.records.baseline import BaselineError
from ptmbench.leaderboard.records.record import FOLDER, RecordError
from tests.leaderboard.gates import between, cells, noisy, only, scorer, side
from tests.leaderboard.made import blank, record


def test_the_same_records_pass(tmp_path):
    found = between(tmp_path, [cells()], [cells()])
    assert found.verdict == "pass" and found.status(strict=True) == 0
    assert only(found).method == "identical predictions" and only(found).drop.interval() == (0, 0)


def test_losses_have_smaller_margins_than_scores_in_percent():
    """A margin of one point, as for scores in percent, would be as large as the whole gain in bits per byte from
    pre-training."""
    judged = [(tasks.load(name), {"name": name, "higher_is_better": False}) for name in tasks.names()]
    losses = [about | {"headline": task.headline} for task, about in judged if not task.higher_is_better]
    assert {about["headline"] for about in losses} >= {"perplexity", "bits_per_byte"}
    assert all(margins.margin(about, base=2.0) <= 0.05 for about in losses)


def rescored(records, change, name="headline"):
    """Yields the same records with ``change`` applied to the score ``name``. The hashes of predictions stay equal."""
    for one in records:
        scores = {key: dict(score) for key, score in one.scores.items()}
        scores[name]["value"] = change(scores[name]["value"])
        yield replace(one, scores=scores)


@pytest.mark.parametrize("change", [lambda value: value / 2, lambda value: value + 0.5, lambda value: math.nan])
def test_equal_predictions_with_other_scores_are_a_change_of_scoring(tmp_path, change):
    found = between(tmp_path, [cells()], [rescored(cells(), change)])
    cell = only(found)
    assert found.verdict == cell.verdict == "regression" and found.status() == 1
    assert "The scoring changed: the predictions of seed 0 are the same" in cell.reason
    assert cell.drop is None and cell.rescored and found.reason == "1 cells have the same predictions and other scores."


def test_a_change_of_scoring_is_detected_in_any_metric_and_any_seed(tmp_path):
    """The gate also sees it if the headline stays the same, if other seeds are missing, or if the score rises. It
    ignores the last digits of a float."""
    minor = between(tmp_path / "minor", [cells()], [rescored(cells(), lambda value: value / 2, "accuracy")])
    assert "their accuracy is" in only(minor).reason and minor.status() == 1
    one = [*rescored(cells(range(1)), lambda value: value + 3), *cells(range(5, 9), salt=1)]
    assert "of seed 0" in only(between(tmp_path / "one", [cells()], [one])).reason
    rounded = between(tmp_path / "rounded", [cells()], [rescored(cells(), lambda value: value * (1 + 1e-13))])
    assert rounded.status(strict=True) == 0
    version = {"task_": {"version": 2}}
    raised = between(tmp_path / "version", [cells()], [rescored(cells(**version), lambda value: value / 2)])
    assert raised.status() == 5 and "task version" in only(raised).reason


def test_a_real_drop_is_a_regression(tmp_path):
    found = between(tmp_path, [cells()], [cells(level=0.8, salt=1)])
    cell = only(found)
    assert found.status() == 1 and cell.verdict == "regression" and found.macro.verdict == "regression"
    low, high = cell.drop.interval()
    assert low > 0 and cell.drop.value > cell.margin and cell.base - cell.head == pytest.approx(cell.drop.value)


def test_a_gain_passes(tmp_path):
    assert between(tmp_path, [cells(level=0.8)], [cells(salt=1)]).status(strict=True) == 0


def test_a_significant_drop_within_the_margin_passes(tmp_path):
    found = between(tmp_path, [cells()], [cells(level=0.8, salt=1)], chosen={"sst2": 30.0, "macro": 30.0})
    assert only(found).p_adjusted < 0.001 and found.verdict == "pass"


def test_inconclusive_cell_states_the_detectable_drop_and_the_needed_seeds(tmp_path):
    found = between(tmp_path, [cells(sd=0.1)], [cells(sd=0.1, salt=1)])
    cell = only(found)
    assert cell.verdict == found.verdict == "inconclusive"
    assert (found.status(), found.status(strict=True)) == (0, 3)
    assert cell.detectable > cell.margin and cell.seeds_needed > 5 and f"takes {cell.seeds_needed} seeds" in cell.reason


def bounded(value, low, high):
    """Five seeds with the same score and without predictions."""
    scores = {"headline": {"value": value, "low": low, "high": high}}
    return [record(task="sst2", seed=seed, value=value, scores=scores, finished=str(value)) for seed in range(5)]


def test_interval_that_begins_at_zero_is_used_as_an_interval(tmp_path):
    """Two low scores with widely overlapping intervals are no regression, even if all seeds agree."""
    cell = only(between(tmp_path, [bounded(6.0, 0.0, 12.0)], [bounded(3.0, 0.0, 6.0)]))
    half = 1.959963984540054
    assert cell.drop.variance == pytest.approx((6 / half) ** 2 + (3 / half) ** 2)
    assert cell.verdict == "inconclusive"


def test_scores_without_intervals_are_inconclusive(tmp_path):
    cell = only(between(tmp_path, [bounded(60.0, None, None)], [bounded(50.0, math.nan, math.nan)]))
    assert cell.verdict == "inconclusive" and math.isnan(cell.drop.variance)
    assert "spread over examples" in cell.reason and cell.seeds_needed is None


def test_cells_on_the_same_examples_are_correlated_whatever_their_task_names(tmp_path):
    """Two tasks on the same sentences do not count as twice as many sentences."""
    data = {"task_": {"data_sha256": "f" * 64}}
    one = between(tmp_path / "one", [cells(**data)], [cells(level=0.8, salt=1, **data)])
    ways = [
        [cells(task=f"sst2-{way}", level=level, salt=salt, **data) for way in ("qa", "nli")]
        for salt, level in enumerate((1.2, 0.8))
    ]
    two = between(tmp_path / "two", *ways)
    assert two.macro.drop.shared >= one.macro.drop.shared > 0


def test_the_method_follows_from_provenance(tmp_path):
    def method(name, base, head):
        found = between(tmp_path / name, [base], [head])
        return only(found).method, only(found).notes

    assert method("seeds", cells(), cells(seeds=range(5, 10)))[0] == "mixed t"
    assert method("code", cells(), cells(salt=1))[0] == "mixed t, seeds paired"
    other = cells(salt=1, pretraining={"weights_sha256": "0" * 64})
    name, notes = method("weights", cells(), other)
    assert name == "mixed t" and "an SD of 7 between pre-trainings" in notes[0]
    for number, prompting in enumerate(("prompt", "prompt:shots=2")):
        asis = {"adaptation": {"name": prompting}, "seeds": [0]}
        assert method(f"artifact{number}", cells(**asis), cells(salt=1, **asis))[0] == "McNemar, exact"
    name, notes = method("bare", cells(), (record(task="sst2", seed=s, value=80.0 + s) for s in range(5)))
    assert name == "scores and their intervals only" and "intervals were used" in notes[0]


def test_passing_mean_with_inconclusive_cells_is_a_pass_on_average(tmp_path):
    base = [cells(task=f"t{i}", salt=i, sd=0.05) for i in range(12)]
    head = [cells(task=f"t{i}", salt=20 + i, sd=0.05) for i in range(12)]
    found = between(tmp_path, base, head)
    assert found.macro.verdict == "pass" and any(cell.verdict == "inconclusive" for cell in found.cells)
    assert found.verdict == "pass on average" and (found.status(), found.status(strict=True)) == (0, 3)
    worst = max(cell.drop.interval().high for cell in found.cells if cell.verdict == "inconclusive")
    assert f"leaves a drop of up to {worst:.1f} open" in found.reason
    assert gate_report.to_markdown(found).startswith("## ≈ Pass on average")
    assert gate_report.annotations(found)[0].startswith("::warning title=Pass on average::")
    assert json.loads(gate_report.to_json(found))["strict_status"] == 3


def test_a_single_training_seed_is_inconclusive(tmp_path):
    found = between(tmp_path, [cells(seeds=[0])], [cells(seeds=[1], level=0.5)])
    assert only(found).verdict == "inconclusive" and "One seed" in only(found).reason and found.macro is None


def test_drop_has_the_opposite_sign_if_lower_is_better(tmp_path):
    asis = {"task": "wikitext2", "adaptation": {"name": "likelihood"}, "seeds": [0]}
    found = between(tmp_path, [cells(level=0.8, **asis)], [cells(salt=1, **asis)])
    assert only(found).drop.value > 0 and only(found).verdict == "regression"
    assert only(found).margin == pytest.approx(0.02 * only(found).base)
    assert between(tmp_path / "2", [cells(**asis)], [cells(level=0.8, salt=1, **asis)]).verdict == "pass"


def test_exit_status_is_not_zero_if_no_cell_is_compared(tmp_path):
    found = between(tmp_path, [cells()], [cells(task="cola")])
    assert found.status() == 4 and {cell.verdict for cell in found.cells} == {"missing", "new"}
    assert between(tmp_path / "empty", [], []).status() == 4
    assert between(tmp_path / "blank", [[blank("missing-data", "No file.")]], [[blank("x", "No file.")]]).status() == 4


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"task_": {"version": 2}}, "task version"),
        ({"task_": {"data_sha256": "f" * 64}}, "data"),
        ({"task_": {"headline": "f1"}, "scores": {"headline": {"value": 80.0}}}, "metric"),
        ({"adaptation": {"settings": {"learning_rate": 1e-4, "epochs": 9}}}, "setting epochs"),
        ({"adaptation": {"version": 2}}, "version of the adaptation"),
        ({"pretraining": {"tokens": 5}}, "pre-training tokens"),
        ({"pretraining": {"corpus_sha256": "9" * 64}}, "corpus"),
    ],
)
def test_cells_of_another_recipe_are_not_comparable(tmp_path, changes, words):
    head = [record(**({"task": "sst2", "seed": s, "value": 20.0} | changes)) for s in range(5)]
    found = between(tmp_path, [cells()], [head])
    assert found.status() == 5 and only(found).verdict == "not comparable" and words in only(found).reason
    assert only(found).drop is None


def test_extra_encoders_are_part_of_the_recipe(tmp_path):
    """A random twin is stacked on GloVe's vectors; those of HEAD differ in their tokens or weights."""
    made = record().pretraining

    def stacked(value, **changes):
        adaptation = {"name": "stacked", "neighbours": {"glove": made | changes}}
        return [record(seed=s, value=value, kind="random", adaptation=adaptation) for s in range(5)]

    found = between(tmp_path / "models", [stacked(50.0)], [stacked(80.0, tokens=5)])
    assert only(found).reason == "HEAD and BASE differ in: pre-training tokens of glove."
    moved = between(tmp_path / "weights", [stacked(50.0)], [stacked(80.0, weights_sha256="0" * 64)])
    assert "other weights" in " ".join(only(moved).notes) and not only(moved).drop.paired


@pytest.mark.parametrize("versions, comparable", [((1, 1), True), ((1, 2), False)])
@pytest.mark.parametrize("names", [("auxiliary", "auxiliary"), ("beside", "auxiliary")])
def test_different_versions_of_auxiliary_tasks_are_not_comparable(tmp_path, names, versions, comparable):
    """Versions are also compared between an old record, which has them under "beside", and a new one."""
    base, head = (
        [record(seed=s, value=50.0, task_={name: {"trec": {"version": version, "data_sha256": "0"}}}) for s in range(5)]
        for name, version in zip(names, versions, strict=True)
    )
    found = only(between(tmp_path, [base], [head]))
    assert (found.verdict != "not comparable") == comparable, found.reason
    assert comparable or "differ in: task version of trec" in found.reason


def test_diverged_seeds_are_counted_and_tested(tmp_path):
    def gone(count, start=0, text="The loss is not finite."):
        return [blank("diverged", text, "diverged", task="sst2", seed=s) for s in range(start, start + count)]

    one = between(tmp_path / "1", [cells()], [cells(range(1, 5)), gone(1)])
    assert only(one).diverged == (0, 1) and only(one).seeds == (5, 4) and only(one).verdict != "regression"
    assert only(one).diverged_p == pytest.approx(0.5)
    most = between(tmp_path / "8", [cells(range(10))], [cells(range(2)), gone(8, 2)])
    assert only(most).verdict == "regression" and "More seeds diverge: 8 after 0" in only(most).reason
    every = between(tmp_path / "5", [cells()], [gone(5)])
    assert every.status() == 1 and "5 of 5 in HEAD" in only(every).reason
    nan = [record(task="sst2", seed=s, value=math.nan) for s in range(5)]
    assert only(between(tmp_path / "nan", [cells()], [nan])).diverged == (0, 5)
    both = between(tmp_path / "both", [gone(5)], [gone(5)])
    assert both.status() == 4 and "No cell could be compared" in both.reason


def test_failures_never_pass(tmp_path):
    broken = [blank("error", "ValueError: shapes.", "failed", task="sst2", seed=s) for s in range(5)]
    found = between(tmp_path / "all", [cells()], [broken])
    assert found.status() == 1 and "ValueError: shapes." in only(found).reason
    some = between(tmp_path / "some", [cells()], [cells(range(4)), broken[4:]])
    assert only(some).verdict == "inconclusive" and "1 of 5 seeds failed" in " ".join(only(some).notes)
    missing = [blank("missing-data", "No file.", task="sst2", task_={"data_sha256": "e" * 64, "examples": 1000})]
    assert between(tmp_path / "no", [cells()], [missing]).status() == 4


def test_records_without_a_recipe_join_the_cell_of_the_other_records(tmp_path):
    """A record has no recipe if its pre-training diverged or its worker died."""

    def early(status, seeds, **changes):
        for seed in seeds:
            one = blank("diverged" if status == "diverged" else "error", "Gone.", status, task="sst2", seed=seed)
            yield replace(one, pretraining=None, **changes)

    gone = between(tmp_path / "diverged", [cells()], [early("diverged", range(5))])
    assert only(gone).diverged == (0, 5) and gone.status() == 1
    dead = between(tmp_path / "dead", [cells()], [cells(range(4)), early("failed", [4])])
    assert only(dead).verdict == "inconclusive" and "1 of 5 seeds failed" in " ".join(only(dead).notes)
    absent = [blank("missing-data", "No file.", task="sst2", task_={"data_sha256": "0" * 64})]
    found = between(tmp_path / "absent", [cells()], [absent])
    assert found.status() == 4 and "No file." in only(found).reason
    part = [record(task="sst2", seed=s, value=80.0, task_={"source": "official, first 50"}) for s in range(5)]
    assert between(tmp_path / "part", [cells()], [part]).status() == 5


def test_damaged_and_future_records_are_rejected(tmp_path):
    head = side(tmp_path / "head", cells())
    base = side(tmp_path / "base", cells())
    file = next((head / FOLDER).glob("*s0*.json"))
    file.write_text(file.read_text().replace('"schema": 1', '"schema": 9'))
    found = gate(base, head, scorer)
    assert found.status() == 4 and "1 records of HEAD are damaged" in found.reason and "schema 9" in found.notes[0]
    with pytest.raises(BaselineError, match="cannot be trusted.*schema 9"):
        gate(head, base, scorer)
    with pytest.raises(BaselineError, match="no folder"):
        gate(tmp_path / "none", head, scorer)
    with pytest.raises(RecordError, match="no folder"):
        gate(base, tmp_path / "none", scorer)


def test_significance_is_corrected_for_the_number_of_cells(tmp_path):
    """A drop that is significant alone is not significant among twelve cells."""
    worse = cells(level=1.1, sd=0.06, salt=3, task="t0")
    alone = between(tmp_path / "1", [cells(sd=0.06, task="t0")], [worse], chosen={"t0": 0.5, "macro": 9})
    assert only(alone).verdict == "regression" and 0.025 / 12 < only(alone).drop.p < 0.025
    groups = [[cells(sd=0.06, task=f"t{i}", salt=s) for i in range(12)] for s in (0, 7)]
    groups[1][0] = cells(level=1.1, sd=0.06, salt=3, task="t0")
    many = between(tmp_path / "12", *groups, chosen={"t0": 0.5, "macro": 9})
    assert many.cells[0].p_adjusted == pytest.approx(12 * many.cells[0].drop.p)
    assert all(cell.verdict != "regression" for cell in many.cells)
    assert many.cells[0].q == pytest.approx(min(1.0, 12 * many.cells[0].drop.p))  # the smallest of twelve


def test_a_small_drop_everywhere_is_detected_in_the_mean(tmp_path):
    base = [cells(task=f"t{i}", salt=i, sd=0.08) for i in range(8)]
    head = [cells(task=f"t{i}", salt=20 + i, sd=0.08, level=1.1) for i in range(8)]
    found = between(tmp_path, base, head)
    assert found.macro.verdict == "regression" and found.status() == 1
    assert sum(cell.verdict == "regression" for cell in found.cells) < 8


def test_counted_costs_are_compared_exactly(tmp_path):
    def costs(name, **cost):
        return between(tmp_path / name, [cells()], [cells(cost=cost)])

    bigger = costs("parameters", parameters=11_200_001)
    assert bigger.status() == 1 and "cost more" in bigger.reason
    assert "parameters rose from 11,200,000 to 11,200,001" in gate_report.to_lines(bigger)
    assert costs("flops", flops=2e13 + 1e4).status() == 1
    assert costs("smaller", flops=1e13, parameters=5).status() == 0
    stopped = costs("steps", flops=3e13, steps=450)
    assert stopped.status() == 0 and all(cost.name != "flops" for cost in only(stopped).costs)
    memory = costs("memory", peak_memory_bytes=901 * 2**20)
    assert memory.status() == 0 and {c.name: c.head for c in only(memory).costs}["peak_memory_bytes"] == 901 * 2**20


def test_time_is_compared_only_if_runs_alternate(tmp_path):
    def run(salt, minutes, seconds):
        for one, minute in zip(cells(salt=salt), minutes, strict=True):
            seconds_ = {"train": seconds * (1 + 0.01 * one.seed), "total": 99.0}
            yield replace(one, finished=f"2026-11-21T03:{minute:02d}:00Z", cost=one.cost | {"seconds": seconds_})

    def timed(name, minutes, seconds):
        found = between(tmp_path / name, [run(0, minutes[0], 30.0)], [run(1, minutes[1], seconds)])
        return found.time, found.status()

    turns = ([0, 2, 4, 6, 8], [1, 3, 5, 7, 9])
    time, status = timed("slower", turns, 45.0)
    assert time.pairs == 5 and time.ratio == pytest.approx(1.5) and time.verdict == "regression" and status == 1
    assert time.interval.low == pytest.approx(1.5)
    assert timed("same", turns, 30.3)[0].verdict == "pass"
    assert timed("abba", ([0, 3, 4, 7, 8], [1, 2, 5, 6, 9]), 45.0)[0].pairs == 5
    time, status = timed("after", ([0, 1, 2, 3, 4], [5, 6, 7, 8, 9]), 45.0)
    assert time.pairs == 0 and time.verdict == "" and status == 0


def test_margins():
    task = {"name": "sst2", "headline": "accuracy", "higher_is_better": True, "examples": 1000}
    assert margins.margin(task, 80) == 1.0 and margins.margin(task | {"headline": "mcc"}, 50) == 2.0
    assert margins.margin(task | {"examples": 56}, 80) == pytest.approx(200 / 56)
    assert margins.margin(task | {"examples": 10**400}, 80) == margins.margin(task | {"examples": "many"}, 80) == 1.0
    assert margins.margin(task, 80, {"sst2": 0.3}) == 0.3
    assert margins.margin(task | {"headline": "perplexity", "higher_is_better": False}, 50) == 1.0


def test_pretraining_sd():
    task = {"name": "sst2", "headline": "accuracy", "higher_is_better": True, "examples": 20}
    assert margins.pretraining_sd(task, 80) == 7.0 and margins.pretraining_sd(task | {"headline": "mcc"}, 50) == 14.0
    lower = task | {"headline": "perplexity", "higher_is_better": False}
    assert margins.pretraining_sd(lower, 50) == pytest.approx(7.0)
    assert margins.pretraining_sd(task, 80, {"sst2": 0.3, "all": 2.0}) == 0.3
    assert margins.pretraining_sd(task, 80, {"cola": 0.3, "all": 2.0}) == 2.0


def test_cells_under_a_condition_can_regress_but_stay_out_of_the_mean(tmp_path):
    """A cell under a condition does not change the mean drop, but it can be a regression."""
    plain = between(tmp_path / "plain", [cells()], [cells(level=0.8, salt=1)])
    both = between(tmp_path / "both", [cells(), noisy(0.0)], [cells(level=0.8, salt=1), noisy(0.0)])
    assert len(both.cells) == 2 and [cell.counted for cell in both.cells].count(True) == 1
    assert both.macro.drop.value == plain.macro.drop.value and both.macro.method == "mean of 1 cells"
    worse = between(tmp_path / "worse", [cells(), noisy(0.0)], [cells(), noisy(0.3, salt=1)])
    assert worse.macro.verdict == "pass" and worse.verdict == "regression" and worse.reason == "1 cells are worse."
    (conditional,) = (cell for cell in worse.cells if cell.condition)
    assert conditional.condition == "misspellings" and conditional.verdict == "regression" and not conditional.counted
    alone = between(tmp_path / "alone", [noisy(0.0)], [noisy(0.0)])
    assert alone.macro is None and alone.verdict == "pass" and alone.status(strict=True) == 0


def test_a_cell_without_a_score_on_either_side_is_not_called_new(tmp_path):
    unfit = {"code": "no-head", "text": "because it has no head for this task."}
    blanks = [blank(unfit["code"], unfit["text"], task="mrpc", seed=seed) for seed in range(2)]
    base = side(tmp_path / "base", [*cells(range(2)), *blanks])
    same = gate(base, side(tmp_path / "same", [*cells(range(2)), *blanks]), scorer)
    gone = gate(base, side(tmp_path / "gone", cells(range(2))), scorer)
    for found in (same, gone):
        (one,) = [cell for cell in found.cells if cell.task == "mrpc"]
        assert (one.verdict, one.reason) == (
            "no score",
            "Neither side has a score, because it has no head for this task.",
        )
        assert found.status() == 0
    scored = [record(task="mrpc", seed=seed, value=70.0 + seed) for seed in range(2)]
    new = gate(base, side(tmp_path / "new", [*cells(range(2)), *scored]), scorer)
    assert [cell.verdict for cell in new.cells if cell.task == "mrpc"] == ["new"]
