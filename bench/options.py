"""Options of runs, tunings, evaluations, pre-trainings and predictions, as frozen dataclasses.

The command line builds them from its arguments. A Python program passes them to the function of `ptmbench` that has the
name of the command. None means the default of the suite. A wrong value raises `UsageError`. Names of models, tasks and
adaptations are looked up later, when the run is planned. The options of exports are in `bench.runs.exports.options`.
"""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ptmbench.bench.engine.budget import Budget, rungs
from ptmbench.bench.engine.monitoring import LogOptions
from ptmbench.bench.engine.stopping import SAVE_SECONDS
from ptmbench.bench.errors import UsageError

KINDS = ("wordpiece", "bpe", "unigram", "word", "character")
STRATEGIES = ("auto", "one", "mirrored", "multiworker", "tpu", "tensor")
RUNTIMES = ("tensorflow", "pjrt")
FORMATS = ("transformers", "keras_hub", "saved_model", "litert", "onnx")
CHOICES = {
    "executor": ("local", "ray"),
    "tokenizer": KINDS,
    "strategy": STRATEGIES,
    "runtime": RUNTIMES,
    "format": FORMATS,
    "quantize": ("int8",),
}
"""The valid values of options, by the name of the option."""
BOUNDS = {
    "seeds": (1, 1000),
    "seed": (0, 2**32 - 1),
    "pretraining_seeds": (1, 1000),
    "pretraining_seed": (0, 2**32 - 1),
    "limit": (1, 10**12),
    "vocabulary": (64, 10**7),
    "jobs": (1, 1024),
    "threads": (1, 1024),
    "model_parallel": (2, 4096),
    "trials": (2, 10_000),
    "factor": (2, 1000),
    "held_out": (1, 10**12),
    "batch": (1, 10**6),
    "length": (1, 2**17),
}
"""Minimum and maximum of integer options. Reasons: a plan holds a cell for each seed in memory, Keras and NumPy take
seeds of 32 bits, and several thousand threads stall a machine."""
_NAMES = ("models", "sizes", "tasks", "adaptations", "conditions", "transforms")
_PATHS = ("carry", "data", "out", "checkpoint", "tuned", "adapter", "preset", "predictions")
_SEVERAL_PATHS = ("corpus", "extra_encoders", "checkpoints", "bases", "teachers", "task_teachers")
SEVERAL = (*_NAMES, *_SEVERAL_PATHS)
"""Options that are sequences."""
CHANGES = ("settings", "recipe")
"""Options that are mappings of settings to values."""


