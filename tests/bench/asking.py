"""Calls commands with flat keyword arguments, named as on the command line, instead of grouped options."""

from typing import Any

from ptmbench.bench.keywords import Options, built
from ptmbench.bench.options import EvaluateOptions, PretrainOptions, RunOptions, TuneOptions


def options(kind: type[Options], **values: Any) -> Options:
    """Returns options of type ``kind``, with each of ``values`` in its group."""
    return built(kind, values)


def run_suite(**values: Any) -> int:
    """Calls `bench.runs.run.run_suite` with ``values``."""
    from ptmbench.bench.runs import run

    return run.run_suite(options(RunOptions, **values))


def tune(**values: Any) -> int:
    """Calls `bench.runs.tuning.tune.tune` with ``values``."""
    from ptmbench.bench.runs.tuning.tune import tune as work

    return work(options(TuneOptions, **values))


def evaluate(**values: Any) -> int:
    """Calls `bench.runs.run.evaluate` with ``values``."""
    from ptmbench.bench.runs import run

    return run.evaluate(options(EvaluateOptions, **values))


def pretrain(**values: Any) -> int:
    """Calls `bench.runs.pretrain.pretrain_command` with ``values``."""
    from ptmbench.bench.runs.pretrain import pretrain_command

    return pretrain_command(options(PretrainOptions, **values))
