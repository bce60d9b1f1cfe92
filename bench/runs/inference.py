"""Measures the cost of predicting with a stored adapted model: latency at several batch sizes, and memory.

    python -m ptmbench.bench.runs.inference < JSON

`bench.runs.cell` calls `of_cell` after a cell is scored, if the run asks for it. A new process with one thread on one
core loads the stored model and predicts the first `EXAMPLES` examples of the reported split. So earlier training in the
worker has no effect, and all models of a task predict the same texts. Measurements on one machine take turns. With 8
cores or more, several run at a time, each on its own cores.

The results depend on the machine and on its other work. They are not part of any key, and the gate does not compare
them.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from ptmbench.bench import environment
from ptmbench.bench.console import say
from ptmbench.bench.runs import plugins

if TYPE_CHECKING:
    from ptmbench.bench.runs.answers import Context
    from ptmbench.bench.runs.artefacts import Cell

BATCHES = (1, 8, 32)
EXAMPLES = 32
"""Number of texts in a round, a multiple of the batch sizes."""
ROUNDS = (5, 25)
"""Minimum and maximum number of rounds of a batch size."""
SECONDS = 4.0
"""Seconds after which no round of a batch size begins, once the minimum number of rounds is done."""
CORES = 4
"""Minimum number of cores for each of several measurements at a time."""
_PATIENCE = 1800.0
"""Timeout of a measurement in seconds."""


def of_cell(cell: "Cell", context: "Context", predictor: Any) -> dict[str, Any] | None:
    """Returns the field "inference" of a record's cost, in the format of `measured`, for the ``predictor`` of ``cell``.

    Returns None if the adaptation trained nothing, because there are no weights to store. If the measurement fails, the
    field has only the "reason", because a score without a latency is better than no score.
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
        with _turn() as cores:
            return _in_new_process({**asked, "cores": cores})


def measured(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Loads the checkpoint that ``asked`` names and measures it in this process.

    ``latency``    by batch size: the "median", lower and upper quartile ("low", "high") of the seconds per batch over
                   "rounds". A round passes all texts through the network once, in the order of their file, and yields
                   the mean of its batches; so the spread comes from the machine, not from the texts. Tokenization is
                   not counted. "processor" is the median of the processor time, which excludes waits for other work
    ``examples``   number of texts in a round
    ``peak_memory_bytes``, ``memory_before_bytes``   the peak of the resident memory of the process, and its resident
                   memory before it loaded the model
    ``cpu_share``  processor time divided by wall time in the rounds; below 1, other work used the core too
    ``load``, ``processors``, ``threads``, ``device``   the machine, with its load average in the last minute (None if
                   the system does not report it); `main` adds ``pinned``, the core that the process is pinned to
    """
    import numpy as np

    from ptmbench.bench.adapt import predictor as predictors
    from ptmbench.bench.adapt import settings as adaptation_settings
    from ptmbench.bench.adapt.heads import stack
    from ptmbench.bench.engine import checkpoint

    found = checkpoint.read(Path(asked["checkpoint"]))
    before = environment.resident_bytes()
    environment.reset_peak_memory()
    predictor = predictors.load(found, adaptation_settings.read(asked["method"], asked["settings"]))
    examples = predictor.task.examples(Path(asked["data"]), predictor.task.report)[:EXAMPLES]
    rows = (list(predictor.rows(examples)) * EXAMPLES)[:EXAMPLES]
    network, latency, wall, busy = predictor.network, {}, 0.0, 0.0
    for size in BATCHES:
        batches = [stack(rows[begin : begin + size]) for begin in range(0, EXAMPLES, size)]
        for batch in batches:  # traces, optimises, and allocates memory for each length
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


def groups() -> list[list[int]]:
    """The cores that this process may use, in groups of at least `CORES`, or in a single group. A measurement has a
    group to itself, because a second one on the same cores would disturb it."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    number = max(1, len(cores) // CORES)
    return [cores[first::number] for first in range(number)]


@contextlib.contextmanager
def _turn() -> Iterator[list[int]]:
    """Waits for a group of cores on which no measurement runs, and reserves it."""
    folder = environment.cache_subfolder("inference")
    while True:
        for number, cores in enumerate(groups()):
            with contextlib.suppress(Timeout), FileLock(folder / f"lock-{number}").acquire(timeout=0):
                yield cores
                return
        time.sleep(0.05)


def pin(cores: Sequence[int]) -> int | None:
    """Pins this process to the one of ``cores`` with the most idle time during a tenth of a second. Returns the number
    of the core, or None if the system cannot pin processes."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    begun = _idle_ticks()
    time.sleep(0.1)
    idle = {core: ticks - begun.get(core, 0) for core, ticks in _idle_ticks().items()}
    chosen = max(cores, key=lambda core: idle.get(core, 0))
    os.sched_setaffinity(0, {chosen})
    return chosen


def _idle_ticks() -> dict[int, int]:
    """Idle ticks of each core since the machine started; {} if the system does not report them."""
    try:
        lines = Path("/proc/stat").read_text().splitlines()
    except OSError:
        return {}
    found = (line.split() for line in lines if line.startswith("cpu") and line[3:4].isdigit())
    return {int(name[3:]): int(ticks[3]) for name, *ticks in found}


def _in_new_process(asked: Mapping[str, Any]) -> dict[str, Any]:
    command = [sys.executable, "-m", "ptmbench.bench.runs.inference"]
    hidden = os.environ | {"CUDA_VISIBLE_DEVICES": "-1"}  # measures the processor, not a GPU
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
    """Reads the request as JSON from ``lines``, measures the model, and prints the result as the last line."""
    asked = json.loads("".join(lines))
    environment.prepare(1)
    core = pin(asked["cores"])
    for folder in asked["plugins"]:
        plugins.use(Path(folder))
    print(json.dumps(measured(asked) | {"pinned": core}))


if __name__ == "__main__":
    main(list(sys.stdin))
