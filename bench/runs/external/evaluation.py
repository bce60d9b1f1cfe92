"""Trained Keras models of other projects, evaluated and measured by the harness.

``ptmbench evaluate --adapter`` takes the model from the user's file (`bench.runs.external.adapter`), and ``ptmbench
evaluate PRESET`` from a preset of keras-hub (`bench.runs.external.presets`). Predictions are scored as in any cell. The
record is in the external division. It has the number of parameters, and measured latency and peak memory. FLOPs are
unknown.
"""

import hashlib
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ptmbench.bench import environment
from ptmbench.bench.console import progress, say
from ptmbench.bench.data import sources
from ptmbench.bench.engine.cost import Meter, Traced, phase
from ptmbench.bench.errors import BrokenFile, NotApplicable, UsageError
from ptmbench.bench.runs import examples
from ptmbench.bench.runs.answers import Context, Outcome
from ptmbench.bench.runs.artefacts import Cell
from ptmbench.bench.runs.cell import failure
from ptmbench.bench.runs.execute import NO_DATA, exit_status, locked_folder
from ptmbench.bench.runs.external import adapter as adapters
from ptmbench.bench.runs.external import presets
from ptmbench.bench.runs.external.adapter import ExternalModel
from ptmbench.bench.runs.external.options import AdapterOptions, PresetOptions
from ptmbench.bench.runs.external.records import System, score_line
from ptmbench.bench.runs.results import recorded
from ptmbench.bench.runs.run import tasks_of
from ptmbench.bench.runs.suites import Suite
from ptmbench.bench.scoring import score
from ptmbench.leaderboard import board
from ptmbench.leaderboard.records import record as records
from ptmbench.tasks.forms import Form
from ptmbench.tasks.task import Example, Task

FORMS = (Form.CLASSIFICATION, Form.REGRESSION, Form.TAGGING)
BATCH = 32


def evaluate(options: AdapterOptions | PresetOptions) -> tuple[int, Path]:
    """Evaluates the model of an adapter file or a preset on tasks and writes records and the board to the run folder.

    A model that was evaluated before is not evaluated again. Returns the exit status (`exit_status`) and the run
    folder.
    """
    if isinstance(options, PresetOptions):
        found: ExternalModel = presets.read(options.preset, options.name)
    else:
        found = adapters.read(options.adapter)
    out, data = options.out or Path("runs") / found.name, options.data
    System(name=found.name, source={})  # raises for a wrong name before a file is written
    seeds = range(options.seeds or Suite(summary="", models=(), tasks=()).seeds)
    drawn = seeds if options.seed is None else [options.seed]
    if found.fixed:
        drawn = drawn[:1]
    asked = [(task, one) for task in tasks_of(options.tasks) for one in drawn]
    with locked_folder(out):
        folder = data or sources.embedded(out)
        command = ["ptmbench", "evaluate", *options.arguments()]
        outcomes = []
        with progress("Cells", len(asked), "cells") as bar:
            for task, one in asked:
                work = _Evaluation(found, task, one, folder, out, options.limit or 0)
                outcomes.append(work.run([*command, "--tasks", task.name, "--seed", str(one)]))
                bar.advance()
        page = board.build([out], out / "board")
    told = ", ".join(f"{outcomes.count(one)} {one.replace('_', ' ')}" for one in sorted(set(outcomes)))
    say(f"{len(asked)} cells ({told}). Board: {page}")
    return exit_status(outcomes, folder), out


@dataclass
class _Evaluation:
    """One cell: ``model`` on ``task``."""

    model: ExternalModel
    task: Task
    seed: int
    data: Path
    out: Path
    limit: int
    outcome: Outcome = field(default_factory=Outcome)

    def run(self, command: Sequence[str]) -> str:
        """Records the cell and returns its status, `NO_DATA`, or "recorded before"."""
        status, reason, source = "ok", None, {}
        context = Context(
            data=self.data, out=self.out, source=sources.source_of(self.data), command=shlex.join(command)
        )
        try:
            with Meter() as meter:
                source = self._scored()
            if not source:
                return "recorded before"
        except Exception as error:  # a failed cell does not stop the others
            status, reason = failure(error, self.task.title)
            say(f"{self.model.name} {self.task.name} seed {self.seed}: {status.replace('_', ' ')}, {reason['text']}")
        self.outcome.cost |= meter.cost() | {"threads": environment.threads()}
        if status == "ok":
            self.outcome.cost["latency_seconds"] = meter.seconds.get("evaluate", 0.0) / self.outcome.examples
        system = self._system(source)
        made = system.record(self._cell(system), context, self.task, self.outcome, status, reason, environment.device())
        if status == "ok":
            say(score_line(made))
        if made.key[:12] not in recorded(self.out):
            records.write(self.out, made)
        return NO_DATA if reason and reason["code"] == "missing-data" else status

    def _system(self, more: dict[str, str]) -> System:
        source = {"made": self.model.made, "file": self.model.path.name, "sha256": self.model.sha256, **more}
        return System(name=self.model.name, source=source, fixed=self.model.fixed)

    def _cell(self, system: System) -> Cell:
        return system.cell(self.task, sources.fingerprint(self.task, self.data), self.seed, self.limit)

    def _scored(self) -> dict[str, str]:
        """Fills ``outcome`` and returns the hash of the model's weights for the record; {} if there is a record."""
        import keras

        if self.task.form not in FORMS:
            forms = ", ".join(FORMS)
            raise NotApplicable("form", f"because trained models of other projects are evaluated on {forms} tasks.")
        with phase("load"):
            asked = examples.read(self.task, self.data, self.task.report)[: self.limit or None]
            network = self.model.load(self.task, self.seed)
            source = {"weights_sha256": weights_sha256(network)}
        system = self._system(source)
        cell = self._cell(system)
        if system.key(cell)[:12] in recorded(self.out):
            return {}
        self.outcome.examples = len(asked)
        predictions = predicted(self.model, network, self.task, asked)
        self.outcome.cost["parameters"] = network.count_params()
        with phase("score"):
            self.outcome.scores = score.scores(self.task, asked, predictions)
            self.outcome.signatures = score.signatures(self.task, asked)
            self.outcome.predictions = score.keep_predictions(self.out, system.key(cell), asked, predictions)
        del network
        keras.utils.clear_session()
        return source


