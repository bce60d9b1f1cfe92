"""The three trainings of AdaBERT: the probes, the search with its scores and weights, and the final network.

Letters: B batch, L layers of the teacher, C classes, K cells, E edges, O operations. `bench.adapt.transforms.adabert`
has the formulas.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptmbench.bench.adapt.adapted import Adapted
from ptmbench.bench.adapt.heads import InputRow
from ptmbench.bench.adapt.rated import RatedStep
from ptmbench.bench.adapt.settings import Settings as Adapting
from ptmbench.bench.adapt.transforms.adabert import Settings
from ptmbench.bench.adapt.transforms.further import Learner
from ptmbench.bench.engine.step import TrainStep
from ptmbench.models.layers.cells import Choice
from ptmbench.models.layers.encoding import mean
from ptmbench.models.layers.operations import fold, shape
from ptmbench.models.pretrainable import Encoding

COLDEST = 0.2
"""The temperature of the last step. The first step has 1."""
_SEED_OFFSET = 9400
"""The number that is folded into the seed for the first draw. Dropout uses other numbers."""


class Probing(Learner):
    """Trains a softmax classifier on the "features" [B, L, D] of each layer of ``teacher``, which is not trained."""

    def __init__(self, teacher: Adapted, layers: int, width: int, classes: int, steps: int):
        self._steps = steps
        self.kernel = keras.Variable(np.zeros((layers, width, classes), np.float32), name="probes")
        self.bias = keras.Variable(np.zeros((layers, classes), np.float32), name="probe_biases")
        self._own = [self.kernel, self.bias]
        super().__init__(teacher, TrainStep(self.losses, self._own, **teacher.options))

    def logits(self, features: Any, unused: Any) -> Any:
        """The logits [B, L, C] of ``features`` [B, L, D]. ``unused`` [B, C or more] is added to mask invalid answers.
        Returns an array for arrays and a tensor for tensors."""
        layers, width, classes = self.kernel.shape
        if isinstance(features, np.ndarray):
            found = np.einsum("bld,ldc->blc", features, self.kernel.numpy()) + self.bias.numpy()
            return (found + unused[:, None, :classes]).astype(np.float32)
        found = tf.einsum("bld,ldc->blc", features[:, :layers, :width], self.kernel.value) + self.bias.value
        return found + unused[:, None, :classes]

    def losses(self, batch: Mapping[str, Any], seed: Any) -> dict[str, Any]:
        """The sum of the losses of all probes."""
        logits = self.logits(batch["features"], batch["unused"])
        each = soft_loss(tf.one_hot(batch["label"], logits.shape[-1])[:, None], logits)  # [B, L]
        return {"loss": tf.reduce_sum(tf.reduce_mean(each, 0))}

    def make(
        self, rows: Sequence[InputRow], settings: Adapting, seed: tuple[int, int]
    ) -> tuple[Sequence[InputRow], float]:
        return rows, 0.0

    def ready(self, step: int) -> bool:
        return step == self._steps

    def training_flops(self, rows: Sequence[InputRow]) -> float:
        return 3.0 * 2 * len(rows) * int(np.prod(self.kernel.shape))

    def state(self) -> list[np.ndarray]:
        return [one.numpy() for one in self._own]

    def restore(self, state: Sequence[np.ndarray]) -> None:
        for variable, value in zip(self._own, state, strict=True):
            variable.assign(value)

    def memory(self) -> list[np.ndarray]:
        return []

    def recall(self, memory: Sequence[np.ndarray]) -> None:
        """Does nothing, because all changing values are in `state`."""


class Searching(Learner):
    """Trains the network ``adapted``, whose stack has all candidates of a search space, and their scores. ``costs`` [O]
    are the costs of the operations.

    Noise and temperature depend only on the seed and the step number, so a resumed training repeats them.
    """

    def __init__(self, adapted: Adapted, settings: Settings, steps: int, costs: np.ndarray):
        self._stack, self._settings, self._steps = adapted.network.encoder.stack, settings, steps
        self._costs = np.asarray(costs, np.float32)
        edges, depths = (len(self._stack.config.edges), len(costs)), (self._stack.config.layers,)
        self.edges, self.depths = (keras.Variable(np.zeros(one, np.float32)) for one in (edges, depths))
        self.temperature = tf.Variable(1.0, trainable=False)
        step = RatedStep(self.losses, [*adapted.learning, self.edges, self.depths], **adapted.options)
        step.shares.assign([1.0] * len(adapted.learning) + [settings.score_rate] * 2)
        super().__init__(adapted, step)

    def scores(self) -> tuple[np.ndarray, np.ndarray]:
        """The scores of operations on edges [E, O], and of depths [K]."""
        return self.edges.numpy(), self.depths.numpy()

    def make(
        self, rows: Sequence[InputRow], settings: Adapting, seed: tuple[int, int]
    ) -> tuple[Sequence[InputRow], float]:
        """Sets the temperature for the step in ``seed``, and returns the rows of the adaptation."""
        self.temperature.assign(COLDEST ** (seed[1] / self._steps))
        return self.adapted.make(rows, settings, seed)

    def losses(self, batch: Mapping[str, Any], seed: Any) -> dict[str, Any]:
        """The losses of a randomly drawn architecture."""
        choice = Choice(
            *(
                drawn(tf.convert_to_tensor(one), fold(seed, _SEED_OFFSET + number), self.temperature)
                for number, one in enumerate((self.edges, self.depths))
            )
        )
        self._stack.choice = choice
        try:
            each = depth_losses(self.adapted, batch, seed, self._settings, range(1, self._stack.config.layers + 1))
        finally:
            self._stack.choice = None
        cost = expected_cost(choice, self._costs)
        loss = tf.reduce_sum(choice.depths * tf.stack(each)) + self._settings.beta * cost
        return {"loss": loss, "cost": cost}

    def ready(self, step: int) -> bool:
        return step == self._steps

    def training_flops(self, rows: Sequence[InputRow]) -> float:
        """FLOPs of a step on ``rows``. All candidates are computed, not only those that are drawn."""
        return 3 * self.adapted.forward_flops(rows)

    def state(self) -> list[np.ndarray]:
        return [*self.adapted.state(), *self.scores()]

    def restore(self, state: Sequence[np.ndarray]) -> None:
        self.adapted.restore(list(state[:-2]))
        for variable, value in zip((self.edges, self.depths), state[-2:], strict=True):
            variable.assign(value)


class Tuning(Learner):
    """Trains the network ``adapted`` of one architecture."""

    def __init__(self, adapted: Adapted, settings: Settings):
        self._settings, self._depth = settings, adapted.network.encoder.stack.config.layers
        super().__init__(adapted, TrainStep(self.losses, adapted.learning, **adapted.options))

    def losses(self, batch: Mapping[str, Any], seed: Any) -> dict[str, Any]:
        (loss,) = depth_losses(self.adapted, batch, seed, self._settings, [self._depth])
        return {"loss": loss}


def drawn(scores: tf.Tensor, seed: Any, temperature: Any) -> tf.Tensor:
    """Draws one-hot vectors [..., N] by ``scores`` [..., N]. Their gradient is that of the softmax of scores and Gumbel
    noise at ``temperature`` (the straight-through estimator of Jang, Gu and Poole, 2017)."""
    u = tf.random.stateless_uniform(scores.shape, seed, 1e-6, 1 - 1e-6)
    soft = tf.nn.softmax((tf.nn.log_softmax(scores) - tf.math.log(-tf.math.log(u))) / temperature)
    hard = tf.one_hot(tf.argmax(soft, -1), scores.shape[-1])
    return hard + (soft - tf.stop_gradient(soft))


def expected_cost(choice: Choice, costs: np.ndarray) -> tf.Tensor:
    """The cost of the architecture ``choice``, a scalar: the expected share of the cells, times the mean over the edges
    of the expected ``costs`` [O] of their operations."""
    depths = choice.depths.shape[0]
    share = tf.reduce_sum(choice.depths * np.arange(1, depths + 1, dtype=np.float32)) / depths
    return share * tf.reduce_mean(tf.reduce_sum(choice.edges * costs, -1))


def soft_loss(targets: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """The cross-entropies [...] of ``logits`` [..., C] against probabilities ``targets`` [..., C]."""
    return -tf.reduce_sum(targets * tf.nn.log_softmax(logits), -1)


def depth_losses(
    adapted: Adapted, batch: Mapping[str, Any], seed: Any, settings: Settings, depths: Sequence[int]
) -> list[tf.Tensor]:
    """The loss (1 - gamma) CE + gamma KD at each of ``depths``, which are in ascending order."""
    stack, encoding = adapted.network.encoder.stack, adapted.encoded(batch, seed)
    layers = encoding.layers[: stack.config.layers + 1]
    taught, logits = settings.hints != "none" and settings.gamma > 0, {}
    needed = range(1, depths[-1] + 1) if taught and settings.hints == "probes" else depths
    for depth in needed:
        tokens = stack.mixed(layers, depth)
        reading = Encoding(tokens=tokens, pooled=mean(tokens, batch["tokens"]), layers=layers)
        logits[depth] = adapted.head_output(reading, batch, seed)
    hard = [adapted.adaptation.loss(adapted, logits[depth], batch, seed) for depth in depths]
    if not taught:
        return hard
    classes = logits[depths[-1]].shape[-1]
    soft_labels = tf.nn.softmax(tf.ensure_shape(batch["hints"][..., :classes], [None, None, classes]))  # [B, L, C]
    lower = [[logits[one] for one in _lower(depth, settings)] for depth in depths]
    soft = [hint_loss(soft_labels, each, batch["label"]) for each in lower]
    return [(1 - settings.gamma) * one + settings.gamma * other for one, other in zip(hard, soft, strict=True)]


def hint_loss(soft_labels: tf.Tensor, logits: Sequence[tf.Tensor], labels: tf.Tensor) -> tf.Tensor:
    """KD, a scalar: the loss of predictions from several depths (``logits``, [B, C] each) against the soft labels of
    equally spaced layers. ``soft_labels`` [B, L, C] are the soft labels of all layers. The last layer teaches the last
    prediction."""
    count, layers = len(logits), shape(soft_labels)[1]
    places = [-(-number * layers // count) - 1 for number in range(1, count + 1)]
    targets = tf.gather(soft_labels, places, axis=1)  # [B, M, C]
    right = tf.reduce_sum(targets * tf.one_hot(labels, logits[0].shape[-1])[:, None], -1) + 1e-6  # [B, M]
    weights = right / tf.reduce_sum(right, -1, keepdims=True)
    return tf.reduce_mean(tf.reduce_sum(weights * soft_loss(targets, tf.stack(list(logits), 1)), -1))


def _lower(depth: int, settings: Settings) -> Sequence[int]:
    """The depths whose predictions enter KD of ``depth``."""
    return range(1, depth + 1) if settings.hints == "probes" else [depth]