class Checked:
    """Checks the values of a group of options and converts strings to paths."""

    def __post_init__(self) -> None:
        for name in (one.name for one in fields(self)):  # type: ignore[arg-type]
            value = getattr(self, name)
            if value is None:
                continue
            if name in SEVERAL and isinstance(value, str | Path):
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
class CellOptions(Checked):
    """Selects the cells of each model: tasks x adaptations x seeds."""

    tasks: Sequence[str] | None = None
    adaptations: Sequence[str] | None = None
    """Names, optionally with settings: "finetune", "features:layers=top"."""
    conditions: Sequence[str] | None = None
    """Conditions under which each cell is scored again: "misspellings", "misspellings:share=0.2"."""
    transforms: Sequence[str] | None = None
    """Transforms after which each adapted model is scored again: "int8", "prune:sparsity=0.8"."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Changes to the settings of all adaptations, by name."""
    seeds: int | None = None
    """Number of seeds per cell; they count from 0."""
    seed: int | None = None
    """A single seed instead of ``seeds``."""
    limit: int | None = None
    """Use only the first ``limit`` examples of each split."""
    task_teachers: Sequence[Path] = ()
    """Checkpoints of teachers that adaptations name, such as "distil:teacher=all-minilm-l6-v2"."""

    def arguments(self) -> list[str]:
        """Arguments for the command that repeats one cell, without those that select the cell."""
        teachers = [part for folder in self.task_teachers for part in ("--task-teacher", str(folder))]
        return [*_changes("--set", self.settings), *given("--limit", self.limit), *teachers]


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(Checked):
    """Pre-training: corpus, tokenizer, budget, recipe and initial checkpoints."""

    budget: Budget | Sequence[Budget] = Budget()
    """A run may have several: every model is pre-trained once with each."""
    pretraining_seeds: int | None = None
    """In a run: number of pre-trainings per model and budget; their seeds count from 0."""
    pretraining_seed: int | None = None
    """In a run: a single seed of pre-training, instead of ``pretraining_seeds``."""
    corpus: Sequence[Path] = ()
    """Unlabelled text: files or folders."""
    tokenizer: str | None = None
    """Kind of tokenizer, one of `KINDS`."""
    vocabulary: int | None = None
    recipe: Mapping[str, Any] = field(default_factory=dict)
    """Changes to `bench.engine.recipe.Recipe`."""
    bases: Sequence[Path] = ()
    """Checkpoints to continue from instead of random weights, one for each model and size. Their tokenizer is used."""
    teachers: Sequence[Path] = ()
    """Checkpoints of teachers, instead of teachers that the run pre-trains. Their tokenizer is used."""
    tuned: Path | None = None
    """The folder of one or more tunings (`ptmbench.tune`). Its recipes are used for pre-training, and its settings for
    adaptation."""

    @property
    def budgets(self) -> tuple[Budget, ...]:
        """The budgets of these options; () for the budgets of the suite."""
        return rungs(self.budget)

    def arguments(self) -> list[str]:
        """Arguments for ``ptmbench run``. Several budgets or several seeds are left out, because they differ between
        the pre-trainings of one model."""
        bases = [part for folder in self.bases for part in ("--base", str(folder))]
        bases += [part for folder in self.teachers for part in ("--teacher", str(folder))]
        corpus = ["--corpus", *map(str, self.corpus)] if self.corpus else []
        tokens = [*given("--tokenizer", self.tokenizer), *given("--vocabulary", self.vocabulary)]
        budget = self.budgets[0].flag().split() if len(self.budgets) == 1 else []
        seed = given("--pretraining-seed", self.pretraining_seed)
        if not seed and self.pretraining_seeds == 1:
            seed = ["--pretraining-seeds", "1"]
        tuned = given("--tuned", self.tuned)
        return [*bases, *corpus, *tokens, *tuned, *budget, *seed, *_changes("--recipe", self.recipe)]


@dataclass(frozen=True, kw_only=True)
class WorkerOptions(Checked):
    """Workers: their number, threads, location, devices and time limit."""

    jobs: int | None = None
    """Number of workers; None for one per core, at most one per model and adaptation."""
    threads: int | None = None
    """Threads per worker; None divides the cores among the workers. Scores repeat exactly with the same number."""
    executor: str = "local"
    """Where workers run: "local" for processes on this machine, "ray" for a Ray cluster."""
    ray_address: str | None = None
    """Address of the Ray cluster; None for RAY_ADDRESS or, without it, a cluster started on this machine."""
    cell_timeout: float | None = None
    """Seconds that a cell may take, 0 for no limit; None for the limit of `bench.runs.limits`."""
    strategy: str = "one"
    """Devices that each pre-training uses, one of `STRATEGIES`."""
    model_parallel: int | None = None
    """Devices that "tensor" splits each weight over."""
    runtime: str = "tensorflow"
    """Library that computes the steps of pre-trainings, one of `RUNTIMES`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_split(self.strategy, self.model_parallel)
        if self.cell_timeout is not None and not 0 <= self.cell_timeout < math.inf:
            raise UsageError(f"cell_timeout is a number of seconds, 0 for no limit, not {self.cell_timeout!r}.")

    def arguments(self) -> list[str]:
        """Arguments for the command that repeats one cell."""
        devices = [*given("--strategy", self.strategy, "one"), *given("--model-parallel", self.model_parallel)]
        return [*devices, *given("--runtime", self.runtime, "tensorflow"), *given("--threads", self.threads)]


@dataclass(frozen=True, kw_only=True)
class OutputOptions(Checked):
    """Output folder of a run, and the optional results that are stored in it."""

    out: Path | None = None
    """Folder of the run; None for ``runs/NAME``, where NAME is the suite or the folder of the checkpoint."""
    keep: bool = False
    """Keep the weights of adapted models, which ``predict`` needs."""
    retry: bool = False
    """Run failed and diverged cells again."""
    save_every: float = SAVE_SECONDS
    """Seconds between checkpoints of the training state."""
    profile: bool | None = None
    """Measure latency and memory of adapted models (`bench.runs.inference`); None for the value of the suite."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_seconds(self.save_every)


