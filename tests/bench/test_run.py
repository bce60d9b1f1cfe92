"""Runs: every cell is recorded once, in spite of failures and kills."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ptmbench import tasks
from ptmbench.bench.data import sources
from ptmbench.bench.engine import distribute
from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.engine.recipe import recipe_of
from ptmbench.bench.errors import CELLS_FAILED, ENVIRONMENT, OK, UsageError
from ptmbench.bench.runs import pretrain, run, suites
from ptmbench.bench.runs.work import Worker
from ptmbench.leaderboard.records import record
from tests.bench.asking import run_suite

ROOT = Path(__file__).resolve().parents[2]
FLOOR = ("majority", "bag-of-words")
TASKS = ("cola", "sst2", "stsb", "rte", "conll2003", "copa")


def records(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (out / "records").glob("*.json")}


def run_baselines(out, data, **changes):
    return run_suite(
        **({"suite": "demo", "models": FLOOR, "tasks": TASKS, "baselines": False, "out": out, "data": data} | changes)
    )


def command(out, data, *more):
    return [
        sys.executable,
        "-m",
        "bench",
        "run",
        "demo",
        "--data",
        str(data),
        "--out",
        str(out),
        "--no-baselines",
        *more,
    ]


def test_two_workers_record_every_cell_once_and_a_second_run_adds_nothing(world, tmp_path):
    assert run_baselines(tmp_path, world, jobs=2) == OK
    first = records(tmp_path)
    assert len(first) == len(FLOOR) * len(TASKS)
    for path in (tmp_path / "records").glob("*.json"):
        found = record.read(path)
        assert found.status == "ok" and found.task["source"] == "microworld"
        assert (tmp_path / found.predictions["file"]).is_file()
        assert f"--models {found.row['name']}" in found.command and f"--tasks {found.task['name']}" in found.command
    assert (tmp_path / "board" / "index.html").is_file()
    assert run_baselines(tmp_path, world, jobs=2) == OK
    assert records(tmp_path) == first


def test_a_killed_run_resumes_without_losing_or_repeating_cells(world, tmp_path):
    more = ["--models", ",".join(FLOOR), "--tasks", ",".join(TASKS), "--jobs", "2"]
    process = subprocess.Popen(
        command(tmp_path, world, *more), cwd=ROOT, start_new_session=True, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while len(records(tmp_path) if tmp_path.exists() else ()) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = records(tmp_path)
    time.sleep(1.5)  # the workers stop when they see the closed pipe
    orphaned = records(tmp_path)
    assert len(before) >= 3
    done = subprocess.run(command(tmp_path, world, *more), cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == OK, done.stderr
    after = records(tmp_path)
    assert len(after) == len({name.split(".")[-2] for name in after}) == len(FLOOR) * len(TASKS)
    assert all(after[name] == content for name, content in orphaned.items())
    uninterrupted = tmp_path / "straight"
    assert run_baselines(uninterrupted, world) == OK
    scores = {name: json.loads(content)["scores"] for name, content in after.items()}
    assert {name: json.loads(content)["scores"] for name, content in records(uninterrupted).items()} == scores


def test_a_run_that_scores_nothing_for_want_of_data_ends_with_the_environment_status(world, tmp_path, capsys):
    import shutil

    (tmp_path / "some").mkdir()
    shutil.copytree(world / "glue", tmp_path / "some" / "glue")
    (tmp_path / "some" / "glue" / "RTE" / "dev.tsv").unlink()
    for _ in range(2):  # the second time, the records are there
        assert run_baselines(tmp_path / "a", tmp_path / "some", models=("majority",), tasks=("rte",)) == ENVIRONMENT
        told = capsys.readouterr().err
        assert "1 of 1 cells recorded (1 without data)" in told
        assert f"No cell was scored, because data is missing. `ptmbench data ls {tmp_path / 'some'}` shows" in told
    assert run_baselines(tmp_path / "b", tmp_path / "some", models=("majority",), tasks=("rte", "sst2")) == OK
    assert "2 of 2 cells recorded (1 ok, 1 without data)" in capsys.readouterr().err


def test_malformed_and_missing_data_are_recorded_and_other_cells_run(world, tmp_path):
    import shutil

    broken = tmp_path / "broken"
    shutil.copytree(world, broken)
    path = broken / "glue" / "CoLA" / "train.tsv"
    path.write_text(path.read_text() + "only one column\n")
    (broken / "glue" / "RTE" / "dev.tsv").unlink()  # the report split; majority does not need the training file
    out = tmp_path / "out"
    assert run_baselines(out, broken, models=("majority",), tasks=("cola", "rte", "sst2")) == CELLS_FAILED
    found = {(r := record.read(p)).task["name"]: r for p in (out / "records").glob("*.json")}
    assert found["cola"].status == "failed" and "train.tsv" in found["cola"].reason["text"]
    assert found["rte"].status == "not_applicable" and found["rte"].reason["code"] == "missing-data"
    assert found["sst2"].status == "ok"
    page = (out / "board" / "index.html").read_text()
    assert "train.tsv" in page and "missing-data" in page
    shutil.copy(world / "glue" / "CoLA" / "train.tsv", path)  # the repaired data give another cell
    assert run_baselines(out, broken, models=("majority",), tasks=("cola", "sst2"), retry=True) == OK


def test_keys_of_pretrainings_depend_on_adam_settings(world, tmp_path, monkeypatch):
    """Settings of the recipe override those of the model, and other values give another key."""
    planned, found = {}, []
    monkeypatch.setattr(run, "execute", lambda whole, job, out, workers, retry: planned.update(vars()) or OK)
    options = {"suite": "demo", "data": world, "out": tmp_path, "models": ("bert", "roberta"), "tasks": ("cola",)}
    for recipe in ({}, {"beta2": 0.98}, {"optimizer": "lamb"}, {"optimizer": "adagrad"}):
        run_suite(**options, recipe=recipe)
        found.append({training.model: training for training in planned["whole"].pretrainings})
    assert [(t["bert"].recipe.get("beta2"), t["roberta"].recipe.get("beta2")) for t in found] == [
        (0.999, 0.98), (0.98, 0.98), (0.999, 0.98), (None, None),
    ]  # fmt: skip
    assert found[0]["bert"].key != found[1]["bert"].key and found[0]["roberta"].key == found[1]["roberta"].key
    assert found[0]["bert"].recipe["bias_correction"] is True and "bias_correction" not in found[2]["bert"].recipe
    for training in found:
        assert recipe_of(training["bert"].recipe)  # a worker can parse it


def test_a_pretraining_on_all_devices_uses_one_worker(world, tmp_path, monkeypatch):
    planned = {}
    monkeypatch.setattr(run, "execute", lambda whole, job, out, workers, retry: planned.update(vars()) or OK)
    options = {"suite": "demo", "data": world, "out": tmp_path, "models": ("bert",), "tasks": ("cola",)}
    run_suite(**options, strategy="mirrored", recipe={"batch": 64})
    assert planned["workers"].jobs == 1 and planned["job"].strategy == "mirrored"
    (training,) = planned["whole"].pretrainings
    adam = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-6, "bias_correction": True}  # BERT's settings
    assert training.recipe == suites.load("demo").recipe | adam | {"batch": 64}

    given = {}
    monkeypatch.setattr(distribute, "strategy_of", lambda name, model_parallel: f"all of {name}")
    monkeypatch.setattr(pretrain, "pretrain", lambda *names, **more: given.update(more))
    worker = Worker(tmp_path, planned["whole"], planned["job"])
    worker.do(training.tokenizer_key), worker.do(training.key)
    assert given["strategy"] == "all of mirrored" and given["recipe"].batch == 64

    run_suite(**options)
    assert planned["workers"].jobs is None and planned["job"].strategy == "one"


def test_the_runtime_of_a_run_is_that_of_its_pretrainings(world, tmp_path, monkeypatch):
    planned, given = {}, {}
    monkeypatch.setattr(run, "execute", lambda whole, job, out, workers, retry: planned.update(vars()) or OK)
    monkeypatch.setattr(pretrain, "pretrain", lambda *names, **more: given.update(more))
    run_suite(suite="demo", data=world, out=tmp_path, models=("bert",), tasks=("cola",), runtime="pjrt")
    (training,) = planned["whole"].pretrainings
    worker = Worker(tmp_path, planned["whole"], planned["job"])
    worker.do(training.tokenizer_key), worker.do(training.key)
    assert given["runtime"] == "pjrt" and planned["workers"].jobs is None
    assert " --runtime pjrt " in planned["job"].command_of(planned["whole"].cells[0])


def test_too_long_inputs_are_usage_errors_and_twins_have_the_length_of_their_model(world, tmp_path, monkeypatch):
    planned = {}
    monkeypatch.setattr(run, "execute", lambda whole, job, out, workers, retry: planned.update(vars()) or OK)
    options = {"suite": "demo", "data": world, "out": tmp_path, "models": ("gpt",), "tasks": ("wikitext2", "cola")}
    with pytest.raises(UsageError, match="gpt reads at most 512 tokens, but wikitext2 asks for 600. Add --set length"):
        run_suite(**options, settings={"length": 600})
    for recipe, long in (({}, 512), ({"length": 600}, 600)):
        run_suite(**options, recipe=recipe, settings={"length": long})
        worker, cells = Worker(tmp_path, planned["whole"], planned["job"]), planned["whole"].cells
        assert {worker._shape(cell, None).length for cell in cells if cell.row.kind == "random"} == {long}


def test_relative_paths_are_absolute_for_workers(world, tmp_path, monkeypatch):
    planned = {}
    monkeypatch.setattr(run, "execute", lambda whole, job, out, workers, retry: planned.update(vars()) or OK)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PTMBENCH_CACHE", "cache")
    Path("data").symlink_to(world)
    for more in ({}, {"corpus": (Path("data/corpus/microworld.txt"),)}):
        run_suite(suite="demo", data=Path("data"), out=Path("out"), models=("bert", "flair"), tasks=("cola",), **more)
        job = planned["job"]
        paths = [
            job.data,
            *(file for one in planned["whole"].artefacts for file in getattr(one, "corpus", ())),
        ]
        assert len(paths) > 3 and all(Path(file).is_absolute() and Path(file).exists() for file in paths)


def test_fingerprints_do_not_depend_on_the_spelling_of_the_data_folder(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to("data")
    monkeypatch.chdir(tmp_path / "data")
    for name in ("boolq", "cola"):  # BoolQ's URL contains "data"
        task = tasks.load(name)
        spellings = [Path("."), Path("../data"), Path("../link"), tmp_path / "data"]
        assert len({sources.fingerprint(task, folder) for folder in spellings}) == 1
        (tmp_path / "data" / task.folders[0]).mkdir(parents=True)
        assert sources.fingerprint(task, Path(".")) == sources.fingerprint(task, Path("../data"))


def test_a_dry_run_prints_the_plan_and_writes_no_records(world, tmp_path, capsys):
    out = tmp_path / "out"
    assert run_suite(suite="demo", data=world, out=out, models=("bert",), tasks=("cola",), seeds=2, dry_run=True) == OK
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("pre-train\tbert-tiny") for line in lines) == 1
    assert sum(line.startswith("cell\tbert-tiny\tcola\tfinetune") for line in lines) == 2
    assert lines[-1].startswith("total") and not (out / "records").exists()


def test_a_dry_run_of_a_stopped_run_counts_what_remains(world, tmp_path, capsys):
    options = {"suite": "demo", "data": world, "out": tmp_path / "out", "models": ("random-bert",), "tasks": ("sst2",)}
    options |= {"seeds": 1, "baselines": False, "settings": {"max_steps": 2, "length": 16}}

    def table(*transforms):
        capsys.readouterr()
        assert run_suite(**options, transforms=transforms, dry_run=True) == OK
        return [line.split("\t") for line in capsys.readouterr().out.splitlines()[1:]]

    assert all(line[-1] != "done" for line in table("int8"))
    assert run_suite(**options, transforms=("int8",)) == OK
    *lines, total = table("int8")
    assert {line[-1] for line in lines} == {"done"}
    assert total[1] == "0 pre-trainings, 0 cells" and total[-1].startswith("about 0 s")
    *lines, total = table("int8", "prune")  # the adapted model was removed, so it is made again
    assert {(line[0], line[3]) for line in lines if line[-1] != "done"} == {
        ("adapt", "finetune"), ("transform", "finetune>prune"), ("cell", "finetune>prune")
    }  # fmt: skip
    assert len(lines) == 6 and total[1] == "0 pre-trainings, 1 cells"


def test_budgets_of_a_suite_are_overridden_by_a_budget_of_the_run(world, tmp_path, capsys):
    def flops(**given) -> dict[str, tuple[float, str]]:
        options = {"suite": "table4", "data": world, "out": tmp_path / "out", "models": ("glove", "word2vec")}
        options["recipe"] = {"batch": 8}
        assert run_suite(**options, tasks=("cola",), seeds=1, dry_run=True, **given) == OK
        lines = [line.split("\t") for line in capsys.readouterr().out.splitlines() if line.startswith("pre-train")]
        return {name.split("-")[0]: (float(spent), time) for _, name, *_, spent, time in lines}

    defaults, given = flops(), flops(budget=Budget(flops=1e10))
    assert defaults["glove"][0] == 1e12 and defaults["word2vec"][0] == 3e13
    assert [given[model][0] for model in ("glove", "word2vec")] == pytest.approx([1e10, 1e10], rel=0.05)
    minutes = int(defaults["glove"][1].split()[0])  # 651,000 steps with almost no arithmetic
    assert defaults["glove"][1].split()[1] == "min" and minutes > 40


def test_estimates_follow_limits_of_steps_and_examples(world, tmp_path, capsys):
    def tokens(**settings) -> float:
        options = {"suite": "demo", "data": world, "out": tmp_path / "out", "models": ("bert",), "tasks": ("cola",)}
        quick = {"epochs": 3, "max_steps": 0, "train_limit": 0, "batch": 8}
        assert run_suite(**options, seeds=1, baselines=False, dry_run=True, settings=quick | settings) == OK
        (line,) = [x for x in capsys.readouterr().out.splitlines() if x.startswith("cell\tbert-tiny\tcola")]
        return float(line.split("\t")[5])

    whole, once, steps, limited = tokens(), tokens(epochs=1), tokens(max_steps=2), tokens(train_limit=16)
    per_epoch = (whole - once) / 2
    prediction_tokens = once - per_epoch
    assert per_epoch > 0 and prediction_tokens > 0
    # 16 rows in one epoch against three.
    assert (steps - prediction_tokens) * 3 == pytest.approx(limited - prediction_tokens, rel=0.05)
    assert limited < once < whole


def test_estimates_count_one_input_per_label_for_binary_label_tasks(tmp_path, capsys):
    opinion = {"sentiment": "Positive", "aspect": "price", "target_entity": "LOCATION1"}
    texts = [{"id": i, "text": f"LOCATION1 is one of {i} cheap places", "opinions": [opinion]} for i in range(9)]
    (tmp_path / "sentihood").mkdir()
    for split in ("train", "dev", "test"):
        (tmp_path / "sentihood" / f"sentihood-{split}.json").write_text(json.dumps(texts))
    (corpus := tmp_path / "corpus.txt").write_text("A place of which nothing is read.\n")

    def tokens(task: str, epochs: int) -> float:
        options = {"suite": "absa", "data": tmp_path, "corpus": (corpus,), "out": tmp_path / "out", "seeds": 1}
        options |= {"models": ("random-bert",), "tasks": (task,), "settings": {"epochs": epochs, "max_steps": 0}}
        assert run_suite(**options, baselines=False, dry_run=True) == OK
        (line,) = [x for x in capsys.readouterr().out.splitlines() if x.split("\t")[2:3] == [task]]
        return float(line.split("\t")[5])

    for ways in (("sentihood-nli-m", "sentihood-nli-b"), ("sentihood-qa-m", "sentihood-qa-b")):
        once, per_label = ([tokens(way, 1), tokens(way, 2) - tokens(way, 1)] for way in ways)
        # three labels: each input is at least as long as the single one
        assert all(3 <= many / one < 4.5 for one, many in zip(once, per_label, strict=True))
