"""`gate` and `accept` on the command line: exit statuses, output files, GitHub, and predictions of real tasks."""

import gzip
import hashlib
import itertools
import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from ptmbench import tasks
from ptmbench.bench.__main__ import main
from ptmbench.bench.perf import gate as perf
from ptmbench.bench.runs.plan import settings_of
from ptmbench.bench.runs.suites import regress
from ptmbench.bench.scoring import rescore, score
from ptmbench.leaderboard.gate.verdicts import ON_AVERAGE, PASS, REGRESSION
from ptmbench.leaderboard.records.baseline import verify
from ptmbench.leaderboard.records.record import read, write
from ptmbench.leaderboard.records.store import load
from ptmbench.tasks import semeval14_restaurants, sentihood
from ptmbench.tasks.forms import Answer, Answers, Part, Reply, Scored
from ptmbench.tasks.task import Example
from tests.leaderboard.made import record

N = 400


def run(folder: Path, task: str = "sst2", rate: float = 0.9, seeds: int = 5, first: int = 0) -> Path:
    """Writes a run folder with predictions whose accuracy is about ``rate`` and varies by seed."""
    loaded = tasks.load(task)
    for seed in range(first, first + seeds):
        rng = np.random.default_rng([seed, round(1000 * rate)])
        gold = ["0", "1"] * (N // 2)
        examples = [Example(id=str(i), inputs=("x",), gold=one) for i, one in enumerate(gold)]
        right = rng.random(N) < rate + rng.normal(0, 0.005)
        guesses = [one if ok else str(1 - int(one)) for one, ok in zip(gold, right, strict=True)]
        made = record(
            task=task, seed=seed, scores=score.scores(loaded, examples, guesses),
            task_={"headline": loaded.headline, "examples": N, "form": str(loaded.form)},
        )  # fmt: skip
        write(folder, replace(made, predictions=score.keep_predictions(folder, made.key, examples, guesses)))
    return folder


@pytest.mark.parametrize(
    ("rate", "options", "status", "words"),
    [
        (0.9, [], 0, "PASS"),
        (0.7, [], 1, "REGRESSION"),
        (0.895, [], 0, "INCONCLUSIVE"),
        (0.895, ["--strict"], 3, "INCONCLUSIVE"),
        (0.895, ["--strict", "--margin", "sst2=40", "--margin", "macro=40"], 0, "PASS"),
    ],
)
def test_exit_statuses_of_gate(tmp_path, capsys, rate, options, status, words):
    base, head = run(tmp_path / "base"), run(tmp_path / "head", rate=rate)
    assert main(["gate", str(base), str(head), *options]) == status
    assert words in capsys.readouterr().out


def test_the_sd_between_pretrainings_can_be_given(tmp_path, capsys):
    """With other weights, a drop of four points is inconclusive by default, and a regression if the given SD is
    small."""
    base, head = run(tmp_path / "base"), run(tmp_path / "head", rate=0.86)
    for path in head.glob("records/*.json"):
        found = read(path)
        path.unlink()
        write(head, replace(found, pretraining=found.pretraining | {"weights_sha256": "0" * 64}))
    assert main(["gate", str(base), str(head), "--strict"]) == 3
    assert "taken to differ by an SD of 7 between" in capsys.readouterr().out
    for name in ("sst2", "all"):
        assert main(["gate", str(base), str(head), "--pretraining-sd", f"{name}=0.1"]) == 1


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["gate", "run"], 2, "HEAD"),
        (["gate", "run", "run", "--margin", "sst2"], 2, "TASK=POINTS"),
        (["gate", "run", "run", "--margin", "sst2=nan"], 2, "TASK=POINTS"),
        (["gate", "run", "run", "--margin", "sst-9=40"], 2, "There is no task 'sst-9'. Nearest: sst5, sst2"),
        (["gate", "run", "run", "--margin", "SST-2=40", "--margin", "sst2=4"], 2, "sst2 is given twice"),
        (["gate", "run", "run", "--margin", "sst2=40", "--margin", "sst2=4"], 2, "sst2 is given twice"),
        (["gate", "run", "run", "--pretraining-sd", "sst2=0"], 2, "--pretraining-sd sst2=0.5 or all=1, not 'sst2=0'"),
        (["gate", "run", "run", "--pretraining-sd", "macro=1"], 2, "There is no task 'macro'"),
        (["gate", "run", "none"], 4, "no folder none"),
        (["gate", "run", "empty"], 4, "holds no 'records' folder"),
        (["gate", "none", "run"], 5, "no folder none"),
        (["accept", "run", "--reason", " "], 2, "needs a reason"),
        (["accept", "run"], 2, "--reason"),
        (["gate", "run", "cola"], 4, "not in HEAD"),
    ],
)
def test_invalid_arguments_give_clear_errors(tmp_path, monkeypatch, capsys, arguments, status, words):
    monkeypatch.chdir(tmp_path)
    run(Path("run"), seeds=2), run(Path("cola"), "cola", seeds=2), Path("empty").mkdir()
    assert main(arguments) == status
    output = capsys.readouterr()
    assert words in output.out + output.err and "Traceback" not in output.err


