"""Sealed records of trials: the fields that all of them share, and how to read them."""

import datetime
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ptmbench.bench import environment
from ptmbench.bench.runs.tuning import sealed

KIND = "trial"
AGAIN = "Delete it and give the same command again: only this trial is trained anew."


def write(path: Path, tried: Mapping[str, Any], diverged: str | None) -> None:
    """Writes the record of a trial to ``path``. ``tried`` has the settings, the cost and the "loss". ``diverged`` is
    the reason if the trial diverged, else None."""
    body = {
        **tried,
        "status": "diverged" if diverged else "ok",
        "reason": diverged,
        "versions": environment.versions(),
        "commit": environment.commit(),
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
    sealed.write(path, KIND, body)


def read(path: Path) -> dict[str, Any]:
    """Reads the record at ``path``. Raises `RecordError` if it is missing or damaged."""
    return sealed.read(path, KIND, AGAIN)


def loss_of(record: Mapping[str, Any]) -> float:
    """Returns the loss, which the tuning minimises; infinity for a trial that diverged."""
    return record["loss"] if record["status"] == "ok" else math.inf


def flops_of(record: Mapping[str, Any]) -> float:
    """Returns the FLOPs of the training, of the forward passes that measure the loss, and of the probes."""
    probes = sum(probe["flops"] for probe in record.get("probes", ()))
    return record["flops"] + record["held_out"].get("flops", 0.0) + probes
