"""Time limits of cells and adapted models, which `bench.runs.execute` checks once per second."""

import math
import re
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from ptmbench.bench.runs.artefacts import AdaptationTrial, AdaptedModel, Artefact, Cell
from ptmbench.bench.runs.job import Job
from ptmbench.bench.runs.plan import Plan
from ptmbench.bench.runs.results import unfinished_of

FLOOR = 3600.0
"""Minimum of the default limits, in seconds."""
UNKNOWN = 24 * 3600.0
"""Limit of a cell without an estimate, such as a baseline, in seconds."""
FACTOR = 50.0
"""Limit of a cell as a multiple of its estimate. It is large, because a poor estimate must not stop a cell."""
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds_of(text: str) -> float:
    """Converts "90", "90s", "30m", "2h" and "1d" to seconds; 0 means no limit. Raises `ValueError` for other texts."""
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)([smhd]?)", text.strip())
    if found is None:
        raise ValueError(f"'{text:.30}' is not a time such as 90, 90s, 30m, 2h or 1d; 0 is no limit.")
    return float(found[1]) * _UNITS[found[2]]


class Limits:
    """The time limits of the cells and the adapted models of the plan ``whole``, run in ``out``.

    ``asked`` is the limit of every cell in seconds, 0 for none. If it is None, the limit of a cell is the larger of
    `FLOOR` and `FACTOR` times its estimate, counted from its start or its last training state. Training states on
    another machine are not seen. A cell without an estimate has `UNKNOWN` seconds. An adapted model and an adaptation
    trial have the limit of their cell. Tokenizers, pre-trainings and their trials have no limit.

    An estimate reads the task's data. Therefore only a cell that takes longer than `FLOOR` is estimated, in a thread,
    because reading may hang.
    """

    def __init__(self, whole: Plan, job: Job, out: Path, asked: float | None = None):
        self.whole, self.job, self.out, self.asked = whole, job, out, asked
        self._seen: dict[str, Any] = {}
        self._limits: dict[str, float] = {}
        self._estimating: threading.Thread | None = None

    def passed(self, piece: Artefact, running: float) -> bool:
        """Whether ``piece`` has passed its limit after ``running`` seconds."""
        match piece:
            case Cell():
                cell, unfinished = piece, unfinished_of(self.out, piece)
            case AdaptedModel():
                cell, unfinished = piece.cell, unfinished_of(piece.place(self.out), piece.cell)
            case AdaptationTrial():
                cell, unfinished = piece.cell, unfinished_of(piece.home(self.out), piece.cell)
            case _:
                return False
        if self.asked is not None:
            return 0 < self.asked < running
        if running <= FLOOR or time.time() - self._saved(unfinished) <= FLOOR:
            return False
        limit = self._limit(cell)
        return running > limit and time.time() - self._saved(unfinished) > limit

    def _saved(self, unfinished: Path) -> float:
        """The time of the last training state in the folder ``unfinished`` (Unix time); 0 if there is none."""
        newest = 0.0
        for state in unfinished.glob("*/step-*"):
            with suppress(OSError):  # just deleted for a newer one
                newest = max(newest, state.stat().st_mtime)
        return newest

    def _limit(self, cell: Cell) -> float:
        """The limit of ``cell`` in seconds; `UNKNOWN` until it is estimated."""
        free = self._estimating is None or not self._estimating.is_alive()
        if cell.key not in self._limits and cell.row.kind != "baseline" and free:
            self._estimating = threading.Thread(target=self._estimate, args=(cell,), daemon=True)
            self._estimating.start()
            self._estimating.join(timeout=5.0)  # usually enough
        return self._limits.get(cell.key, UNKNOWN)

    def _estimate(self, cell: Cell) -> None:
        """Sets the limit of ``cell`` from its estimate."""
        from ptmbench.bench.runs import estimate

        try:
            given = estimate.given_shapes(cell, self.whole, self.out)
            teacher = estimate.teacher_of(cell, self.whole, self.out)
            seconds = estimate.seconds_of(cell, Path(self.job.data), self._seen, *given, teacher)
        except Exception:  # a failed estimate must not stop a cell
            seconds = math.inf
        self._limits[cell.key] = max(FLOOR, FACTOR * seconds) if math.isfinite(seconds) else UNKNOWN