def test_an_accepted_baseline_passes_until_its_files_are_changed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run(Path("run"))
    assert main(["accept", "run", "--reason", "As published."]) == 0
    name, digest = capsys.readouterr().out.split()
    assert name == "baseline" and len(digest) == 64 and Path("baseline/records.json.gz").is_file()
    assert main(["gate", "baseline", "run"]) == 0
    file = next(Path("baseline/predictions").iterdir())
    file.write_bytes(gzip.compress(b"{}"))
    assert main(["gate", "baseline", "run"]) == 5
    assert "is not what was accepted" in capsys.readouterr().err


def test_junit_markdown_json_and_github_output(tmp_path, monkeypatch, capsys):
    base, head = run(tmp_path / "base"), run(tmp_path / "head", rate=0.6)
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    files = {name: tmp_path / "out" / name for name in ("junit", "markdown", "json")}
    options = [part for name, path in files.items() for part in (f"--{name}", str(path))]
    assert main(["gate", str(base), str(head), "--github", *options]) == 1
    assert "\n::error title=BERT mini SST-2 accuracy::" in capsys.readouterr().out
    assert summary.read_text().startswith("before\n## ✗ Regression")
    assert files["markdown"].read_text().startswith("## ✗ Regression")
    assert ElementTree.parse(files["junit"]).getroot()[0].get("failures") == "2"
    assert json.loads(files["json"].read_text())["verdict"] == "regression"


CASES = {
    "sst2": (["0", "1", "1", "0"] * 9, ["0", "1", "0", "0"] * 9, True),
    "cola": (["0", "1", "1", "0"] * 9, ["0", "1", "0", "0"] * 9, False),
    "mrpc": (["0", "1", "1", "0"] * 9, ["0", "1", "0", "0"] * 9, False),
    "stsb": ([0.0, 2.5, 4.0, 5.0] * 9, [0.1, 2.0, 4.5, 3.0] * 9, False),
    "conll2003": ([["B-PER", "O"], ["O", "B-LOC"]] * 18, [["B-PER", "O"], ["O", "O"]] * 18, False),
    "copa": ([0, 1] * 18, [0, 0] * 18, True),
    "squad11": ([(Answer("the cat", 0),), (Answer("a dog", 3),)] * 18, ["cat", "bird"] * 18, True),
    "wikitext2": ([None] * 36, [(30.0 + i, 7.0, 40.0) for i in range(36)], False),
}


@pytest.mark.parametrize("name", CASES)
def test_stored_predictions_give_the_recorded_score_again(tmp_path, name):
    """Several forms. Only a score that is a mean over examples, unlike F1, has a value for each example."""
    gold, guesses, mean = CASES[name]
    task = tasks.load(name)
    examples = [
        Example(id=str(i), inputs=("x",), gold=one, group=f"passage {i // 3}" if name == "squad11" else None)
        for i, one in enumerate(gold)
    ]
    made = record(task=name, scores=score.scores(task, examples, guesses))
    made = replace(made, predictions=score.keep_predictions(tmp_path, made.key, examples, guesses))
    found = rescore.scored(made, [tmp_path / "elsewhere", tmp_path])
    assert found.value == pytest.approx(made.headline["value"]) and len(found.ids) == len(gold)
    assert (found.each is not None) == mean
    if mean:
        assert found.each.mean() == pytest.approx(found.value)
    twice = np.full((1, len(gold)), 2.0)
    assert found.redraw(twice)[0] == pytest.approx(found.value)
    assert (found.groups is not None) == (name == "squad11")


