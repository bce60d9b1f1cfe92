"""ptmbench: pre-trained language models compared on the same corpus, vocabulary, size and compute.

The four packages under this name are folders of the repository: `ptmbench.bench` is the folder bench/,
`ptmbench.models` is the folder models/, and likewise `ptmbench.tasks` and `ptmbench.leaderboard`. setup.py maps them.

What the command line does is a function here. Each takes one options object of `ptmbench.bench.options`:

>>> import tempfile
>>> import ptmbench
>>> from ptmbench.bench.options import CellOptions, OutputOptions, RunOptions
>>> frame = ptmbench.run(
...     RunOptions(
...         suite="demo",
...         models=("majority",),
...         baselines=False,
...         cells=CellOptions(tasks=("cola", "sst2")),
...         output=OutputOptions(out=tempfile.mkdtemp()),
...     )
... )
>>> frame[["task", "status"]].to_dict("list")
{'task': ['cola', 'sst2'], 'status': ['ok', 'ok']}
>>> frame.attrs["exit_status"]
0

Importing ptmbench imports neither TensorFlow nor pandas. What a function needs is imported when it is called.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from os import PathLike

    import pandas as pd

    from ptmbench.bench.engine.checkpoint import Checkpoint
    from ptmbench.bench.options import EvaluateOptions, PredictOptions, PretrainOptions, RunOptions, TuneOptions


def run(options: "RunOptions") -> "pd.DataFrame":
    """Run a suite; returns all records of its folder as `results` does.

    ``attrs["exit_status"]`` is the exit status of ``ptmbench run``: 0, or 1 when a cell failed. A dry run prints the
    plan and returns no lines. Mistakes raise `ptmbench.bench.errors.UsageError`, and what is missing or broken raises
    the errors that `ptmbench.bench.errors.STATUSES` lists.
    """
    from pathlib import Path

    from ptmbench.bench import environment

    environment.prepare()
    from ptmbench.bench.runs.run import run_suite

    return _finished(run_suite(options), options.dry_run, options.output.out or Path("runs") / options.suite)


def tune(options: "TuneOptions") -> "pd.DataFrame":
    """Tune the pre-trainings of a suite, or its adaptations; returns a line per trial and rung.

    For pre-trainings the columns are "model", "size", "rung", "trial" (0 is the model's own recipe), "learning_rate",
    "batch", "warmup", "budget" in its unit, "status", "loss" on held-out text, "flops" and "winner". For adaptations
    they are "row", "size", "task", "adaptation", "rung", "trial", "learning_rate", "batch", "epochs", "max_steps" (None
    where it is not tuned), "seeds", "status", the mean "score" on held-out examples, "flops" and "winner".

    ``attrs["exit_status"]`` is 1 when something could not be tuned. A dry run prints the rungs and returns no lines.
    `run` takes the folder of the result as `ptmbench.bench.options.TrainingOptions.tuned`. Errors are those of `run`.
    """
    from ptmbench.bench import environment

    environment.prepare()
    from ptmbench.bench.runs.tuning import tables
    from ptmbench.bench.runs.tuning.tune import tune as work

    status = work(options)
    frame = tables.frame if options.adaptations is None else tables.adaptation_frame
    found = frame(None if options.dry_run else options.out)
    found.attrs["exit_status"] = status
    return found


def evaluate(options: "EvaluateOptions") -> "pd.DataFrame":
    """Adapt a pre-trained checkpoint to tasks and score it; returns what `run` returns."""
    from pathlib import Path

    from ptmbench.bench import environment

    environment.prepare()
    from ptmbench.bench.runs.run import evaluate as work

    return _finished(work(options), options.dry_run, options.output.out or Path("runs") / options.checkpoint.name)


def pretrain(options: "PretrainOptions") -> "Checkpoint":
    """Pre-train a model; returns its checkpoint, whose ``about`` holds steps, tokens, FLOPs, loss and more."""
    from ptmbench.bench import environment

    environment.prepare()
    from ptmbench.bench.engine import checkpoint
    from ptmbench.bench.runs.pretrain import pretrain_command

    pretrain_command(options)
    return checkpoint.read(options.out)


def predict(options: "PredictOptions") -> "pd.DataFrame":
    """Predict a split with adapted checkpoints; returns the lines of the files below ``options.out``: "task", "id",
    "prediction", and what a form writes with it."""
    import pandas as pd

    from ptmbench.bench import environment

    environment.prepare()
    from ptmbench.bench.runs.predict import predict as work

    work(checkpoints=options.checkpoints, split=options.split, data=options.data, out=options.out)
    suffix = f".{options.split}.jsonl"
    found = {path.name.removesuffix(suffix): path for path in sorted(options.out.glob(f"*{suffix}"))}
    frames = [pd.read_json(path, lines=True, dtype=False).assign(task=name) for name, path in found.items()]
    whole = pd.concat(frames, ignore_index=True)
    return whole[["task", *(name for name in whole.columns if name != "task")]]


def results(folder: "str | PathLike[str]") -> "pd.DataFrame":
    """The records below a run folder, one line each (`ptmbench.leaderboard.tables.records`).

    Raises `ptmbench.leaderboard.record.RecordError` where no run wrote. Damaged records are left out, and named in
    ``attrs["damaged"]``.
    """
    from pathlib import Path

    from ptmbench.leaderboard import store, tables

    found = store.load([Path(folder)])
    frame = tables.records(found.records)
    frame.attrs["damaged"] = [f"{one.file}: {one.reason}" for one in found.damaged]
    return frame


def _finished(status: int, dry: bool, out: "PathLike[str]") -> "pd.DataFrame":
    """The results below ``out``, none after a dry run, with the exit status of the command that made them."""
    from ptmbench.leaderboard import tables

    frame = tables.records(()) if dry else results(out)
    frame.attrs["exit_status"] = status
    return frame
