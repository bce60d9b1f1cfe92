"""Module replacing in TensorFlow: the hybrid of predecessor and successor, and its training."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.bench.adapt import built, loop
from ptmbench.bench.adapt.adapted import Adapted
from ptmbench.bench.adapt.heads import InputRow
from ptmbench.bench.adapt.parts import check_stepwise
from ptmbench.bench.adapt.settings import Settings as Adapting
from ptmbench.bench.adapt.transforms import units, zeros
from ptmbench.bench.adapt.transforms.contract import Material, Transformed
from ptmbench.bench.adapt.transforms.further import Learner
from ptmbench.bench.adapt.transforms.theseus import Settings
from ptmbench.bench.engine.cost import phase
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.layers.core import Drop, Rows


class Replacing(Learner):
    """Trains the layers of ``successor`` in a hybrid with the frozen layers of ``predecessor``.

    The draws of a step depend only on the seed and the step number, so a resumed training repeats them.
    """

    def __init__(self, successor: Adapted, predecessor: Adapted, settings: Settings, steps: int):
        stack, self._old = successor.network.encoder.stack, predecessor.network.encoder.stack
        self._stack, self._settings, self._steps = stack, settings, steps
        self.chosen = tf.Variable(tf.ones(len(stack.blocks), tf.bool), trainable=False)
        """For each module, whether the successor's layer replaces it in the next step."""
        step = successor.adaptation.step(self.losses, stack.trainable_variables, **successor.options)
        super().__init__(successor, step)

    def make(
        self, rows: Sequence[InputRow], settings: Adapting, seed: tuple[int, int]
    ) -> tuple[Sequence[InputRow], float]:
        """Draws the modules that are replaced in the step of ``seed``, and returns the rows of the adaptation."""
        rng = np.random.default_rng([seed[0], 7, seed[1]])
        self.chosen.assign(rng.random(len(self._stack.blocks)) < self._settings.probability(seed[1], self._steps))
        return self.adapted.make(rows, settings, seed)

    def losses(self, batch: Mapping[str, Any], seed: Any) -> dict[str, Any]:
        """The losses of the hybrid, whose layers all work: `layerdrop` leaves out none of them."""
        with self._stack.detoured(self.module), self._old.detoured(None):
            return self.adapted.losses(batch, seed)

    def module(self, block: Any, x: tf.Tensor, index: int, bias: tf.Tensor, rows: Rows, drop: Drop) -> tf.Tensor:
        """The output of module ``index`` for ``x`` [N, D]: of the successor's ``block`` or of the predecessor's
        layers."""
        first = index * self._settings.replaced
        above = drop.at(10 * len(self._stack.blocks))  # other dropout seeds than the successor's

        def old() -> tf.Tensor:
            found = x
            for number in range(first, first + self._settings.replaced):
                found = self._old.step(number, found, bias, rows, above)
            return found

        return tf.cond(self.chosen[index], lambda: block(x), old)

    def training_flops(self, rows: Sequence[InputRow]) -> float:
        """FLOPs of a step on ``rows`` with the modules that are ``chosen``. The backward pass ends at the lowest
        replaced module, and frozen layers need no gradients of their kernels."""
        new, old = (
            [sum(block.flops(row.tokens, row.tokens) for row in rows) for _, block in stack.config.parts()]
            for stack in (self._stack, self._old)
        )
        count, spent, reached = self._settings.replaced, 0.0, False
        for number, (chosen, flops) in enumerate(zip(self.chosen.numpy(), new, strict=True)):
            reached = reached or bool(chosen)
            whole = sum(old[number * count : (number + 1) * count])
            spent += 3 * flops if chosen else (2 if reached else 1) * whole
        outside = self.adapted.forward_flops(rows) - sum(new)  # the frozen pooler
        return spent + (2 if reached else 1) * outside


def train_successor(material: Material) -> Transformed:
    """Trains a successor of the network of ``material`` by module replacing, and returns it.

    Raises `NotApplicable` if the layers share their weights, are frozen, or do not form modules.
    """
    settings, old, rows = material.settings, material.predictor.network, material.rows["train"]
    whole = units.shape_of(old)
    check_stepwise(old.network.encoder, "none of them can be replaced")
    if old.network.encoder.stack.config.shared:
        raise NotApplicable("shared-layers", "because its layers share their weights, so none of them can be replaced.")
    if old.freezes:
        raise NotApplicable("nothing-learns", f"because the adaptation {old.adaptation.name} trains no layer.")
    weights, shape = units.keep_layers(old, range(settings.modules(whole.layers)))
    if settings.start == "random":
        zeros.check_none(material.predictor, "theseus:start=random")
        fresh = built.random_weights(*material.predictor.own, material.seed, shape)
        inside = old.network.encoder.stack.path + "/"
        weights |= {name: fresh[name] for name in weights if name.startswith(inside)}
    smaller = replace(material.predictor, weights=weights, shape=shape)
    units.check_fits(smaller)
    new = smaller.network
    new.weights_owner = None
    learner = Replacing(new, old, settings, loop.steps_of(rows, material.training))
    zeros.keep(learner, material.predictor)
    with phase("train"):
        course = loop.train(
            learner, rows, material.training, material.seed, lambda: material.score(smaller), material.bookmark
        )
    return Transformed(new.arrays(), (), course, shape)
