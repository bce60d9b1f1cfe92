"""AdaBERT in TensorFlow: the probes, the search, and the training of the final network."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.bench.adapt import built, loop, shapes
from ptmbench.bench.adapt.adapted import Adapted
from ptmbench.bench.adapt.contract import Adaptation
from ptmbench.bench.adapt.course import Course
from ptmbench.bench.adapt.heads import InputRow
from ptmbench.bench.adapt.parts import token_table
from ptmbench.bench.adapt.predictor import Trained
from ptmbench.bench.adapt.shapes import CellShape
from ptmbench.bench.adapt.transforms import kernels, zeros
from ptmbench.bench.adapt.transforms.adabert import TRANSFORM, candidates
from ptmbench.bench.adapt.transforms.adabert.learners import Probing, Searching, Tuning
from ptmbench.bench.adapt.transforms.contract import Material, Transformed
from ptmbench.bench.engine.cost import phase
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.layers.encoding import mean

_PLAIN = ("extend", "step", "second", "loss", "layer_loss", "make", "numbers")
"""Methods of an adaptation that must be those of fine-tuning, because the student is trained and evaluated without
them."""


def check(material: Material) -> Adapted:
    """The network of ``material``. Raises `NotApplicable` if no network of cells can learn from it."""
    adapted, form = material.predictor.network, material.predictor.task.form
    name = adapted.adaptation.name
    if reason := TRANSFORM.obstacle(name, form):
        raise NotApplicable("no-classes", f"because {reason}")
    if reason := shapes.cells_obstacle(getattr(adapted.network.encoder, "config", None)):
        raise NotApplicable("other-blocks", f"because {reason}")
    zeros.check_none(material.predictor, "adabert")
    if adapted.freezes:
        raise NotApplicable("nothing-learns", f"because the adaptation {name} trains no layer.")
    kernels.check_blocks_used(adapted)
    changed = [one for one in _PLAIN if getattr(type(adapted.adaptation), one) is not getattr(Adaptation, one)]
    if changed or adapted.neighbours or material.predictor.settings.layers:
        raise NotApplicable(
            "more-than-finetuning",
            f"because the adaptation {name} does more than to train an encoder with a head. Use it with finetune.",
        )
    return adapted


def states(adapted: Adapted, batch: Mapping[str, tf.Tensor], number: tf.Tensor) -> dict[str, tf.Tensor]:
    """A teacher's outputs for ``batch``: "features" [B, L, D], the mean vectors of its layers, and "logits" [B, C]."""
    encoding = adapted.encoded(batch)
    features = tf.stack([mean(layer, batch["tokens"]) for layer in encoding.layers[1:]], axis=1)
    return {"features": features, "logits": adapted.head_output(encoding, batch)}


def rows_with_hints(material: Material, teacher: Adapted) -> tuple[list[InputRow], Course]:
    """Returns the training rows of ``material`` with "hints" float32 [L, C], the logits of the probes of all layers,
    and the cost. With ``hints=logits`` they are the teacher's own logits [1, C]; with ``hints=none`` there are none."""
    rows, settings = list(material.rows["train"]), material.settings
    if settings.hints == "none":
        return rows, Course()
    with phase("teach"):
        outputs = loop.outputs(teacher, rows, answer=partial(teacher.run, states))
    spent = Course(flops=teacher.forward_flops(rows))
    if settings.hints == "logits":
        return [_with(row, hints=one["logits"][None]) for row, one in zip(rows, outputs, strict=True)], spent
    given = [_with(row, features=one["features"]) for row, one in zip(rows, outputs, strict=True)]
    rate = {"epochs": settings.probe_epochs, "learning_rate": settings.probe_rate}
    training = replace(material.training, **rate)
    learner = Probing(teacher, *outputs[0]["features"].shape, len(outputs[0]["logits"]), loop.steps_of(rows, training))
    course = _trained(learner, given, training, material)
    hints = learner.logits(
        np.stack([one["features"] for one in outputs]), np.stack([row.arrays["unused"] for row in rows])
    )
    spent.flops += learner.training_flops(rows) / 3
    return [_with(row, hints=one) for row, one in zip(rows, hints, strict=True)], spent.then(course)


