"""ptmbench: pre-trained language models compared on the same corpus, vocabulary, size and compute.

The four packages under this name are folders of the repository: `ptmbench.bench` is the folder bench/,
`ptmbench.models` is the folder models/, and likewise `ptmbench.tasks` and `ptmbench.leaderboard`. setup.py maps them.

The commands of the command line are functions here, and options are keywords. Most have the same names; docs/python.md
lists the others, such as ``baselines=False`` for ``--no-baselines``:

>>> import tempfile
>>> import ptmbench
>>> folder = tempfile.mkdtemp()
>>> frame = ptmbench.run("demo", models=["majority"], tasks=["cola", "sst2"], baselines=False, out=folder)
>>> frame[["task", "status"]].to_dict("list")
{'task': ['cola', 'sst2'], 'status': ['ok', 'ok']}
>>> frame.attrs["exit_status"]
0

`results` reads the records of any run again. Its columns have the same types whatever was run:

>>> ptmbench.results(folder, by="mean")[["model", "task", "seeds"]].to_dict("list")
{'model': ['majority', 'majority'], 'task': ['cola', 'sst2'], 'seeds': [1, 1]}

In place of keywords, a function takes the options object that its help names, such as `RunOptions`.

A wrong name, option or value raises `ptmbench.bench.errors.UsageError`. A missing or broken file raises one of the
errors that `ptmbench.bench.errors.STATUSES` lists. Every message says what to do. Progress goes to stderr;
``verbose=False`` leaves it out.

Importing ptmbench imports neither TensorFlow nor pandas nor NumPy. What a function needs is imported when it is called.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    import keras
    import numpy as np
    import pandas as pd
    import tensorflow as tf

    from ptmbench.bench.engine.checkpoint import Checkpoint
    from ptmbench.bench.options import (
        EvaluateOptions,
        PredictOptions,
        PretrainOptions,
        RunOptions,
        TuneOptions,
    )
    from ptmbench.bench.runs.exports.options import ExportOptions
    from ptmbench.bench.runs.external.options import AdapterOptions, PresetOptions, RecordOptions

__all__ = [
    "dataset",
    "diagnose",
    "encode",
    "evaluate",
    "export",
    "load",
    "predict",
    "pretrain",
    "record",
    "results",
    "run",
    "score",
    "tune",
]


def run(suite: "str | RunOptions", *, verbose: bool = True, **options: Any) -> "pd.DataFrame":
    """Run a suite; returns all records of its folder as `results` does.

    ``options`` are the fields of `ptmbench.bench.options.RunOptions` and its groups, such as ``models``, ``tasks``,
    ``seeds``, ``data``, ``flops`` and ``out``. The suite gives the values of all other options.

    ``attrs["exit_status"]`` is the exit status of ``ptmbench run``: 0, or 1 when a cell failed. A dry run prints the
    plan and returns no lines.
    """
    from pathlib import Path

    from ptmbench.bench.options import RunOptions

    asked = _asked(RunOptions, suite, options, "suite")
    with _working(verbose, asked, asked.dry_run):
        from ptmbench.bench.runs.run import run_suite

        status = run_suite(asked)
    return _finished(status, asked.dry_run, asked.output.out or Path("runs") / asked.suite)


def tune(suite: "str | TuneOptions", *, verbose: bool = True, **options: Any) -> "pd.DataFrame":
    """Tune the pre-trainings of a suite, or its adaptations; returns a line per trial and rung.

    ``options`` are the fields of `ptmbench.bench.options.TuneOptions`. For pre-trainings the columns are "model",
    "size", "rung", "trial" (0 is the model's own recipe), "learning_rate", "batch", "warmup", "budget" in its unit,
    "status", "loss" on held-out text, "flops" and "winner". For adaptations they are "row", "size", "task",
    "adaptation", "rung", "trial", "learning_rate", "batch", "epochs", "max_steps" (None where it is not tuned),
    "seeds", "status", the mean "score" on held-out examples, "flops" and "winner".

    ``attrs["exit_status"]`` is 1 when something could not be tuned. A dry run prints the rungs and returns no lines.
    `run` takes the folder of the result as ``tuned``.
    """
    from ptmbench.bench.options import TuneOptions

    asked = _asked(TuneOptions, suite, options, "suite")
    with _working(verbose, asked, asked.dry_run):
        from ptmbench.bench.runs.tuning import tables
        from ptmbench.bench.runs.tuning.tune import tune as work

        status = work(asked)
    frame = tables.frame if asked.adaptations is None else tables.adaptation_frame
    found = frame(None if asked.dry_run else asked.out)
    found.attrs["exit_status"] = status
    return found


def evaluate(
    checkpoint: "str | PathLike[str] | keras.Model | EvaluateOptions | AdapterOptions | PresetOptions | None" = None,
    *,
    verbose: bool = True,
    **options: Any,
) -> "pd.DataFrame":
    """Adapt a pre-trained checkpoint to tasks and score it; returns what `run` returns.

    ``checkpoint`` may also be a folder in Hugging Face layout or a preset of keras-hub. ``options`` are the fields of
    `ptmbench.bench.options.EvaluateOptions`, such as ``tasks``, ``adaptations``, ``seeds``, ``data``, ``keep`` and
    ``out``.

    Trained models of other projects are scored as they are. With ``adapter``, a Python file, in place of a checkpoint,
    ``options`` are the fields of `ptmbench.bench.runs.external.options.AdapterOptions`: ``tasks`` is required;
    ``data``, ``seeds``, ``seed``, ``limit`` and ``out`` are optional. A text classifier of keras-hub is given in place
    of ``checkpoint``, as a preset or as the `keras_hub.models.TextClassifier` itself, which is saved below ``out``.
    ``options`` are then the fields of `ptmbench.bench.runs.external.options.PresetOptions`, which add ``name``.
    """
    from os import PathLike
    from pathlib import Path

    from ptmbench.bench.errors import UsageError
    from ptmbench.bench.options import EvaluateOptions
    from ptmbench.bench.runs.external import presets
    from ptmbench.bench.runs.external.options import AdapterOptions, PresetOptions

    if checkpoint is not None and "adapter" in options:
        raise UsageError("Give either checkpoint, the folder of a checkpoint, or adapter, a Python file, not both.")
    if hasattr(checkpoint, "save_to_preset"):
        options |= presets.saved(checkpoint, options.get("name"), options.get("out"))
        checkpoint = options.pop("preset")
    given_preset = isinstance(checkpoint, str | PathLike) and presets.is_classifier(Path(checkpoint))
    if isinstance(checkpoint, AdapterOptions | PresetOptions) or "adapter" in options or given_preset:
        kind = AdapterOptions if isinstance(checkpoint, AdapterOptions) or "adapter" in options else PresetOptions
        outside = _asked(kind, checkpoint, options, "preset")
        with _working(verbose, outside):
            from ptmbench.bench.runs.external import evaluation

            status, folder = evaluation.evaluate(outside)
        return _finished(status, False, folder)
    asked = _asked(EvaluateOptions, checkpoint, options, "checkpoint")
    with _working(verbose, asked, asked.dry_run):
        from ptmbench.bench.runs.run import evaluate as work

        status = work(asked)
    return _finished(status, asked.dry_run, asked.output.out or Path("runs") / asked.checkpoint.name)


def record(task: "str | RecordOptions", *, verbose: bool = True, **options: Any) -> "pd.DataFrame":
    """Record predictions of an external system for the reported split of a task; returns the record as `results` does.

    ``options`` are the fields of `ptmbench.bench.runs.external.options.RecordOptions`: ``predictions`` (a file),
    ``name`` and ``out`` are required; ``data``, ``seed``, ``fixed``, ``parameters``, ``flops`` and ``note`` are
    optional.
    """
    from ptmbench.bench.runs.external.options import RecordOptions

    asked = _asked(RecordOptions, task, options, "task")
    with _working(verbose, asked):
        from ptmbench.bench.runs.external import predictions
        from ptmbench.leaderboard.records import record as records
        from ptmbench.leaderboard.scores import frames

        return frames.records([records.read(predictions.record(asked))])


def pretrain(model: "str | PretrainOptions", *, verbose: bool = True, **options: Any) -> "Checkpoint":
    """Pre-train a model and save it; returns the checkpoint, whose ``about`` holds steps, tokens, FLOPs, loss and more.

    ``options`` are the fields of `ptmbench.bench.options.PretrainOptions`: ``out`` and ``corpus`` have to be given, and
    a budget as ``steps``, ``tokens``, ``flops`` or ``minutes``. A checkpoint may be given wherever a path is asked for.
    """
    from ptmbench.bench.options import PretrainOptions

    asked = _asked(PretrainOptions, model, options, "model")
    with _working(verbose, asked):
        from ptmbench.bench.engine import checkpoint
        from ptmbench.bench.runs.pretrain import pretrain_command

        pretrain_command(asked)
    return checkpoint.read(asked.out)


def dataset(
    model: "str | PathLike[str]",
    *,
    corpus: "Sequence[str | PathLike[str]]",
    size: str = "tiny",
    tokenizer: str | None = None,
    vocabulary: int | None = None,
    batch: int = 32,
    length: int | None = None,
    seed: int = 0,
    start: int = 0,
    verbose: bool = True,
) -> "tf.data.Dataset":
    """The batches that `pretrain` trains on, as an endless `tf.data.Dataset` for a training loop of your own.

    An element is a dict of tensors with ``batch`` rows: "tokens" int32 [B, T], where T is ``length`` (128 if not
    given), and what the objective of the model reads in addition, such as "masked_positions". ``model`` is a model's
    name, with the kind of ``tokenizer`` and the size of its ``vocabulary`` as for `pretrain`, or a pre-trained
    checkpoint, whose tokenizer is taken. ``corpus`` are files and folders.

    The n-th element is the batch of step ``start`` + n of a pre-training with this ``seed``, batch and length.
    `tf.train.Checkpoint` saves and restores its iterators exactly; ``start`` begins at any step without reading
    the steps before it. The function is Python code, so the dataset runs in the process that made it.
    """
    from pathlib import Path

    from ptmbench.bench.errors import UsageError

    if isinstance(corpus, str) or not corpus:
        raise UsageError(f"corpus must be a sequence of files and folders, and not empty. It is {corpus!r:.60}.")
    with _working(verbose):
        from ptmbench.bench.runs import datasets

        return datasets.dataset(
            model,
            [Path(path) for path in corpus],
            size=size,
            tokenizer=tokenizer,
            vocabulary=vocabulary,
            batch=batch,
            length=length,
            seed=seed,
            start=start,
        )


def load(source: "str | PathLike[str]") -> "keras.Model":
    """The pre-trained encoder of a checkpoint as a `keras.Model`, with its tokenizer.

    The model (`ptmbench.bench.runs.keras_model.PretrainedEncoder`) takes token ids [B, T], which its ``tokenize`` makes
    of texts, and gives a dict of vectors: "tokens" [B, T, D] and "pooled" [B, D]. ``fit`` works with a head on top, and
    so do ``save``, ``quantize``, ``enable_lora`` and ``export``. ``source`` may also be a file NAME.keras of any Keras
    model with such an encoder; `keras.saving.load_model` finds the classes only after this function has run once.
    """
    from pathlib import Path

    with _working(verbose=True):
        from ptmbench.bench.runs import keras_model

        return keras_model.load(Path(source))


def export(
    checkpoint: "str | PathLike[str] | ExportOptions", *, verbose: bool = True, **options: Any
) -> "dict[str, Any]":
    """Export a checkpoint for another program; returns the manifest of the export, which is also in its folder.

    ``options`` are the fields of `ptmbench.bench.runs.exports.options.ExportOptions`, such as ``format`` ("keras_hub",
    "saved_model", "litert" or "onnx"), ``out``, ``quantize`` and ``data``. The manifest names the file with its shapes,
    labels and hash, and says how far its outputs are from the model's. For the formats "transformers" and "keras_hub"
    it has "format" and "out" alone.
    """
    from ptmbench.bench.runs.exports.options import ExportOptions

    asked = _asked(ExportOptions, checkpoint, options, "checkpoint")
    with _working(verbose, asked):
        if asked.format == "transformers":
            from ptmbench.bench.runs.published import export_checkpoint

            export_checkpoint(checkpoint=asked.checkpoint, out=asked.out)
            return {"format": asked.format, "out": str(asked.out)}
        if asked.format == "keras_hub":
            from ptmbench.bench.runs.published import export_preset

            export_preset(checkpoint=asked.checkpoint, out=asked.out, tolerance=asked.tolerance)
            return {"format": asked.format, "out": str(asked.out)}
        from ptmbench.bench.runs.exports.export import export as work

        return work(asked)


def encode(
    checkpoint: "str | PathLike[str]",
    texts: "Sequence[str]",
    *,
    by: str = "text",
    batch: int = 32,
    verbose: bool = True,
) -> "np.ndarray | list[np.ndarray]":
    """The vectors that a pre-trained checkpoint gives to ``texts``, float32.

    ``by="text"`` gives an array [N, D], ``by="token"`` a list of N arrays [T, D] of the tokens of each text, special
    tokens included. ``batch`` is the number of texts that are read at once.
    """
    from pathlib import Path

    from ptmbench.bench.errors import UsageError

    if by not in ("text", "token"):
        raise UsageError(f"by is one of text, token, not {by!r}.")
    if isinstance(texts, str):
        raise UsageError(f"texts is a sequence of texts, not one text. Give [{texts!r:.40}].")
    with _working(verbose):
        from ptmbench.bench.runs.predict import vectors

        found = vectors(Path(checkpoint), list(texts), batch)
    return found.pooled if by == "text" else found.tokens


def diagnose(
    checkpoints: "str | PathLike[str] | Sequence[str | PathLike[str]]",
    corpus: "str | PathLike[str] | Sequence[str | PathLike[str]]",
    *,
    verbose: bool = True,
) -> "pd.DataFrame":
    """Measures that tell why pre-trained checkpoints score low; a line for each checkpoint.

    ``corpus`` is text: files or folders. Where held-out text lies next to it, this is used instead. The columns are
    "checkpoint", "loss", "effective rank" of the vectors of tokens, their "width", and "source gain" of an
    encoder-decoder: its loss with the source of another row minus its loss, in nats. NaN stands for what was not
    measured.
    """
    from os import PathLike
    from pathlib import Path

    asked = [[one] if isinstance(one, str | PathLike) else one for one in (checkpoints, corpus)]
    with _working(verbose):
        import pandas as pd

        from ptmbench.bench.runs import diagnose as work

        lines = work.diagnose(*(list(map(Path, several)) for several in asked))
    return pd.DataFrame(lines, columns=list(work.HEADER)).astype({"loss": float, "source gain": float})


def predict(
    checkpoints: "str | PathLike[str] | Sequence[str | PathLike[str]] | PredictOptions",
    texts: "Sequence[str | Sequence[str]] | None" = None,
    *,
    verbose: bool = True,
    **options: Any,
) -> "pd.DataFrame":
    """Predictions of adapted checkpoints, which `run` and `evaluate` keep below adapted/ with ``keep=True``.

    Give either ``texts`` (each one text, or as many as the task has inputs) and one checkpoint, or ``data``, the data
    folder, and ``split`` ("test" if not given). With ``out``, files are written as ``ptmbench predict`` does.

    Returns a line for each example with "task", "id", "prediction", and the other fields that the form writes.
    """
    from os import PathLike
    from pathlib import Path

    from ptmbench.bench.errors import UsageError
    from ptmbench.bench.options import PredictOptions

    one = isinstance(checkpoints, str | PathLike)
    if texts is not None and (options or not one or isinstance(texts, str)):
        raise UsageError("texts are a sequence of texts for one checkpoint, without other options.")
    asked = _asked(PredictOptions, (checkpoints,) if one else checkpoints, options, "checkpoints")
    with _working(verbose, asked):
        import pandas as pd

        from ptmbench.bench.runs import predict as work

        found = work.predict(asked) if texts is None else [work.predict_texts(Path(checkpoints), texts)]
    lines = [{"task": one.task.name} | line for one in found for line in one.lines]
    return pd.DataFrame(lines, columns=None if lines else ["task", "id", "prediction"])


def score(
    task: str,
    predictions: Any,
    gold: "str | PathLike[str] | None" = None,
    *,
    data: "str | PathLike[str] | None" = None,
    split: str | None = None,
) -> dict[str, Any]:
    """The scores of ``predictions`` as the official scorer of ``task`` computes them: {"task", "examples", all metrics,
    "headline"}.

    ``predictions`` are what `predict` returns, a mapping from ids to predictions, predictions in the order of the gold,
    or a file. ``gold`` is the official file with the answers; or give ``data``, the data folder, and ``split`` (the one
    that the task reports if not given).

    Raises `ptmbench.tasks.task.DataError` for the first prediction that does not fit.
    """
    from pathlib import Path

    from ptmbench.bench.scoring import score_values

    answers, folder = (None if path is None else Path(path) for path in (gold, data))
    return score_values.score(task, predictions, answers, folder, split)


def results(folder: "str | PathLike[str]", *, by: str = "record") -> "pd.DataFrame":
    """The records below a run folder as a frame.

    ``by="record"`` gives a line for each record (`ptmbench.leaderboard.scores.frames.records` explains the columns),
    ``by="mean"`` a line for each model, task and adaptation with the mean over seeds and its interval as on the board
    (`ptmbench.leaderboard.scores.frames.means`).

    Raises `ptmbench.leaderboard.records.record.RecordError` if no run has written there. Damaged records are left out,
    and named in ``attrs["damaged"]``.
    """
    from pathlib import Path

    from ptmbench.bench.errors import UsageError
    from ptmbench.leaderboard.records import store
    from ptmbench.leaderboard.scores import frames

    made = {"record": frames.records, "mean": frames.means}
    if by not in made:
        raise UsageError(f"by is one of {', '.join(made)}, not {by!r}.")
    found = store.load([Path(folder)])
    frame = made[by](found.records)
    frame.attrs["damaged"] = [f"{one.file}: {one.reason}" for one in found.damaged]
    return frame


def _asked(kind: type, given: Any, options: dict[str, Any], first: str = "") -> Any:
    """Returns ``given`` if it is an options object of ``kind``. Otherwise builds one from the keywords in ``options``,
    with ``given`` as the keyword ``first`` unless it is None."""
    from ptmbench.bench.errors import UsageError
    from ptmbench.bench.keywords import built, keywords_in_errors, names_of

    if not isinstance(given, kind):
        with keywords_in_errors(names_of(kind)):
            return built(kind, ({} if given is None else {first: given}) | options)
    if options:
        raise UsageError(f"Give either {kind.__name__} or keywords ({', '.join(options)}), not both.")
    return given


@contextmanager
def _working(verbose: bool, asked: Any = None, printing: bool = False) -> Iterator[None]:
    """Prepares the process for TensorFlow. Within the ``with`` block, keeps stdout empty unless ``printing``, and makes
    errors name the keywords of the options ``asked`` instead of flags."""
    from contextlib import nullcontext

    from ptmbench.bench import console, environment
    from ptmbench.bench.keywords import keywords_in_errors, names_of

    environment.prepare()
    names = () if asked is None else names_of(type(asked))
    stdout = nullcontext() if printing else console.stdout_aside()
    with console.silenced(not verbose), stdout, keywords_in_errors(names):
        yield


def _finished(status: int, dry: bool, out: "PathLike[str]") -> "pd.DataFrame":
    """Returns the results below ``out`` (no lines after a dry run), with the command's exit status in ``attrs``."""
    from ptmbench.leaderboard.scores import frames

    frame = frames.records(()) if dry else results(out)
    frame.attrs["exit_status"] = status
    return frame
