"""The Star-Transformer, as a configuration of `models.layers.star`.

Each token attends to its two neighbours and to one relay, which attends to all tokens. Source: Guo et al. (2019),
section 3 and algorithm 1. A row's tokens are satellites h_i, placed on a ring, around one relay s; e_i is the vector of
token i at its position, h_i^0 = e_i, and s^0 the mean of all e_i. Layer t updates them in turn:

    h_i^t = norm(ReLU(attention(h_i^{t-1}, [h_{i-1}^{t-1}; h_i^{t-1}; h_{i+1}^{t-1}; e_i; s^{t-1}])))
    s^t   = norm(ReLU(attention(s^{t-1},   [s^{t-1}; h_1^t; ...; h_n^t])))

There are no residual connections or feed-forward layers. Each layer has its own weights (the paper leaves that open;
the authors' code has it so). The cost of a row grows with T, not T^2. The ring closes over the tokens of a row: the
last one before the padding and the first are neighbours, so that padding changes nothing.

Two things differ from the paper. The relay of the last layer is left out: no prediction of a token would depend on it,
so pre-training could not train it. And token and position vectors are scaled by sqrt(D), as Vaswani et al. (2017) do
with tokens, to be as large as the states.

No installable package has this network, so the tests compute the equations node by node.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ptmbench.models.architectures.encoders import SINUSOIDS
from ptmbench.models.card import Size
from ptmbench.models.layers.config import (
    GLOROT,
    AttentionConfig,
    Config,
    EmbeddingsConfig,
    NormConfig,
    Start,
    TableConfig,
)


@dataclass(frozen=True, kw_only=True)
class RingAttentionConfig(AttentionConfig):
    """Attention from each token to five keys: its neighbours, itself, its embedding and the relay."""

    def flops(self, tokens: float, seen: float = 0) -> float:
        return super().flops(tokens, 5) + self.memory_flops(2 * tokens + 1)


@dataclass(frozen=True, kw_only=True)
class UpdateConfig(Config):
    """Attention, ReLU and layer-norm, without a residual sum."""

    attention: AttentionConfig
    norm: NormConfig


@dataclass(frozen=True, kw_only=True)
class StarConfig(Config):
    """``layers`` updates of the tokens, and one update of the relay between each two of them."""

    embeddings: EmbeddingsConfig
    satellite: UpdateConfig
    relay: UpdateConfig
    layers: int

    def parts(self) -> Iterator[tuple[str, Config]]:
        yield "embeddings", self.embeddings
        for index in range(self.layers):
            yield f"satellite_{index}", self.satellite
        for index in range(self.layers - 1):
            yield f"relay_{index}", self.relay

    def flops(self, tokens: float, seen: float = 0) -> float:
        """FLOPs of one row of ``tokens``."""
        relay = self.relay.attention.flops(1, tokens + 1) + self.relay.attention.memory_flops(tokens + 1)
        return self.layers * self.satellite.flops(tokens) + (self.layers - 1) * relay


def star(size: Size, vocabulary: int) -> StarConfig:
    """The Star-Transformer of ``size``, whose ``inner`` is not used."""
    D, norm = size.width, NormConfig(width=size.width, epsilon=1e-6)
    start = Start(kind="random_normal", deviations=(D**-0.5,))
    ring, full = (
        kind(width=D, heads=size.heads, memory=D, start=GLOROT) for kind in (RingAttentionConfig, AttentionConfig)
    )
    return StarConfig(
        embeddings=EmbeddingsConfig(
            rows=size.length,
            tokens=TableConfig(rows=vocabulary, width=D, start=start),
            positions=TableConfig(rows=size.length, width=D, start=SINUSOIDS),
        ),
        satellite=UpdateConfig(attention=ring, norm=norm),
        relay=UpdateConfig(attention=full, norm=norm),
        layers=size.layers,
    )
