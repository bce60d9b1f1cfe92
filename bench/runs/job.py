"""The options of a run that all its workers share."""

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptmbench.bench import adapt
from ptmbench.bench.engine.stopping import SAVE_SECONDS
from ptmbench.bench.runs import plugins
from ptmbench.bench.runs.artefacts import Cell
from ptmbench.bench.runs.results import unfinished_of

if TYPE_CHECKING:
    from ptmbench.bench.runs.answers import Context


@dataclass(frozen=True, kw_only=True)
class Job:
    """Options of a run that all its workers share, in addition to the plan."""

    data: str
    source: dict[str, Any]
    command: str
    keep: bool
    length: int
    """Length of the inputs in pre-training, in tokens; a random twin has a network of the same length."""
    model_options: bool = True
    """Whether the command takes ``--models`` and ``--sizes``, which ``evaluate`` does not."""
    strategy: str = "one"
    """Devices that a pre-training uses, one of `bench.options.STRATEGIES`."""
    model_parallel: int | None = None
    """Devices that the strategy "tensor" splits each weight over."""
    runtime: str = "tensorflow"
    """Library that computes the steps of a pre-training, one of `bench.options.RUNTIMES`."""
    save_every: float = SAVE_SECONDS
    log: dict[str, Any] = field(default_factory=dict)
    """`bench.engine.monitoring.LogOptions` of the pre-trainings."""
    profile: bool = False
    """Whether cells measure latency and memory (`Context.profile`)."""
    compared: bool = False
    """Whether cells record what the comparison of compressed models needs (`Context.compared`)."""
    plugins: list[str] = field(default_factory=plugins.used)
    """Folders of the plugins that workers use."""

    def command_of(self, cell: Cell) -> str:
        """The command that repeats one cell."""
        only = [*cell.chosen_by.split(), "--tasks", cell.task]
        if cell.row.kind != "baseline" and not adapt.load(cell.method).only:  # otherwise the form determines it
            only += ["--adaptation", cell.adaptation]
        if cell.transforms:
            only += ["--transform", cell.transform]
        if cell.condition:
            only += ["--condition", cell.condition]
        who = ["--models", cell.row.name, "--no-baselines"] if self.model_options else []
        size = ["--sizes", cell.row.size] if cell.row.size and self.model_options else []
        own = [shlex.join(["--plugin", folder]) for folder in self.plugins]
        return " ".join([self.command, *own, *who, *size, *only, "--seed", str(cell.seed)])

    def context(self, out: Path, cell: Cell, **found: Any) -> "Context":
        """The context of ``cell``; ``found`` are further fields."""
        from ptmbench.bench.runs.answers import Context

        where = {"data": Path(self.data), "out": out, "unfinished": unfinished_of(out, cell)}
        how = {name: getattr(self, name) for name in ("keep", "save_every", "profile", "compared", "source")}
        return Context(**where, **how, command=self.command_of(cell), **found)
