"""Measures what a stored adapted model costs when it answers: latency at several batch sizes, and memory.

    python -m ptmbench.bench.runs.inference < JSON

`bench.runs.cell` calls `of_cell` after a cell is scored, if the run asks for it. A fresh process with one thread on one
core loads the stored model and answers the first `EXAMPLES` examples of the reported split. So nothing that trained
before it counts, and all models of a task answer the same texts. Measurements on one machine take turns.

The figures depend on the machine and on its other work. They are part of no key, and the gate does not compare them.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from ptmbench.bench import environment
from ptmbench.bench.console import say
from ptmbench.bench.runs import plugins

if TYPE_CHECKING:
    from ptmbench.bench.runs.answers import Context
    from ptmbench.bench.runs.artefacts import Cell

BATCHES = (1, 8, 32)
EXAMPLES = 32
"""Texts of a round; a multiple of the batch sizes."""
ROUNDS = (5, 25)
"""The fewest and the most rounds of a batch size."""
SECONDS = 4.0
"""No round begins after so many seconds of a batch size, except for the fewest."""
_PATIENCE = 1800.0
"""Seconds after which a measurement is given up."""


def of_cell(cell: "Cell", context: "Context", predictor: Any) -> dict[str, Any] | None:
    """The field "inference" of a record's cost, in the format of `measured`, for the ``predictor`` of ``cell``.

    None for a model that nothing was trained for, which has no weights of its own. If the measurement fails, the field
    has the "reason" alone: a score without a latency is better than none.
    """
    from ptmbench.bench.adapt.predictor import Trained

    if not isinstance(predictor, Trained):
        return None
    with tempfile.TemporaryDirectory(prefix="ptmbench-") as temporary:
        folder = context.predictor.folder if context.predictor else Path(temporary)
        if context.predictor is None:
            predictor.save(folder, {"size": cell.row.size, "cell": cell.key, "limit": cell.limit, "curve": []})
        asked = {"checkpoint": str(folder.resolve()), "data": str(context.data.resolve()), "method": cell.method}
        asked |= {"settings": dict(cell.settings), "plugins": plugins.used()}
        with FileLock(environment.cached("inference") / "lock"):  # a second measurement would disturb the first
            return _in_new_process(asked)


def measured(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Loads the checkpoint that ``asked`` names, and measures it in this process, which has one thread.

    ``latency``    by batch size: the "median", lower and upper quartile ("low", "high") of the seconds per batch over
                   "rounds". A round passes all texts through the network once, in the order of their file, and gives
                   its mean; so the spread comes from the machine, not from the texts. Cutting texts into tokens is not
                   counted. "processor" is the median of the processor time, in which the waits for other work are not
    ``examples``   texts of a round
    ``peak_memory_bytes``, ``memory_before_bytes``   the most resident memory of the process, and what it held before it
                   loaded the model
    ``cpu_share``  processor time by wall time in the rounds: below 1, other work had the core too
    ``load``, ``processors``, ``pinned``, ``threads``, ``device``   the machine: its load average in the last minute,
                   and the core that the process was pinned to; None where the system does not say
    """
    import numpy as np

    from ptmbench.bench.adapt import predictor as predictors
    from ptmbench.bench.adapt import settings as adaptation_settings
    from ptmbench.bench.adapt.heads import stack
    from ptmbench.bench.engine import checkpoint

    found = checkpoint.read(Path(asked["checkpoint"]))
    before = resident_bytes()
    environment.reset_peak_memory()
    predictor = predictors.load(found, adaptation_settings.read(asked["method"], asked["settings"]))
    examples = predictor.task.examples(Path(asked["data"]), predictor.task.report)[:EXAMPLES]
    rows = (list(predictor.rows(examples)) * EXAMPLES)[:EXAMPLES]
    network, latency, wall, busy = predictor.network, {}, 0.0, 0.0
    for size in BATCHES:
        batches = [stack(rows[begin : begin + size]) for begin in range(0, EXAMPLES, size)]
        for batch in batches:  # traced and optimised, with memory for each of the lengths
            network.answered(batch)
        rounds: list[tuple[float, float]] = []
        until = time.perf_counter() + SECONDS
        while len(rounds) < ROUNDS[0] or (len(rounds) < ROUNDS[1] and time.perf_counter() < until):
            since, worked = time.perf_counter(), time.process_time()
            for batch in batches:
                network.answered(batch)
            rounds.append((time.perf_counter() - since, time.process_time() - worked))
        each = np.array(rounds) / len(batches)  # [rounds, 2]
        low, median, high = (float(one) for one in np.quantile(each[:, 0], (0.25, 0.5, 0.75)))
        latency[str(size)] = {"median": median, "low": low, "high": high, "rounds": len(rounds)}
        latency[str(size)]["processor"] = float(np.median(each[:, 1]))
        wall, busy = wall + float(each[:, 0].sum()) * len(batches), busy + float(each[:, 1].sum()) * len(batches)
    return {
        "latency": latency,
        "examples": EXAMPLES,
        "peak_memory_bytes": environment.peak_memory_bytes(),
        "memory_before_bytes": before,
        "cpu_share": round(busy / wall, 4),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "processors": os.cpu_count(),
        "threads": environment.threads(),
        "device": environment.processor(),
    }


def pin() -> int | None:
    """Pins this process to the core that was idle for most of the last tenth of a second. Returns its number; None
    where the system does not pin processes."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    begun = _idle_ticks()
    time.sleep(0.1)
    idle = {core: ticks - begun.get(core, 0) for core, ticks in _idle_ticks().items()}
    chosen = max(sorted(os.sched_getaffinity(0)), key=lambda core: idle.get(core, 0))
    os.sched_setaffinity(0, {chosen})
    return chosen


def resident_bytes() -> int | None:
    """Resident memory of this process now; None where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def _idle_ticks() -> dict[int, int]:
    """Ticks that each core was idle since the machine started; {} where the system does not say."""
    try:
        lines = Path("/proc/stat").read_text().splitlines()
    except OSError:
        return {}
    found = (line.split() for line in lines if line.startswith("cpu") and line[3:4].isdigit())
    return {int(name[3:]): int(ticks[3]) for name, *ticks in found}


def _in_new_process(asked: Mapping[str, Any]) -> dict[str, Any]:
    command = [sys.executable, "-m", "ptmbench.bench.runs.inference"]
    hidden = os.environ | {"CUDA_VISIBLE_DEVICES": "-1"}  # the figures are of a processor
    try:
        done = subprocess.run(
            command, input=json.dumps(asked), capture_output=True, text=True, timeout=_PATIENCE, env=hidden, check=False
        )
        if done.returncode == 0:
            return json.loads(done.stdout.splitlines()[-1])
        reason = next(reversed(done.stderr.strip().splitlines()), f"exit status {done.returncode}")
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError) as error:
        reason = f"{type(error).__name__}: {error}"
    say(f"Latency was not measured: {reason[:500]}")
    return {"reason": reason[:500]}


def main(lines: Sequence[str]) -> None:
    """Reads what is asked as JSON from ``lines``, measures it, and prints the result as the last line."""
    asked = json.loads("".join(lines))
    environment.prepare(1)
    core = pin()
    for folder in asked["plugins"]:
        plugins.use(Path(folder))
    print(json.dumps(measured(asked) | {"pinned": core}))


if __name__ == "__main__":
    main(list(sys.stdin))
