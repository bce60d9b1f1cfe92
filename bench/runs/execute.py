"""Executes a plan: assigns artefacts to workers, shows the progress, and builds the board.

Workers (`bench.runs.work`) do the training, on this machine or on others (`bench.runs.executors`). This process never
imports TensorFlow, so it survives the crash of a worker and reports it. The same command resumes an interrupted run.
"""

import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from filelock import FileLock, Timeout

from ptmbench.bench import environment
from ptmbench.bench.console import Bar, duration, progress, say
from ptmbench.bench.engine import checkpoint
from ptmbench.bench.engine.checkpoint import MANIFEST, write_text
from ptmbench.bench.errors import CELLS_FAILED, ENVIRONMENT, OK, EnvironmentProblem, UsageError
from ptmbench.bench.options import WorkerOptions
from ptmbench.bench.runs import graph
from ptmbench.bench.runs.artefacts import AdaptedModel, Artefact
from ptmbench.bench.runs.catalogue import catalogue
from ptmbench.bench.runs.executors import Died, Done, Event, Executor, Ready
from ptmbench.bench.runs.job import Job
from ptmbench.bench.runs.limits import Limits
from ptmbench.bench.runs.plan import Plan
from ptmbench.bench.runs.results import FAILED, failure_of, recorded, settled
from ptmbench.bench.runs.schedule import ATTEMPTS, Schedule
from ptmbench.bench.runs.texts import reader
from ptmbench.bench.runs.trainings import TokenizerTraining
from ptmbench.bench.runs.work import CORPUS, Worker

REPEATED = ("failed", "diverged")
"""Statuses of the cells that ``--retry`` runs again."""
NO_DATA = "without_data"
"""What became of a cell that is not applicable because data is missing."""
TIMES = "times.jsonl"
"""File of the run folder with the time use of the workers, one line per command."""


