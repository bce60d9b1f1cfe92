"""What adaptations are made of in TensorFlow: base classes of readings, heads, decoders and changes of a network.

`bench.adapt.adapted` puts them together. Shapes: B batch, T tokens, D width, S targets, V vocabulary.
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
    """From the encoding of a batch to what the head reads: by default the encoder's own last layer and pooled
    vector."""

    glorot: Sequence[Any] = ()
    """Matrices that begin by the variance of Glorot and Bengio (2010, equation 12); others begin by N(0, 0.02)."""
    branches: Sequence[Any] = ()
    """Variables that count among the parameters of the adapted network, as those inside the encoder do."""
    read = 0
    """The number of layers that a row brings along (`bench.adapt.heads.LAYERS`), for a reading of frozen ones."""

    def __init__(self, name: str = "reading"):
        super().__init__(name=name)

    def call(self, encoding: Any, batch: Mapping[str, Any], *others: Any) -> Any:
        """An `Encoding`; ``others`` are the encodings of models that the settings name."""
        return encoding

    def flops(self, rows: Sequence[InputRow]) -> float:
        """FLOPs of the reading itself on ``rows``, where it is a network of its own."""
        return 0.0

    def second_flops(self, rows: Sequence[InputRow]) -> float:
        """FLOPs of a forward pass of what learns in the second stage (`Adaptation.second`)."""
        return 0.0


class Head(keras.layers.Layer):
    """From what a reading gives to numbers, and from these to the loss. ``outputs`` are the outputs of the codec."""

    writes = False
    """Whether the numbers are logits of a decoder, in the place of `call`."""
    glorot: Sequence[Any] = ()
    """As `Reading.glorot`."""

    def __init__(self, outputs: Any = None):
        super().__init__(name="head")

    def loss(self, numbers: Any, batch: Mapping[str, Any]) -> Any:
        """A scalar that training minimises."""
        raise NotImplementedError

    def predicted(self, numbers: Any, batch: Mapping[str, Any]) -> Any:
        """``numbers`` as the codec reads them; some heads decide over a whole row here."""
        return numbers


class Decoding:
    """A decoder: next-token logits in training (``decode``), a ``writer`` as a `Pretrainable` has it, and its costs."""

    decode: Callable[..., Any]
    writer: Any = None
    own: Sequence[Any] = ()
    """New variables, which the adaptation adds."""
    remembered: Sequence[Any] = ()
    """Variables that no gradient changes, but training does."""

    @classmethod
    def of(cls, network: Any) -> "Decoding":
        """The decoder of ``network`` itself. Raises `NoDecoder` where it has none."""
        if network.decode is None:
            raise NoDecoder
        made = cls()
        made.decode, made.writer = network.decode, network.writer
        return made

    def begin(self) -> None:
        """Sets new variables, freshly drawn, to what they begin with."""

    def written(self, batch: Mapping[str, np.ndarray], write: Callable[[Mapping], np.ndarray]) -> np.ndarray:
        """The ids that answer ``batch``: by default what a search or a sample (``write``) finds for it."""
        return write(batch)

    def counts(self, model: Model) -> cost.Decoder:
        """What writes in the network that ``model`` describes, for counting FLOPs: its own decoder."""
        return cost.decoder_of(model)


class NewDecoding(Decoding):
    """A decoder that the description of the model leaves out."""

    def counts(self, model: Model) -> cost.Decoder:
        return cost.Decoder(partial(self.decode_flops, model))

    def decode_flops(self, model: Model, length: int, targets: float) -> float:
        """FLOPs of ``decode`` for one row of ``length`` tokens and ``targets``."""
        raise NotImplementedError


@dataclass(frozen=True)
class Extension:
    """What an adaptation changes in a network: which of its variables learn (``learning``), those among them that are
    ``new``, and the FLOPs per token of what was added.

    ``deviation`` is the standard deviation of the initial values of new matrices; vectors keep the values that they
    were built with.
    """

    learning: Sequence[Any] = ()
    new: Sequence[Any] = ()
    flops_per_token: float = 0.0
    deviation: float = 0.02
    whole: bool = True
    """Whether all of the encoder learns; else gradients pass through weights that stay."""


def every(network: Any, decoding: Decoding | None) -> Sequence[Any]:
    """All variables of the encoder; of the whole network where its own decoder writes."""
    inside = network.loss if decoding is not None and not decoding.own else network.encoder
    return inside.trainable_variables


def check_stepwise(encoder: Any, consequence: str) -> None:
    """Raises `NotApplicable` with the ``consequence`` if the layers of ``encoder`` are not computed one at a time."""
    if not getattr(encoder, "stepwise", False):
        raise NotApplicable(
            "not-stepwise",
            f"because this model's layers are not a stack of blocks computed one at a time, so {consequence}.",
        )


def token_table(encoder: Any) -> Any | None:
    """The variable [V, E] in which ``encoder`` looks its tokens up; None where it makes their vectors otherwise."""
    return getattr(encoder, "token_embedding", None)
