"""Processes that are stopped by signals: the same command, run again, ends with the same weights, bit for bit."""

import random
import signal
import subprocess
import sys
import time

import pytest

from ptmbench.bench.engine import checkpoint
from ptmbench.leaderboard.records import record
from tests.bench.processes import PATIENCE, ROOT, made_text, start, states, wait_for


def weights(out):
    return (out / "weights.safetensors").read_bytes()


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return made_text(tmp_path_factory.mktemp("text") / "corpus.txt")


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_saves_a_state_and_sets_the_exit_status(number, status, text, tmp_path):
    steps = ("--steps", "300")
    uninterrupted = start(text, tmp_path / "straight", *steps)
    stopped = start(text, tmp_path / "stopped", *steps, "--save-every", "0.01")
    wait_for(lambda: states(tmp_path / "stopped"))
    stopped.send_signal(number)
    _, messages = stopped.communicate(timeout=PATIENCE)
    assert stopped.returncode == status
    assert "Run the same command again to resume" in messages and "Traceback" not in messages
    saved = max(states(tmp_path / "stopped"))
    assert (saved / "manifest.json").exists() and not (tmp_path / "stopped").exists()
    again = start(text, tmp_path / "stopped", *steps)
    assert again.wait(timeout=PATIENCE) == uninterrupted.wait(timeout=PATIENCE) == 0
    assert weights(tmp_path / "stopped") == weights(tmp_path / "straight")


@pytest.mark.slow
def test_an_ignored_signal_stays_ignored(text, tmp_path):
    """A script without job control starts ``command &`` with SIGINT ignored."""
    out = tmp_path / "out"
    process = start(
        text, out, "--steps", "60", "--save-every", "0.01", ignored=(signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    )
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        before = states(out)
        process.send_signal(number)
        wait_for(lambda before=before: states(out) - before or process.poll() is not None)
    _, messages = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, messages
    about = checkpoint.read(out).about
    assert about["steps"] == about["curve"][-1]["step"] == 60
    assert not states(out)


@pytest.mark.parametrize("kills", [pytest.param(5, marks=pytest.mark.slow), pytest.param(20, marks=pytest.mark.sweep)])
def test_a_training_killed_at_random_times_ends_with_the_same_weights(kills, text, tmp_path, capsys):
    """Kills happen at start-up, between saves and, because it saves nearly all the time, in the middle of a save."""
    # A fast machine takes 40 steps between two kills, and a few hundred if start-up is over before a kill meant for it.
    steps = ("--steps", "2000", "--save-every", "0.05")
    uninterrupted = start(text, tmp_path / "straight", *steps[:2])
    draw, out, log, half_written = random.Random(0), tmp_path / "killed", [], 0
    for kill in range(kills):
        process = start(text, out, *steps)
        before = states(out)
        if kill % 5:  # every fifth kill is meant for the start-up
            wait_for(lambda process=process, before=before: states(out) - before or process.poll() is not None)
            delay = draw.uniform(0.0, 0.6)
        else:
            delay = draw.uniform(0.0, 6.0)
        time.sleep(delay)
        process.kill()
        _, messages = process.communicate()
        assert process.returncode == -signal.SIGKILL, f"the run ended before it could be killed: {messages[-500:]}"
        found = sorted(path.name for path in states(out))
        half_written += any(name.startswith(".") for name in found)
        log.append(f"kill {kill + 1:2d} after {delay:.3f} s: {', '.join(found) or 'nothing saved yet'}")
    last = start(text, out, *steps[:2])
    assert last.wait(timeout=PATIENCE) == uninterrupted.wait(timeout=PATIENCE) == 0
    with capsys.disabled():
        print("", *log, f"{half_written} kills left a half-written state", sep="\n")
    assert weights(out) == weights(tmp_path / "straight")
    assert not states(out)


@pytest.mark.slow
def test_a_cell_killed_repeatedly_ends_with_the_same_record(text, tmp_path):
    assert start(text, tmp_path / "bert", "--steps", "5").wait(timeout=PATIENCE) == 0

    def start_cell(out, *more):
        cell = ["--tasks", "sst2", "--seeds", "1", "--jobs", "1", "--threads", "1"]
        settings = ["--set", "length=32", "--set", "batch=4", "--set", "epochs=8", "--set", "patience=9"]
        command = [sys.executable, "-m", "ptmbench", "evaluate", str(tmp_path / "bert"), "--out", str(out)]
        return subprocess.Popen([*command, *cell, *settings, *more], cwd=ROOT, stderr=subprocess.PIPE, text=True)

    def saved(out):
        return {path.name for path in out.glob("unfinished/*/training-1/step-*")}

    uninterrupted, out, draw = start_cell(tmp_path / "straight"), tmp_path / "killed", random.Random(0)
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
        before, process = saved(out), start_cell(out, "--save-every", "0.05")
        wait_for(lambda before=before, process=process: saved(out) - before or process.poll() is not None)
        time.sleep(draw.uniform(0.0, 0.5))
        process.send_signal(number)
        _, messages = process.communicate(timeout=PATIENCE)
        assert process.returncode in (-signal.SIGKILL, 143), "the cell ended before it could be killed: more epochs"
        assert ("goes on at step" in messages) == bool(before)
        wait_for(lambda: not _worker_is_alive(out))
    last = start_cell(out)
    _, messages = last.communicate(timeout=PATIENCE)
    assert last.returncode == uninterrupted.wait(timeout=PATIENCE) == 0, messages
    assert not saved(out)
    found = [record.read(next((folder / "records").iterdir())) for folder in (tmp_path / "straight", out)]
    for part in ("key", "scores", "curve", "predictions"):
        assert getattr(found[0], part) == getattr(found[1], part)
    assert found[1].cost["seconds"]["save"] > 0


def _worker_is_alive(out):
    """Whether a worker of the run is still alive. It ends by itself after its run was killed."""
    lines = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout.splitlines()
    return any("bench.runs.work" in line and str(out) in line for line in lines)
