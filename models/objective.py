"""The contract of an objective, which the files in ``models/objectives`` follow.

An objective has two sides. A model's ``build`` combines them in a `models.pretrainable.Pretrainable`:

    Sampler     NumPy: batches of a corpus. A function ``batches`` in the objective's file, decorated with `sampled`
    Objective   TensorFlow: the loss of a batch, a Keras layer that holds the encoder and the objective's own weights
    Part        TensorFlow: the loss of one of several objectives over one encoding (`models.objectives._joint.Joint`)

The weights and FLOPs of an objective are given by the configuration of its head (`models.layers.heads.HeadConfig`). A
model's ``describe`` lists it with the other configurations. `bench.engine.objectives` checks samplers and losses before
training.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import update_wrapper, wraps
from typing import Any

import numpy as np

from ptmbench.models.text.corpus import Corpus

Batch = dict[str, np.ndarray]
"""Named arrays, int32 or float32, whose first axis is the rows. One of them is ``tokens`` int32 [B, T]."""
Batches = Callable[[int, int], Batch]
"""A function from (step, seed) to a batch. It is stateless, so any host can repeat any batch. The shapes are the same
at every step."""
PAIRS = "pairs"
"""A value of `Sampler.needs`: each document of the corpus is a text and its translation."""


@dataclass(frozen=True)
class Sampler:
    """Makes the batches of an objective: ``make`` maps (corpus, B, T) to `Batches`.

    ``needs`` lists what the corpus must have: annotation layers (`models.text.annotations`), channels of pictures or
    sounds (`models.text.media`), and `PAIRS`. If something is missing, ``make`` raises
    `models.text.pieces.CorpusUnfit`.
    """

    make: Callable[[Corpus, int, int], Batches]
    needs: tuple[str, ...] = ()
    scheduled: bool = False
    """Whether the loss depends on the progress of the training. Training batches then have ``progress`` float32 [B],
    the share of the steps that are done. Without it, the loss is that of the end of the training."""

    def __call__(self, corpus: Corpus, batch: int, length: int) -> Batches:
        return self.make(corpus, batch, length)


class Sampled:
    """A function from (corpus, settings ..., B, T) to `Batches`, and what it ``needs`` (see `Sampler`)."""

    def __init__(self, function: Callable[..., Batches], needs: tuple[str, ...]):
        self.function, self.needs = function, needs
        update_wrapper(self, function)

    def __call__(self, corpus: Corpus, *given: Any, **options: Any) -> Batches:
        return self.function(corpus, *given, **options)

    def of(self, *settings: Any, **options: Any) -> Sampler:
        """Returns the sampler of one model, with fixed ``settings`` (usually the vocabulary) and ``options``."""

        @wraps(self.function)
        def make(corpus: Corpus, batch: int, length: int) -> Batches:
            return self.function(corpus, *settings, batch, length, **options)

        return Sampler(make, self.needs)


def sampled(*needs: str) -> Callable[[Callable[..., Batches]], Sampled]:
    """Decorates the function ``batches`` of an objective. ``needs`` are those of `Sampler`."""
    return lambda function: Sampled(function, needs)


class Objective:
    """The loss of a batch. Subclasses are also Keras layers: ``class Mine(Objective, keras.layers.Layer)``."""

    reports: tuple[str, ...] = ()
    """Names of the scalars that `call` returns in addition to "loss": accuracies, parts of the loss."""
    over_vocabulary = True
    """Whether the loss, or its part "mlm_loss", is a cross-entropy over all V pieces. The loss of an untrained network
    is then about ln V."""
    scaffold: tuple[str, ...] = ()
    """Prefixes of the paths of variables that are trained in pre-training but do not belong to the model. Checkpoints
    and descriptions leave them out, and the loss that is built for adaptations lacks them."""
    fill: Callable[[dict[str, Any]], Any] | None = None
    """See `models.pretrainable.Pretrainable.fill`."""
    originality: Callable[[dict[str, Any]], Any] | None = None
    """See `models.pretrainable.Pretrainable.originality`."""
    gap_likelihood: Callable[[dict[str, Any]], Any] | None = None
    """See `models.pretrainable.Pretrainable.gap_likelihood`."""

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Returns the counts by which `call` divides its sums, by name, int32 []. They depend on the batch only, not on
        weights."""
        raise NotImplementedError

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        """Returns the scalar "loss" and the scalars in `reports`, float32 []: sums divided by ``totals``, or by the
        totals of the batch if that is None."""
        raise NotImplementedError


class Part:
    """The loss of one of several objectives over the encoding of a batch. Subclasses are also Keras layers."""

    reports: tuple[str, ...] = ()
    """Names of the scalars that `call` returns. The model minimises the sum of all scalars named "..._loss"."""
    fill: Callable[[Any, Any], Any] | None = None
    """(encoding, places [B]) to float [B, V]: see `models.pretrainable.Pretrainable.fill`."""

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        """See `Objective.totals`. Two parts may share a name only if they count the same things."""
        raise NotImplementedError

    def call(self, encoding: Any, batch: dict[str, Any], totals: dict[str, Any]) -> dict[str, Any]:
        """Returns the scalars in `reports` for the `models.pretrainable.Encoding` of the batch: sums divided by
        ``totals``."""
        raise NotImplementedError