def predicted(model: ExternalModel, network: Any, task: Task, asked: Sequence[Example]) -> list[Any]:
    """Returns the predictions of ``network`` for the examples ``asked``. Raises `BrokenFile` if its outputs do not fit
    the task."""
    questions = [[example.inputs] for example in asked]
    if task.form is Form.CLASSIFICATION:
        told = [task.questions(example) for example in asked]
        questions = [[question.inputs for question in own] for own in told]
    outputs = iter(_outputs(model, network, task, [inputs for own in questions for inputs in own]))
    if task.form is Form.REGRESSION:
        return [float(next(outputs)) for _ in asked]
    if task.form is Form.TAGGING:
        return [[task.labels[k] for k in next(outputs)[: len(example.inputs)].argmax(-1)] for example in asked]
    number = {answer: i for i, answer in enumerate(task.answers or task.labels)}
    return [
        task.chosen([_softmax(next(outputs)[[number[answer] for answer in question.answers]]) for question in own])
        for own in told
    ]


def _outputs(model: ExternalModel, network: Any, task: Task, inputs: Sequence[tuple[str, ...]]) -> Iterator[np.ndarray]:
    """Yields the network's output for each of ``inputs``, in float64: a number, [labels] or [T, labels]."""
    import tensorflow as tf

    chunks = [inputs[begin : begin + BATCH] for begin in range(0, len(inputs), BATCH)]
    with phase("encode"):
        encoded = [tf.nest.map_structure(tf.convert_to_tensor, model.encode(chunk, task)) for chunk in chunks]
    for chunk, batch in zip(chunks, encoded, strict=True):
        for array in tf.nest.flatten(batch):
            _check(model, task, array.shape.rank and array.shape[0] == len(chunk), f"encode gave {array.shape} for",
                   len(chunk), "a row for each")  # fmt: skip
    forward = Traced(
        lambda: tf.function(lambda batch: network(batch, training=False)).get_concrete_function(_spec(encoded))
    )
    for chunk, batch in zip(chunks, encoded, strict=True):
        with phase("evaluate"):
            logits = forward(batch)
            logits = np.asarray(logits, np.float64) if tf.is_tensor(logits) else np.zeros(0)
        _check_logits(model, task, chunk, logits)
        yield from logits.reshape(len(chunk)) if task.form is Form.REGRESSION else logits


def _spec(batches: Sequence[Any]) -> Any:
    """Returns the common shapes of ``batches``, with None for the rows and for dimensions that differ."""
    import tensorflow as tf

    def common(*arrays: Any) -> Any:
        sizes = [{array.shape[axis] for array in arrays} for axis in range(arrays[0].shape.rank)]
        shape = [None, *(one.pop() if len(one) == 1 else None for one in sizes[1:])]
        return tf.TensorSpec(shape, arrays[0].dtype)

    return tf.nest.map_structure(common, *batches)


def _check_logits(model: ExternalModel, task: Task, chunk: Sequence[tuple[str, ...]], logits: np.ndarray) -> None:
    n, labels = len(chunk), len(task.answers or task.labels)
    if task.form is Form.REGRESSION:
        fitting, wanted = logits.shape in ((n,), (n, 1)), f"a number for each, [{n}] or [{n}, 1]"
    elif task.form is Form.TAGGING:
        words = max(map(len, chunk))
        fitting = logits.ndim == 3 and len(logits) == n and logits.shape[1] >= words and logits.shape[2] == labels
        wanted = f"[{n}, {words} words or more, {labels} labels]"
    else:
        fitting, wanted = logits.shape == (n, labels), f"[{n}, {labels} labels]"
    _check(model, task, fitting, f"the model gave an output of shape {list(logits.shape)} for", n, wanted)
    _check(model, task, np.isfinite(logits).all(), "the model gave NaN or infinity for some of", n, "finite numbers")


def _check(model: ExternalModel, task: Task, right: Any, what: str, count: int, wanted: str) -> None:
    if not right:
        raise BrokenFile(f"{model.path}: {what} {count} inputs of {task.title}; expected: {wanted}. {model.advice}")


def weights_sha256(model: Any) -> str:
    """Returns a SHA-256 over the weights of a Keras model, in their order."""
    sum_ = hashlib.sha256()
    for weight in model.weights:
        array = np.asarray(weight)
        sum_.update(f"{array.shape}{array.dtype}\0".encode() + array.tobytes())
    return sum_.hexdigest()


def check_alone(**given: Any) -> None:
    """Raises `UsageError` for options of ``evaluate`` that do not apply to a trained model."""
    if name := next((name for name, value in given.items() if value), ""):
        raise UsageError(
            f"--{name} is for checkpoints, and this model is already trained for its tasks. Leave --{name} out."
        )


def _softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max())
    return powers / powers.sum()
