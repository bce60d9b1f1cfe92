"""The gate: the right verdict for the right reason, from records alone; nothing is dropped, nothing passes unseen."""

import json
import math
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from leaderboard import gate_report, margins
from leaderboard.baseline import BaselineError, accept, verify
from leaderboard.gate import gate
from leaderboard.record import FOLDER, RecordError, write
from leaderboard.resampling import Scored
from tests.leaderboard.made import blank, record

EASE = np.random.default_rng(99).standard_normal(1000)
KNOWN = {}
"""Per-example scores of the records made here, by key."""


def scorer(found, roots):
    each = KNOWN.get(found.key)
    if each is None:
        return None
    ids = tuple(map(str, range(len(each))))

    def redraw(counts):
        return counts @ each / counts.sum(axis=1)

    return Scored(ids=ids, groups=None, value=float(each.mean()), each=each, redraw=redraw)


def cells(seeds=range(5), level=1.2, sd=0.03, task="sst2", salt=0, predictions=True, **changes):
    """One record per seed; its predictions are right where level + ease + noise is above 0."""
    for seed in seeds:
        rng = np.random.default_rng([seed, salt, int(1000 * level) + 10_000])
        each = 100.0 * (level + rng.normal(0, sd) + EASE + 0.5 * rng.standard_normal(1000) > 0)
        found = record(task=task, seed=seed, value=float(each.mean()), **changes)
        kept = {"file": f"predictions/{salt}{seed}.gz", "sha256": f"{found.key}"} if predictions else None
        found = record(task=task, seed=seed, value=float(each.mean()), key=found.key, predictions=kept, **changes)
        KNOWN[found.key] = each
        yield found


def side(folder, *groups):
    (folder / FOLDER).mkdir(parents=True)
    for group in groups:
        for one in group:
            write(folder, one)
    return folder


def between(tmp_path, base, head, **options):
    return gate(side(tmp_path / "base", *base), side(tmp_path / "head", *head), scorer, **options)


def only(found):
    assert len(found.cells) == 1
    return found.cells[0]


def test_the_same_records_pass(tmp_path):
    found = between(tmp_path, [cells()], [cells()])
    assert found.verdict == "pass" and found.status(strict=True) == 0
    assert only(found).method == "identical predictions" and only(found).drop.interval() == (0, 0)


def test_a_real_drop_is_a_regression(tmp_path):
    found = between(tmp_path, [cells()], [cells(level=0.8, salt=1)])
    cell = only(found)
    assert found.status() == 1 and cell.verdict == "regression" and found.macro.verdict == "regression"
    low, high = cell.drop.interval()
    assert low > 0 and cell.drop.value > cell.margin and cell.base - cell.head == pytest.approx(cell.drop.value)


def test_a_gain_passes(tmp_path):
    assert between(tmp_path, [cells(level=0.8)], [cells(salt=1)]).status(strict=True) == 0


def test_a_significant_drop_within_the_margin_is_none(tmp_path):
    found = between(tmp_path, [cells()], [cells(level=0.8, salt=1)], chosen={"sst2": 30.0, "macro": 30.0})
    assert only(found).p_adjusted < 0.001 and found.verdict == "pass"


def test_what_cannot_be_told_says_what_could_have_been_seen(tmp_path):
    found = between(tmp_path, [cells(sd=0.1)], [cells(sd=0.1, salt=1)])
    cell = only(found)
    assert cell.verdict == found.verdict == "inconclusive"
    assert (found.status(), found.status(strict=True)) == (0, 3)
    assert cell.detectable > cell.margin and cell.seeds_needed > 5 and f"takes {cell.seeds_needed} seeds" in cell.reason


def test_the_mode_follows_from_provenance(tmp_path):
    def method(name, base, head):
        found = between(tmp_path / name, [base], [head])
        return only(found).method, only(found).notes

    assert method("seeds", cells(), cells(seeds=range(5, 10)))[0] == "mixed t"
    assert method("code", cells(), cells(salt=1))[0] == "mixed t, seeds paired"
    other = cells(salt=1, pretraining={"weights_sha256": "0" * 64})
    name, notes = method("weights", cells(), other)
    assert name == "mixed t" and "own spread is not in the interval" in notes[0]
    asis = {"adaptation": {"name": "prompt"}, "seeds": [0]}
    assert method("artifact", cells(**asis), cells(salt=1, **asis))[0] == "McNemar, exact"
    name, notes = method("bare", cells(), (record(task="sst2", seed=s, value=80.0 + s) for s in range(5)))
    assert name == "scores and their intervals only" and "intervals were used" in notes[0]


