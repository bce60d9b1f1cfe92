"""The place of a checkpoint that a pre-training will write: who may work there, and where its training states and the
note of a divergence are."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ptmbench.bench.engine import checkpoint
from ptmbench.bench.errors import Diverged, EnvironmentProblem, UsageError


def check_unfinished(out: Path) -> None:
    """`UsageError` where ``out`` is taken."""
    if (out / checkpoint.MANIFEST).exists():
        raise UsageError(f"{out} holds a finished checkpoint already. Give another --out, or delete it.")
    checkpoint.check_free(out)


@contextlib.contextmanager
def alone(out: Path) -> Iterator[None]:
    """Keeps other pre-trainings off ``out``: each of two would clear away the training states of the other.

    `EnvironmentProblem` where one is at work. Where the file system has no locks, nothing is kept off.
    """
    path = states_of(out) / "lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        with contextlib.suppress(NotImplementedError):
            lock.acquire(timeout=0)
    except Timeout:
        raise EnvironmentProblem(
            f"Another pre-training is writing to {out}. Wait until it ends, or give another --out."
        ) from None
    try:
        check_unfinished(out)  # by another one, while this one started
        yield
    finally:
        path.unlink(missing_ok=True)
        lock.release()
        with contextlib.suppress(OSError):  # there are states, or nothing at all
            path.parent.rmdir()


def states_of(out: Path) -> Path:
    """Where the training states of the checkpoint-to-be ``out`` are."""
    return out.with_name(out.name + ".training")


def record_divergence(error: Diverged, out: Path, run: Mapping[str, Any]) -> None:
    """Writes a note next to the output, because a training that diverged is a result too."""
    record = {
        "status": "diverged",
        **run,
        "seed": error.seed,
        "step": error.step,
        "reason": str(error),
        "last_good": error.last_good and str(error.last_good),
    }
    checkpoint.write_text(divergence_of(out), json.dumps(record, indent=1) + "\n")


def divergence_of(out: Path) -> Path:
    """Where the note is."""
    return out.with_name(out.name + ".diverged.json")
