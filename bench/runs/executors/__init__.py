"""Where workers live, one place per file: processes of this machine, or a Ray cluster.

Every place offers the same ``Executor``; which one runs a plan changes nothing in its keys and records.
"""

from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

from ptmbench.bench.runs.artefacts import Artefact


@dataclass(frozen=True)
class Ready:
    """``worker`` has started and has nothing to do."""

    worker: int


@dataclass(frozen=True)
class Done:
    """``worker`` has ended its piece, and what it made lies in the run folder. ``said`` is a line for people."""

    worker: int
    said: str


@dataclass(frozen=True)
class Died:
    """``worker`` is gone; ``how`` says so in a sentence."""

    worker: int
    how: str


Event = Ready | Done | Died


class Executor(Protocol):
    """Workers 0 ... ``workers`` - 1. ``with`` starts them; its end stops them, at once when by an exception."""

    workers: int

    def __enter__(self) -> "Executor": ...

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> Any: ...

    def give(self, worker: int, piece: Artefact) -> None:
        """Let an idle worker do ``piece``; an `Event` tells of its end."""

    def event(self, timeout: float) -> Event | None:
        """The next thing that happens, None after ``timeout`` seconds without one."""

    def kill(self, worker: int) -> None:
        """End a worker that does not answer, with all that it started, at once; `Died` tells when it is gone."""

    def restart(self, worker: int) -> None:
        """Start a worker that died anew."""
