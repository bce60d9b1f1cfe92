"""How the workers of a run spent their time, from its records, its checkpoints and `bench.runs.execute.TIMES`.

    python -m ptmbench.bench.perf.suite RUN-FOLDER

The time of a worker is wall time, so two parallel workers spend two seconds per second. Training steps and prediction
steps are useful time. Everything else is overhead, which should stay below 15 % in a suite.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from ptmbench.bench.commands.options import Existing
from ptmbench.bench.engine.checkpoint import CheckpointError, read
from ptmbench.bench.engine.cost import OTHER
from ptmbench.bench.errors import OK, EnvironmentProblem
from ptmbench.bench.perf.table import Table
from ptmbench.bench.runs.execute import TIMES
from ptmbench.leaderboard.records.store import load

USEFUL = ("train", "select", "evaluate")
WHAT = {
    "import": "import TensorFlow",
    "load": "load data",
    "encode": "encode examples",
    "build": "build networks",
    "trace": "trace graphs",
    "compile": "first calls of graphs",
    "train": "training steps",
    "select": "predictions to stop by",
    "evaluate": "predictions to report",
    "score": "score, bootstrap, keep predictions",
    "keep": "keep adapted weights",
    "save": "save training states",
    "wait": "wait for batches",
    OTHER: "else inside",
}


@dataclass(frozen=True)
class Spent:
    """Seconds of all workers together. ``outside`` is the time that is in no record and no checkpoint, by reason."""

    pretraining: Counter[str]
    cells: Counter[str]
    outside: dict[str, float]
    wall: float
    workers: int

    @property
    def total(self) -> float:
        return self.pretraining.total() + self.cells.total() + sum(self.outside.values())

    @property
    def overhead(self) -> float:
        """The share of the time that is not spent on training steps and prediction steps."""
        return 1.0 - sum(part[name] for part in (self.pretraining, self.cells) for name in USEFUL) / self.total


def spent(out: Path) -> Spent:
    """How the workers of the run in ``out`` spent their time. Raises `EnvironmentProblem` if it has no records."""
    cells: Counter[str] = sum((_phases(one.cost.get("seconds", {})) for one in load([out]).records), Counter())
    pretraining: Counter[str] = sum((_phases(part) for part in _pretrainings(out)), Counter())
    inside = cells.total() + pretraining.total()
    lines = _lines(out / TIMES)
    if not lines:
        wall, workers = _guessed(out)
        return Spent(
            pretraining, cells, {"start of processes, waiting for work": wall * workers - inside}, wall, workers
        )
    sums = {name: sum(line[name] for line in lines) for name in ("wall", "start", "work", "idle")}
    outside = {
        "start of processes": sums["start"],
        "waiting for work": sums["idle"],
        "between phases, lost with workers": sums["work"] - inside,
    }
    return Spent(pretraining, cells, outside, sums["wall"], lines[-1]["workers"])


def _phases(seconds: dict[str, Any]) -> Counter[str]:
    return Counter({name: value for name, value in seconds.items() if name != "total"})


def _pretrainings(out: Path) -> list[dict[str, float]]:
    """Seconds by phase of each finished pre-training."""
    found = []
    for folder in sorted((out / "pretrained").glob("*/")):
        try:
            found.append(read(folder).about.get("spent", {}))
        except CheckpointError:  # not finished: there is only a training state
            continue
    return found


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _guessed(out: Path) -> tuple[float, int]:
    """Estimates the wall time and the number of workers of a run of an older version, which did not store them.

    The time is that from the plan to the last record. The workers are counted by their logs.
    """
    ends = [datetime.fromisoformat(one.finished).timestamp() for one in load([out]).records]
    try:
        wall = max(ends) - (out / "plan.json").stat().st_mtime
    except (OSError, ValueError) as error:
        raise EnvironmentProblem(f"{out} holds no plan with records. Give the folder of a run.") from error
    return wall, max(1, len(list((out / "logs").glob("worker-*.log"))))


COLUMNS = {
    "what": ("what", "{}"),
    "pretraining": ("pre-training, s", "{:.1f}"),
    "cells": ("cells, s", "{:.1f}"),
    "all": ("all, s", "{:.1f}"),
    "share": ("share", "{:.1%}"),
}


def rows(found: Spent) -> Iterator[dict[str, Any]]:
    """Yields the lines of the table. The last one is the overhead."""
    for name in dict.fromkeys((*WHAT, *found.cells, *found.pretraining)):
        parts = {"pretraining": found.pretraining[name], "cells": found.cells[name]}
        both = sum(parts.values())
        if both:
            yield {"what": WHAT.get(name, name), **parts, "all": both, "share": both / found.total}
    for what, seconds in found.outside.items():
        yield {"what": what, "all": seconds, "share": seconds / found.total}
    parts = {"pretraining": found.pretraining.total(), "cells": found.cells.total(), "all": found.total}
    yield {"what": f"sum: {found.wall:.0f} s with {found.workers} workers", **parts, "share": 1.0}
    yield {"what": "outside of training and prediction", "all": found.overhead * found.total, "share": found.overhead}


@click.command("suite")
@click.argument("run_folder", type=Existing("run folder", folder=True))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def command(run_folder: Path, as_json: bool) -> int:
    """Show where the wall time of the run in RUN_FOLDER went.

    Prints a Markdown table.
    """
    table = Table(COLUMNS, as_json)
    for row in rows(spent(run_folder)):
        table.add(row)
    return OK