def projection(teacher: Adapted, width: int) -> np.ndarray:
    """The matrix [D, W] that projects the token vectors [V, D] of ``teacher``. Its columns are the first ``width``
    principal components, without centring. The entry with the largest magnitude in each column is positive."""
    vectors = _widened(teacher, token_table(teacher.network.encoder).numpy())
    _, found = np.linalg.eigh(vectors.T.astype(np.float64) @ vectors)
    found = found[:, ::-1][:, :width]
    signs = np.sign(found[np.abs(found).argmax(0), np.arange(width)])
    return (found * signs).astype(np.float32)


def initial_weights(material: Material, teacher: Adapted, shape: CellShape) -> dict[str, np.ndarray]:
    """The initial weights of a student of ``shape``: projected embeddings, new cells, and the teacher's weights for
    layers outside the encoder (of pre-training)."""
    weights, known = dict(built.random_weights(*material.predictor.own, material.seed, shape)), teacher.arrays()
    encoder, basis = teacher.network.encoder, projection(teacher, shape.width)
    tables = [variable for variable in encoder.embeddings.variables if len(variable.shape) == 2]
    for name, variable in zip(kernels.names(teacher, tables), tables, strict=True):
        weights[name] = _widened(teacher, variable.numpy()) @ basis
    for name, array in weights.items():
        if not name.startswith(f"{encoder.path}/") and name in known and known[name].shape == array.shape:
            weights[name] = known[name]
    return weights


def student(material: Material, teacher: Adapted, shape: CellShape) -> Trained:
    """An untrained predictor of ``shape`` with the weights of `initial_weights`."""
    made = replace(material.predictor, weights=None, shape=shape)
    made.learning.reset(initial_weights(material, teacher, shape), material.seed)
    return made


def search_and_train(material: Material) -> Transformed:
    """Searches for a network of cells for the task of ``material``, trains it, and returns it. Raises `NotApplicable`
    like `check`."""
    teacher, settings = check(material), material.settings
    width = min(settings.width, teacher.network.encoder.width)
    whole = candidates.space(width, settings.layers, settings.nodes)
    rows, course = rows_with_hints(material, teacher)
    extra_costs, weights = {"probe_flops": course.flops, "search_flops": 0.0}, None
    if settings.searches:
        relaxed = student(material, teacher, whole).learning
        training = replace(material.training, epochs=settings.search_epochs)
        learner = Searching(relaxed, settings, loop.steps_of(rows, training), candidates.costs(width))
        spent = _trained(learner, rows, training, material)
        shape = candidates.derived(*learner.scores(), whole)
        weights, extra_costs["search_flops"], course = relaxed.arrays(), spent.flops, course.then(spent)
    else:
        shape = candidates.drawn(whole, settings.size, material.seed)
    made = student(material, teacher, shape)
    if weights is not None and settings.start == "search":
        made.learning.assign({name: weights[name] for name in made.learning.arrays()})
    training = replace(material.training, epochs=settings.tuning_epochs)
    tuning = Tuning(made.learning, settings)
    spent = _trained(tuning, rows, training, material, lambda: material.score(made))
    counts = {"cells": shape.layers, "cell_parameters": candidates.parameters(shape)}
    extra_costs |= counts | {"convolutions": candidates.convolutions(shape)}
    return Transformed(made.learning.arrays(), (), course.then(spent), shape, extra_costs)


def _trained(
    learner: Any,
    rows: Sequence[InputRow],
    training: Any,
    material: Material,
    score: Callable[[], float] | None = None,
) -> Course:
    """Trains ``learner`` and returns the course. Without a ``score``, it keeps the weights after the last step."""
    with phase("train"):
        return loop.train(learner, rows, training, material.seed, score, material.bookmark)


def _widened(teacher: Adapted, vectors: np.ndarray) -> np.ndarray:
    """The embedding ``vectors`` [R, E], widened to the width of the layers as in the encoder, but without the bias."""
    encoder = teacher.network.encoder
    return vectors if encoder.config.widening is None else vectors @ encoder.widening.kernel.numpy()


def _with(row: InputRow, **arrays: np.ndarray) -> InputRow:
    return replace(row, arrays=row.arrays | arrays)
