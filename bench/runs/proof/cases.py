"""Runs the cases of a proof, each in a process with a time limit."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from tempfile import TemporaryFile
from typing import Any

from ptmbench import models
from ptmbench.bench.errors import EnvironmentProblem, UsageError
from ptmbench.bench.runs.proof.case import CHECKS, LARGE, Case

ACCELERATED = {"sizes": ("base", LARGE), "batch": 64, "length": 128, "vocabulary": 8000}
PLAIN = {"sizes": ("tiny",), "batch": 4, "length": 32, "vocabulary": 1000}
"""Defaults on accelerators and on a processor."""
DEVICES = 2
"""Number of logical devices of a processor."""


def devices(limit: float) -> dict[str, Any]:
    """Returns the findings of `case.device`. Raises `EnvironmentProblem` if it fails or exceeds ``limit`` seconds."""
    found = run("{}", limit)
    if "failed" in found:
        raise EnvironmentProblem(f"The devices cannot be used: {found['failed']} `ptmbench doctor` examines the rest.")
    return found


def planned(
    kind: str, names: Sequence[str] | None, sizes: Sequence[str] | None, checks: Sequence[str] | None, **changes: Any
) -> list[Case]:
    """Returns the cases for devices of ``kind``. None stands for all models, all checks, and the default sizes, batch
    and length of this kind. Raises `UsageError` for unknown names, and for a batch that the devices cannot share."""
    usual = PLAIN if kind == "CPU" else ACCELERATED
    given = {name: value for name, value in changes.items() if value is not None}
    names, sizes = names or models.names(), sizes or usual["sizes"]
    for name in names:
        sizes_of = (*models.load(name).SIZES, LARGE)
        if wrong := next((size for size in sizes if size not in sizes_of), None):
            raise UsageError(f"{name} has no size '{wrong}' here. Choices: {', '.join(sizes_of)}.")
    if wrong := next((check for check in checks or () if check not in CHECKS), None):
        raise UsageError(f"There is no check '{wrong}'. Choices: {', '.join(CHECKS)}.")
    batch, length = (given.get(name, usual[name]) for name in ("batch", "length"))
    if kind == "CPU" and batch % DEVICES:
        raise UsageError(f"A batch of {batch} cannot be shared by {DEVICES} logical devices. Give an even --batch.")
    chosen = tuple(check for check in CHECKS if check in (checks or CHECKS))
    about = {"batch": batch, "length": length, "vocabulary": usual["vocabulary"], "devices": DEVICES}
    return [Case(model=name, size=size, checks=chosen, **about) for size in sizes for name in names]


def rows(cases: Sequence[Case], limit: float, tell: Callable[[str], object]) -> Iterator[dict[str, Any]]:
    """Yields a row for each of ``cases``: its fields, the findings within ``limit`` seconds, "seconds", and "failed" if
    a check failed or did not finish."""
    for number, case in enumerate(cases, 1):
        begun = time.monotonic()
        found = run(json.dumps(asdict(case)), limit)
        row = {**asdict(case), **found, "seconds": round(time.monotonic() - begun, 1)}
        tell(f"{number} of {len(cases)}: {case.model} {case.size}, {row['seconds']:.0f} s, {row.get('failed', 'done')}")
        yield row


def run(argument: str, limit: float) -> dict[str, Any]:
    """Returns the findings of the process of ``argument`` within ``limit`` seconds, with "failed" if it fails."""
    command = [sys.executable, "-m", "ptmbench.bench.runs.proof.case", argument]
    found, last, end = {}, "import", time.monotonic() + limit
    with TemporaryFile() as said:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True, start_new_session=True)
        lines: queue.Queue[str] = queue.Queue()
        reader = threading.Thread(target=_read, args=(process, lines), daemon=True)
        reader.start()
        try:
            while line := lines.get(timeout=max(0.0, end - time.monotonic())):
                told = json.loads(line)
                last = told.get("begun", last)
                found |= told.get("found", {})
                if "failed" in told:
                    found["failed"] = f"{last}: {told['failed']}"
            if process.wait() and "failed" not in found:
                said.seek(0)
                lines_said = said.read().decode(errors="replace").strip().splitlines()
                why = f" {lines_said[-1][:200]}" if lines_said else ""
                found["failed"] = f"{last}: the process ended with status {process.returncode}.{why}"
        except queue.Empty:
            found["failed"] = f"{last}: not finished after {limit:.0f} s"
        finally:
            _end(process)
            reader.join()
            process.stdout.close()
    return found


def _read(process: subprocess.Popen, lines: "queue.Queue[str]") -> None:
    for line in process.stdout:
        lines.put(line)
    lines.put("")


def _end(process: subprocess.Popen) -> None:
    """Kills ``process`` and the processes that it started, if it still runs."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