def grouped_examples(name):
    """Gold labels and predictions, some with probabilities. For multirc, sentihood and semeval14_restaurants they are
    random, for 12 wholes of three to five rows, and the headline depends on which rows form a whole."""
    rng = np.random.default_rng(7)
    if name.startswith("hotpotqa"):
        facts = [("Vodia", 0), ("Zürich", 2), ("Zürich", 3)]
        gold = [Answers((Answer("the cat", 0),), facts[i % 2 : 2]) for i in range(12)]
        return gold, [Reply(("cat", "dog")[i % 3 == 0], facts=facts[: 1 + i % 3]) for i in range(12)]
    if name == "squad20":
        gold = [(Answer("the cat", 0),) if i % 2 else () for i in range(12)]
        return gold, [Reply("" if i % 3 else "cat", no_answer=float(i % 5), span="cat" if i % 3 else None)
                      for i in range(12)]  # fmt: skip
    task = tasks.load(name)
    kinds = {"multirc": (None,) * 3, "sentihood": sentihood.ASPECTS}.get(name, tuple(semeval14_restaurants.CATEGORIES))
    gold = [Part(str(rng.choice(task.labels)), whole=f"{whole}", kind=kind) for whole in range(12) for kind in kinds]
    if not task.scored:
        return gold, [str(rng.choice(task.labels)) for _ in gold]
    return gold, [Scored.best(task.labels, rng.dirichlet(np.ones(len(task.labels)))) for _ in gold]


@pytest.mark.parametrize("name", ["multirc", "sentihood", "semeval14_restaurants", "hotpotqa", "squad20"])
def test_stored_predictions_keep_what_grouped_scores_need(tmp_path, name):
    """All scores of the record, not only the headline, follow from the file. Without the fields other than gold and
    prediction, as in older files, most do not. Such a file is used only if the headline follows from it."""
    gold, guesses = grouped_examples(name)
    task = tasks.load(name)
    examples = [Example(id=str(i), inputs=("x",), gold=one) for i, one in enumerate(gold)]
    made = record(task=name, scores=score.scores(task, examples, guesses))
    made = replace(made, predictions=score.keep_predictions(tmp_path, made.key, examples, guesses))
    packed = (tmp_path / made.predictions["file"]).read_bytes()
    rows = [json.loads(line) for line in gzip.decompress(packed).splitlines()]
    right, found = rescore._restored(task.form, rows)
    again = task.score(right, found)
    assert {key: again[key] for key in made.scores} == pytest.approx({k: v["value"] for k, v in made.scores.items()})
    scored = rescore.scored(made, [tmp_path])
    assert scored.value == pytest.approx(made.headline["value"])
    assert scored.redraw(np.full((1, len(gold)), 2.0))[0] == pytest.approx(scored.value)

    for row in rows:
        for key in row.keys() - {"id", "gold", "prediction"}:
            del row[key]
    content = gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode())
    (tmp_path / "old.gz").write_bytes(content)
    old = replace(made, predictions={"file": "old.gz", "sha256": hashlib.sha256(content).hexdigest()})
    plain = task.score(*rescore._restored(task.form, rows))
    assert plain != pytest.approx(again)
    usable = plain["headline"] == pytest.approx(again["headline"])
    assert (rescore.scored(old, [tmp_path]) is not None) == usable == (name in ("semeval14_restaurants", "squad20"))


def test_damaged_or_inconsistent_predictions_are_not_used(tmp_path):
    made = record(value=50.0)
    assert rescore.scored(made, [tmp_path]) is None
    gold = [Example(id=str(i), inputs=("x",), gold="1") for i in range(4)]
    kept = score.keep_predictions(tmp_path, made.key, gold, ["1", "1", "1", "0"])
    other = replace(record(task="sst2", value=50.0), predictions=kept)
    assert rescore.scored(other, [tmp_path]) is None  # their accuracy is 75
    right = replace(record(task="sst2", value=75.0), predictions=kept)
    assert rescore.scored(right, [tmp_path]) is not None
    assert rescore.scored(replace(right, task=right.task | {"name": "gone"}), [tmp_path]) is None
    (tmp_path / kept["file"]).write_bytes(b"\x1f\x8bnonsense")
    assert rescore.scored(right, [tmp_path]) is None


