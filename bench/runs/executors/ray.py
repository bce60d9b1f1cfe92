"""Workers as actors of a Ray cluster, whose machines need not share a disk.

Each machine needs this clone, the packages, and the data and the corpus at the same path. The commit, the data and the
corpus of each worker are compared with those of the run. A worker runs `bench.runs.work.Worker` in a temporary folder.
The files that it makes are sent back, and only the command line's process writes to the run folder. A checkpoint is
sent to each worker once.
"""

import os
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from ptmbench import tasks
from ptmbench.bench import environment
from ptmbench.bench.console import say
from ptmbench.bench.data import corpora
from ptmbench.bench.data.sources import fingerprint
from ptmbench.bench.engine.checkpoint import MANIFEST, digest, write_bytes
from ptmbench.bench.errors import EnvironmentProblem
from ptmbench.bench.runs.artefacts import AdaptationTrial, AdaptedModel, Artefact, Cell, Given
from ptmbench.bench.runs.executors import Died, Done, Event, Ready
from ptmbench.bench.runs.job import Job
from ptmbench.bench.runs.plan import Plan
from ptmbench.bench.runs.results import failure_of
from ptmbench.bench.runs.trainings import Pretraining, TokenizerTraining
from ptmbench.bench.runs.tuning.trials import Trial
from ptmbench.bench.runs.work import Worker

Files = Mapping[str, bytes]
"""Contents of files by path in a run folder."""
_MADE = ("records", "predictions", "adapted")
"""Folders that only cells write to. A worker deletes their files after each cell."""
_GIVEN = "given"
"""Folder of the user's checkpoints and tokenizers, in a worker's folder."""
_STARTS = 3
"""Attempts to start Ray on this machine. Ray's time limit of 30 s cannot be changed, and a busy machine exceeds it."""


class Remote:
    """A worker on a machine of the cluster. ``plan`` is the JSON of a `portable` plan. With more than ``memory`` bytes,
    the worker is full."""

    def __init__(self, plan: str, job: Job, threads: int, memory: int):
        environment.prepare(threads)
        self.memory = memory
        self._folder = tempfile.TemporaryDirectory(prefix="ptmbench-")
        self.out = Path(self._folder.name)
        self.worker = Worker(self.out, Plan.from_json(plan), job)

    def identify(self) -> tuple[str, str]:
        """Returns this machine's name and the commit of its clone."""
        return os.uname().nodename, environment.commit()

    def do(self, key: str, *needed: Files) -> tuple[str, Files, bool]:
        """Makes the artefact ``key`` from the ``needed`` files. Returns a line for the user, the files made, and
        whether the worker is full."""
        for files in needed:
            place(self.out, files)
        piece = self.worker.plan.by_key[key]
        problem = self._data_mismatch(piece)
        if problem:
            self.worker.give_up(piece, {"code": "other-data", "text": problem})
            said = f"{piece.title} failed: {problem}"
        else:
            said = self.worker.do(key)
        full = environment.exceeds(self.memory)
        if not isinstance(piece, Cell):
            return said, result_of(self.out, piece), full
        made = read(self.out, *_MADE)
        for path in made:
            (self.out / path).unlink()
        return said, made, full

    def close(self) -> None:
        self._folder.cleanup()

    def _data_mismatch(self, piece: Artefact) -> str:
        """Returns a message if this machine's data or corpus differ from those of the plan, otherwise ""."""
        if isinstance(piece, AdaptedModel | AdaptationTrial):
            return self._data_mismatch(piece.cell)
        if isinstance(piece, Trial):
            return self._data_mismatch(piece.pretraining)
        if isinstance(piece, Pretraining | TokenizerTraining):
            where, right = ", ".join(piece.corpus), [piece.corpus_sha256]
            found = [corpora.fingerprint([Path(file) for file in piece.corpus])]
        else:
            data = Path(self.worker.job.data)
            read = {
                piece.task: piece.data_sha256,
                **{name: its["data_sha256"] for name, its in piece.auxiliary.items()},
            }
            where, right = str(data), list(read.values())
            found = [fingerprint(tasks.load(name), data) for name in read]
        if found == right:
            return ""
        return f"{where} on {os.uname().nodename} is not what the plan was made with. Copy the same files there."


