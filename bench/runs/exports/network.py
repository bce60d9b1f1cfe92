"""The function that an export computes: the network of a checkpoint on token ids, and the model's own outputs.

`of` takes adapted checkpoints of classification, regression and tagging, and encoders of pre-trained checkpoints. All
functions read "tokens" and "segments" int32 [B, T], in the layout of the checkpoint's tokenizer; 0 is padding:

    classification    "logits" and "probabilities" float32 [B, classes], in the order of the labels
    regression        "score" float32 [B], in the unit of the task, within the range of the training set
    tagging           "logits" float32 [B, T, tags]; the tag of a word is the tag of its first token
    encoder           "token_vectors" float32 [B, T, D] and "pooled" float32 [B, D]
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench import tasks
from ptmbench.bench.adapt import load as adaptation_of
from ptmbench.bench.adapt import loop, predictor
from ptmbench.bench.adapt import settings as adaptation_settings
from ptmbench.bench.adapt.contract import Adaptation
from ptmbench.bench.adapt.heads import InputRow, layout, stack
from ptmbench.bench.engine import checkpoint
from ptmbench.bench.engine.checkpoint import Checkpoint
from ptmbench.bench.errors import UsageError
from ptmbench.bench.runs import keras_model
from ptmbench.models.channels import CHANNELS, TEXT
from ptmbench.models.text.tokenizers import Tokenizer
from ptmbench.tasks.forms import Form

FORMS = (Form.CLASSIFICATION, Form.REGRESSION, Form.TAGGING)
Outputs = Mapping[str, np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Exportable:
    """A network with its weights, ready for export."""

    found: Checkpoint
    tokenizer: Tokenizer
    length: int
    """Largest length of an input, in tokens."""
    function: Callable[[tf.Tensor, tf.Tensor], dict[str, tf.Tensor]]
    """Maps the tensors "tokens" and "segments" to the outputs by name."""
    layers: Sequence[Any]
    """Keras layers with the variables that ``function`` reads."""
    answered: Callable[[Sequence[InputRow]], list[Outputs]]
    """Computes the outputs in ptmbench itself for each row, without batch axis and padding."""
    decision: str
    """The output whose argmax is the prediction; "" without one."""
    labels: tuple[str, ...] = ()
    task: str = ""
    rounds: bool = False
    """Whether activations are rounded to 8 bits. A small difference between engines can then become a whole step."""
    texts: int = 0
    """Number of raw texts in an input of the exported file; 0 for token ids."""
    trained: predictor.Trained | None = None
    """The predictor of an adapted checkpoint."""

    def rows(self, data: Path | None, count: int) -> tuple[list[InputRow], str]:
        """Returns at most ``count`` inputs and their description.

        They are examples of the task's reported split in ``data``, or random token ids in the model's layout if there
        is no ``data`` or no task.
        """
        if self.trained and data is not None:
            task = self.trained.task
            return self.trained.codec.rows(task.examples(data, task.report)[:count]), f"{task.name} {task.report}"
        rng, vocabulary = np.random.default_rng(0), self.tokenizer.vocabulary
        rows = []
        for number in range(count):
            size = 1 + number * (self.length - 1) // max(1, count - 1)
            ids = rng.integers(vocabulary.first, vocabulary.size, size).tolist()
            rows.append(InputRow(layout(vocabulary, [ids], self.length), number))
        return rows, "random token ids"

    def inputs(self, arrays: Mapping[str, np.ndarray]) -> list[InputRow]:
        """Returns the rows of a batch, "tokens" and "segments" [B, T], without padding."""
        sizes = np.count_nonzero(arrays["tokens"], axis=1)
        return [InputRow({name: arrays[name][n, :size] for name in TEXT}, n) for n, size in enumerate(sizes.tolist())]

    def batches(self, rows: Sequence[InputRow], batch: int, length: int | None) -> list[dict[str, np.ndarray]]:
        """Returns ``rows`` as batches of ``batch`` rows for an engine. The last row is repeated to fill its batch. Rows
        are padded to ``length`` tokens, or to the longest row of the batch if it is None."""
        made = []
        for begin in range(0, len(rows), batch):
            part = list(rows[begin : begin + batch])
            part += part[-1:] * (batch - len(part))
            arrays = stack([InputRow({name: row.arrays[name] for name in TEXT}, row.example) for row in part])
            if length is not None:
                arrays = {name: _padded(array, length) for name, array in arrays.items()}
            made.append(arrays)
        return made


def of(folder: Path, length: int | None = None) -> Exportable:
    """Reads the network of the checkpoint in ``folder``, for inputs of at most ``length`` tokens (None for the length
    that it was adapted with).

    Raises `UsageError` for checkpoints without such a function: other forms, decoders, several networks in one, and
    inputs other than text.
    """
    found = checkpoint.read(folder)
    return _adapted(found, length) if found.about.get("kind") == "adapted" else _encoder(found, length)


def _adapted(found: Checkpoint, length: int | None) -> Exportable:
    settings = adaptation_settings.read(found.about["adaptation"], found.about["settings"])
    _check_length(length, settings.length)
    _check(found, settings)
    trained = predictor.load(found, replace(settings, length=length or settings.length))
    network, codec, form = trained.network, trained.codec, trained.task.form
    if other := [name for name in network.reads if name not in TEXT]:
        nouns = " and ".join(CHANNELS[name].noun for name in other)
        raise _refusal(found, f"its network reads {nouns} besides text")
    labels = () if form is Form.REGRESSION else tuple(codec.number)
    width = max(1, len(labels))

    def numbers(tokens: tf.Tensor, segments: tf.Tensor) -> tf.Tensor:
        unused, own_task = tf.zeros([1, network.head.dense.units]), tf.zeros([tf.shape(tokens)[0]], tf.int32)
        given = {"tokens": tokens, "segments": segments, "unused": unused, "task": own_task}
        return network.predicted(given)[..., :width]

    def function(tokens: tf.Tensor, segments: tf.Tensor) -> dict[str, tf.Tensor]:
        given = numbers(tokens, segments)
        if form is Form.REGRESSION:
            score = given[:, 0] * codec.deviation + codec.mean
            return {"score": tf.minimum(tf.maximum(score, codec.low), codec.high)}
        logits = {"logits": tf.identity(given)}
        return logits | ({"probabilities": tf.nn.softmax(given)} if form is Form.CLASSIFICATION else {})

    def answered(rows: Sequence[InputRow]) -> list[Outputs]:
        rows = [InputRow(_with_everything(row.arrays, network.head.dense.units), row.example) for row in rows]
        given = loop.outputs(trained.network, rows, codec.prediction_batch)
        if form is Form.REGRESSION:
            score = [float(one[0]) * codec.deviation + codec.mean for one in given]
            return [{"score": np.float32(np.clip(one, codec.low, codec.high))} for one in score]
        logits = [one[..., :width] for one in given]
        if form is Form.TAGGING:
            return [{"logits": one[: row.tokens]} for one, row in zip(logits, rows, strict=True)]
        return [{"logits": one, "probabilities": _softmax(one)} for one in logits]

    return Exportable(
        found=found,
        tokenizer=trained.own.tokenizer,
        length=length or settings.length,
        function=function,
        layers=(network.network.loss, network.reading, network.head),
        answered=answered,
        decision="" if form is Form.REGRESSION else "logits",
        labels=labels,
        task=trained.task.name,
        rounds=any(one.transform.rebuilds and getattr(one.settings, "activations", 0) for one in trained.chain),
        trained=trained,
    )


def _check(found: Checkpoint, settings: adaptation_settings.Settings) -> None:
    """Raises `UsageError` for adapted checkpoints whose predictions take more than one forward pass of one network."""
    form, adaptation = tasks.load(found.about["task"]).form, adaptation_of(found.about["adaptation"])
    if form not in FORMS:
        raise _refusal(found, f"{form.value} is not among {', '.join(one.value for one in FORMS)}")
    if type(adaptation).numbers is not Adaptation.numbers:
        raise _refusal(found, f"the adaptation {adaptation.name} decides while it predicts how much it computes")
    if found.about.get("neighbours") or "first.safetensors" in found.files:
        raise _refusal(found, "its predictions need a second network")
    if getattr(settings, "crf", 0):
        raise _refusal(found, "with crf=1 whole sequences of tags are searched")


def _encoder(found: Checkpoint, length: int | None) -> Exportable:
    model = keras_model.load(found.folder)
    _check_length(length, model.encoder.length)

    def function(tokens: tf.Tensor, segments: tf.Tensor) -> dict[str, tf.Tensor]:
        given = model({"tokens": tokens, "segments": segments})
        return {"token_vectors": given["tokens"], "pooled": given["pooled"]}  # ONNX: no output is named like an input

    spec = tf.TensorSpec([None, None], tf.int32)
    traced = tf.function(function, autograph=False, input_signature=[spec, spec])

    def answered(rows: Sequence[InputRow]) -> list[Outputs]:
        outputs = []
        for row in rows:
            given = traced(*(tf.constant(row.arrays[name][None]) for name in TEXT))
            outputs.append({name: given[name].numpy()[0] for name in ("token_vectors", "pooled")})
        return outputs

    return Exportable(
        found=found,
        tokenizer=model.tokenizer,
        length=length or model.encoder.length,
        function=function,
        layers=(model.encoder,),
        answered=answered,
        decision="",
    )


def _check_length(length: int | None, most: int) -> None:
    if length is not None and length > most:
        raise UsageError(f"--length is {length}, but this checkpoint reads at most {most} tokens. Give at most {most}.")


def _refusal(found: Checkpoint, reason: str) -> UsageError:
    return UsageError(f"{found.folder} cannot be exported for other engines, because {reason}. Use `predict` with it.")


def _with_everything(arrays: Mapping[str, np.ndarray], units: int) -> dict[str, np.ndarray]:
    """Returns the text inputs of a row, "unused" for the head, which excludes no answer, and "task" for a network of
    several tasks, which is the cell's own."""
    return {name: arrays[name] for name in TEXT} | {"unused": np.zeros(units, np.float32), "task": np.int32(0)}


def _padded(array: np.ndarray, length: int) -> np.ndarray:
    """Pads or cuts [B, T] to [B, ``length``]. `stack` rounds lengths up, so columns beyond ``length`` are padding."""
    return np.pad(array[:, :length], ((0, 0), (0, max(0, length - array.shape[1]))))


def _softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max())
    return powers / powers.sum()
