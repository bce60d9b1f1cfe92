"""Option types and groups of options that several commands share."""

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ptmbench.bench.commands.registry import resolve
from ptmbench.bench.engine.budget import Budget, parse_rungs
from ptmbench.bench.engine.recipe import LEAST, MOST
from ptmbench.bench.engine.stopping import SAVE_SECONDS
from ptmbench.bench.errors import EnvironmentProblem, UsageError
from ptmbench.bench.options import BOUNDS, CHOICES, KINDS

SIZES = "tiny, mini, small or base; Transformers also have shapes such as 6x384x12 (layers, width, heads)."
SEED = click.IntRange(*BOUNDS["seed"])
COUNT = click.IntRange(min=1, max=10**6)
EXAMPLES = click.IntRange(*BOUNDS["limit"])
"""A number of examples or lines of a file. The maximum is large, because memory does not depend on it."""
SEEDS = click.IntRange(*BOUNDS["seeds"])
PRETRAINING_SEEDS = click.IntRange(*BOUNDS["pretraining_seeds"])
JOBS = click.IntRange(*BOUNDS["jobs"])
BATCH = click.IntRange(min=1, max=MOST["batch"])
LENGTH = click.IntRange(min=LEAST["length"], max=MOST["length"])
"""Tokens per sequence in pre-training."""
BEAM = click.IntRange(min=1, max=128)
WIDTH = click.IntRange(min=1, max=16_384)
VOCABULARY = click.IntRange(*BOUNDS["vocabulary"])
THREADS = click.IntRange(*BOUNDS["threads"])


class Name(click.ParamType):
    """A name of one kind that `bench.commands.registry` lists; converts other spellings to the listed one. An unlisted
    name is passed on, and loading it raises the error."""

    name = "name"

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return resolve(self.kind, value)


class Location(click.ParamType):
    """A path that need not exist yet; ``made`` is what the command writes there, a "file" or a "folder"."""

    name = "path"

    def __init__(self, made: str = "") -> None:
        self.made = made

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if value == "":  # Path("") is the working directory, and --out "$UNSET" would overwrite files there
            raise UsageError(
                f"{param.get_error_hint(ctx) if param else 'A path'} is empty. Check that the variable is set."
            )
        path = Path(os.path.expanduser(value))  # shells leave the ~ of --out=~/runs alone
        if path.name in ("", ".."):  # its name is used for files next to it and for its row on the board
            path = path.resolve()
        if self.made and path.exists() and path.is_dir() is not (self.made == "folder"):
            there = "file" if self.made == "folder" else "folder"
            raise EnvironmentProblem(f"{path} is a {there}, but a {self.made} is to be written. Give another path.")
        return path


class Existing(Location):
    """A path that must exist. A missing file exits with status 4 (environment); click would exit with 2 (usage)."""

    def __init__(self, what: str, *, folder: bool = False) -> None:
        super().__init__()
        self.what, self.folder = what, folder

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = super().convert(value, param, ctx)
        if not path.exists():
            raise EnvironmentProblem(f"The {self.what} {path} does not exist. Check the path, or create it first.")
        if self.folder and not path.is_dir():
            raise EnvironmentProblem(f"The {self.what} {path} is a file, but a folder is needed.")
        return path


