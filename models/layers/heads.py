"""Configurations of the layers that objectives add to an encoder: output layers, second networks, and their costs.

A head belongs to the objective of the same name (`models.objectives`), which has its layer. FLOPs are those of a row of
pre-training. The number of tokens that a head reads is part of its configuration.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from ptmbench.models.layers.config import (
    BERT,
    Config,
    EncoderConfig,
    LinearConfig,
    NormConfig,
    OutputConfig,
    Shape,
    StackConfig,
    Start,
    TableConfig,
)


def predicted(rate: float, length: int) -> int:
    """The number of predicted tokens in a row of ``length``: the share ``rate`` of them, rounded up."""
    return math.ceil(rate * length)


@dataclass(frozen=True, kw_only=True)
class HeadConfig(Config):
    """The layers that an objective adds to an encoder. With a ``vocabulary`` there is a bias of the output layer, whose
    kernel is the table of the token vectors."""

    fills: ClassVar[bool] = False
    """Whether a model with this head has a `Pretrainable.fill`."""
    tells_originals: ClassVar[bool] = False
    """Whether a model with this head has a `Pretrainable.originality`."""
    vocabulary: int = 0

    def weights(self) -> Mapping[str, Shape]:
        return {"output_bias": (self.vocabulary,)} if self.vocabulary else {}

    def row_flops(self, length: int) -> float:
        """FLOPs of a forward pass for one row of ``length``."""
        return 0.0


@dataclass(frozen=True, kw_only=True)
class ClassifierConfig(HeadConfig):
    """Scores of ``classes`` from one vector of each row."""

    width: int
    classes: int = 2
    start: Start = BERT

    def parts(self) -> Iterator[tuple[str, Config]]:
        yield "scores", LinearConfig(inputs=self.width, outputs=self.classes, start=self.start)

    def row_flops(self, length: int) -> float:
        return super().flops(1)


@dataclass(frozen=True, kw_only=True)
class MaskedLmConfig(HeadConfig):
    """BERT's masked language model: a product from ``width`` to ``inner``, an activation, layer-norm, then the table of
    the token vectors as the output layer. ``rate`` is the share of the tokens that are predicted. The ids ``absent``
    have no probability."""

    fills: ClassVar[bool] = True
    width: int
    inner: int
    epsilon: float = 1e-12
    activation: str = "gelu"
    rate: float = 0.15
    start: Start = BERT
    absent: tuple[int, ...] = ()

    def parts(self) -> Iterator[tuple[str, Config]]:
        yield "transform", LinearConfig(inputs=self.width, outputs=self.inner, start=self.start)
        yield "norm", NormConfig(width=self.inner, epsilon=self.epsilon)

    def predicted_flops(self, positions: float) -> float:
        """FLOPs of predicting the tokens at ``positions`` positions."""
        return self.flops(positions) + 2 * positions * self.inner * self.vocabulary

    def row_flops(self, length: int) -> float:
        return self.predicted_flops(predicted(self.rate, length))


@dataclass(frozen=True, kw_only=True)
class WidenedLmConfig(MaskedLmConfig):
    """MobileBERT's head. Token vectors are ``embedding`` dimensions wide, and a separate table of the output layer has
    the other columns, up to ``inner``."""

    embedding: int

    def parts(self) -> Iterator[tuple[str, Config]]:
        yield from super().parts()
        yield "extra", OutputConfig(rows=self.vocabulary, width=self.inner - self.embedding)


@dataclass(frozen=True, kw_only=True)
class TiedLmConfig(HeadConfig):
    """A masked language model's head that has only the table of the token vectors and a bias."""

    fills: ClassVar[bool] = True
    width: int
    rate: float = 0.15
    absent: tuple[int, ...] = ()

    def row_flops(self, length: int) -> float:
        return 2 * predicted(self.rate, length) * self.width * self.vocabulary


@dataclass(frozen=True, kw_only=True)
class PseudoMaskedConfig(MaskedLmConfig):
    """UniLMv2's head: each hidden token is predicted twice."""

    def row_flops(self, length: int) -> float:
        return self.predicted_flops(2 * predicted(self.rate, length))


@dataclass(frozen=True, kw_only=True)
class PermutedLmConfig(HeadConfig):
    """XLNet's head: the table of the token vectors as the output layer, for one token in ``every``. The ids ``absent``
    have no probability."""

    fills: ClassVar[bool] = True
    width: int
    every: int = 6
    absent: tuple[int, ...] = ()

    def row_flops(self, length: int) -> float:
        return math.ceil(length / self.every) * 2 * self.width * self.vocabulary


