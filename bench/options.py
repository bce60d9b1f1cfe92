"""What a user may ask for, as frozen dataclasses. The command line builds them from its options, a Python program calls
`ptmbench.run`, `ptmbench.evaluate`, `ptmbench.pretrain` and `ptmbench.predict` with them. Nothing here runs anything.

None stands for the suite's own choice. Every mistake is a `UsageError`: names of models, tasks and adaptations are
looked up later, by what runs.
"""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ptmbench.bench.engine.budget import Budget
from ptmbench.bench.engine.stopping import SAVE_SECONDS
from ptmbench.bench.errors import UsageError

KINDS = ("wordpiece", "bpe", "unigram", "word", "character")
STRATEGIES = ("auto", "one", "mirrored", "multiworker", "tpu")
CHOICES = {"executor": ("local", "ray"), "tokenizer": KINDS, "strategy": STRATEGIES}
"""The words that an option takes."""
BOUNDS = {
    "seeds": (1, 1000),
    "seed": (0, 2**32 - 1),
    "limit": (1, 10**12),
    "vocabulary": (64, 10**7),
    "jobs": (1, 1024),
    "threads": (1, 1024),
}
"""The least and the largest value of a whole number. Seeds of a cell are cells of their own, which a plan holds in
memory; a seed is what Keras and NumPy take; some thousands of threads stall a machine."""
_NAMES = ("models", "sizes", "tasks", "adaptations", "conditions", "transforms")
_PATHS = ("data", "out", "checkpoint")
_SEVERAL_PATHS = ("corpus", "beside", "checkpoints", "bases", "teachers")


class _Checked:
    """Checks the values of a group of options when it is made, and turns texts into paths."""

    def __post_init__(self) -> None:
        for name in (one.name for one in fields(self)):  # type: ignore[arg-type]
            value = getattr(self, name)
            if value is None:
                continue
            if name in (*_NAMES, *_SEVERAL_PATHS) and isinstance(value, str | Path):
                raise UsageError(f"{name} is a sequence, such as ({str(value)!r},), not {str(value)!r}.")
            if name in CHOICES and value not in CHOICES[name]:
                raise UsageError(f"{name} is one of {', '.join(CHOICES[name])}, not {value!r}.")
            if name in BOUNDS:
                least, most = BOUNDS[name]
                if type(value) is not int or not least <= value <= most:
                    raise UsageError(f"{name} is a whole number from {least} to {most}, not {value!r}.")
            if name in _PATHS:
                object.__setattr__(self, name, Path(value))
            elif name in _SEVERAL_PATHS:
                object.__setattr__(self, name, tuple(map(Path, value)))
            elif name in _NAMES:
                object.__setattr__(self, name, tuple(value))


@dataclass(frozen=True, kw_only=True)
class CellOptions(_Checked):
    """Which cells there are: tasks x adaptations x seeds for each model."""

    tasks: Sequence[str] | None = None
    adaptations: Sequence[str] | None = None
    """Names, with settings of their own or without: "finetune", "features:layers=top"."""
    conditions: Sequence[str] | None = None
    """Each cell is also scored under each of these: "misspellings", "misspellings:share=0.2"."""
    transforms: Sequence[str] | None = None
    """Each adapted model is also scored after each of these: "int8", "prune:sparsity=0.8"."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Changes to the settings of all adaptations, by name."""
    seeds: int | None = None
    """Seeds per cell, counted from 0."""
    seed: int | None = None
    """This one seed only, in place of ``seeds``."""
    limit: int | None = None
    """Use only the first ``limit`` examples of a split."""

    def arguments(self) -> list[str]:
        """What the command that repeats one cell has of these; its task, adaptation, transform, condition and seed
        are added."""
        return [*_changes("--set", self.settings), *_given("--limit", self.limit)]


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(_Checked):
    """What models are pre-trained on, and for how long."""

    budget: Budget = Budget()
    corpus: Sequence[Path] = ()
    """Unlabelled text: files or folders."""
    tokenizer: str | None = None
    """Kind of tokenizer, one of `KINDS`."""
    vocabulary: int | None = None
    recipe: Mapping[str, Any] = field(default_factory=dict)
    """Changes to `bench.engine.recipe.Recipe`."""
    bases: Sequence[Path] = ()
    """Checkpoints to continue from, one for each model and size, in place of random weights. They bring the
    tokenizer."""
    teachers: Sequence[Path] = ()
    """Checkpoints that students learn from, in place of teachers that are pre-trained in the run. They bring the
    tokenizer."""

    def arguments(self) -> list[str]:
        """These as arguments of ``ptmbench run``."""
        bases = [part for folder in self.bases for part in ("--base", str(folder))]
        bases += [part for folder in self.teachers for part in ("--teacher", str(folder))]
        corpus = ["--corpus", *map(str, self.corpus)] if self.corpus else []
        tokens = [*_given("--tokenizer", self.tokenizer), *_given("--vocabulary", self.vocabulary)]
        return [*bases, *corpus, *tokens, *self.budget.flag().split(), *_changes("--recipe", self.recipe)]


