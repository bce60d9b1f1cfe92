"""The first stage of TinyBERT's task distillation in TensorFlow: a student imitates every layer of its teacher."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.bench.adapt import loop
from ptmbench.bench.adapt.course import Bookmark, Course
from ptmbench.bench.adapt.distil import targets
from ptmbench.bench.adapt.first import FirstStage
from ptmbench.bench.adapt.heads import InputRow, stack
from ptmbench.bench.adapt.tinybert import Own
from ptmbench.bench.engine.step import TrainStep
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.channels import CHANNELS
from ptmbench.models.layers.config import LinearConfig
from ptmbench.models.layers.core import built
from ptmbench.models.layers.operations import HIDDEN
from ptmbench.models.layers.states import InnerStates, NoInnerStates, inner_states
from ptmbench.models.objectives import layer_distillation
from ptmbench.models.objectives.layer_distillation import TeacherOutputs


def check(teacher: Any, student: Any, rows: Sequence[InputRow], read: Sequence[InputRow], way: str) -> None:
    """Raises `NotApplicable` if the encoder ``student`` cannot imitate the layers of the encoder ``teacher`` by the
    map ``way``, or if the teacher's rows ``read`` have other tokens than the student's ``rows``."""
    for what in ("depth", "heads"):
        if not isinstance(getattr(student, what, None), int) or not isinstance(getattr(teacher, what, None), int):
            raise NotApplicable("no-attention", "because student and teacher need layers with attention.")
    if student.heads != teacher.heads:
        raise NotApplicable(
            "other-heads",
            f"because the student has {student.heads} attention heads and the teacher has {teacher.heads}. "
            "Name models with the same number of heads, such as tinybert for bert of the same size.",
        )
    try:
        layer_distillation.map_layers(student.depth, teacher.depth, way)
    except ValueError as error:
        raise NotApplicable("other-layers", f"because {error} Name another teacher, or choose map=top.") from error
    if not all(np.array_equal(a.arrays["tokens"], b.arrays["tokens"]) for a, b in zip(rows, read, strict=True)):
        raise NotApplicable(
            "other-tokens",
            "because student and teacher read different tokens. Give both the same length with --set, and name a "
            "teacher with the student's tokenizer that marks texts in the same way.",
        )


class First(FirstStage):
    """Trains the encoder of ``network`` and a projection on the teacher's hidden states and attention scores. The step
    is traced once."""

    def __init__(self, network: Any, **options: Any):
        self.network, self.options = network, options
        self.fit: Any = None
        """The projection from the student's vectors to the teacher's."""

    def __call__(
        self,
        adapted: Any,
        rows: Sequence[InputRow],
        settings: Own,
        seed: int,
        bookmark: Bookmark,
        teacher: Any = None,
    ) -> Course:
        if teacher is None or not rows:
            return Course()
        self._reset(teacher.network.network.encoder, settings, seed)
        course, _ = bookmark.begin(self)
        steps = math.ceil(len(rows) / settings.batch) * settings.inner_epochs
        steps = min(steps, settings.max_steps or steps)
        # The row whose states each row imitates: the row itself, except in controls.
        order = targets.row_permutation(rows, settings.shuffle, seed)
        others = {id(row): rows[place] for row, place in zip(rows, order, strict=True)}
        epochs = (loop.epoch_batches(rows, settings.batch, seed, epoch) for epoch in range(settings.inner_epochs))
        batches = islice((batch for epoch in epochs for batch in epoch), course.steps, None)

        def one_step(number: int) -> float:
            chosen = next(batches)
            teacher_rows = [others[id(row)] for row in chosen]
            teacher_batch = stack(teacher_rows)
            teacher_states = teacher.network.run(self._teacher_function, teacher_batch)
            batch = with_states(stack(chosen), teacher_batch, teacher_states)
            course.tokens += sum(row.tokens for row in chosen)
            teacher_flops = teacher.network.forward_flops(teacher_rows)
            course.asked += teacher_flops
            course.flops += teacher_flops + 3 * (adapted.encoder_flops(chosen) + self._fit_flops(chosen))
            return float(self.step(batch, (seed, number), settings.learning_rate)["loss"])

        return self.train(course, steps, seed, bookmark, one_step)

    def _reset(self, teacher: Any, settings: Own, seed: int) -> None:
        """Resets the optimizer and draws the projection by ``seed``, like BERT's weights: N(0, 0.02), a bias of 0."""
        encoder = self.network.encoder
        if self.step is None:
            self.fit = built(LinearConfig(inputs=encoder.width, outputs=teacher.width), name="fit")
            places = layer_distillation.map_layers(encoder.depth, teacher.depth, settings.map)
            self._teacher_function = _states_function(places)
            self.step = TrainStep(self._loss, [*encoder.trainable_variables, *self.fit.variables], **self.options)
        rng = np.random.default_rng([seed, 7])
        self.fit.kernel.assign(rng.normal(0.0, 0.02, self.fit.kernel.shape).astype(np.float32))
        self.fit.bias.assign(np.zeros(self.fit.bias.shape, np.float32))
        self.step.reset()

    def _loss(self, batch: Mapping[str, Any], seed: Any) -> dict[str, Any]:
        """The sum of the losses of all layers."""
        states = _states(self.network.encoder, batch, seed)
        teacher_states = TeacherOutputs(
            tf.unstack(batch["layers"], len(states.layers), 1), tf.unstack(batch["scores"], len(states.attentions), 1)
        )
        scores = [*(one.scores for one in states.attentions), *teacher_states.scores]
        weights = batch["present"], seen_pairs(batch["present"], scores)
        shares = (one / tf.maximum(tf.reduce_sum(one), 1) for one in weights)
        found = layer_distillation.layer_losses(states, teacher_states, self.fit, *shares)
        return {"loss": found["hidden_loss"] + found["attention_loss"], **found}

    def _fit_flops(self, rows: Sequence[InputRow]) -> float:
        """FLOPs of projecting the vectors of the embeddings and of all layers."""
        inputs, outputs = self.fit.kernel.shape
        return 2.0 * inputs * outputs * (self.network.encoder.depth + 1) * sum(row.tokens for row in rows)


