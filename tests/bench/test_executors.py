"""Local workers and Ray workers: both give the same records, and the death of a worker is detected."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from ptmbench import tasks
from ptmbench.bench import environment
from ptmbench.bench.data.sources import fingerprint
from ptmbench.bench.errors import CELLS_FAILED, OK, EnvironmentProblem, UsageError
from ptmbench.bench.runs import execute
from ptmbench.bench.runs.executors import Died, Done, Ready
from ptmbench.bench.runs.executors import ray as on_ray
from ptmbench.bench.runs.executors.local import Local
from ptmbench.bench.runs.job import Job
from ptmbench.bench.runs.plan import Plan
from ptmbench.bench.runs.tuning.tuned import Tuned
from ptmbench.leaderboard.records import record
from tests.bench.asking import run_suite
from tests.bench.processes import PATIENCE, ROOT, wait_for
from tests.bench.test_schedule import WORDS, cell

FLOOR = {"suite": "demo", "models": ("majority",), "baselines": False}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, which only Linux has")
def test_the_stderr_of_a_worker_is_read_to_its_end_on_a_full_disk(tmp_path, capsys):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "worker-0.log").symlink_to("/dev/full")
    Local(tmp_path, 1, 1)._listen(0, SimpleNamespace(stderr=["one\n", "two\n"]))
    assert capsys.readouterr().err == "one\ntwo\n"


def records(out):
    return {(r := record.read(path)).key: r for path in (out / "records").glob("*.json")}


class Doomed:
    """An executor with one worker, which dies on each ``fatal`` piece and only pretends to run the others."""

    workers = 1

    def __init__(self, fatal):
        self.fatal, self.events, self.given = fatal, [Ready(0)], []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def give(self, worker, piece):
        self.given.append(piece)
        died = Died(worker, "Worker 0 was killed by signal 9.")
        self.events.append(died if self.fatal(piece) else Done(worker, "done"))

    def event(self, timeout):
        return self.events.pop(0)

    def restart(self, worker):
        self.events.append(Ready(worker))


def test_a_piece_that_kills_two_workers_fails_with_a_reason(world, tmp_path, monkeypatch, capsys):
    doomed = Doomed(lambda piece: piece.task == "cola")
    monkeypatch.setattr(execute, "executor_of", lambda *_: doomed)
    assert run_suite(**FLOOR, tasks=("cola", "sst2"), out=tmp_path, data=world) == CELLS_FAILED
    assert sorted(piece.task for piece in doomed.given) == ["cola", "cola", "sst2"]
    (found,) = records(tmp_path).values()
    assert found.task["name"] == "cola" and found.status == "failed" and found.reason["code"] == "worker-died"
    assert "2 workers ended while running it" in found.reason["text"] and found.device is None
    messages = capsys.readouterr().err
    assert (
        "tried once more" in messages
        and "not tried again" in messages
        and "Run the same command again to resume" in messages
    )


@pytest.mark.parametrize("memory", [0, 1 << 40])
def test_a_worker_that_has_too_much_memory_is_replaced(memory, world, tmp_path, monkeypatch):
    """XLA keeps what it has compiled, so without this a long run would need more memory with each cell."""
    monkeypatch.setattr("ptmbench.bench.environment.worker_memory", lambda workers: memory)
    started, restart = [], Local.restart
    monkeypatch.setattr(Local, "restart", lambda self, worker: started.append(worker) or restart(self, worker))
    assert run_suite(**FLOOR, tasks=("cola", "mrpc", "sst2"), out=tmp_path, data=world, jobs=1) == OK
    assert [found.status for found in records(tmp_path).values()] == ["ok"] * 3
    assert len(started) == (1 if memory else 3)


def test_the_memory_of_a_worker_is_its_share_of_the_machine(monkeypatch):
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": (8 << 30) // 4096}.get)
    assert [environment.worker_memory(workers) for workers in (1, 2, 8)] == [4 << 30, 3 << 30, 768 << 20]
    assert environment.exceeds(1 << 20) and not environment.exceeds(1 << 45)


def test_workers_that_cannot_start_end_the_run(world, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("ptmbench.bench.runs.executors.local.sys.executable", shutil.which("false"))
    with pytest.raises(EnvironmentProblem, match="No worker"):
        run_suite(**FLOOR, tasks=("cola",), out=tmp_path / "run", data=world, jobs=1)
    assert "ended with status 1" in capsys.readouterr().err
    assert list((tmp_path / "run" / "logs").glob("worker-0.log"))


def test_a_killed_worker_is_replaced_and_no_cell_fails(world, tmp_path):
    """A local worker is killed while it is idle. Its replacement runs the next piece."""
    from ptmbench.bench.runs.executors.local import Local

    class LocalWithKill(Local):
        def give(self, worker, piece):
            if not (tmp_path / "killed").exists():
                (tmp_path / "killed").touch()
                os.kill(self._processes[worker].pid, signal.SIGKILL)
                self._processes[worker].wait()
            super().give(worker, piece)

    from ptmbench.bench.runs.executors import local

    before, local.Local = local.Local, LocalWithKill
    try:
        assert run_suite(**FLOOR, tasks=("cola", "sst2"), out=tmp_path, data=world, jobs=1) == OK
    finally:
        local.Local = before
    assert {found.status for found in records(tmp_path).values()} == {"ok"}


def test_a_worker_that_dies_in_the_middle_of_its_answer_is_detected(tmp_path, monkeypatch):
    from ptmbench.bench.runs.executors.local import Local

    script = tmp_path / "half"
    script.write_text("#!/bin/sh\nprintf '{\"said\": nul'\n")
    script.chmod(0o755)
    monkeypatch.setattr("ptmbench.bench.runs.executors.local.sys.executable", str(script))
    with Local(tmp_path, 1, 1) as local:
        assert isinstance(local.event(timeout=20.0), Died)


def test_start_work_and_idle_times_are_recorded(world, tmp_path):
    assert run_suite(**FLOOR, tasks=("cola", "sst2"), out=tmp_path, data=world, jobs=1) == OK
    (line,) = (tmp_path / execute.TIMES).read_text().splitlines()
    times = json.loads(line)
    assert times["workers"] == 1 and times["start"] > 0 and times["work"] > 0
    assert times["start"] + times["work"] + times["idle"] == pytest.approx(times["wall"], abs=0.1)


def test_two_runs_in_one_folder_are_refused(world, tmp_path):
    from filelock import FileLock

    with FileLock(tmp_path / "run.lock"), pytest.raises(EnvironmentProblem, match="Another run"):
        run_suite(**FLOOR, tasks=("cola",), out=tmp_path, data=world)


def test_transferred_files_are_complete_and_records_are_never_replaced(tmp_path):
    there, here = tmp_path / "there", tmp_path / "here"
    files = {
        "records/a.json": b"1",
        "predictions/a.gz": b"2",
        "pretrained/bert/manifest.json": b"3",
        "pretrained/bert/weights.safetensors": b"4",
    }
    on_ray.place(there, files)
    assert on_ray.read(there, "records", "predictions", "pretrained", "adapted") == files
    on_ray.place(here, files)
    on_ray.place(here, files | {"records/a.json": b"5"})
    assert on_ray.read(here, "records", "predictions", "pretrained") == files
    assert not list(here.rglob("*.arriving"))


def test_a_record_arrives_after_its_checkpoint(tmp_path, monkeypatch):
    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(on_ray.os, "rename", full)
    files = {"records/a.json": b"1", "adapted/a/manifest.json": b"2", "adapted/a/weights.safetensors": b"3"}
    with pytest.raises(OSError, match="no space left"):
        on_ray.place(tmp_path, files)
    assert not (tmp_path / "records").exists()


def test_changed_data_of_auxiliary_tasks_are_detected(world):
    """The auxiliary tasks of a multi-task cell must have the same data on every machine."""
    data = {name: fingerprint(tasks.load(name), world) for name in ("sst2", "cola")}
    job = {"data": str(world), "source": {}, "command": "run", "keep": False, "length": 32}
    for beside, problem in ((data["cola"], ""), ("other", "is not what the plan was made with")):
        about = {"cola": {"title": "CoLA", "version": 1, "data_sha256": beside}}
        one = replace(cell("random-bert", "sst2"), data_sha256=data["sst2"], auxiliary=about)
        remote = on_ray.Remote(Plan((WORDS, one)).to_json(), Job(**job), 1, 1 << 40)
        assert problem in remote._data_mismatch(one) and bool(remote._data_mismatch(one)) == bool(problem)
        remote.close()


def test_a_missing_or_unreachable_ray_raises_an_error(world, tmp_path, monkeypatch):
    with pytest.raises(EnvironmentProblem, match="no Ray cluster at 127.0.0.1:1"):
        on_ray._check_reachable("127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(EnvironmentProblem, match=r"pip install .*\[ray\]"):
        run_suite(**FLOOR, tasks=("cola",), out=tmp_path, data=world, executor="ray")
    with pytest.raises(UsageError, match="--executor ray"):
        run_suite(**FLOOR, tasks=("cola",), out=tmp_path, data=world, ray_address="10.0.0.1:6379")


@pytest.mark.parametrize(("told", "tries"), [("The current node timed out during startup.", 3), ("No memory.", 1)])
def test_the_start_of_ray_is_retried_only_after_a_timeout(tmp_path, monkeypatch, capsys, told, tries):
    """A timeout means that the machine is busy, so the start is retried."""
    started = []

    def init(**options):
        started.append(options)
        raise Exception(f"{told}\nMore lines.")

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(init=init))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    job = Job(data="", source={}, command="run", keep=False, length=32)
    with pytest.raises(EnvironmentProblem, match=rf"Ray does not start \(here\): {told}"):
        on_ray.Ray(Plan(()), job, tmp_path, 1, 1, None).__enter__()
    assert len(started) == tries and capsys.readouterr().err.count("started again") == tries - 1


SMALL = ("--models", "bert", "--tasks", "sst2,conll2003", "--seeds", "1", "--steps", "20", "--set", "max_steps=8")


def command(out, data, *more):
    start = [sys.executable, "-m", "ptmbench", "run", "demo", "--data", str(data), "--out", str(out), "--threads", "1"]
    return [*start, *SMALL, *more]


def reproducible_fields(found):
    """The fields of a record that do not depend on clocks, processes and machines."""
    made = None
    if found.pretraining:
        made = {name: found.pretraining[name] for name in ("weights_sha256", "steps", "tokens", "flops", "loss")}
    cost = {name: found.cost.get(name) for name in ("parameters", "steps", "tokens", "flops", "flops_evaluate")}
    return found.status, found.reason, found.scores, found.curve, found.predictions, found.seed, found.row, made, cost


def run_command(*arguments):
    """Runs a command of ptmbench, which must succeed."""
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    done = subprocess.run(arguments, cwd=ROOT, timeout=PATIENCE, **pipes)
    assert done.returncode == OK, done.stderr


@pytest.mark.slow
def test_two_ray_workers_give_the_records_of_a_sequential_run(world, tmp_path):
    pytest.importorskip("ray", reason="ray is not installed: pip install -e '.[ray]'")
    sequential, distributed = tmp_path / "alone", tmp_path / "spread"
    run_command(*command(sequential, world, "--jobs", "1"))
    run_command(*command(distributed, world, "--executor", "ray", "--workers", "2"))
    one, two = records(sequential), records(distributed)
    assert len(one) == 8 and one.keys() == two.keys()
    for key, found in one.items():
        assert reproducible_fields(found) == reproducible_fields(two[key]), found.file_name
        path = found.predictions["file"]
        assert (sequential / path).read_bytes() == (distributed / path).read_bytes()


TAUGHT = ("--models", "distilbert", "--no-baselines", "--tasks", "sst2", "--seeds", "1", "--steps", "5")
TAUGHT += ("--vocabulary", "300", "--recipe", "batch=4", "--recipe", "length=32", "--set", "length=32")
TAUGHT += ("--set", "max_steps=8", "--transform", "int8,prune:frequency=2+max_steps=8+int8", "--keep")


@pytest.mark.slow
def test_a_killed_ray_run_of_teachers_and_transforms_matches_a_local_run(world, tmp_path):
    """Every dependency is transferred: the teacher, the student, its adapted model, two transforms of it and a chain of
    transforms. The run is killed when the adapted model exists. Finished artefacts are not made again."""
    pytest.importorskip("ray", reason="ray is not installed: pip install -e '.[ray]'")
    sequential, distributed = tmp_path / "alone", tmp_path / "spread"
    run = [sys.executable, "-m", "ptmbench", "run", "demo", "--data", str(world), "--threads", "1", *TAUGHT, "--out"]
    on_two = [*run, str(distributed), "--executor", "ray", "--workers", "2"]
    run_command(*run, str(sequential), "--jobs", "1")

    log = tmp_path / "log"
    with open(log, "w") as file:
        process = subprocess.Popen(on_two, cwd=ROOT, stderr=file)
    try:
        made = "intermediate/*/adapted/*/manifest.json"
        wait_for(lambda: list(distributed.glob(made)) or process.poll() is not None)
        started = psutil.Process(process.pid).children(recursive=True)
    finally:
        process.kill()
    assert process.wait() == -signal.SIGKILL, log.read_text()
    assert psutil.wait_procs(started, timeout=PATIENCE)[1] == []  # Ray stops with the process that started it
    sealed = {path: path.stat().st_mtime_ns for path in distributed.glob("*/**/manifest.json")}
    assert len(sealed) >= 3 and len(records(distributed)) < 3

    run_command(*on_two)
    assert sealed.items() <= {path: path.stat().st_mtime_ns for path in distributed.glob("*/**/manifest.json")}.items()
    one, two = records(sequential), records(distributed)
    kinds = [artefact.kind for artefact in Plan.from_json((distributed / "plan.json").read_text()).artefacts]
    assert [kinds.count(kind) for kind in ("pretraining", "adapted", "transformed", "cell")] == [2, 1, 3, 3]
    assert one.keys() == two.keys() and {found.status for found in two.values()} == {"ok"}
    assert (sequential / "plan.json").read_bytes() == (distributed / "plan.json").read_bytes()
    for key, found in one.items():
        assert reproducible_fields(found) == reproducible_fields(two[key]), found.file_name
        assert found.pretraining["teacher"]["weights_sha256"] == two[key].pretraining["teacher"]["weights_sha256"]
        for name in ("bits_per_weight", "zero_weights", "disk_bytes", "disk_bytes_compressed"):
            assert found.cost[name] == two[key].cost[name], name
        assert (sequential / found.predictions["file"]).read_bytes() == (
            distributed / found.predictions["file"]
        ).read_bytes()


@pytest.mark.slow
def test_tuning_with_ray_gives_the_results_of_local_workers(world, tmp_path):
    pytest.importorskip("ray", reason="ray is not installed: pip install -e '.[ray]'")
    tune = [sys.executable, "-m", "ptmbench", "tune", "demo", "--data", str(world), "--models", "word2vec"]
    tune += ["--vocabulary", "300", "--recipe", "batch=4", "--tokens", "18000", "--trials", "4", "--share", "1"]
    tune += ["--held-out", "2000", "--threads", "1", "--out"]
    sequential, distributed = tmp_path / "alone", tmp_path / "spread"
    run_command(*tune, str(sequential), "--jobs", "1")
    run_command(*tune, str(distributed), "--executor", "ray", "--workers", "2")
    one, two = ({k: v for k, v in Tuned.read(out).body.items() if k != "seconds"} for out in (sequential, distributed))
    assert one == two and one["models"][0]["trials"] == 4


@pytest.mark.slow
def test_a_ray_worker_that_is_killed_is_replaced(world, tmp_path):
    pytest.importorskip("ray", reason="ray is not installed: pip install -e '.[ray]'")
    arguments = command(tmp_path, world, "--executor", "ray", "--workers", "2")
    process = subprocess.Popen(arguments, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    try:
        wait_for(lambda: any(actors(process.pid)) or process.poll() is not None)
        time.sleep(5)  # during its first piece
        next(actors(process.pid)).kill()
        _, messages = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == OK, messages
    assert "tried once more" in messages
    assert {found.status for found in records(tmp_path).values()} == {"ok"}


@pytest.mark.slow
def test_a_ray_worker_that_has_too_much_memory_is_replaced(world, tmp_path, monkeypatch):
    pytest.importorskip("ray", reason="ray is not installed: pip install -e '.[ray]'")
    monkeypatch.setattr("ptmbench.bench.environment.worker_memory", lambda workers: 0)
    started, restart = [], on_ray.Ray.restart
    monkeypatch.setattr(on_ray.Ray, "restart", lambda self, worker: started.append(worker) or restart(self, worker))
    asked = {**FLOOR, "tasks": ("cola", "mrpc", "sst2"), "out": tmp_path, "data": world}
    assert run_suite(**asked, executor="ray", jobs=1) == OK
    assert [found.status for found in records(tmp_path).values()] == ["ok"] * 3 and len(started) == 3


@pytest.mark.slow
def test_ctrl_c_stops_ray_and_keeps_finished_records(world, tmp_path):
    pytest.importorskip("ray", reason="ray is not installed: pip install -e '.[ray]'")
    arguments = command(tmp_path, world, "--executor", "ray", "--workers", "2")
    process = subprocess.Popen(arguments, cwd=ROOT, stderr=subprocess.DEVNULL)
    wait_for(lambda: list(tmp_path.glob("records/*.json")) or process.poll() is not None)
    started = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=PATIENCE) == 130
    assert psutil.wait_procs(started, timeout=PATIENCE)[1] == []
    assert records(tmp_path)


def actors(pid):
    """Processes of Ray actors below ``pid``."""
    for child in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):  # the process has just ended
            if "ray::Remote" in " ".join(child.cmdline()):
                yield child
