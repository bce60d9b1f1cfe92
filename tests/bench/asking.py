"""Options as tests spell them: flat, by name, as the command line has them."""

from typing import Any, TypeVar

from ptmbench.bench.commands.options import built
from ptmbench.bench.options import EvaluateOptions, PretrainOptions, RunOptions, TuneOptions

Options = TypeVar("Options")


def options(kind: type[Options], **values: Any) -> Options:
    """The ``kind`` of options that has ``values``, each in its group; `TypeError` for a name that no group has."""
    made = built(kind, values)
    if values:
        raise TypeError(f"{kind.__name__} has no {', '.join(values)}.")
    return made


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