def seen_pairs(present: tf.Tensor, scores: Sequence[tf.Tensor]) -> tf.Tensor:
    """float32 [B, T, T]: 1 for pairs of ``present`` tokens [B, T] of which the first attends to the second in all of
    ``scores``, [B, H, T, T] each. A causal mask hides the other pairs."""
    pairs = layer_distillation.pairs(present)
    for one in scores:
        pairs *= tf.cast(one[:, 0] > HIDDEN / 2, tf.float32)
    return pairs


def with_states(
    batch: Mapping[str, np.ndarray], teacher_batch: Mapping[str, np.ndarray], teacher_states: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Adds the teacher's states to ``batch``, which has tokens [B, T]: ``layers`` [B, M + 1, T, D] and ``scores``
    [B, M, H, T, T]. ``teacher_states`` has them for the texts in ``teacher_batch``; they are cut or padded to T tokens.
    Also adds ``present`` float32 [B, T], which is 1 where both texts have a token."""
    length = batch["tokens"].shape[1]

    def fitted(array: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        array = array[tuple(slice(length) if axis in axes else slice(None) for axis in range(array.ndim))]
        return np.pad(array, [(0, length - array.shape[axis] if axis in axes else 0) for axis in range(array.ndim)])

    present = (batch["tokens"] != 0) & (fitted(teacher_batch["tokens"], (1,)) != 0)
    states = {"layers": fitted(teacher_states["layers"], (2,)), "scores": fitted(teacher_states["scores"], (3, 4))}
    return {**batch, **states, "present": present.astype(np.float32)}


def _states_function(places: Sequence[int]) -> Callable:
    """A function for `Adapted.run` that returns the states of a teacher in its layers ``places`` (0: the embeddings):
    ``layers`` [B, M + 1, T, D] and ``scores`` [B, M, H, T, T]."""

    def teacher_states(adapted: Any, batch: Mapping[str, Any], number: Any) -> dict[str, tf.Tensor]:
        states = _states(adapted.network.encoder, batch, None)
        layers = tf.stack([states.layers[place] for place in places], axis=1)
        scores = tf.stack([states.attentions[place - 1].scores for place in places[1:]], axis=1)
        return {"layers": layers, "scores": scores}

    return teacher_states


def _states(encoder: Any, batch: Mapping[str, Any], seed: Any) -> InnerStates:
    try:
        return inner_states(encoder, {name: value for name, value in batch.items() if name in CHANNELS}, seed)
    except NoInnerStates as error:
        raise NotApplicable("no-attention", f"because {error}") from error
