"""`record`: predictions of external systems become sealed records, which `board`, `gate` and `accept` take."""

import json
from pathlib import Path

import numpy as np
import pytest

import ptmbench
from ptmbench import tasks
from ptmbench.bench.__main__ import main
from ptmbench.bench.errors import UsageError
from ptmbench.bench.scoring import rescore, score_files
from ptmbench.leaderboard import tables
from ptmbench.leaderboard.records.record import read
from ptmbench.leaderboard.records.store import load
from ptmbench.tasks.forms import Form


def write_predictions(path: Path, world: Path, task: str = "sst2", rate: float = 1.0, seed: int = 0) -> Path:
    """Writes predictions for the report split in the format of `predict`.

    In classification tasks a share ``rate`` of them is correct, in others all are.
    """
    loaded, rng = tasks.load(task), np.random.default_rng(seed)
    lines = []
    for example in loaded.examples(world, loaded.report):
        guess = example.gold
        if loaded.form is Form.CLASSIFICATION:
            guess = str(guess) if rng.random() < rate else next(one for one in loaded.labels if one != guess)
        elif loaded.form is Form.TAGGING:
            guess = list(guess)
        elif loaded.form is Form.SPAN:
            guess = guess[0].text if guess else ""
        elif loaded.form is Form.GENERATION:
            guess = guess[0]
        elif loaded.form is Form.MINIMAL_PAIR:
            guess = [1.0, 0.0]
        elif loaded.form in (Form.CLOZE, Form.RANKING, Form.ANALOGY):
            guess = 1.0
        elif loaded.form is Form.POINTING:
            guess = [list(one) for one in guess]
        lines.append(json.dumps({"id": example.id, "prediction": guess}))
    path.write_text("\n".join(lines) + "\n")
    return path


def record(task: str, predictions: Path, out: Path, world: Path, seed: int = 0, name: str = "our-net", *more) -> int:
    options = ["--predictions", predictions, "--name", name, "--seed", seed, "--out", out, "--data", world, *more]
    return main(["record", task, *map(str, options)])