def executor_of(workers: WorkerOptions, whole: Plan, job: Job, out: Path) -> Executor:
    """Returns the executor that ``workers`` selects, not yet started."""
    if workers.executor == "ray":
        from ptmbench.bench.runs.executors.ray import Ray

        return Ray(whole, job, out, workers.jobs, workers.threads, workers.ray_address)
    if workers.ray_address:
        raise UsageError("--ray-address is for --executor ray. Add --executor ray, or leave --ray-address out.")
    from ptmbench.bench.runs.executors.local import Local

    # Tiny networks gain more from two processes than from two threads.
    count = whole.workers(workers.jobs, environment.cores())
    return Local(out, count, workers.threads or max(1, environment.cores() // count))


def execute(whole: Plan, job: Job, out: Path, workers: WorkerOptions, retry: bool = False) -> int:
    """Runs the cells of ``whole`` that have no record, builds the board, and returns the exit status: `CELLS_FAILED` if
    a cell is missing, and else that of `exit_status`. With ``retry``, runs failed and diverged cells again."""
    from ptmbench.leaderboard import board

    with locked_folder(out):
        write_plan(whole, job, out)
        if retry:
            set_failures_aside(out)
        keys = {cell.key[:12] for cell in whole.cells}
        before = keys & recorded(out)
        if before:
            left = " They are not run again: --keep applies to the others." if job.keep else ""
            say(f"{len(before)} of {len(keys)} cells have their record already.{left}")
        started = time.monotonic()
        if before != keys:
            work("Cells", whole, job, out, workers)
        if not recorded(out):
            raise EnvironmentProblem("No worker could record a cell. Run `ptmbench doctor` to find the reason.")
        ended = _final_statuses(whole, out)
        counts, missing = Counter(ended.values()), len(whole.cells) - len(ended)
        if not job.keep:
            remove_unneeded(whole, out, ended)
        page = board.build([out], out / "board", catalogue(), reader([out]))
    told = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in sorted(counts.items()))
    say(
        f"{len(keys) - missing} of {len(keys)} cells recorded ({told}) in {duration(time.monotonic() - started)}. "
        f"Board: {page}"
    )
    if missing:
        say("Run the same command again to resume.")
    return CELLS_FAILED if missing else exit_status(ended.values(), job.data)


def exit_status(outcomes: Iterable[str], data: Path | str) -> int:
    """The exit status of a run whose cells had these ``outcomes``, statuses or `NO_DATA`: `CELLS_FAILED` if one failed
    or diverged, and `ENVIRONMENT`, with a message, if none was scored and the folder ``data`` lacks data."""
    found = set(outcomes)
    if found & set(REPEATED):
        return CELLS_FAILED
    if NO_DATA in found <= {NO_DATA, "not_applicable"}:
        say(f"No cell was scored, because data is missing. `ptmbench data ls {data}` shows which files tasks need.")
        return ENVIRONMENT
    return OK


@contextmanager
def locked_folder(out: Path) -> Iterator[None]:
    """Makes the folder ``out`` and locks it. Raises `EnvironmentProblem` if another run holds the lock."""
    out.mkdir(parents=True, exist_ok=True)
    try:
        lock = FileLock(out / "run.lock").acquire(timeout=0)
    except Timeout:
        raise EnvironmentProblem(
            f"Another run is writing to {out}. Wait until it ends, or give another --out."
        ) from None
    with lock:
        yield


def write_plan(whole: Plan, job: Job, out: Path) -> None:
    """Writes the plan and the job for the workers."""
    write_text(out / "plan.json", whole.to_json())
    write_text(out / "job.json", json.dumps(asdict(job), indent=1))


def work(what: str, whole: Plan, job: Job, out: Path, workers: WorkerOptions) -> None:
    """Makes the missing artefacts and writes the time use of the workers to `TIMES`. ``what`` is the title of the
    progress bar, a plural noun."""
    with progress(what, len(whole.ends), what.lower()) as bar, executor_of(workers, whole, job, out) as executor:
        drive = _Drive(whole, job, out, executor, bar, workers.cell_timeout)
        try:
            drive.run()
        finally:
            with open(out / TIMES, "a", encoding="utf-8") as file:
                file.write(json.dumps(drive.times()) + "\n")


class _Drive:
    """Gives the missing artefacts of ``whole`` to the workers of ``executor`` until all are made or no worker is
    left."""

    def __init__(
        self, whole: Plan, job: Job, out: Path, executor: Executor, bar: Bar, cell_timeout: float | None = None
    ):
        self.limits = Limits(whole, job, out, cell_timeout)
        self.killed: dict[int, str] = {}
        """Workers that were killed after a timeout, with the formatted time that their artefact had taken."""
        self.given: dict[int, float] = {}
        """The time at which each worker got its artefact."""
        self.whole, self.job, self.out, self.executor, self.bar = whole, job, out, executor, bar
        there = settled(out, whole)
        self.schedule = Schedule(whole.artefacts, there, executor.workers)
        self.ends = {one.key for one in whole.ends}
        self.bar.skip(len(self.ends & there))
        self.idle: set[int] = set()
        self.alive = set(range(executor.workers))
        self.began = time.time()
        self.clocks = {worker: _Clock() for worker in self.alive}

    def run(self) -> None:
        while self.alive and not self.schedule.over:
            for worker in sorted(self.idle):
                piece = self.schedule.take(worker)
                if piece is not None:
                    self.idle.discard(worker)
                    self.clocks[worker].turn("work")
                    self.given[worker] = time.monotonic()
                    self.executor.give(worker, piece)
            self._end_hanging()
            event = self.executor.event(timeout=1.0)
            if event is not None:
                self._on_event(event)

    def times(self) -> dict[str, object]:
        """The start (Unix time), the wall time in seconds, the number of workers, and their total seconds by state."""
        for clock in self.clocks.values():
            clock.turn("gone")
        sums: Counter[str] = sum((Counter(clock.seconds) for clock in self.clocks.values()), Counter())
        return {
            "began": self.began,
            "wall": time.time() - self.began,
            "workers": self.executor.workers,
            **{name: sums[name] for name in ("start", "work", "idle")},
        }

    def _end_hanging(self) -> None:
        """Kills the workers whose artefact has passed its time limit."""
        for worker in self.alive - self.killed.keys():
            piece, running = self.schedule.held(worker), time.monotonic() - self.given.get(worker, 0.0)
            if piece is not None and self.limits.passed(piece, running):
                self.killed[worker] = duration(running)
                self.executor.kill(worker)

    def _on_event(self, event: Event) -> None:
        match event:
            case Ready(worker):
                self._on_idle(worker)
            case Done(worker, said, full):
                piece = self.schedule.done(worker)
                self._count(piece)
                if said:
                    say(said)
                self._check_corpus(piece)
                if full:
                    self.killed.pop(worker, None)
                    self._replace(worker)
                elif worker not in self.killed:  # it finished just before it was killed, and is being replaced
                    self._on_idle(worker)
            case Died(worker, how):
                self._on_death(worker, how)

    def _replace(self, worker: int) -> None:
        if not self.schedule.over:
            self.clocks[worker].turn("start")
            self.executor.restart(worker)

    def _check_corpus(self, piece: Artefact) -> None:
        """Raises `EnvironmentProblem` if ``piece`` is a tokenizer that failed because of its corpus. Every model needs
        it, so the run ends; the next run tries again."""
        if isinstance(piece, TokenizerTraining) and (note := failure_of(self.out, piece)).exists():
            reason = json.loads(note.read_text())
            if reason["code"] == CORPUS:
                note.unlink()
                raise EnvironmentProblem(reason["text"])

    def _on_idle(self, worker: int) -> None:
        self.clocks[worker].turn("idle")
        self.idle.add(worker)

    def _on_death(self, worker: int, how: str) -> None:
        self.idle.discard(worker)
        self.clocks[worker].turn("gone")
        if worker in self.killed:
            self._on_timeout(worker, self.killed.pop(worker))
            return
        piece, given_up = self.schedule.died(worker)
        if piece is None:  # it died while starting, and would die again
            say(how)
            self.alive.discard(worker)
            return
        say(f"{how} It was running {piece.title}, which is {'not tried again' if given_up else 'tried once more'}.")
        if given_up:
            text = f"{ATTEMPTS} workers ended while running it. The last one: {how}"
            Worker(self.out, self.whole, self.job).give_up(piece, {"code": "worker-died", "text": text})
            self._count(piece)
        self._replace(worker)

    def _on_timeout(self, worker: int, time_taken: str) -> None:
        """Records the artefact of a killed worker as failed, and restarts the worker."""
        if self.schedule.held(worker) is not None:
            piece = self.schedule.give_up(worker)
            text = f"timed out after {time_taken}"
            say(f"{piece.title}: failed: {text}. --retry runs it again, --cell-timeout gives it more time.")
            Worker(self.out, self.whole, self.job).give_up(piece, {"code": "timed-out", "text": text})
            self._count(piece)
        self._replace(worker)

    def _count(self, piece: Artefact) -> None:
        self.bar.advance(int(piece.key in self.ends))


class _Clock:
    """Measures the seconds of one worker in each state."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._state, self._since = "start", time.perf_counter()

    def turn(self, state: str) -> None:
        now = time.perf_counter()
        self.seconds[self._state] = self.seconds.get(self._state, 0.0) + now - self._since
        self._state, self._since = state, now


def _final_statuses(whole: Plan, out: Path) -> dict[str, str]:
    """What became of the cells of the plan that have a record, by key."""
    files = {path.name.split(".")[-2]: path for path in (out / "records").glob("*.json")}
    found = {cell.key: files.get(cell.key[:12]) for cell in whole.cells}
    return {key: _outcome(path, say) for key, path in found.items() if path is not None}


def remove_unneeded(whole: Plan, out: Path, ended: Mapping[str, str]) -> None:
    """Removes the adapted models of ``whole`` that no cell needs any more. ``ended`` has the statuses of its cells.

    Keeps models for cells without a record, and for cells that ``--retry`` would run again. A folder is renamed before
    it is deleted, so a killed run leaves no partial model. The next run deletes the renamed folder.
    """
    needed = graph.required(whole.artefacts, [key for key, status in ended.items() if status not in REPEATED])
    home = out / "intermediate"
    for left in home.glob(".*"):
        shutil.rmtree(left, ignore_errors=True)
    for one in whole.artefacts:
        place = one.place(out)
        if isinstance(one, AdaptedModel) and one.key not in needed and place.is_dir():
            aside = place.with_name(f".{place.name}")
            os.replace(place, aside)
            shutil.rmtree(aside, ignore_errors=True)
    with suppress(OSError):  # not empty
        home.rmdir()


def _outcome(path: Path, tell: Callable[[str], None] = lambda text: None) -> str:
    """The status of a record, or `NO_DATA`. A damaged record is reported to ``tell`` and counts as failed."""
    from ptmbench.leaderboard.records import record

    try:
        found = record.read(path)
        return NO_DATA if found.reason and found.reason["code"] == "missing-data" else found.status
    except record.RecordError as error:
        tell(str(error))
        return "failed"


def set_failures_aside(out: Path) -> None:
    """Moves records of failed and diverged cells and damaged checkpoints to ``superseded/`` and deletes the notes of
    other failures, so that all of these are made again."""
    aside = out / "superseded"
    for path in (out / "records").glob("*.json"):
        if _outcome(path) in REPEATED:
            aside.mkdir(exist_ok=True)
            os.replace(path, aside / f"{path.stem}.{int(path.stat().st_mtime)}.json")
    for note in out.glob(f"*/*{FAILED}"):
        note.unlink()
    for manifest in (*out.glob(f"pretrained/*/{MANIFEST}"), *out.glob(f"intermediate/[!.]*/adapted/*/{MANIFEST}")):
        folder = manifest.parent
        try:
            found = checkpoint.read(folder)
            for name in found.files:
                found.path(name)
        except checkpoint.CheckpointError as error:
            say(f"{error} It is set aside.")
            aside.mkdir(exist_ok=True)
            os.replace(folder, aside / f"{folder.name}.{int(manifest.stat().st_mtime)}")
