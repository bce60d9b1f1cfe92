"""Options as tests spell them: flat, by name, as the command line has them."""

from typing import Any

from ptmbench.bench.keywords import Options, built
from ptmbench.bench.options import EvaluateOptions, PretrainOptions, RunOptions, TuneOptions


def options(kind: type[Options], **values: Any) -> Options:
    """The ``kind`` of options that has ``values``, each in its group."""
    return built(kind, values)


def run_suite(**values: Any) -> int:
    """`bench.runs.run.run_suite` with ``values``."""
    from ptmbench.bench.runs import run

    return run.run_suite(options(RunOptions, **values))


def tune(**values: Any) -> int:
    """`bench.runs.tuning.tune.tune` with ``values``."""
    from ptmbench.bench.runs.tuning.tune import tune as work

    return work(options(TuneOptions, **values))


def evaluate(**values: Any) -> int:
    """`bench.runs.run.evaluate` with ``values``."""
    from ptmbench.bench.runs import run

    return run.evaluate(options(EvaluateOptions, **values))


def pretrain(**values: Any) -> int:
    """`bench.runs.pretrain.pretrain_command` with ``values``."""
    from ptmbench.bench.runs.pretrain import pretrain_command

    return pretrain_command(options(PretrainOptions, **values))