def test_one_seed_of_a_training_is_inconclusive(tmp_path):
    found = between(tmp_path, [cells(seeds=[0])], [cells(seeds=[1], level=0.5)])
    assert only(found).verdict == "inconclusive" and "One seed" in only(found).reason and found.macro is None


def test_lower_is_better_turns_the_drop_round(tmp_path):
    asis = {"task": "wikitext2", "adaptation": {"name": "likelihood"}, "seeds": [0]}
    found = between(tmp_path, [cells(level=0.8, **asis)], [cells(salt=1, **asis)])
    assert only(found).drop.value > 0 and only(found).verdict == "regression"
    assert only(found).margin == pytest.approx(0.02 * only(found).base)
    assert between(tmp_path / "2", [cells(**asis)], [cells(level=0.8, salt=1, **asis)]).verdict == "pass"


def test_zero_cells_compared_is_never_zero(tmp_path):
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
        ({"pretraining": {"tokens": 5}}, "pre-training tokens"),
        ({"pretraining": {"corpus_sha256": "9" * 64}}, "corpus"),
    ],
)
def test_another_recipe_is_no_number(tmp_path, changes, words):
    head = [record(**({"task": "sst2", "seed": s, "value": 20.0} | changes)) for s in range(5)]
    found = between(tmp_path, [cells()], [head])
    assert found.status() == 5 and only(found).verdict == "not comparable" and words in only(found).reason
    assert only(found).drop is None


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


def test_cells_that_never_knew_their_recipe_belong_to_the_others(tmp_path):
    """A pre-training that diverges leaves records without one; a worker that dies, a seed without one."""

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


def test_damaged_and_future_records(tmp_path):
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


def test_many_cells_do_not_raise_the_alarm(tmp_path):
    """A drop that is significant alone is not among twelve."""
    worse = cells(level=1.1, sd=0.06, salt=3, task="t0")
    alone = between(tmp_path / "1", [cells(sd=0.06, task="t0")], [worse], chosen={"t0": 0.5, "macro": 9})
    assert only(alone).verdict == "regression" and 0.025 / 12 < only(alone).drop.p < 0.025
    groups = [[cells(sd=0.06, task=f"t{i}", salt=s) for i in range(12)] for s in (0, 7)]
    groups[1][0] = cells(level=1.1, sd=0.06, salt=3, task="t0")
    many = between(tmp_path / "12", *groups, chosen={"t0": 0.5, "macro": 9})
    assert many.cells[0].p_adjusted == pytest.approx(12 * many.cells[0].drop.p)
    assert all(cell.verdict != "regression" for cell in many.cells)
    assert many.cells[0].q == pytest.approx(min(1.0, 12 * many.cells[0].drop.p))  # the smallest of twelve


def test_a_small_drop_everywhere_is_seen_in_the_mean(tmp_path):
    base = [cells(task=f"t{i}", salt=i, sd=0.08) for i in range(8)]
    head = [cells(task=f"t{i}", salt=20 + i, sd=0.08, level=1.1) for i in range(8)]
    found = between(tmp_path, base, head)
    assert found.macro.verdict == "regression" and found.status() == 1
    assert sum(cell.verdict == "regression" for cell in found.cells) < 8


def test_counters_are_exact(tmp_path):
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


def test_time_counts_only_where_runs_took_turns(tmp_path):
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
    assert margins.margin(task, 80, {"sst2": 0.3}) == 0.3
    assert margins.margin(task | {"headline": "perplexity", "higher_is_better": False}, 50) == 1.0


def test_baseline_is_content_addressed(tmp_path):
    run = side(tmp_path / "run", cells(predictions=False))
    made = accept(run, tmp_path / "baseline", "First\x1b[31m scores.")
    assert verify(tmp_path / "baseline") == made and made.replaces is None and "\x1b" not in made.reason
    assert accept(run, tmp_path / "copy", "Other words.").digest == made.digest
    other = side(tmp_path / "other", cells(salt=4, predictions=False))
    again = accept(other, tmp_path / "baseline", "Better.")
    assert again.digest != made.digest and again.replaces == made.digest
    found = gate(tmp_path / "baseline", other, scorer)
    assert found.baseline["reason"] == "Better." and found.status() == 0
    assert verify(run) is None
    text = (tmp_path / "baseline" / "baseline.json").read_text()
    assert str(tmp_path) not in text and "author" not in text


