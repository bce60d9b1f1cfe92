"""L0 gates of attention heads in TensorFlow: their distribution, their penalty, and their training."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptmbench.bench.adapt import loop
from ptmbench.bench.adapt.adapted import Adapted
from ptmbench.bench.adapt.rated import RatedStep
from ptmbench.bench.adapt.settings import Settings as Adapting
from ptmbench.bench.adapt.transforms import units, zeros
from ptmbench.bench.adapt.transforms.contract import Material, Transformed
from ptmbench.bench.adapt.transforms.further import Learner
from ptmbench.bench.adapt.transforms.gates import Settings
from ptmbench.bench.engine.cost import phase
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.layers.operations import fold

BETA, GAMMA, ZETA = 0.33, -0.1, 1.1
"""Temperature and limits of the stretched distribution."""
INITIAL_LOG_A = 2.0
"""log a of all gates before training."""
_SEED_OFFSET = 9100
"""The number that is folded into the seed for the first draw. Dropout uses other numbers."""


def drawn(log_a: tf.Tensor, u: tf.Tensor) -> tf.Tensor:
    """The gates for parameters ``log_a`` and numbers ``u`` between 0 and 1, of the same shape."""
    s = tf.sigmoid((tf.math.log(u) - tf.math.log(1.0 - u) + log_a) / BETA)
    return tf.clip_by_value(s * (ZETA - GAMMA) + GAMMA, 0.0, 1.0)


def open_probability(log_a: tf.Tensor) -> tf.Tensor:
    """1 - P(g = 0)."""
    return tf.sigmoid(log_a - BETA * math.log(-GAMMA / ZETA))


def open_heads(log_a: np.ndarray) -> np.ndarray:
    """The numbers of the heads of a block that are kept: those with P(g = 1) > P(g = 0), at least one."""
    return np.flatnonzero((log_a > 0) | (np.arange(len(log_a)) == np.argmax(log_a)))


class Gate(keras.layers.Layer):
    """An extension that multiplies the results of heads, [N, H * K], by their ``gates`` [H]."""

    def __init__(self) -> None:
        super().__init__(autocast=False)
        self.gates: Any = None
        self.built = True

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return x * tf.repeat(tf.cast(self.gates, x.dtype), x.shape[-1] // self.gates.shape[0])


class Gating(Learner):
    """Trains ``adapted`` with the peak learning rate ``rate``, and the parameters ``log_a`` of a gate for each head of
    each block with that of ``settings``."""

    def __init__(self, adapted: Adapted, settings: Settings, steps: int, rate: float):
        self._settings, self._steps = settings, steps
        self._places = [block.attention.projection for block in adapted.network.encoder.stack.blocks]
        self._gates = [Gate() for _ in self._places]
        self.log_a = [
            keras.Variable(np.full(heads, INITIAL_LOG_A, np.float32), name=f"log_a_{number}")
            for number, heads in enumerate(units.shape_of(adapted).heads)
        ]
        step = RatedStep(self.losses, [*adapted.learning, *self.log_a], **adapted.options)
        # Shares above 1 would multiply the rounding errors of small updates.
        self._peak = max(rate, settings.gate_rate)
        rates = [rate] * len(adapted.learning) + [settings.gate_rate] * len(self.log_a)
        step.shares.assign([one / self._peak for one in rates])
        super().__init__(adapted, step)

    def losses(self, batch: Mapping[str, Any], seed: Any) -> dict[str, Any]:
        """The losses of the network with randomly drawn gates; "loss" includes the penalty."""
        for number, (gate, log_a) in enumerate(zip(self._gates, self.log_a, strict=True)):
            u = tf.random.stateless_uniform(log_a.shape, fold(seed, _SEED_OFFSET + number), 1e-6, 1 - 1e-6)
            gate.gates = drawn(tf.convert_to_tensor(log_a), u)
        for place, gate in zip(self._places, self._gates, strict=True):
            place.attach("input", gate)
        try:
            found = self.adapted.losses(batch, seed)
        finally:
            for place, gate in zip(self._places, self._gates, strict=True):
                place.detach("input", gate)
        return found | {"loss": found["loss"] + self._settings.penalty * self.open_share()}

    def open_share(self) -> tf.Tensor:
        """The expected share of gates that are not 0, a scalar."""
        return tf.reduce_mean(open_probability(tf.concat(self.log_a, axis=0)))

    def kept(self) -> list[np.ndarray]:
        """The numbers of the heads that are kept in each block."""
        return [open_heads(one.numpy()) for one in self.log_a]

    @contextmanager
    def closed(self) -> Iterator[None]:
        """A context in which removed heads have no effect: their rows of the output kernel are 0."""
        kernels = [place.kernel for place in self._places]
        before = [kernel.numpy() for kernel in kernels]
        for kernel, array, log_a, stay in zip(kernels, before, self.log_a, self.kept(), strict=True):
            gates = np.isin(np.arange(log_a.shape[0]), stay)
            kernel.assign(array * np.repeat(gates, len(array) // len(gates))[:, None])
        try:
            yield
        finally:
            for kernel, array in zip(kernels, before, strict=True):
                kernel.assign(array)

    def rate(self, step: int, steps: int, settings: Adapting) -> float:
        """The larger one of the two learning rates."""
        return super().rate(step, steps, replace(settings, learning_rate=self._peak))

    def ready(self, step: int) -> bool:
        return step == self._steps

    def state(self) -> list[np.ndarray]:
        return [*self.adapted.state(), *(one.numpy() for one in self.log_a)]

    def restore(self, state: Sequence[np.ndarray]) -> None:
        count = len(self.log_a)
        self.adapted.restore(list(state[:-count]))
        for variable, value in zip(self.log_a, state[-count:], strict=True):
            variable.assign(value)


def train_with_gates(material: Material) -> Transformed:
    """Trains the network of ``material`` with gates, and returns it without the heads whose gates have closed. Raises
    `NotApplicable` if the adaptation freezes the encoder or the network has no heads that can be removed."""
    adapted, rows = material.predictor.network, material.rows["train"]
    units.shape_of(adapted)
    if adapted.freezes:
        raise NotApplicable("nothing-learns", f"because the adaptation {adapted.adaptation.name} trains no layer.")
    adapted.weights_owner = None
    steps, rate = loop.steps_of(rows, material.training), material.training.learning_rate
    learner = Gating(adapted, material.settings, steps, rate)
    zeros.keep(learner, material.predictor)

    def score() -> float:
        with learner.closed():
            return material.score()

    with phase("train"):
        course = loop.train(learner, rows, material.training, material.seed, score, material.bookmark)
    kept, whole = learner.kept(), units.shape_of(adapted).heads
    count = sum(map(len, kept))
    extra_costs = {"heads_kept": count, "head_sparsity": round(1 - count / sum(whole), 4)}
    weights, shape = units.keep_units(adapted, "heads", kept)
    return Transformed(weights, (), course, shape, extra_costs)
