"""Time limits of cells and adapted models: when they are passed, and how a worker that hangs is stopped."""

import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from ptmbench.bench.runs import estimate, limits
from ptmbench.bench.runs.artefacts import AdaptedModel, Row
from ptmbench.bench.runs.job import Job
from ptmbench.bench.runs.limits import FLOOR, UNKNOWN, Limits
from ptmbench.bench.runs.plan import Plan
from ptmbench.bench.runs.results import unfinished_of
from ptmbench.leaderboard.records import record
from tests.bench.test_broken_files import TASK, clone, ptmbench  # noqa: F401
from tests.bench.test_schedule import WORDS, cell

JOB = Job(data="nowhere", source={}, command="run", keep=False, length=32)
ONE = cell("random-bert", "sst2")
PLAN = Plan((WORDS, ONE))


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("30m", 1800), ("1.5h", 5400), ("0", 0)])
def test_times_are_parsed_with_units(text, seconds):
    assert limits.seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "-1", "nan", "inf", "1e400", "1" + "0" * 22, "5 minutes", "-0.0", "1w"])
def test_invalid_times_raise_value_error(text):
    with pytest.raises(ValueError, match="is not a time such as 90"):
        limits.seconds_of(text)


def test_a_given_limit_is_applied(tmp_path):
    time_limits = Limits(PLAN, JOB, tmp_path, 60.0)
    assert time_limits.passed(ONE, 60.1) and not time_limits.passed(ONE, 59.9)
    assert not Limits(PLAN, JOB, tmp_path, 0.0).passed(ONE, 1e9)


def test_default_limits_are_far_above_the_estimate(tmp_path, monkeypatch):
    for seconds, limit in ((1.0, FLOOR), (1000.0, 50_000.0)):
        monkeypatch.setattr(estimate, "seconds_of", lambda *_, seconds=seconds: seconds)
        time_limits = Limits(PLAN, JOB, tmp_path)
        assert not time_limits.passed(ONE, limit - 1) and time_limits.passed(ONE, limit + 1)
    monkeypatch.undo()
    baseline = replace(ONE, row=Row.parse("majority", None))
    for unknown in (ONE, baseline):  # one has no data to be estimated by, the other no formula
        assert not Limits(PLAN, JOB, tmp_path).passed(unknown, UNKNOWN - 1)
        assert Limits(PLAN, JOB, tmp_path).passed(unknown, UNKNOWN + 1)


def test_an_estimate_that_hangs_does_not_block_the_limits(tmp_path, monkeypatch):
    """The estimate reads the data as the cell does."""
    release = threading.Event()
    monkeypatch.setattr(estimate, "seconds_of", lambda *_: release.wait())
    time_limits = Limits(PLAN, JOB, tmp_path)
    assert not time_limits.passed(ONE, UNKNOWN - 1) and time_limits.passed(ONE, UNKNOWN + 1)
    release.set()


def test_a_saved_state_restarts_the_time_limit_of_a_cell(tmp_path, monkeypatch):
    monkeypatch.setattr(estimate, "seconds_of", lambda *_: 1.0)
    state = unfinished_of(tmp_path, ONE) / "training-1" / "step-000000001"
    state.mkdir(parents=True)
    assert not Limits(PLAN, JOB, tmp_path).passed(ONE, 10 * FLOOR)
    before = time.time() - FLOOR - 100
    os.utime(state, (before, before))
    assert Limits(PLAN, JOB, tmp_path).passed(ONE, 10 * FLOOR)
    assert not Limits(PLAN, JOB, tmp_path).passed(ONE, FLOOR - 1)


def test_an_adapted_model_has_the_limit_of_its_cell(tmp_path, monkeypatch):
    adapted = AdaptedModel(cell=ONE)
    time_limits = Limits(PLAN, JOB, tmp_path, 60.0)
    assert (
        time_limits.passed(adapted, 60.1)
        and not time_limits.passed(adapted, 59.9)
        and not time_limits.passed(WORDS, 1e9)
    )
    monkeypatch.setattr(estimate, "seconds_of", lambda *_: 1000.0)
    assert not Limits(PLAN, JOB, tmp_path).passed(adapted, 49_999) and not Limits(PLAN, JOB, tmp_path).passed(
        WORDS, 1e9
    )
    assert Limits(PLAN, JOB, tmp_path).passed(adapted, 50_001)
    (unfinished_of(adapted.place(tmp_path), ONE) / "training-1" / "step-000000001").mkdir(parents=True)
    assert not Limits(PLAN, JOB, tmp_path).passed(adapted, 50_001)


