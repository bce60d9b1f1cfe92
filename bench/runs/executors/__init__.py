"""Executors, one per file: they start workers as processes of this machine, or as actors of a Ray cluster.

`bench.runs.execute` uses them through ``Executor``. The choice of the executor changes neither keys nor records.
"""

from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

from ptmbench.bench.runs.artefacts import Artefact


@dataclass(frozen=True)
class Ready:
    """``worker`` has started and is idle."""

    worker: int


@dataclass(frozen=True)
class Done:
    """``worker`` has finished an artefact, and the result is in the run folder. ``said`` is a line for the user. A
    ``full`` worker has ended, because it had more than `environment.worker_memory`."""

    worker: int
    said: str
    full: bool = False


@dataclass(frozen=True)
class Died:
    """``worker`` has ended. ``how`` is a sentence for the user that says how."""

    worker: int
    how: str


Event = Ready | Done | Died


class Executor(Protocol):
    """Workers with the numbers 0 to ``workers`` - 1. ``with`` starts and stops them. An exception interrupts them."""

    workers: int

    def __enter__(self) -> "Executor": ...

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> Any: ...

    def give(self, worker: int, piece: Artefact) -> None:
        """Lets an idle worker make ``piece``. An `Event` reports the end."""

    def event(self, timeout: float) -> Event | None:
        """Waits for the next event and returns it, or None after ``timeout`` seconds."""

    def kill(self, worker: int) -> None:
        """Kills a worker that does not answer, and the processes that it started. `Died` reports its end."""

    def restart(self, worker: int) -> None:
        """Starts a worker again after its end."""