@pytest.mark.parametrize("how", ["changed", "added", "removed", "digest", "torn", "schema", "list"])
def test_a_tampered_baseline_is_noticed(tmp_path, how):
    run = side(tmp_path / "run", cells(predictions=False))
    baseline = tmp_path / "baseline"
    accept(run, baseline, "Fine.")
    file, manifest = next((baseline / FOLDER).glob("*.json")), baseline / "baseline.json"
    body = json.loads(manifest.read_text())
    if how == "changed":  # with a seal of its own that is right
        file.unlink()
        write(baseline, next(cells(level=0.1, predictions=False)))
    elif how == "added":
        write(baseline, next(cells(task="cola", predictions=False)))
    elif how == "removed":
        file.unlink()
    elif how == "digest":
        manifest.write_text(json.dumps(body | {"digest": "0" * 64}))
    elif how == "torn":
        manifest.write_text(manifest.read_text()[:-30])
    elif how == "schema":
        manifest.write_text(json.dumps(body | {"schema": 2}))
    else:
        manifest.write_text("[1, 2]")
    with pytest.raises(BaselineError, match="baseline"):
        gate(baseline, run, scorer)


def test_what_cannot_be_accepted(tmp_path):
    run = side(tmp_path / "run", cells())
    with pytest.raises(BaselineError, match="predictions file of its record"):
        accept(run, tmp_path / "baseline", "Predictions are gone.")
    assert not (tmp_path / "baseline").exists() and not list(tmp_path.glob(".baseline*"))
    good = side(tmp_path / "good", cells(predictions=False))
    with pytest.raises(BaselineError, match="needs a reason"):
        accept(good, tmp_path / "baseline", " \n")
    with pytest.raises(BaselineError, match="not empty and no baseline"):
        accept(good, tmp_path / "run", "Wrong folder.")
    with pytest.raises(BaselineError, match="no record with a score"):
        accept(side(tmp_path / "none", [blank("x", "y")]), tmp_path / "baseline", "Nothing.")
    file = next((good / FOLDER).glob("*.json"))
    file.write_text(file.read_text()[:200])
    with pytest.raises(BaselineError, match="is damaged, so nothing was accepted"):
        accept(good, tmp_path / "baseline", "Torn.")


HOSTILE = "<script>alert(1)</script>|=cmd()|\\input{x}|\x1b[31m\u202e ]]> &\x00 ::error::x @you https://x.y `a`"


@pytest.fixture
def hostile(tmp_path):
    name = {"row": {"label": HOSTILE}, "task_": {"title": HOSTILE}}
    lost = [blank("error", HOSTILE, "failed", task="cola", **name)]
    return between(tmp_path, [cells(**name), cells(task="cola", **name)], [cells(level=0.5, salt=1, **name), lost])


def test_hostile_names_are_inert_everywhere(hostile):
    text = gate_report.to_markdown(hostile)
    assert "<script" not in text and "\x1b" not in text and "\u202e" not in text and "@you" not in text
    assert "https://" not in text and all(line.count(" | ") == 8 for line in text.splitlines() if line[:3] == "| ✗")
    suite = ElementTree.fromstring(gate_report.to_junit(hostile).encode())[0]
    assert suite.get("failures") == "3" and "<script>" in suite[0][0].get("message") + suite[1].get("classname")
    lines = gate_report.to_lines(hostile)
    assert all(c.isprintable() or c == "\n" for c in lines)
    for one in gate_report.annotations(hostile):
        assert one.startswith("::error title=") and "\n" not in one and one.isprintable()
        assert one.count("::", 0, one.index("::", 8) + 2) == 2  # the name does not end the command's own part
    json.loads(gate_report.to_json(hostile), parse_constant=pytest.fail)


def test_reports_are_capped(tmp_path):
    tasks = [f"task{i:03d} " + "x" * 150 for i in range(120)]
    base = [cells(seeds=range(2), task=task, predictions=False) for task in tasks]
    head = [[blank("error", "y" * 900, "failed", task=task, seed=s) for s in range(2)] for task in tasks]
    found = between(tmp_path, base, head)
    assert len(gate_report.to_markdown(found)) < 65_536 and "more cells" in gate_report.to_markdown(found)
    assert len(gate_report.to_markdown(found, 3000)) <= 3000
    told = gate_report.annotations(found)
    assert len(told) == gate_report.ANNOTATIONS and "And 111 more" in told[-1]
    assert len(ElementTree.fromstring(gate_report.to_junit(found).encode())[0]) == 120


def test_json_has_no_nan(tmp_path):
    found = between(tmp_path, [cells(seeds=[0])], [cells(seeds=[1], level=0.5)])
    body = json.loads(gate_report.to_json(found), parse_constant=pytest.fail)
    assert body["cells"][0]["drop"]["low"] is None and body["cells"][0]["drop"]["value"] > 0
    assert (body["status"], body["strict_status"]) == (0, 3) and body["mean_drop"] is None
