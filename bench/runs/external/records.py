"""Names and keys of records of the external division, and the check for a second record of a seed.

The harness scores an external system on the task's gold labels. The record has the source of the system
(`System.source`) and what the user declares about it. The hash of the source is part of the record's key, but not of
its recipe, so the gate compares a changed system with its predecessor.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ptmbench import models
from ptmbench.bench import baselines
from ptmbench.bench.engine.checkpoint import digest
from ptmbench.bench.errors import UsageError
from ptmbench.bench.runs.answers import Context, Outcome
from ptmbench.bench.runs.artefacts import Cell, Row
from ptmbench.bench.runs.cell import record_of
from ptmbench.leaderboard.records import record as records
from ptmbench.leaderboard.records.record import Record
from ptmbench.tasks.task import Task

LONGEST = 60
"""Largest length of a name, in characters."""
_METHODS = {False: "external", True: "fixed"}
"""The adaptation in records, by `System.fixed`."""


@dataclass(frozen=True, kw_only=True)
class System:
    """A system that was made elsewhere. Raises `UsageError` for a name that is not allowed."""

    name: str
    source: Mapping[str, str]
    """Its origin: "made", "file" and "sha256"."""
    fixed: bool = False
    """Whether the system is not trained again for other seeds."""
    declared: Mapping[str, Any] = field(default_factory=dict)
    """"parameters", "flops" and "note", as far as the user gives them."""

    def __post_init__(self) -> None:
        check_name(self.name)

    def cell(self, task: Task, data_sha256: str, seed: int, limit: int = 0) -> Cell:
        """The cell of the system on ``task``."""
        return Cell(
            row=Row(name=self.name, kind="external", division="external"),
            task=task.name,
            task_version=task.version,
            form=task.form,
            data_sha256=data_sha256,
            adaptation=_METHODS[self.fixed],
            settings={},
            seed=seed,
            tokenizer="",
            limit=limit,
        )

    def key(self, cell: Cell) -> str:
        """Returns the key of the record of ``cell``, which changes with the source."""
        return digest({"external": cell.key, "source": dict(self.source)})

    def record(
        self,
        cell: Cell,
        context: Context,
        task: Task,
        outcome: Outcome,
        status: str = "ok",
        reason: Mapping[str, str] | None = None,
        device: str | None = None,
    ) -> Record:
        """Returns the record of ``cell`` without writing it."""
        made = record_of(cell, context, task, outcome, status, reason, device)
        about = dict(self.source) | ({"declared": dict(self.declared)} if self.declared else {})
        return replace(made, key=self.key(cell), row={**made.row, "external": about})


def score_line(made: Record) -> str:
    """The score of a record in a line: "our-bert sst2 seed 0: 91.28"."""
    return f"{made.row['name']} {made.task['name']} seed {made.seed}: {made.headline['value']:.2f}"


def check_name(name: str) -> None:
    """Raises `UsageError` unless ``name`` is short, printable, and not the name of a model or baseline of ptmbench."""
    if not name.strip() or len(name) > LONGEST or not name.isprintable() or name != name.strip():
        raise UsageError(
            f"The name {name[:LONGEST]!r} cannot be used on the board. Give 1 to {LONGEST} printable characters "
            "without blanks at the ends."
        )
    known = {_plain(one): one for one in (*models.names(), *baselines.names())}
    if own := known.get(_plain(name).removeprefix("random")) or known.get(_plain(name)):
        raise UsageError(
            f"'{name}' would be taken for {own}, a model of ptmbench. Give the external system another name, such as "
            f"'our-{own}'."
        )


def same_seed(out: Path, cell: Cell) -> Record | None:
    """Returns the record in the run folder ``out`` with the system, task, data and seed of ``cell``, or None. Raises
    `RecordError` if a record with this name is damaged."""
    name = (
        f"{records.slug(cell.task)}.{records.slug(cell.row.name)}.{records.slug(cell.adaptation)}.s{cell.seed}.*.json"
    )
    found = map(records.read, sorted((Path(out) / records.FOLDER).glob(name)))
    wanted = _identity(cell.row.name, cell.task, cell.task_version, cell.data_sha256, cell.seed)
    return next((one for one in found if _identity_of(one) == wanted), None)


def _identity_of(record: Record) -> tuple:
    if record.row["division"] != "external":
        return ()
    task = record.task
    return _identity(record.row["name"], task["name"], task["version"], task["data_sha256"], record.seed)


def _identity(*parts: Any) -> tuple:
    return parts


def _plain(name: str) -> str:
    """Returns ``name`` in lower case, with letters and digits only."""
    return re.sub(r"[^a-z0-9]", "", name.casefold())


def listed(values: Sequence[str]) -> str:
    """Joins the first ten ``values`` for an error message."""
    return ", ".join(values[:10]) + (", ..." if len(values) > 10 else "")