HANGING = TASK.replace('name="broken"', 'name="hanging"').replace(
    "    path = pick(folder",
    """    import os, subprocess
    if "HANG" in os.environ:
        child = subprocess.Popen(["sleep", "100000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(os.environ["HANG"], "a") as file:
            file.write(f"{os.getpid()} {child.pid} ")
        child.wait()
    path = pick(folder""",
)


def processes_of_cell(file):
    """The process that read the data for a cell, and its child. Those of the run's own estimate, which hung and was
    given up, are left out."""
    _, child, *processes = (int(pid) for pid in file.read_text().split())
    if psutil.pid_exists(child):
        psutil.Process(child).kill()
    assert len(processes) == 2, "it was tried once"
    return processes


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["local", "ray"])
def test_a_task_that_hangs_is_stopped_recorded_and_run_again(executor, clone, tmp_path, monkeypatch):  # noqa: F811
    if executor == "ray":
        pytest.importorskip("ray", reason="ray is not installed: pip install -e '.[ray]'")
    (clone / "ptmbench" / "tasks" / "hanging.py").write_text(HANGING)
    monkeypatch.setenv("HANG", str(tmp_path / "pids"))
    out = tmp_path / "out"
    command = ["run", "demo", "--models", "majority", "--no-baselines", "--tasks", "hanging,sst2", "--data", "data"]
    command += ["--out", out, "--jobs", "1", "--executor", executor]
    status, _, messages = ptmbench(clone, *command, "--cell-timeout", "30s")
    assert status == 1 and "majority hanging baseline seed 0: failed: timed out after 3" in messages, messages
    assert "1 failed, 1 ok" in messages and "was not estimated within 30 s" in messages
    found = {one.task["name"]: one for one in map(record.read, (out / "records").glob("*.json"))}
    assert found["sst2"].status == "ok" and found["hanging"].status == "failed"
    assert found["hanging"].reason["code"] == "timed-out"
    assert found["hanging"].reason["text"].startswith("timed out after 3")
    assert "--cell-timeout" not in found["hanging"].command
    processes = processes_of_cell(tmp_path / "pids")
    alive = [pid for pid in processes[: 2 if executor == "local" else 1] if psutil.pid_exists(pid)]
    assert not [pid for pid in alive if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE]
    for pid in processes:
        if psutil.pid_exists(pid):
            psutil.Process(pid).kill()
    monkeypatch.delenv("HANG")
    status, _, messages = ptmbench(clone, *command, "--retry")
    assert status == 0 and "2 ok" in messages, messages
    assert Path(next((out / "superseded").glob("*.json"))).exists()


@pytest.mark.slow
def test_an_adaptation_that_hangs_fails_with_its_cells_and_the_rest_goes_on(clone, tmp_path, monkeypatch):  # noqa: F811
    (clone / "ptmbench" / "tasks" / "hanging.py").write_text(HANGING)
    monkeypatch.setenv("HANG", str(tmp_path / "pids"))
    out = tmp_path / "out"
    command = [
        "run",
        "demo",
        "--models",
        "random-word2vec",
        "--no-baselines",
        "--tasks",
        "hanging,sst2",
        "--data",
        "data",
    ]
    command += ["--condition", "misspellings:share=0.5", "--vocabulary", "300", "--set", "max_steps=3", "--seeds", "1"]
    command += ["--out", out, "--jobs", "1"]
    status, _, messages = ptmbench(clone, *command, "--cell-timeout", "45s")
    assert status == 1, messages
    assert "Adapting random-word2vec-tiny hanging finetune seed 0: failed: timed out after 4" in messages, messages
    assert "2 failed, 2 ok" in messages, messages
    found = list(map(record.read, (out / "records").glob("*.json")))
    for one in found:
        if one.status == "failed":
            assert one.reason["code"] == "timed-out"
            assert one.reason["text"].startswith("Its adaptation failed: timed out after 4")
    assert {one.task["name"].partition("@")[0] for one in found if one.status == "failed"} == {"hanging"}
    processes = processes_of_cell(tmp_path / "pids")
    assert not [p for p in processes if psutil.pid_exists(p) and psutil.Process(p).status() != psutil.STATUS_ZOMBIE]
    monkeypatch.delenv("HANG")
    status, _, messages = ptmbench(clone, *command, "--retry")
    assert status == 0 and "4 ok" in messages, messages