class Number(click.FloatRange):
    """A number within a range. Rejects NaN, which click accepts for every range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


class Duration(click.ParamType):
    """A duration, converted to seconds: "90", "90s", "30m", "2h", "1d"."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from ptmbench.bench.runs.limits import seconds_of

        try:
            return seconds_of(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


ABOVE_ZERO = Number(min=0, min_open=True)


class CorpusFilesCommand(click.Command):
    """A command whose ``--corpus`` takes all values up to the next option: ``--corpus a.txt b.txt --steps 10``."""

    greedy = "--corpus"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        spread, taking = [], False
        for argument in args:
            if argument.startswith("-") and argument != "-":
                taking = argument == self.greedy
                spread += [] if taking else [argument]
            else:
                spread += [self.greedy, argument] if taking else [argument]
        if self.greedy in args and self.greedy not in spread:
            raise UsageError(f"{self.greedy} needs at least one file or folder after it.")
        return super().parse_args(ctx, spread)


def listed(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...] | None:
    """Callback: converts "a,b" and repeated options to one tuple without duplicates; None without the option.

    Names of models, tasks, adaptations, conditions and transforms become those that `bench.commands.registry` lists.
    """
    if not values:
        return None
    names = tuple(dict.fromkeys(name.strip() for value in values for name in value.split(",") if name.strip()))
    if not names:
        raise UsageError(f"{param.opts[0]} needs at least one name, separated by commas.")
    if param.name in ("models", "tasks", "adaptations", "conditions", "transforms"):
        names = tuple(dict.fromkeys(resolve(param.name, name) for name in names))
    return names


def settings(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, Any]:
    """Callback: converts repeated ``key=value`` to a dict, with numbers and booleans as Python values."""
    flag, found = param.opts[0], {}
    for value in values:
        key, equals, text = (part.strip() for part in value.partition("="))
        if not equals or not key or not text:
            raise UsageError(f"{flag} takes key=value, such as {flag} learning_rate=3e-5, not '{value}'.")
        if key in found:
            raise UsageError(f"{flag} {key} is given twice.")
        found[key] = literal(text)
    return found


def literal(text: str) -> int | float | bool | str:
    """Converts "3" to an int, "3e-5" to a float, "true" and "false" to booleans; leaves other texts unchanged."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def named(*flags: str, help: str) -> Callable:
    """An option that takes names separated by commas."""
    return click.option(*flags, multiple=True, metavar="NAME,...", callback=listed, help=help)


def budget_options(function: Callable) -> Callable:
    """Adds the four options of a pre-training budget, which `budget` reads."""
    for name, help in (
        ("minutes", "Pre-training budget in minutes of wall time; results do not repeat exactly."),
        ("flops", "Pre-training budget in training FLOPs, e.g. 1e14."),
        ("tokens", "Pre-training budget in input tokens, e.g. 20e6."),
        ("steps", "Pre-training budget in optimizer steps."),
    ):
        function = click.option(f"--{name}", metavar="N", help=help)(function)
    return function


def budget(options: dict[str, Any]) -> Budget | tuple[Budget, ...]:
    """Takes the four budget options out of ``options`` and returns the budget, or several."""
    found = parse_rungs(**{name: options.pop(name) for name in ("steps", "tokens", "flops", "minutes")})
    return found if len(found) > 1 else next(iter(found), Budget())


def carry_option(function: Callable) -> Callable:
    """Adds ``--carry``."""
    return click.option(
        "--carry",
        type=Location("folder"),
        help="Folder for pre-training on another machine, with JAX and without TensorFlow. The first call writes the "
        "folder; the same call reads the results from it (docs/accelerators.md).",
    )(function)


def model_parallel_option(function: Callable) -> Callable:
    """Adds ``--model-parallel``."""
    return click.option(
        "--model-parallel",
        type=click.IntRange(*BOUNDS["model_parallel"]),
        metavar="N",
        help="Devices that --strategy tensor splits each weight over; all other devices share the batches.",
    )(function)


def log_options(function: Callable) -> Callable:
    """Adds ``--tensorboard`` and ``--trace``."""
    for option in (
        click.option(
            "--trace",
            type=COUNT,
            metavar="STEPS",
            help="Number of steps of each pre-training that TensorFlow's profiler traces, into the folder of "
            "--tensorboard.",
        ),
        click.option(
            "--tensorboard",
            type=Location("folder"),
            help="Folder of logs for TensorBoard: the scalars of each pre-training by steps, tokens and FLOPs.",
        ),
    ):
        function = option(function)
    return function


def save_option(function: Callable) -> Callable:
    """Adds ``--save-every``."""
    return click.option(
        "--save-every",
        type=ABOVE_ZERO,
        default=SAVE_SECONDS,
        show_default=True,
        metavar="SECONDS",
        help="Seconds between checkpoints of the training state.",
    )(function)


set_option = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    callback=settings,
    help="Change a setting of the adaptations; may be repeated.",
)
_WORKERS = (
    click.option(
        "--jobs",
        "--workers",
        "jobs",
        type=JOBS,
        help="Number of workers (default: one per core, at most one per model and adaptation).",
    ),
    click.option(
        "--threads",
        type=THREADS,
        help="Threads per worker (default: the number of cores divided by the number of workers). Scores repeat "
        "exactly with the same number.",
    ),
    click.option(
        "--executor",
        type=click.Choice(CHOICES["executor"]),
        default="local",
        show_default=True,
        help="Where workers run: as processes on this machine, or on a Ray cluster.",
    ),
    click.option(
        "--ray-address",
        help="Address of the Ray cluster (default: RAY_ADDRESS; without it, a cluster is started on this machine).",
    ),
    save_option,
)
"""Options of all commands that start workers."""


def worker_options(function: Callable) -> Callable:
    """Adds the options of workers and output of ``tune``."""
    for option in (
        *_WORKERS,
        click.option("--retry", is_flag=True, help="Run failed trials again."),
        click.option("--dry-run", is_flag=True, help="Print the rungs with their cost estimates; run nothing."),
        click.option(
            "--out",
            type=Location("folder"),
            help="Output folder (default: runs/SUITE-tuning). A tuning that was interrupted there resumes.",
        ),
    ):
        function = option(function)
    return function


def cell_options(function: Callable) -> Callable:
    """Adds the options of cells, workers and output that ``run`` and ``evaluate`` share."""
    for option in (
        click.option(
            "--limit",
            type=EXAMPLES,
            help="Use only the first N examples of each split; such scores are marked as not official.",
        ),
        *_WORKERS,
        click.option(
            "--cell-timeout",
            type=Duration(),
            metavar="TIME",
            help="Time after which a cell is stopped and recorded as failed: 90, 30m, 2h; 0 for no limit (default: one "
            "hour or 50 times the estimate, counted from the last checkpoint).",
        ),
        click.option("--retry", is_flag=True, help="Run failed and diverged cells again."),
        click.option(
            "--profile/--no-profile",
            default=None,
            help="Measure latency and memory of each adapted model on one core (default: off, except in suites for "
            "compression). These suites and --profile also record the resampled scores that intervals of retention "
            "need.",
        ),
        click.option("--keep", is_flag=True, help="Keep the weights of adapted models, which `predict` needs."),
        click.option("--dry-run", is_flag=True, help="Print the plan and the cost of what is left to do; run nothing."),
        set_option,
        named(
            "--condition",
            "conditions",
            help="Condition under which each cell is scored again, such as misspellings:share=0.2; `ls conditions` "
            "lists all.",
        ),
        named(
            "--transform",
            "transforms",
            help="Transform after which each adapted model is scored again, such as int8 or prune:sparsity=0.8, or a "
            "chain of transforms, such as prune:sparsity=0.8+int8; `ls transforms` lists all.",
        ),
        click.option(
            "--task-teacher",
            "task_teachers",
            type=Existing("checkpoint"),
            multiple=True,
            metavar="CHECKPOINT",
            help="Checkpoint of a teacher that --adaptation names, such as distil:teacher=NAME; it is fine-tuned on "
            "each task with its own tokenizer; may be repeated.",
        ),
        named("--adaptation", "adaptations", help="Adaptations to tasks; `ls adaptations` lists all."),
        click.option(
            "--out",
            type=Location("folder"),
            help="Output folder (default: a folder in runs). An interrupted run in it resumes.",
        ),
        click.option("--seed", type=SEED, help="A single seed instead of --seeds."),
        click.option("--seeds", type=SEEDS, help="Number of seeds per cell, counted from 0."),
        click.option(
            "--data",
            type=Existing("data folder", folder=True),
            help="Data folder (default: the embedded microworld).",
        ),
        named("--tasks", help="Tasks; `ls tasks` lists all."),
    ):
        function = option(function)
    return function


def pretraining_options(function: Callable) -> Callable:
    """Adds the options of pre-training that ``run`` and ``pretrain`` share."""
    for option in (
        click.option(
            "--base",
            "bases",
            type=Existing("checkpoint"),
            multiple=True,
            metavar="CHECKPOINT",
            help="Checkpoint of the same model and size to continue from; its tokenizer is used; may be repeated.",
        ),
        click.option(
            "--teacher",
            "teachers",
            type=Existing("checkpoint"),
            multiple=True,
            metavar="CHECKPOINT",
            help="Checkpoint of the teacher of a student such as distilbert; its tokenizer is used; may be repeated.",
        ),
        click.option(
            "--vocabulary", type=VOCABULARY, metavar="N", help="Size of the vocabulary (without a suite: 8000)."
        ),
        click.option("--tokenizer", type=click.Choice(KINDS), help="Kind of tokenizer (without a suite: wordpiece)."),
        click.option(
            "--corpus",
            type=Existing("corpus file"),
            multiple=True,
            metavar="FILE...",
            help="Unlabelled text for pre-training: files or folders.",
        ),
        budget_options,
    ):
        function = option(function)
    return function