def test_the_projects_own_baseline_is_complete_small_and_matches_its_suite():
    """After a change of the suite or of a task's version, a new baseline must be accepted."""
    baseline, suite = verify(perf.OWN), regress.SUITE
    assert baseline and sum(path.stat().st_size for path in perf.OWN.rglob("*") if path.is_file()) < 2**20
    records = load([perf.OWN]).records
    found = {(one.row["name"], one.task["name"], one.seed) for one in records}
    assert found == set(itertools.product(suite.models, suite.tasks, range(suite.seeds)))
    for one in records:
        task = tasks.load(one.task["name"])
        assert dict(one.adaptation["settings"]) == settings_of(task, "finetune", suite.settings, {})
        assert one.task["version"] == task.version and one.status == "ok"
        assert rescore.scored(one, [perf.OWN]) is not None
    assert main(["gate", str(perf.OWN), str(perf.OWN), "--strict"]) == 0


def test_perf_gate_runs_in_any_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(perf, "calibrate", lambda side: [])  # the simulation after it takes a minute
    assert main(["perf", "gate"]) == 4
    assert "has no cell with right-or-wrong predictions" in capsys.readouterr().err


def test_imitated_cells_have_the_statistics_of_real_ones():
    rng = np.random.default_rng(0)
    real = perf.Cell(accuracy=0.85, sd=2.0, shared=0.5, examples=4000)
    found = [perf.imitate(real.draw(rng, 12, rng.standard_normal(4000)) > 50) for _ in range(20)]
    assert np.mean([one.accuracy for one in found]) == pytest.approx(0.85, abs=0.01)
    assert np.mean([one.sd for one in found]) == pytest.approx(2.0, rel=0.15)
    assert np.mean([one.shared for one in found]) == pytest.approx(0.5, abs=0.05)
    drawn = np.mean([real.draw(rng, 20, rng.standard_normal(4000), 5.0).mean() for _ in range(20)])
    assert drawn == pytest.approx(80.0, abs=0.6)


@pytest.mark.slow
def test_false_alarms_power_and_coverage():
    """The promises about the numbers of `perf gate`: at most 5 % false regressions, at least 93 % coverage."""
    rng = np.random.default_rng(0)
    cells = [perf.Cell(accuracy=0.7 + 0.02 * i, sd=1.0 + 0.2 * i, shared=0.5, examples=300, task=f"t{i % 4}")
             for i in range(12)]  # fmt: skip
    found = perf.simulated(rng, cells, gates=600, seeds=5)
    assert found[REGRESSION] <= 0.05
    rows = {(row["examples"], row["drop"]): row for row in perf.power(rng, perf.Cell(
        accuracy=0.9, sd=0.7, shared=0.6, examples=300), trials=300, seeds=5)}  # fmt: skip
    assert np.mean([row["coverage"] for row in rows.values()]) >= 0.94
    assert min(row["coverage"] for row in rows.values()) >= 0.91  # 0.93 less two standard errors of 300 trials
    assert rows[5000, 5.0][REGRESSION] >= 0.98 > 0.6 > rows[300, 2.0][REGRESSION] > rows[300, 0.0][REGRESSION]
    assert rows[1000, 0.0][PASS] > 0 and rows[1000, 5.0][PASS] == 0


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [2, 3])
def test_false_alarms_of_gates_with_few_paired_seeds(seeds):
    """With two seeds, Satterthwaite's degrees of freedom alone give a false alarm in a quarter of such gates."""
    cells = [replace(cell, sd=3.0) for cell in perf.alike(10)]
    found = perf.simulated(np.random.default_rng(0), cells, gates=300, seeds=seeds, diverging=0.0, paired=True)
    assert found[REGRESSION] <= 0.05


@pytest.mark.slow
def test_false_alarms_of_gates_with_other_weights():
    """They are at most 5 % if the spread between pre-trainings is given or measured. Otherwise they are more."""

    def alarms(sd, **how):
        found = perf.simulated(np.random.default_rng(0), perf.alike(3), gates=400, seeds=5, pretraining=sd, **how)
        return found[REGRESSION]

    for sd in (0.5, 1.0):
        assert alarms(sd, stated=sd) <= 0.05 < alarms(sd)
        assert alarms(sd, pretrainings=3) <= 0.05


@pytest.mark.slow
def test_a_drop_in_one_of_ten_cells_never_passes():
    """Two points on one task hardly change the mean of ten. So the gate passes on average, but not as a whole."""
    found = perf.simulated(np.random.default_rng(0), perf.alike(10), gates=100, seeds=5, one=2.0, diverging=0.0)
    assert found[PASS] == 0 and found[ON_AVERAGE] > 0.3
