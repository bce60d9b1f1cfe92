"""Workers as processes of this machine, which write into the run folder themselves."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType

from ptmbench.bench import environment
from ptmbench.bench.console import say
from ptmbench.bench.runs.artefacts import Artefact
from ptmbench.bench.runs.executors import Died, Done, Event, Ready

_PATIENCE = 30.0
"""Seconds that a worker has to save what it is at, when everything is to stop."""


class Local:
    """Several processes of ``python -m ptmbench.bench.runs.work``: keys of pieces go to stdin, a JSON line per event
    comes from stdout, and stderr is passed on and kept in ``logs/``."""

    def __init__(self, out: Path, workers: int, threads: int):
        self.out, self.workers, self.threads = out, workers, threads
        self._logs = out / "logs"
        self._events: queue.Queue[Event] = queue.Queue()
        self._processes: dict[int, subprocess.Popen] = {}

    def __enter__(self) -> "Local":
        self._logs.mkdir(exist_ok=True)
        for worker in range(self.workers):
            self.restart(worker)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for process in self._processes.values():
            if error is None:
                process.stdin.close()
            else:
                process.terminate()
        for process in self._processes.values():
            try:
                process.wait(timeout=_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def give(self, worker: int, piece: Artefact) -> None:
        try:
            self._processes[worker].stdin.write(piece.key + "\n")
            self._processes[worker].stdin.flush()
        except BrokenPipeError:
            pass  # it has just died: the event is on its way

    def event(self, timeout: float) -> Event | None:
        try:
            return self._events.get(timeout=timeout)
        except queue.Empty:
            return None

    def kill(self, worker: int) -> None:
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            os.killpg(self._processes[worker].pid, signal.SIGKILL)  # each leads a session of its own

    def restart(self, worker: int) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", "ptmbench.bench.runs.work", str(self.out.resolve()), str(self.threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=environment.ROOT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._processes[worker] = process
        listener = threading.Thread(target=self._listen, args=(worker, process), daemon=True)
        listener.start()
        threading.Thread(target=self._follow, args=(worker, process, listener), daemon=True).start()

    def _follow(self, worker: int, process: subprocess.Popen, listener: threading.Thread) -> None:
        """Turn the lines of a worker's stdout into events, and its end into the last one."""
        for line in process.stdout:
            with contextlib.suppress(ValueError):  # half a line: it died over its answer
                said = json.loads(line)["said"]
                self._events.put(Ready(worker) if said is None else Done(worker, said))
        code = process.wait()
        listener.join(timeout=5)
        how = f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
        self._events.put(Died(worker, f"Worker {worker} {how}; {self._log(worker)} has its output."))

    def _listen(self, worker: int, process: subprocess.Popen) -> None:
        """Pass on what a worker says, and keep it. Tracebacks stay in the log: people are told by the exit. On a full
        disk it is read all the same, or the worker would wait for ever."""
        prefix, quiet = f"[{worker}] " if self.workers > 1 else "", False
        with contextlib.suppress(OSError):
            self._log(worker).touch()  # there to be looked into, also when nothing is said
        for line in process.stderr:
            with contextlib.suppress(OSError), open(self._log(worker), "a", encoding="utf-8") as log:
                log.write(line)
            quiet = quiet or line.startswith("Traceback ")
            if not quiet:
                say(prefix + line.rstrip())

    def _log(self, worker: int) -> Path:
        return self._logs / f"worker-{worker}.log"
