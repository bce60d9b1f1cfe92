"""Workers as processes of this machine, which write to the run folder directly."""

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
"""Seconds that a worker has to save its training state when the run stops."""


class Local:
    """Runs workers as processes of ``python -m ptmbench.bench.runs.work``.

    Keys of artefacts go to stdin, and a JSON line per event comes from stdout. Lines of stderr are shown to the user
    and written to ``logs/``.
    """

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
            pass  # the worker has just died, and `Died` follows

    def event(self, timeout: float) -> Event | None:
        try:
            return self._events.get(timeout=timeout)
        except queue.Empty:
            return None

    def kill(self, worker: int) -> None:
        with contextlib.suppress(ProcessLookupError):  # the worker has just ended
            os.killpg(self._processes[worker].pid, signal.SIGKILL)  # each worker leads its own session

    def restart(self, worker: int) -> None:
        limits = self.threads, environment.worker_memory(self.workers)
        process = subprocess.Popen(
            [sys.executable, "-m", "ptmbench.bench.runs.work", str(self.out.resolve()), *map(str, limits)],
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
        """Turns the lines of a worker's stdout into events, and its end into `Died` unless it is full."""
        for line in process.stdout:
            with contextlib.suppress(ValueError):  # an incomplete line: the worker died while it wrote
                told = json.loads(line)
                if told["full"]:
                    process.wait()
                    listener.join(timeout=5)
                    self._events.put(Done(worker, told["said"], full=True))
                    return
                self._events.put(Ready(worker) if told["said"] is None else Done(worker, told["said"]))
        code = process.wait()
        listener.join(timeout=5)
        how = f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
        self._events.put(Died(worker, f"Worker {worker} {how}; {self._log(worker)} has its output."))

    def _listen(self, worker: int, process: subprocess.Popen) -> None:
        """Shows the lines of a worker's stderr to the user and appends them to its log.

        From the first traceback on, lines go to the log only, because `Died` reports the end of the worker. Errors of
        the disk are ignored: the worker would block if nothing read its stderr.
        """
        prefix, quiet = f"[{worker}] " if self.workers > 1 else "", False
        with contextlib.suppress(OSError):
            self._log(worker).touch()  # `Died` names the log, so it exists even if it is empty
        for line in process.stderr:
            with contextlib.suppress(OSError), open(self._log(worker), "a", encoding="utf-8") as log:
                log.write(line)
            quiet = quiet or line.startswith("Traceback ")
            if not quiet:
                say(prefix + line.rstrip())

    def _log(self, worker: int) -> Path:
        return self._logs / f"worker-{worker}.log"
