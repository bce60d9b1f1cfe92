"""Files next to the checkpoint that a pre-training will write: its lock, its training states, and the note about a
divergence."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ptmbench.bench.engine import checkpoint
from ptmbench.bench.errors import Diverged, EnvironmentProblem, UsageError


def check_unfinished(out: Path) -> None:
    """Raises `UsageError` if ``out`` is a finished checkpoint, and `CheckpointError` if it has other files."""
    if (out / checkpoint.MANIFEST).exists():
        raise UsageError(f"{out} holds a finished checkpoint already. Give another --out, or delete it.")
    checkpoint.check_free(out)


@contextlib.contextmanager
def locked(out: Path) -> Iterator[None]:
    """Locks ``out`` against other pre-trainings, because two of them would remove each other's training states.

    Raises `EnvironmentProblem` if another pre-training has the lock. A file system without locks is not protected.
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
        check_unfinished(out)  # another pre-training may have finished it meanwhile
        yield
    finally:
        path.unlink(missing_ok=True)
        lock.release()
        with contextlib.suppress(OSError):  # the folder has states, or does not exist
            path.parent.rmdir()


def states_of(out: Path) -> Path:
    """The folder of the training states for the checkpoint ``out``."""
    return out.with_name(out.name + ".training")


def record_divergence(error: Diverged, out: Path, run: Mapping[str, Any]) -> None:
    """Writes a note next to ``out``, because a training that diverged is a result too."""
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
    """The path of the note about a divergence."""
    return out.with_name(out.name + ".diverged.json")
