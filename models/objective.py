"""What an objective is: the contract of the files in ``models/objectives``, one for each term of the survey.

An objective has two sides, and a model's ``build`` puts them together in a `models.pretrainable.Pretrainable`:

    Sampler     NumPy: batches of a corpus. A function ``batches`` of the objective's file, marked by `sampled`
    Objective   TensorFlow: the loss of a batch, a Keras layer that holds the encoder and the objective's own weights
    Part        TensorFlow: the loss of one of several objectives over one encoding (`models.objectives._joint.Joint`)

The weights and FLOPs of an objective stand in the configuration of its head (`models.layers.heads.HeadConfig`), which
``describe`` names among those of the model. `bench.engine.objectives` checks all of this before anything is trained.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import update_wrapper, wraps
from typing import Any

import numpy as np

from ptmbench.models.text.corpus import Corpus

Batch = dict[str, np.ndarray]
"""Named arrays, int32 or float32, all with the rows as their first axis; ``tokens`` int32 [B, T] among them."""
Batches = Callable[[int, int], Batch]
"""(step, seed) to a batch: stateless, so any host can make any batch again. All steps have the same shapes."""
PAIRS = "pairs"
"""A need of `Sampler`: each document of the corpus is a text and its translation."""


@dataclass(frozen=True)
class Sampler:
    """What an objective samples: ``make`` maps (corpus, B, T) to `Batches`.

    ``needs`` are the layers of annotations (`models.text.annotations`) and the channels of pictures or sounds
    (`models.text.media`) that the corpus must have, and `PAIRS`. For a corpus without them ``make`` raises
    `models.text.pieces.CorpusUnfit`.
    """

    make: Callable[[Corpus, int, int], Batches]
    needs: tuple[str, ...] = ()
    scheduled: bool = False
    """Whether the loss depends on how far the training has come. Batches of a training then have ``progress`` float32
    [B], the share of its steps that are done; batches without it have the loss of the end."""

    def __call__(self, corpus: Corpus, batch: int, length: int) -> Batches:
        return self.make(corpus, batch, length)


class Sampled:
    """A function (corpus, settings ..., B, T) to `Batches`, and what it ``needs`` (see `Sampler`)."""

    def __init__(self, function: Callable[..., Batches], needs: tuple[str, ...]):
        self.function, self.needs = function, needs
        update_wrapper(self, function)

    def __call__(self, corpus: Corpus, *given: Any, **options: Any) -> Batches:
        return self.function(corpus, *given, **options)

    def of(self, *settings: Any, **options: Any) -> Sampler:
        """The sampler for one model, whose ``settings`` (most often the vocabulary) and ``options`` are given."""

        @wraps(self.function)
        def make(corpus: Corpus, batch: int, length: int) -> Batches:
            return self.function(corpus, *settings, batch, length, **options)

        return Sampler(make, self.needs)


def sampled(*needs: str) -> Callable[[Callable[..., Batches]], Sampled]:
    """Marks the function ``batches`` of an objective; ``needs`` as for `Sampler`."""
    return lambda function: Sampled(function, needs)


class Objective:
    """The loss of a batch. Subclasses are Keras layers too: ``class Mine(Objective, keras.layers.Layer)``."""

    reports: tuple[str, ...] = ()
    """Names of the scalars that `call` returns in addition to "loss": accuracies, parts of the loss."""
    over_vocabulary = True
    """Whether the loss, or its part "mlm_loss", is a cross-entropy over all V pieces. An untrained network then has a
    loss of about ln V."""
    scaffold: tuple[str, ...] = ()
    """Beginnings of the paths of variables that learn in pre-training and are no part of the model: checkpoints do not
    have them, descriptions do not count them, and the loss that adaptations build lacks them."""
    fill: Callable[[dict[str, Any]], Any] | None = None
    """As `models.pretrainable.Pretrainable.fill`."""
    originality: Callable[[dict[str, Any]], Any] | None = None
    """As `models.pretrainable.Pretrainable.originality`."""
    gap_likelihood: Callable[[dict[str, Any]], Any] | None = None
    """As `models.pretrainable.Pretrainable.gap_likelihood`."""

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        """The counts that the means of `call` are divided by, by name, int32 []."""
        raise NotImplementedError

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        """The scalar "loss" and the scalars in `reports`, float32 []: sums divided by ``totals``, or by the totals of
        the batch if None. The totals depend on the batch only, not on weights."""
        raise NotImplementedError


class Part:
    """One of several losses over the encoding of a batch. Subclasses are Keras layers too."""

    reports: tuple[str, ...] = ()
    """Names of the scalars that `call` returns. The model minimises the sum of all scalars named "..._loss"."""
    fill: Callable[[Any, Any], Any] | None = None
    """(encoding, places [B]) to float [B, V]: see `models.pretrainable.Pretrainable.fill`."""

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        """As `Objective.totals`. Two parts share a name only if they count the same."""
        raise NotImplementedError

    def call(self, encoding: Any, batch: dict[str, Any], totals: dict[str, Any]) -> dict[str, Any]:
        """The scalars in `reports`, from the `models.pretrainable.Encoding` of the batch: sums divided by
        ``totals``."""
        raise NotImplementedError
