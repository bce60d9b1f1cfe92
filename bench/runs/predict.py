"""Applies checkpoints: predictions of adapted models, with files for test servers, and hidden vectors of texts."""

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ptmbench import tasks
from ptmbench.bench import environment
from ptmbench.bench.console import progress, say
from ptmbench.bench.data import sums
from ptmbench.bench.engine import checkpoint
from ptmbench.bench.engine.checkpoint import Checkpoint, CheckpointError, write_bytes, write_text
from ptmbench.bench.errors import OK, EnvironmentProblem, UsageError
from ptmbench.bench.options import PredictOptions
from ptmbench.models.card import Size
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks.forms import Form, prediction_details
from ptmbench.tasks.task import Example, MissingData, Task

TEXTS = (Form.CLASSIFICATION, Form.REGRESSION, Form.GENERATION)
"""Forms whose inputs are texts only."""


class Predicted(NamedTuple):
    """The predictions of a checkpoint for a split of ``task``."""

    task: Task
    examples: Sequence[Example]
    predictions: Sequence[Any]

    @property
    def lines(self) -> list[dict[str, Any]]:
        """An entry for each example: "id", "prediction", and the further fields of the prediction, if it has some."""
        pairs = zip(self.examples, self.predictions, strict=True)
        return [
            {"id": example.id, "prediction": prediction} | prediction_details(prediction)
            for example, prediction in pairs
        ]


class Vectors(NamedTuple):
    """The hidden vectors of N texts, float32."""

    pooled: np.ndarray
    """[N, D]"""
    tokens: list[np.ndarray]
    """[T, D] for each text, with special tokens"""
    ids: list[np.ndarray]
    """int32 [T] for each text"""


def predict(options: PredictOptions) -> list[Predicted]:
    """Predicts a split with adapted checkpoints (from ``run --keep`` or ``evaluate --keep``), and writes files if
    ``options`` has an output folder.

    Packs test splits of GLUE and SuperGLUE into the zip file of their server. A checkpoint of MNLI also predicts
    MNLI-mm and the diagnostic set, and a checkpoint of SuperGLUE's RTE both diagnostic sets.
    """
    environment.prepare()
    data, split, out = options.data, options.split, options.out
    opened = [_adapted(folder) for folder in options.checkpoints]
    if data is None:
        raise UsageError("`predict` reads the task's own files: give the data folder with --data.")
    predicted = []
    for task, found in _tasks_to_predict(opened, split, data).values():
        sums.check(task, data, split)
        examples = task.examples(data, split)
        with progress(f"predict {task.name} {split}", unit="examples", brief=True) as bar:
            predictions = _predictions(found, examples)
            bar.advance(len(predictions))
        predicted.append(Predicted(task, examples, predictions))
        if out is not None:
            path = out / f"{task.name}.{split}.jsonl"
            lines = [json.dumps(line, ensure_ascii=False) for line in predicted[-1].lines]
            write_text(path, "\n".join(lines) + "\n")
            print(path)
    if out is not None and split == "test":
        _pack(predicted, data, out)
    return predicted


def _pack(predicted: Sequence[Predicted], data: Path, out: Path) -> None:
    """Writes the zip files of the servers whose tasks are among ``predicted``."""
    from ptmbench.bench.scoring import submission, superglue

    archives: dict[str, dict[str, dict[str, Any]]] = {"glue": {}, "superglue": {}}
    for task, examples, predictions in predicted:
        if "submission" in task.extra:
            entered = archives[task.extra["submission"].get("archive", "glue")]
            entered[task.name] = {e.id: p for e, p in zip(examples, predictions, strict=True)}
    reports = []
    if archives["glue"]:
        rows = {name: list(found.values()) for name, found in archives["glue"].items()}
        reports.append(submission.write_glue(rows, out))
    if archives["superglue"]:
        reports.append(superglue.write(archives["superglue"], out, data))
    for report in reports:
        for line in report.notes:
            say(line)
        print(report.path)


def predict_texts(folder: Path, texts: Sequence[str | Sequence[str]]) -> Predicted:
    """Predicts ``texts`` with the adapted checkpoint in ``folder``. Each entry is one text, or as many texts as the
    task has inputs.

    Raises `UsageError` for tasks that need more than texts, such as the candidates of a choice.
    """
    environment.prepare()
    found = _adapted(folder)
    task = tasks.load(found.about["task"])
    if task.form not in TEXTS or task.needs:
        kinds = ", ".join(form.value for form in TEXTS)
        raise UsageError(
            f"{task.title} has the form {task.form.value}, which needs more than texts (forms that do not: {kinds}). "
            "Give its data folder as data."
        )
    inputs = [(one,) if isinstance(one, str) else tuple(one) for one in texts]
    examples = [Example(id=str(n), inputs=one, gold=None) for n, one in enumerate(inputs)]
    return Predicted(task, examples, _predictions(found, examples) if examples else [])


