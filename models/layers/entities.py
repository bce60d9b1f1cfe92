"""Configurations of a Transformer with a second stream: vectors of the entities that the text mentions.

The Keras layers that are made from them are in `models.layers.aggregators`. Letters besides the usual ones: E width of
the entities' vectors, K number of entities.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ptmbench.models.layers.config import (
    BERT,
    AttentionConfig,
    Config,
    EncoderConfig,
    LinearConfig,
    NormConfig,
    Start,
    TableConfig,
)


@dataclass(frozen=True, kw_only=True)
class FrozenTableConfig(TableConfig):
    """A lookup table that is not trained but filled from outside. Row 0 means "no symbol" and is zeros."""


@dataclass(frozen=True, kw_only=True)
class FusionConfig(Config):
    """Feed-forward of two streams over one inner layer: from ``width`` and ``entities`` to ``inner``, and back to both.
    The ``last`` one of a network returns no vectors of entities."""

    width: int
    entities: int
    inner: int
    activation: str = "gelu"
    last: bool = False
    start: Start = BERT

    def parts(self) -> Iterator[tuple[str, Config]]:
        D, E, F, start = self.width, self.entities, self.inner, self.start
        yield "inner", LinearConfig(inputs=D, outputs=F, start=start)
        yield "entity_inner", LinearConfig(inputs=E, outputs=F, bias=False, start=start)
        yield "outer", LinearConfig(inputs=F, outputs=D, start=start)
        if not self.last:
            yield "entity_outer", LinearConfig(inputs=F, outputs=E, start=start)


@dataclass(frozen=True, kw_only=True)
class AggregatorConfig(Config):
    """Attention over tokens, attention over entities, and the fusion of both; layer-norm after each residual sum."""

    attention: AttentionConfig
    norm: NormConfig
    entity_attention: AttentionConfig
    entity_norm: NormConfig
    fusion: FusionConfig

    def parts(self) -> Iterator[tuple[str, Config]]:
        yield "attention", self.attention
        yield "attention_norm", self.norm
        yield "entity_attention", self.entity_attention
        yield "entity_attention_norm", self.entity_norm
        yield "fusion", self.fusion
        yield "norm", self.norm
        if not self.fusion.last:
            yield "entity_norm", self.entity_norm


@dataclass(frozen=True, kw_only=True)
class AggregatorsConfig(Config):
    """``layers`` aggregators one after the other. The last one returns no vectors of entities, because nothing reads
    them."""

    aggregator: AggregatorConfig
    layers: int

    def parts(self) -> Iterator[tuple[str, Config]]:
        last = replace(self.aggregator, fusion=replace(self.aggregator.fusion, last=True))
        for index in range(self.layers):
            yield f"layer_{index}", last if index == self.layers - 1 else self.aggregator


@dataclass(frozen=True, kw_only=True)
class EntityEncoderConfig(EncoderConfig):
    """An encoder whose stack of blocks is followed by ``aggregators``, which read the vectors of ``entities`` too."""

    entities: FrozenTableConfig
    aggregators: AggregatorsConfig

    def flops(self, tokens: float, seen: float = 0) -> float:
        """FLOPs of one row of ``tokens``, all of which see each other. Attention over entities is computed at every
        token, with and without an entity."""
        return super().flops(tokens) + self.aggregators.flops(tokens, tokens)