@dataclass(frozen=True, kw_only=True)
class RunOptions(Checked):
    """A run of ``suite``, with changes to it."""

    suite: str
    models: Sequence[str] | None = None
    """Models, random twins such as "random-bert" (not pre-trained), and baselines."""
    sizes: Sequence[str] | None = None
    baselines: bool = True
    """Add random twins and baselines."""
    data: Path | None = None
    """Data folder; None for the embedded microworld, if the suite supports it."""
    dry_run: bool = False
    """Print the plan with each cell's cost estimate; run nothing."""
    carry: Path | None = None
    """Folder for pre-trainings on another machine. If it is given, no cells are run."""
    log: LogOptions = field(default_factory=LogOptions)
    cells: CellOptions = field(default_factory=CellOptions)
    training: TrainingOptions = field(default_factory=TrainingOptions)
    workers: WorkerOptions = field(default_factory=WorkerOptions)
    output: OutputOptions = field(default_factory=OutputOptions)

    def command(self) -> str:
        """The command that repeats one cell, without the arguments that select the cell."""
        return _command("run", self.suite, self, self.training.arguments())


@dataclass(frozen=True, kw_only=True)
class TuneOptions(Checked):
    """A search for the pre-training recipe of each model of ``suite``, or for the settings of its ``adaptations``. Each
    search has the same number of trials."""

    suite: str
    models: Sequence[str] | None = None
    sizes: Sequence[str] | None = None
    data: Path | None = None
    """Data folder, for the suite's corpus; None for the embedded microworld, if the suite supports it."""
    adaptations: Sequence[str] | None = None
    """Adaptations to tune on each task; None tunes pre-trainings."""
    tasks: Sequence[str] | None = None
    """Tasks that adaptations are tuned on; None for the tasks of the suite."""
    probe: Sequence[str] | None = None
    """Tasks for probes: the trials of pre-trainings are compared by their scores on these tasks, with the encoder
    frozen. None compares their losses."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Changes to the settings of all adaptations and probes, by name."""
    limit: int | None = None
    """Use only the first ``limit`` examples of each split."""
    baselines: bool = True
    """Tune the random twins too."""
    seeds: int | None = None
    """Seeds of each trial of an adaptation on the last rung (None for 5), or of each probe (None for 3)."""
    trials: int = 10
    """Number of trials of each model; the first one has the model's own settings."""
    factor: int = 3
    """Factor N of successive halving: one trial in N goes on to the next rung, with N times the budget or the seeds."""
    share: float | None = None
    """Pre-trainings: budget of the last rung, as a share of the budget that is tuned for; None for 0.25."""
    held_out: int | None = None
    """Size of the held-out part that compares the trials. Pre-trainings: tokens of the corpus (None for 32,768, at most
    a twentieth). Adaptations: training examples of each task (None for 1,000, at most a fifth)."""
    seed: int = 0
    """Seed of the choice of settings."""
    dry_run: bool = False
    """Print the rungs with their cost estimates; run nothing."""
    training: TrainingOptions = field(default_factory=TrainingOptions)
    workers: WorkerOptions = field(default_factory=WorkerOptions)
    output: OutputOptions = field(default_factory=OutputOptions)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.share is not None and not 0 < self.share <= 1:
            raise UsageError(f"share is a number above 0 and at most 1, not {self.share!r}.")
        if self.adaptations is None:
            if self.training.tuned:
                raise UsageError("A tuning of pre-trainings begins with the models' own recipes. Leave tuned out.")
            if self.tasks:
                raise UsageError("tasks is for the tuning of adaptations. Name these with adaptations, or give probe.")
            given = {"settings": self.settings, "limit": self.limit, "seeds": self.seeds}
            if not self.probe and (name := next((name for name, value in given.items() if value), "")):
                raise UsageError(
                    f"{name} is for the tuning of adaptations, and for probes. Name these with adaptations or probe, "
                    "or leave it out."
                )
        elif self.probe:
            raise UsageError("probe is for the tuning of pre-trainings. Leave it out, or leave adaptations out.")
        elif self.share is not None:
            raise UsageError("share is for the tuning of pre-trainings: adaptations are trained whole. Leave it out.")

    @property
    def out(self) -> Path:
        """Folder of the trials and the result."""
        return self.output.out or Path("runs") / f"{self.suite}-tuning"


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(Checked):
    """An evaluation of the pre-trained model in the folder ``checkpoint``: a checkpoint, or a folder to import."""

    checkpoint: Path
    name: str | None = None  # name of the row of an imported folder; None for the name of the folder
    extra_encoders: Sequence[Path] = ()
    """Checkpoints of extra encoders, for adaptations that use several encoders."""
    suite: str | None = None
    """A suite that sets the tasks, adaptations, seeds and settings; other options override them."""
    data: Path | None = None
    dry_run: bool = False
    cells: CellOptions = field(default_factory=CellOptions)
    workers: WorkerOptions = field(default_factory=WorkerOptions)
    output: OutputOptions = field(default_factory=OutputOptions)

    def command(self) -> str:
        """The command that repeats one cell, without the arguments that select the cell."""
        extra = [part for folder in self.extra_encoders for part in ("--extra-encoder", str(folder))]
        named = [*given("--name", self.name), *extra, *given("--suite", self.suite)]
        return _command("evaluate", str(self.checkpoint), self, named)