@dataclass(frozen=True, kw_only=True)
class WorkerOptions(_Checked):
    """Who works, and for how long at most."""

    jobs: int | None = None
    """Workers; None for one per core."""
    threads: int | None = None
    """Threads of each worker; None for the cores, shared out. Scores repeat exactly with as many."""
    executor: str = "local"
    """Where workers live: "local" for processes of this machine, "ray" for a Ray cluster."""
    ray_address: str | None = None
    """The Ray cluster; None for RAY_ADDRESS, or else one that is started here."""
    cell_timeout: float | None = None
    """Seconds that a cell may take, 0 for no limit; None leaves it to `bench.runs.limits`."""
    strategy: str = "one"
    """Devices that each pre-training uses, one of `STRATEGIES`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cell_timeout is not None and not 0 <= self.cell_timeout < math.inf:
            raise UsageError(f"cell_timeout is a number of seconds, 0 for no limit, not {self.cell_timeout!r}.")

    def arguments(self) -> list[str]:
        """What the command that repeats one cell has of these."""
        strategy = ["--strategy", self.strategy] if self.strategy != "one" else []
        return [*strategy, *_given("--threads", self.threads)]


@dataclass(frozen=True, kw_only=True)
class OutputOptions(_Checked):
    """Where a run writes, and what it keeps."""

    out: Path | None = None
    """Folder of the run; None for ``runs/`` and the name of the suite or the checkpoint."""
    keep: bool = False
    """Keep the weights of adapted models, which ``predict`` needs."""
    retry: bool = False
    """Run the cells again that failed before."""
    save_every: float = SAVE_SECONDS
    """Seconds between two saves of what trains."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_seconds(self.save_every)


@dataclass(frozen=True, kw_only=True)
class RunOptions(_Checked):
    """A run of ``suite``, and what is changed of it."""

    suite: str
    models: Sequence[str] | None = None
    """Models, "random-" and a model's name for its twin that is not pre-trained, and baselines."""
    sizes: Sequence[str] | None = None
    baselines: bool = True
    """Add random twins and baselines."""
    data: Path | None = None
    """Data folder; None for the embedded microworld, where the suite runs on it."""
    dry_run: bool = False
    """Print the plan with each cell's cost estimate; run nothing."""
    cells: CellOptions = field(default_factory=CellOptions)
    training: TrainingOptions = field(default_factory=TrainingOptions)
    workers: WorkerOptions = field(default_factory=WorkerOptions)
    output: OutputOptions = field(default_factory=OutputOptions)

    def command(self) -> str:
        """The beginning of the command that repeats one cell: all that its result depends on but the cell itself."""
        return _command("run", self.suite, self, self.training.arguments())


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(_Checked):
    """An evaluation of the pre-trained model in the folder ``checkpoint``."""

    checkpoint: Path
    beside: Sequence[Path] = ()
    """Checkpoints of extra encoders, for adaptations that read several."""
    suite: str | None = None
    """A suite whose tasks, adaptations, seeds and settings are taken; others change them."""
    data: Path | None = None
    dry_run: bool = False
    cells: CellOptions = field(default_factory=CellOptions)
    workers: WorkerOptions = field(default_factory=WorkerOptions)
    output: OutputOptions = field(default_factory=OutputOptions)

    def command(self) -> str:
        """The beginning of the command that repeats one cell, as in `RunOptions.command`."""
        extra = [part for folder in self.beside for part in ("--beside", str(folder))]
        return _command("evaluate", str(self.checkpoint), self, [*extra, *_given("--suite", self.suite)])


@dataclass(frozen=True, kw_only=True)
class PretrainOptions(_Checked):
    """A pre-training of ``model``, which leaves a checkpoint in the folder ``out``."""

    model: str
    out: Path
    size: str = "tiny"
    seed: int = 0
    """Seed of weights, order and noise."""
    strategy: str = "auto"
    """Devices to train on; "auto" follows the GPUs and TF_CONFIG."""
    save_every: float = SAVE_SECONDS
    training: TrainingOptions = field(default_factory=TrainingOptions)

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_seconds(self.save_every)


@dataclass(frozen=True, kw_only=True)
class PredictOptions(_Checked):
    """Predictions of adapted models for a split of their tasks, written below ``out``."""

    checkpoints: Sequence[Path]
    data: Path
    out: Path
    split: str = "test"


def _command(name: str, subject: str, options: RunOptions | EvaluateOptions, more: Sequence[str]) -> str:
    data = _given("--data", options.data)
    keep = ["--keep"] if options.output.keep else []
    return shlex.join(
        ["ptmbench", name, subject, *data, *more, *options.cells.arguments(), *options.workers.arguments(), *keep]
    )


def _given(flag: str, value: object) -> list[str]:
    return [] if value is None else [flag, str(value)]


def _changes(flag: str, values: Mapping[str, Any]) -> list[str]:
    """``flag key=value`` for each of ``values``, as `bench.commands.options.settings` reads them."""
    texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in values.items()}
    return [part for name, text in texts.items() for part in (flag, f"{name}={text}")]


def _check_seconds(value: float) -> None:
    if not 0 < value < math.inf:
        raise UsageError(f"save_every is a number of seconds above 0, not {value!r}.")
