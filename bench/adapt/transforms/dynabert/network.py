"""DynaBERT in TensorFlow: the order of units, and the training of sub-networks against their teachers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from ptmbench.bench.adapt import loop
from ptmbench.bench.adapt.adapted import Adapted
from ptmbench.bench.adapt.course import Course
from ptmbench.bench.adapt.distil.network import soft
from ptmbench.bench.adapt.heads import InputRow
from ptmbench.bench.adapt.transforms import elastic, units, zeros
from ptmbench.bench.adapt.transforms.contract import Material, Transformed
from ptmbench.bench.adapt.transforms.dynabert import Settings
from ptmbench.bench.adapt.transforms.elastic import SharedBlocks, Subnetwork
from ptmbench.bench.adapt.transforms.further import Learner, no_lesson
from ptmbench.bench.engine.cost import phase
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.layers.operations import fold
from ptmbench.models.objectives.layer_distillation import vectors_loss
from ptmbench.tasks.forms import Form

_SEED_OFFSET = 9300
"""The number that is folded into the seed for the first sub-network. Other dropout uses other numbers."""


class Lesson(NamedTuple):
    """A sub-network (the student) and the sub-network that it learns from."""

    teacher: Subnetwork
    student: Subnetwork


class States(NamedTuple):
    """The states and the output of a sub-network."""

    layers: Sequence[tf.Tensor]
    """The embeddings, then the output of each layer, [B, T, D] each. An omitted layer passes its input on."""
    numbers: tf.Tensor
    """The output of the head."""


class Teaching(Learner):
    """Trains all students of ``lessons``, sub-networks of ``adapted``, in each step. Their teachers use the weights
    that ``shared`` keeps. With ``last``, only the weights after this step are eligible."""

    def __init__(
        self, adapted: Adapted, shared: SharedBlocks, lessons: Sequence[Lesson], states: float, last: int | None = None
    ):
        self._shared, self._lessons, self._weight, self._last = shared, lessons, states, last
        self._teachers = tuple(dict.fromkeys(one.teacher for one in lessons))
        step = adapted.adaptation.step(self.losses, adapted.learning, **adapted.options)
        super().__init__(adapted, step)

    def losses(self, batch: Mapping[str, Any], seed: Any) -> dict[str, Any]:
        """The sum of the losses of all students."""
        with self._shared.using_copy():
            teacher_states = {one: self._states(one, batch, None) for one in self._teachers}
        losses = []
        for number, (teacher, student) in enumerate(self._lessons):
            found = self._states(student, batch, fold(seed, _SEED_OFFSET + number))
            losses.append(self.loss(student, found, teacher_states[teacher], batch))
        return {"loss": tf.add_n(losses)}

    def loss(self, student: Subnetwork, found: States, teacher_states: States, batch: Mapping[str, Any]) -> tf.Tensor:
        """The loss of the states ``found`` of a ``student`` against the states ``teacher_states`` of its teacher."""
        given = {**batch, "teacher": tf.stop_gradient(targets(teacher_states.numbers, batch))}
        compared = [layer for layer, width in enumerate(student) if width is not None] + [len(student)]
        present = tf.cast(tf.not_equal(batch["tokens"], 0), tf.float32)
        share = present / tf.reduce_sum(present)
        hidden = [vectors_loss(found.layers[at], tf.stop_gradient(teacher_states.layers[at]), share) for at in compared]
        return soft(found.numbers, given, 1.0, "probabilities") + self._weight * tf.add_n(hidden)

    def ready(self, step: int) -> bool:
        return self._last in (None, step)

    def training_flops(self, rows: Sequence[InputRow]) -> float:
        """FLOPs of a step on ``rows``: three forward passes of each student, and one of each teacher."""
        students = sum(self._shared.forward_flops(one.student, rows) for one in self._lessons)
        return 3 * students + sum(self._shared.forward_flops(one, rows) for one in self._teachers)

    def _states(self, chosen: Subnetwork, batch: Mapping[str, Any], seed: Any) -> States:
        with self._shared.using_subnetwork(chosen):
            encoding = self.adapted.encoded(batch, seed)
            return States(encoding.layers, self.adapted.head_output(encoding, batch, seed))


def targets(numbers: tf.Tensor, batch: Mapping[str, Any]) -> tf.Tensor:
    """The output ``numbers`` of a teacher in the format of `bench.adapt.distil.network.soft`."""
    if "score" in batch:
        return numbers[:, 0]
    return tf.transpose(numbers, [0, 2, 1]) if "tags" in batch else numbers


def check(material: Material) -> Adapted:
    """The network of ``material``. Raises `NotApplicable` if it has no sub-networks or cannot teach them."""
    adapted, form = material.predictor.network, material.predictor.task.form
    units.shape_of(adapted)
    name = adapted.adaptation.name
    if reason := no_lesson(name, form):
        raise NotApplicable("no-logits", f"because {reason}")
    if form is Form.TAGGING and material.predictor.settings.crf:
        raise NotApplicable(
            "crf",
            f"because {name} with crf=1 scores sequences of tags, and sub-networks learn the logits of single tags. "
            "Set crf=0.",
        )
    if adapted.freezes:
        raise NotApplicable("nothing-learns", f"because the adaptation {name} trains no layer.")
    return adapted


def sort_units(material: Material, by: str, examples: int) -> tuple[dict[str, np.ndarray], Course]:
    """Returns the weights of the network of ``material`` with the units of each block sorted by importance or in random
    order, and the cost. Importance is measured on ``examples`` training examples (0: all)."""
    adapted, rows, spent = material.predictor.network, material.rows["train"], Course()
    shape, rng = units.shape_of(adapted), np.random.default_rng([material.seed, 8])
    if by == "random":
        scores = {part: [rng.random(count) for count in getattr(shape, part)] for part in ("heads", "inner")}
    else:
        if 0 < examples < len(rows):
            rows = [rows[place] for place in np.sort(rng.permutation(len(rows))[:examples])]
        scores = {part: units.importance(adapted, rows, part) for part in ("heads", "inner")}
        spent.tokens, spent.flops = 2 * sum(row.tokens for row in rows), 6 * adapted.forward_flops(rows)
    return elastic.ranked(adapted, scores), spent


def lessons_of(shape: Any, settings: Settings) -> tuple[list[Lesson], list[Lesson]]:
    """The lessons of the two stages for a stack of ``shape``. Shares that round to the same sub-network count once."""
    widths = [elastic.scaled(shape, width) for width in settings.listed("widths")]
    wide = [Lesson(widths[-1], width) for width in widths]
    deep = [
        Lesson(whole, elastic.scaled(shape, width, depth))
        for whole, width in zip(widths, settings.listed("widths"), strict=True)
        for depth in settings.listed("depths")
    ]
    return list(dict.fromkeys(wide)), list(dict.fromkeys(deep))


def train_subnetworks(material: Material) -> Transformed:
    """The network of ``material`` after rewiring and both stages of training. Raises `NotApplicable` like `check`."""
    adapted, settings = check(material), material.settings
    shape = units.shape_of(adapted)
    weights, course = sort_units(material, settings.by, settings.examples)
    adapted.assign(weights)
    adapted.weights_owner = None
    stages = lessons_of(shape, settings)
    shared = SharedBlocks(adapted, (width for stage in stages for one in stage for width in one.student if width))
    for lessons, epochs, states in zip(
        stages,
        (settings.width_epochs, settings.depth_epochs),
        (settings.width_states, settings.depth_states),
        strict=True,
    ):
        if epochs:
            training = replace(material.training, epochs=epochs)
            shared.copy_weights()
            steps = loop.steps_of(material.rows["train"], training)
            learner = Teaching(adapted, shared, lessons, states, steps)
            zeros.keep(learner, material.predictor)
            with phase("train"):
                found = loop.train(
                    learner, material.rows["train"], training, material.seed, material.score, material.bookmark
                )
            course = course.then(found)
    return Transformed(adapted.arrays(), (), course, extra_costs={"subnetworks": len(stages[-1])})