@dataclass(frozen=True, kw_only=True)
class PretrainOptions(Checked):
    """A pre-training of ``model``, which writes a checkpoint to the folder ``out``."""

    model: str
    out: Path
    size: str = "tiny"
    seed: int = 0
    """Seed of initial weights, data order and noise."""
    strategy: str = "auto"
    """Devices to train on; "auto" follows the GPUs and TF_CONFIG."""
    model_parallel: int | None = None
    """Devices that "tensor" splits each weight over."""
    runtime: str = "tensorflow"
    """Library that computes the steps: "tensorflow", or "pjrt" for the PJRT runtime of JAX."""
    carry: Path | None = None
    """Folder for training on another machine, with JAX and without TensorFlow."""
    save_every: float = SAVE_SECONDS
    log: LogOptions = field(default_factory=LogOptions)
    training: TrainingOptions = field(default_factory=TrainingOptions)

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_seconds(self.save_every)
        _check_split(self.strategy, self.model_parallel)
        if self.training.tuned:
            raise UsageError("A single pre-training takes its recipe from --set. Leave tuned out, and give the recipe.")


@dataclass(frozen=True, kw_only=True)
class PredictOptions(Checked):
    """Predictions of adapted models for one split of their tasks."""

    checkpoints: Sequence[Path]
    data: Path | None = None
    """The data folder of the tasks."""
    split: str = "test"
    out: Path | None = None
    """Folder for files with the predictions; None writes no files."""


def _command(name: str, subject: str, options: RunOptions | EvaluateOptions, more: Sequence[str]) -> str:
    data = given("--data", options.data)
    keep = ["--keep"] if options.output.keep else []
    if options.output.profile is not None:
        keep.append("--profile" if options.output.profile else "--no-profile")
    return shlex.join(
        ["ptmbench", name, subject, *data, *more, *options.cells.arguments(), *options.workers.arguments(), *keep]
    )


def given(flag: str, value: object, default: object = None) -> list[str]:
    """The arguments ``flag`` and ``value``; [] if ``value`` is the ``default``."""
    return [] if value == default else [flag, str(value)]


def _changes(flag: str, values: Mapping[str, Any]) -> list[str]:
    """``flag key=value`` for each of ``values``, in the format of `bench.commands.options.settings`."""
    texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in values.items()}
    return [part for name, text in texts.items() for part in (flag, f"{name}={text}")]


def _check_split(strategy: str, model_parallel: int | None) -> None:
    if strategy == "tensor" and model_parallel is None:
        raise UsageError("--strategy tensor splits weights over devices. Say over how many with --model-parallel N.")
    if strategy != "tensor" and model_parallel is not None:
        raise UsageError(f"--model-parallel is for --strategy tensor, not {strategy}. Leave it out.")


def _check_seconds(value: float) -> None:
    if not 0 < value < math.inf:
        raise UsageError(f"save_every is a number of seconds above 0, not {value!r}.")