class Ray:
    """Actors on the cluster at ``address`` (or RAY_ADDRESS), otherwise on a Ray instance started on this machine."""

    def __init__(self, plan: Plan, job: Job, out: Path, workers: int | None, threads: int | None, address: str | None):
        try:
            import ray
        except ImportError:
            raise EnvironmentProblem(
                "--executor ray needs the package ray: `pip install -c constraints.txt -e '.[ray]'` in the clone."
            ) from None
        self._ray, self._address = ray, address or os.environ.get("RAY_ADDRESS")
        self.plan, self.job, self.out = plan, job, out
        self._wanted_workers, self._threads = workers, threads
        self.workers = 0  # set after the connection to the cluster
        self._actors: dict[int, Any] = {}
        self._pending: dict[Any, tuple[int, Artefact | None]] = {}
        """Pending calls: the worker, and the artefact or None for `Remote.identify`."""
        self._shipped: dict[str, Any] = {}
        self._files_on_worker: dict[int, set[str]] = {}

    def __enter__(self) -> "Ray":
        self._connect()
        there = self._ray.cluster_resources()
        cores, accelerators = int(there.get("CPU", 1)), int(there.get("GPU", 0))
        # By default one worker for each accelerator, or for each core if there is none.
        self.workers = min(self.plan.workers(self._wanted_workers, accelerators or cores), max(1, cores))
        actor = self._ray.remote(Remote).options(
            num_cpus=1, num_gpus=int(accelerators >= self.workers), scheduling_strategy="SPREAD"
        )
        plan = portable(self.plan).to_json()
        threads = self._threads or max(1, cores // self.workers)
        arguments = (plan, self.job, threads, environment.worker_memory(self.workers))
        self._start = lambda: actor.remote(*arguments)
        for worker in range(self.workers):
            self.restart(worker)
        return self

    def _connect(self) -> None:
        """Joins the cluster, or starts one on this machine with at least a core for each worker."""
        here: dict[str, Any] = {}
        if self._address:
            _check_reachable(self._address)
        else:
            here = {"num_cpus": max(self._wanted_workers or 1, environment.cores()), "include_dashboard": False}
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        ours = signal.getsignal(signal.SIGTERM)
        for left in reversed(range(_STARTS)):
            try:
                self._ray.init(
                    address=self._address or "local",
                    runtime_env={"env_vars": {"PYTHONPATH": str(environment.ROOT)}},
                    log_to_driver=False,
                    logging_level="error",
                    **here,
                )
                break
            except Exception as error:  # Ray raises plain exceptions too: "The current node timed out during startup."
                if self._address or not left or "timed out" not in str(error).lower():
                    told = f"Ray does not start ({self._address or 'here'}): {_line(error)}"
                    raise EnvironmentProblem(told) from error
                say(f"Ray did not start within its time limit and is started again: {_line(error)}")
        signal.signal(signal.SIGTERM, ours)  # Ray's own handler exits with another status

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            self._close(list(self._actors))
        for actor in self._actors.values():
            self._ray.kill(actor)
        self._ray.shutdown()

    def _close(self, workers: list[int]) -> None:
        """Lets ``workers`` delete their folders."""
        closing = [self._actors[worker].close.remote() for worker in workers]
        self._ray.wait(closing, num_returns=len(closing), timeout=10)

    def give(self, worker: int, piece: Artefact) -> None:
        needed = []
        for key in piece.needs:
            if key not in self._files_on_worker[worker]:
                if key not in self._shipped:
                    self._shipped[key] = self._ray.put(result_of(self.out, self.plan.by_key[key]))
                needed.append(self._shipped[key])
                self._files_on_worker[worker].add(key)
        self._pending[self._actors[worker].do.remote(piece.key, *needed)] = worker, piece

    def event(self, timeout: float) -> Event | None:
        if not self._pending:
            time.sleep(timeout)
            return None
        done, _ = self._ray.wait(list(self._pending), num_returns=1, timeout=timeout)
        return self._event_of_call(done[0]) if done else None

    def kill(self, worker: int) -> None:
        self._ray.kill(self._actors[worker])

    def restart(self, worker: int) -> None:
        self._files_on_worker[worker] = set()
        self._actors[worker] = self._start()
        self._pending[self._actors[worker].identify.remote()] = worker, None

    def _event_of_call(self, answer: Any) -> Event:
        worker, piece = self._pending.pop(answer)
        try:
            found = self._ray.get(answer)
        except self._ray.exceptions.RayActorError as error:
            return Died(worker, f"Worker {worker} died on its machine: {_line(error)}")
        except self._ray.exceptions.RayTaskError as error:
            self._ray.kill(self._actors[worker])
            return Died(worker, f"Worker {worker} failed: {_line(error.cause)}")
        if piece is None:
            _check_commit(*found)
            return Ready(worker)
        said, files, full = found
        place(self.out, files)
        self._files_on_worker[worker].add(piece.key)
        if full:
            self._close([worker])
            self.kill(worker)
        return Done(worker, said, full)


def read(out: Path, *paths: str) -> dict[str, bytes]:
    """Reads the files at and below ``paths`` in ``out``, by path relative to ``out``. Skips missing ones."""
    files = [file for path in paths for file in ((out / path).rglob("*") if (out / path).is_dir() else [out / path])]
    return {str(file.relative_to(out)): file.read_bytes() for file in files if file.is_file()}


def result_of(out: Path, artefact: Artefact) -> dict[str, bytes]:
    """Reads the files of ``artefact`` in ``out``: its result, or the reason why it failed. The user's files get their
    paths in a worker's folder."""
    if isinstance(artefact, Given):
        path = artefact.place(out)
        home = _given(artefact).path
        files = [file for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file()]
        return {f"{home}/{file.relative_to(path)}" if path.is_dir() else home: file.read_bytes() for file in files}
    return read(out, *(str(path.relative_to(out)) for path in (artefact.place(out), failure_of(out, artefact))))


def portable(plan: Plan) -> Plan:
    """Returns ``plan`` with the user's files at their paths in a worker's folder."""
    return Plan(tuple(_given(one) if isinstance(one, Given) else one for one in plan.artefacts))


def _given(artefact: Given) -> Given:
    return replace(artefact, path=f"{_GIVEN}/{digest(artefact.key)[:12]}")


def place(out: Path, files: Files) -> None:
    """Writes ``files`` below ``out``. Records are written last, because a record means that the other files exist. A
    record that exists is kept.

    Checkpoints are written to temporary folders, which are renamed when they are complete. So no partial checkpoint is
    visible.
    """
    records = [path for path in files if path.startswith("records/")]
    checkpoints = {Path(path).parent for path in files if Path(path).name == MANIFEST}
    arriving = {folder: out / folder.parent / f".{folder.name}.arriving" for folder in checkpoints}
    for path in files.keys() - records:
        folder = Path(path).parent
        write_bytes(arriving[folder] / Path(path).name if folder in arriving else out / path, files[path])
    for folder, fresh in arriving.items():
        if (out / folder / MANIFEST).exists():
            shutil.rmtree(fresh)
        else:
            os.rename(fresh, out / folder)
    for path in records:
        if not (out / path).exists():
            write_bytes(out / path, files[path])


def _check_reachable(address: str) -> None:
    """Raises `EnvironmentProblem` if nothing listens at ``address``, where Ray would try for minutes.

    An address without a port is a keyword of Ray, and is not checked.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdigit():
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except OSError as error:
            raise EnvironmentProblem(
                f"There is no Ray cluster at {address}: {error.strerror or error}. `ray start --head` starts one."
            ) from error


def _check_commit(machine: str, commit: str) -> None:
    if commit != environment.commit():
        raise EnvironmentProblem(
            f"{machine} has commit {commit} of this project and this machine {environment.commit()}: "
            "records would not be alike. Check the same commit out everywhere."
        )


def _line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