def make_run(folder: Path, world: Path, rate: float, seeds: range = range(5), *more) -> Path:
    """Makes a run folder with a record for each of ``seeds``."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        file = write_predictions(folder / f"{seed}.jsonl", world, rate=rate, seed=seed + round(1e6 * rate))
        assert record("sst2", file, folder / "run", world, seed, "our-net", *more) == 0
    return folder / "run"


def test_the_function_and_the_command_write_the_same_record(tmp_path, world, capsys):
    file = write_predictions(tmp_path / "guesses", world, rate=0.8)
    assert record("sst2", file, tmp_path / "command", world, 3, "our-net", "--flops", 1e12) == 0
    score = load([tmp_path / "command"]).records[0].headline["value"]
    assert f"our-net sst2 seed 3: {score:.2f}\n" in capsys.readouterr().err
    inputs = {"predictions": file, "name": "our-net", "seed": 3, "data": world, "flops": 1e12}
    frame = ptmbench.record("sst2", out=tmp_path / "function", **inputs)
    ours, theirs = (load([tmp_path / name]).records[0] for name in ("command", "function"))
    assert (ours.key, ours.scores, ours.row, ours.command) == (theirs.key, theirs.scores, theirs.row, theirs.command)
    assert list(frame.key) == [theirs.key] and frame.score[0] == theirs.scores["headline"]["value"]
    with pytest.raises(UsageError, match="give another `seed`, another `name` or another `out`"):
        ptmbench.record("sst2", out=tmp_path / "function", **inputs)


FORMS = ("sst2", "stsb", "conll2003", "squad11", "copa", "multi30k-en-mw", "word_analogy", "word_similarity", "blimp")
FORMS += ("absa", "nlvr")


@pytest.mark.parametrize("task", FORMS)
def test_a_record_has_the_same_score_as_score_files(tmp_path, world, task):
    loaded = tasks.load(task)
    predictions, out = write_predictions(tmp_path / "guesses", world, task, rate=0.8), tmp_path / "run"
    assert record(task, predictions, out, world) == 0
    found = read(next(out.glob("records/*.json")))
    inputs = loaded.examples(world, loaded.report)
    right, guesses = score_files.pairs(loaded, loaded.folder(world), predictions)
    assert found.headline["value"] == pytest.approx(loaded.score(right, guesses)["headline"])
    assert (found.row["division"], found.row["kind"], found.cost) == ("external", "external", {})
    assert found.task["examples"] == len(inputs) and found.task["split"] == loaded.report
    again = rescore.scored(found, [out])  # the input of paired comparisons
    assert again is not None and again.ids == tuple(example.id for example in inputs)


def test_files_in_official_formats_are_recorded(tmp_path, world):
    task = tasks.load("conll2003")
    gold = task.paths(world, "test")[0]
    tags = tmp_path / "tags.txt"
    tags.write_text("\n".join(f"{line.split()[0]} {line.split()[-1]}" if line.strip() else "" for line in gold.open()))
    assert record("conll2003", tags, tmp_path / "run", world) == 0
    examples = tasks.load("sst2").examples(world, "dev")
    rows = tmp_path / "SST-2.tsv"
    rows.write_text("index\tprediction\n" + "".join(f"{i}\t{e.gold}\n" for i, e in enumerate(examples)))
    assert record("sst2", rows, tmp_path / "run", world) == 0
    found = {one.task["name"]: one.headline["value"] for one in load([tmp_path / "run"]).records}
    assert found == {"conll2003": 100.0, "sst2": 100.0}


def test_seeds_give_an_interval_and_costs_are_unknown_or_declared(tmp_path, world):
    run = make_run(
        tmp_path / "a", world, 0.8, range(3), "--parameters", "110e6", "--flops", "2e18", "--note", "Our <b>GPU"
    )
    page = tmp_path / "page"
    assert main(["board", str(run), "--out", str(page)]) == 0
    html = (page / "index.html").read_text()
    for words in ("110 M (declared)", "2 EFLOP (declared)", ">unknown<", "Our &lt;b&gt;GPU", "external"):
        assert words in html, words
    records = load([run]).records
    summary = tables.macro(records)
    assert summary["seeds"].tolist() == [3] and (summary["low"] < summary["mean"]).all()
    cost = tables.cost(records)
    assert cost["parameters"].isna().all() and "110,000,000" in cost["declared"][0]
    assert "declared" not in tables.cost(())


def test_gate_and_accept_take_recorded_predictions(tmp_path, world, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    base = make_run(tmp_path / "a", world, 0.9)
    assert main(["accept", str(base), "--reason", "Version 1."]) == 0
    assert main(["gate", "baseline", str(base), "--strict"]) == 0
    assert main(["gate", "baseline", str(make_run(tmp_path / "b", world, 0.6))]) == 1
    assert main(["gate", "baseline", str(make_run(tmp_path / "c", world, 0.89)), "--strict"]) == 3
    output = capsys.readouterr().out
    assert "REGRESSION" in output and "INCONCLUSIVE" in output and "all tasks" in output


def test_one_seed_is_enough_for_a_fixed_system(tmp_path, world, capsys):
    """Two systems with one seed each. One seed does not show the spread between seeds, unless the system is fixed."""
    for fixed in ([], ["--fixed"]):
        folders = [make_run(tmp_path / f"{len(fixed)}{rate}", world, rate, range(1), *fixed) for rate in (0.95, 0.7)]
        status = main(["gate", *map(str, folders), "--strict"])
        assert status == (1 if fixed else 3)
    output = capsys.readouterr().out
    assert "One seed per side does not show the spread between seeds" in output


def lines_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _fewer(rows):
    return rows[:-1]


def _more(rows):
    return [*rows, {"id": "9999", "prediction": "1"}]


def _twice(rows):
    return [rows[0], *rows]


def _unknown(rows):
    return [{**rows[0], "prediction": "perhaps"}, *rows[1:]]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_fewer, "has no prediction for the example 299"),
        (_more, "has a prediction for 9999"),
        (_twice, "the id 0 appears twice"),
        (_unknown, "the label 'perhaps' is not one of '0', '1'"),
    ],
)
def test_invalid_predictions_are_errors(tmp_path, world, capsys, change, words):
    file = write_predictions(tmp_path / "guesses.jsonl", world)
    file.write_text("".join(json.dumps(row) + "\n" for row in change(lines_of(file))))
    assert record("sst2", file, tmp_path / "run", world) == 4
    output = capsys.readouterr().err
    assert words in output and "the dev split of SST-2, which has 300 examples" in output and "info sst2" in output
    assert not (tmp_path / "run").exists()


def test_an_unknown_tag_is_an_error(tmp_path, world, capsys):
    file = write_predictions(tmp_path / "guesses.jsonl", world, "conll2003")
    rows = lines_of(file)
    rows[3]["prediction"][0] = "B-ANIMAL"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert record("conll2003", file, tmp_path / "run", world) == 4
    assert "the tag 'B-ANIMAL' of 3 is not one of O, B-PER" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("bert", "'bert' would be taken for bert"),
        ("Random BERT", "would be taken for bert"),
        ("Bag of words", "would be taken for bag-of-words"),
        ("", "cannot be used on the board"),
        ("a\x1b[31m", "cannot be used on the board"),
        ("x" * 61, "cannot be used on the board"),
    ],
)
def test_invalid_names_are_usage_errors(tmp_path, world, capsys, name, words):
    assert record("sst2", write_predictions(tmp_path / "guesses", world), tmp_path / "run", world, 0, name) == 2
    assert words in capsys.readouterr().err and not (tmp_path / "run").exists()


def test_other_splits_tasks_and_files_are_errors(tmp_path, world, capsys):
    out = tmp_path / "run"
    test = write_predictions(tmp_path / "sst2.test.jsonl", world)
    assert record("sst2", test, out, world) == 2
    assert "predictions of the test split, as its name says" in capsys.readouterr().err
    assert record("wikitext2", test, out, world) == 2
    assert "has no predictions that a file could hold" in capsys.readouterr().err
    assert record("sst2", tmp_path, out, world) == 2
    assert record("sst2", tmp_path / "none", out, world) == 4
    (tmp_path / "empty").write_text("")
    assert record("sst2", tmp_path / "empty", out, world) == 4
    assert record("sst2", test.rename(tmp_path / "other"), out, tmp_path) == 4  # the folder lacks the task's data
    assert record("nothing", tmp_path / "other", out, world) == 2
    assert not out.exists()


def test_a_seed_is_recorded_only_once(tmp_path, world, capsys):
    run = make_run(tmp_path / "a", world, 0.9, range(1))
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*.json*")}
    other = write_predictions(tmp_path / "other", world, rate=0.5)
    assert record("sst2", other, run, world) == 2
    assert "has a record of our-net on sst2 with seed 0 already" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*.json*")} == before
    assert record("sst2", other, run, world, name="their-net") == 0


def test_a_changed_record_is_refused(tmp_path, world, capsys):
    run = make_run(tmp_path / "a", world, 0.6, range(1))
    path = next(run.glob("records/*.json"))
    path.write_text(path.read_text().replace('"external"', '"published"', 1))
    assert main(["accept", str(run), "--reason", "x", "--baseline", str(tmp_path / "baseline")]) != 0
    assert "does not match its seal" in capsys.readouterr().err


@pytest.mark.slow
def test_the_default_data_are_the_microworld(tmp_path, world):
    predictions = write_predictions(tmp_path / "guesses", world, rate=0.9)
    run = tmp_path / "run"
    assert main(["record", "sst2", "--predictions", str(predictions), "--name", "ours", "--out", str(run)]) == 0
    assert record("sst2", predictions, run, world, 1) == 0
    first, second = load([run]).records
    assert first.task == second.task and (run / "data" / "SOURCE.json").exists()
    assert first.command.endswith("--seed 1") and f"--data {world}" in first.command