@dataclass(frozen=True, kw_only=True)
class FitConfig(HeadConfig):
    """A product from a student's ``width`` to the ``outputs`` dimensions of its teacher, for the vectors of the
    embeddings and of the student's ``layers``."""

    width: int
    outputs: int
    layers: int

    @property
    def fit(self) -> LinearConfig:
        """The product."""
        return LinearConfig(inputs=self.width, outputs=self.outputs)

    def parts(self) -> Iterator[tuple[str, Config]]:
        yield "fit", self.fit

    def row_flops(self, length: int) -> float:
        return super().flops((self.layers + 1) * length)


@dataclass(frozen=True, kw_only=True)
class RelationsConfig(HeadConfig):
    """Relations between the values of the last layer of an encoder of ``width`` and ``inner``. The parts of this layer
    after its attention are not computed. The head has no weights."""

    width: int
    inner: int

    def row_flops(self, length: int) -> float:
        """Negative: relations cost as much as the attention's weighted sum of values. The products of the output and of
        the feed-forward layer, which the encoder's FLOPs contain, are not computed."""
        return -2.0 * length * (self.width**2 + 2 * self.width * self.inner)


@dataclass(frozen=True, kw_only=True)
class EntitiesConfig(HeadConfig):
    """ERNIE's second head: a product from ``width`` to ``entities``, the width of the entities' vectors, an activation,
    layer-norm, then the vectors of the entities of the row as the output layer."""

    width: int
    entities: int
    activation: str = "gelu"

    def parts(self) -> Iterator[tuple[str, Config]]:
        yield "transform", LinearConfig(inputs=self.width, outputs=self.entities)
        yield "norm", NormConfig(width=self.entities)

    def row_flops(self, length: int) -> float:
        """Each token is multiplied with one candidate for each token. The candidates are frozen, so this product has
        one gradient instead of two."""
        return self.flops(length) + 2 * length * length * self.entities * 2 / 3


@dataclass(frozen=True, kw_only=True)
class SpanBoundaryConfig(HeadConfig):
    """SpanBERT's second head: two products over the two edges of a span and a vector of ``places_width`` numbers for
    each of its first ``longest`` tokens. Layer-norm follows each product, then the table of the token vectors as the
    output layer."""

    width: int
    places_width: int
    longest: int = 20
    rate: float = 0.15

    def parts(self) -> Iterator[tuple[str, Config]]:
        D, P = self.width, self.places_width
        yield "places", TableConfig(rows=self.longest, width=P)
        yield "first", LinearConfig(inputs=2 * D + P, outputs=D)
        yield "first_norm", NormConfig(width=D)
        yield "second", LinearConfig(inputs=D, outputs=D)
        yield "second_norm", NormConfig(width=D)

    def row_flops(self, length: int) -> float:
        positions = predicted(self.rate, length)
        return self.flops(positions) + 2 * positions * self.width * self.vocabulary


@dataclass(frozen=True, kw_only=True)
class ReplacedTokensConfig(HeadConfig):
    """ELECTRA's head: a ``generator`` over the encoder's token vectors, narrowed by ``projection``, its ``mlm`` head,
    and the discriminator's two products."""

    tells_originals: ClassVar[bool] = True
    projection: LinearConfig
    generator: StackConfig
    mlm: MaskedLmConfig
    hidden: LinearConfig
    score: LinearConfig

    def row_flops(self, length: int) -> float:
        every = sum(part.flops(length) for part in (self.projection, self.hidden, self.score))
        return every + self.generator.flops(length, length) + self.mlm.row_flops(length)


@dataclass(frozen=True, kw_only=True)
class WordStructureConfig(MaskedLmConfig):
    """StructBERT's head. The masked language model's head also restores the order of shuffled trigrams, which hold the
    share ``shuffled`` of the tokens."""

    shuffled: float = 0.05

    def row_flops(self, length: int) -> float:
        trigrams = math.ceil(self.shuffled * length / 3)
        return super().row_flops(length) + self.predicted_flops(3 * trigrams)


@dataclass(frozen=True, kw_only=True)
class DeepInfoMaxConfig(HeadConfig):
    """InfoWord's head: a masked language model, and the ``encoder`` once more over n-grams of each text. There is one
    place of ``room`` tokens for every ``every`` tokens, and at least ``least`` places."""

    fills: ClassVar[bool] = True
    mlm: MaskedLmConfig
    encoder: EncoderConfig
    every: int = 16
    least: int = 4
    room: int = 12

    def parts(self) -> Iterator[tuple[str, Config]]:
        yield "mlm", self.mlm  # the encoder is the model's own

    def row_flops(self, length: int) -> float:
        ngrams = max(self.least, length // self.every)
        contrast = ngrams * (self.encoder.flops(self.room) + 2 * self.encoder.stack.block.norm.width)
        return self.mlm.row_flops(length) + contrast
