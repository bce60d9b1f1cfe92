"""The parts of adaptations in TensorFlow: base classes of readings, heads, decoders and extensions of a network.

`bench.adapt.adapted` combines them. Shapes: B batch, T tokens, D width, S targets, V vocabulary.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import keras
import numpy as np

from ptmbench.bench.adapt.heads import InputRow
from ptmbench.bench.engine import cost
from ptmbench.bench.errors import NoDecoder, NotApplicable
from ptmbench.models.costs import Model


class Reading(keras.layers.Layer):
    """Converts the encoding of a batch to the input of the head: by default the encoder's last layer and pooled
    vector."""

    glorot: Sequence[Any] = ()
    """Matrices initialised with the variance of Glorot and Bengio (2010, equation 12). Others start from N(0, 0.02)."""
    branches: Sequence[Any] = ()
    """Variables that count as parameters of the adapted network, like the variables of the encoder."""
    read = 0
    """The number of precomputed layers in a row (`bench.adapt.heads.LAYERS`), for readings of frozen encoders."""

    def __init__(self, name: str = "reading"):
        super().__init__(name=name)

    def call(self, encoding: Any, batch: Mapping[str, Any], *others: Any) -> Any:
        """Returns an `Encoding`; ``others`` are the encodings of the extra encoders that the settings name."""
        return encoding

    def flops(self, rows: Sequence[InputRow]) -> float:
        """FLOPs of the reading's own layers on ``rows``, if it has any."""
        return 0.0

    def second_flops(self, rows: Sequence[InputRow]) -> float:
        """FLOPs of a forward pass through the variables that the second stage trains (`Adaptation.second`)."""
        return 0.0


class Head(keras.layers.Layer):
    """Converts the result of a reading to numbers such as logits, and these to the loss. ``outputs`` are the outputs of
    the codec."""

    writes = False
    """Whether the numbers are logits of a decoder. If so, `call` is not used."""
    glorot: Sequence[Any] = ()
    """As `Reading.glorot`."""

    def __init__(self, outputs: Any = None):
        super().__init__(name="head")

    def loss(self, numbers: Any, batch: Mapping[str, Any]) -> Any:
        """The loss, a scalar that training minimises."""
        raise NotImplementedError

    def predicted(self, numbers: Any, batch: Mapping[str, Any]) -> Any:
        """``numbers`` in the format that the codec reads. Some heads decode whole rows here."""
        return numbers


class Decoding:
    """A decoder: the next-token logits in training (``decode``), a ``writer`` as in `Pretrainable`, and its costs."""

    decode: Callable[..., Any]
    writer: Any = None
    own: Sequence[Any] = ()
    """New variables, which the adaptation adds."""
    remembered: Sequence[Any] = ()
    """Variables that training changes without gradients."""

    @classmethod
    def of(cls, network: Any) -> "Decoding":
        """The decoder of ``network`` itself. Raises `NoDecoder` if it has none."""
        if network.decode is None:
            raise NoDecoder
        made = cls()
        made.decode, made.writer = network.decode, network.writer
        return made

    def begin(self) -> None:
        """Sets new variables that do not start from random values; called after all have been drawn."""

    def written(self, batch: Mapping[str, np.ndarray], write: Callable[[Mapping], np.ndarray]) -> np.ndarray:
        """The ids that answer ``batch``: by default the result of searching or sampling (``write``)."""
        return write(batch)

    def counts(self, model: Model) -> cost.Decoder:
        """The decoder for counting FLOPs: by default the decoder of ``model``."""
        return cost.decoder_of(model)


class NewDecoding(Decoding):
    """A new decoder, which is not part of the model's description."""

    def counts(self, model: Model) -> cost.Decoder:
        return cost.Decoder(partial(self.decode_flops, model))

    def decode_flops(self, model: Model, length: int, targets: float) -> float:
        """FLOPs of ``decode`` for one row of ``length`` tokens and ``targets`` target tokens."""
        raise NotImplementedError


@dataclass(frozen=True)
class Extension:
    """The changes that an adaptation makes to a network: the variables that are trained (``learning``), the ``new``
    ones among them, and the FLOPs per token of the added layers.

    ``deviation`` is the standard deviation of the initial values of new matrices. Vectors keep the values that they
    were built with.
    """

    learning: Sequence[Any] = ()
    new: Sequence[Any] = ()
    flops_per_token: float = 0.0
    deviation: float = 0.02
    whole: bool = True
    """Whether the whole encoder is trained. If not, gradients pass through frozen weights."""


def every(network: Any, decoding: Decoding | None) -> Sequence[Any]:
    """All trainable variables of the encoder, or of the whole network if its own decoder is used."""
    inside = network.loss if decoding is not None and not decoding.own else network.encoder
    return inside.trainable_variables


def check_stepwise(encoder: Any, consequence: str) -> None:
    """Raises `NotApplicable` if the layers of ``encoder`` are not computed one at a time. ``consequence`` ends the
    message."""
    if not getattr(encoder, "stepwise", False):
        raise NotApplicable(
            "not-stepwise",
            f"because this model's layers are not a stack of blocks computed one at a time, so {consequence}.",
        )


def token_table(encoder: Any) -> Any | None:
    """The embedding table [V, E] of ``encoder``; None if it computes token vectors in another way."""
    return getattr(encoder, "token_embedding", None)