def vectors(folder: Path, texts: Sequence[str], batch: int = 32) -> Vectors:
    """Computes the hidden vectors of ``texts`` with the pre-trained checkpoint in ``folder``."""
    environment.prepare()
    from ptmbench.bench.adapt.heads import InputRow, layout, stack
    from ptmbench.bench.engine import networks

    found = checkpoint.read(folder)
    shape, tokenizer = Size(**found.about["shape"]), Tokenizer.load(found.path("tokenizer.json"))
    network = networks.build(found.about["model"], shape, tokenizer, 0)
    networks.assign(network.loss.variables, found.arrays())
    network.encoder.dropout = 0.0
    rows = [
        InputRow(layout(tokenizer.vocabulary, [ids], shape.length), i) for i, ids in enumerate(tokenizer.encode(texts))
    ]
    import tensorflow as tf

    spec = {name: tf.TensorSpec([None, None], tf.int32) for name in ("tokens", "segments")}
    forward = tf.function(lambda b: tuple(network.encoder(b, seed=None))[:2], autograph=False).get_concrete_function(
        spec
    )
    pooled, tokens = [np.zeros((0, network.encoder.width), np.float32)], []
    with progress("encode", len(rows), "lines", brief=True) as bar:
        for begin in range(0, len(rows), batch):
            part = rows[begin : begin + batch]
            hidden, whole = forward({name: tf.constant(value) for name, value in stack(part).items()})
            pooled.append(whole.numpy())
            tokens += [h[: row.tokens] for h, row in zip(hidden.numpy(), part, strict=True)]
            bar.advance(len(part))
    return Vectors(np.concatenate(pooled), tokens, [row.arrays["tokens"] for row in rows])


def encode(*, checkpoint: Path, source: Path, out: Path, batch: int = 32) -> int:
    """Writes the hidden vectors of each line of ``source``, computed with a pre-trained checkpoint, to an .npz file.

    ``pooled`` float32 [N, D]; ``tokens`` float32 [M, D], the token vectors of all lines in sequence, with special
    tokens; ``offsets`` int64 [N + 1], the first token of each line; ``ids`` int32 [M].
    """
    found, buffer = vectors(checkpoint, _lines(source), batch), io.BytesIO()
    np.savez(
        buffer,
        pooled=found.pooled,
        tokens=np.concatenate(found.tokens),
        offsets=np.cumsum([0, *map(len, found.tokens)]),
        ids=np.concatenate(found.ids),
    )
    out = out if out.suffix == ".npz" else out.with_name(out.name + ".npz")
    write_bytes(out, buffer.getvalue())
    print(out)
    return OK


def _lines(source: Path) -> list[str]:
    try:
        lines = source.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise EnvironmentProblem(f"{source}, line {line}: this is not UTF-8 ({error.reason}). Convert it.") from error
    lines = [line.rstrip("\r") for line in lines[: -1 if lines[-1] == "" else None]]
    if not lines:
        raise EnvironmentProblem(f"{source} is empty: give text, one example a line.")
    return lines


def _adapted(folder: Path) -> Checkpoint:
    found = checkpoint.read(folder)
    if found.about.get("kind") != "adapted":
        raise CheckpointError(
            f"{folder} holds a {found.about.get('kind')} model, but `predict` needs one adapted to a task: "
            "make it with `run --keep` or `evaluate --keep`, which write below adapted/ of the run folder."
        )
    return found


def _tasks_to_predict(opened: Sequence[Checkpoint], split: str, data: Path) -> dict[str, tuple[Task, Checkpoint]]:
    """The tasks to predict and their checkpoints, by name. Raises `MissingData` if the data of a checkpoint's own task
    are missing, and `UsageError` if two checkpoints predict one task."""
    found: dict[str, tuple[Task, Checkpoint]] = {}
    for one in opened:
        name = one.about["task"]
        for task in [tasks.load(name), *_served_by(name)]:
            try:
                task.paths(data, split)
            except MissingData as error:
                if task.name == name:
                    raise
                say(f"Left out: {error}")
                continue
            if task.name in found:
                both = f"{found[task.name][1].folder} and {one.folder}"
                raise UsageError(f"Two checkpoints predict {task.name}: {both}. Give one for each task.")
            found[task.name] = task, one
    return found


def _served_by(name: str) -> list[Task]:
    """Tasks without a training set that are predicted with a model of the task ``name``."""
    return [task for task in tasks.load_all(say) if task.extra.get("trained_on") == name]


def _predictions(found: Checkpoint, examples: Sequence[Any]) -> list[Any]:
    """Predictions of an adapted checkpoint."""
    from ptmbench.bench.adapt.predictor import load

    return load(found).answer(examples).predictions
