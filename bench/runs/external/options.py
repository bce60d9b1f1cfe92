"""Options of commands for external systems: ``ptmbench evaluate`` of trained models, and ``ptmbench record``."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptmbench.bench.errors import UsageError
from ptmbench.bench.options import Checked, given


@dataclass(frozen=True, kw_only=True)
class AdapterOptions(Checked):
    """An evaluation of the Keras model of another project, which the Python file ``adapter`` loads."""

    adapter: Path
    tasks: Sequence[str]
    data: Path | None = None
    """Data folder; None for the embedded microworld."""
    seeds: int | None = None
    seed: int | None = None
    """A single seed instead of ``seeds``."""
    limit: int | None = None
    """Use only the first ``limit`` examples of a split."""
    out: Path | None = None
    """Folder of the run; None for ``runs/NAME``, after the name in the file."""

    def arguments(self) -> list[str]:
        """Arguments of ``ptmbench evaluate`` for the command that repeats one cell, without its task and seed."""
        return ["--adapter", str(self.adapter), *given("--data", self.data), *given("--limit", self.limit)]


@dataclass(frozen=True, kw_only=True)
class PresetOptions(Checked):
    """An evaluation of a classifier of keras-hub, in the folder ``preset`` that ``save_to_preset`` wrote."""

    preset: Path
    tasks: Sequence[str]
    name: str | None = None
    """Name on the board; None for the name of the folder."""
    data: Path | None = None
    """Data folder; None for the embedded microworld."""
    seeds: int | None = None
    seed: int | None = None
    """As in `AdapterOptions`; a preset is one fixed model, so one seed is recorded."""
    limit: int | None = None
    """Use only the first ``limit`` examples of a split."""
    out: Path | None = None
    """Folder of the run; None for ``runs/NAME``."""

    def arguments(self) -> list[str]:
        """Arguments of ``ptmbench evaluate`` for the command that repeats one cell, without its task and seed."""
        named = given("--name", self.name)
        return [str(self.preset), *named, *given("--data", self.data), *given("--limit", self.limit)]


@dataclass(frozen=True, kw_only=True)
class RecordOptions(Checked):
    """A record of predictions that an external system made for the reported split of ``task``."""

    task: str
    predictions: Path
    name: str
    """Name of the system on the board."""
    out: Path
    """Run folder to write the record to."""
    data: Path | None = None
    """Data folder; None for the embedded microworld."""
    seed: int = 0
    """Seed that the system was trained with."""
    fixed: bool = False
    """Whether the system is fixed and has no other seeds."""
    parameters: float | None = None
    """Number of parameters, as declared by the user. So are ``flops`` of the whole training, and ``note``."""
    flops: float | None = None
    note: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least, most in (("parameters", 1, 1e15), ("flops", sys.float_info.min, sys.float_info.max)):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not least <= value <= most):
                raise UsageError(f"{name} is a number from {least:g} to {most:g}, not {value!r}.")

    @property
    def declared(self) -> dict[str, Any]:
        """What the user declares about the system, by name."""
        parameters = None if self.parameters is None else round(self.parameters)  # 110e6 is a whole number
        found = {"parameters": parameters, "flops": self.flops, "note": self.note}
        return {name: value for name, value in found.items() if value is not None}

    def arguments(self) -> list[str]:
        """Arguments of ``ptmbench record`` that repeat the record."""
        declared = [part for name, value in self.declared.items() for part in (f"--{name}", str(value))]
        fixed = ["--fixed"] if self.fixed else []
        made = ["--predictions", str(self.predictions), "--name", self.name, *given("--data", self.data)]
        return [self.task, *made, *fixed, *declared, "--seed", str(self.seed)]
