"""Two towers and a layer over both, as a configuration of `models.layers.two_towers`.

One causal Transformer reads forwards and one backwards. Attention over both computes a vector of each token, from all
tokens or from all others.

Source: Baevski et al. (2019), section 3; what the paper leaves open follows the authors' code (fairseq, "bi_trans_lm").
Layer-norm comes before each part, positions are fixed sinusoids added to token vectors times sqrt(D), and the
feed-forward layers have ReLU. F and B are the normalised outputs of the towers: F_t has read x_1 ... x_t, and B_t has
read x_t ... x_T.

    query for t:   F_{t-1} + B_{t+1}                     zero where there is no neighbour
    keys, values:  F_1 ... F_{t-1} and B_{t+1} ... B_T   to predict x_t: nothing here has read it
                   F_1 ... F_t     and B_t ... B_T       to encode x_t, once trained (section 4)

The attention's output replaces the query and is not added to it. A feed-forward layer with a residual connection
follows. No installable package has this network, so the tests compute the equations one position at a time.
"""

from dataclasses import dataclass
from typing import ClassVar

from ptmbench.models.card import Size
from ptmbench.models.layers.config import (
    GLOROT,
    AttentionConfig,
    BlockConfig,
    Config,
    EmbeddingsConfig,
    FeedForwardConfig,
    NormConfig,
    StackConfig,
    Start,
    TableConfig,
    WavesConfig,
)
from ptmbench.models.layers.heads import HeadConfig


@dataclass(frozen=True, kw_only=True)
class TowerWavesConfig(WavesConfig):
    """Fixed vectors of positions, all sines before all cosines. The longest wave is 10,000 times as long as the
    shortest one."""

    def __post_init__(self) -> None:
        if self.width % 2:
            raise ValueError(f"Positions made of sines and cosines need an even width, not {self.width}.")


@dataclass(frozen=True, kw_only=True)
class MeetingConfig(Config):
    """Attention from each token over both towers, and feed-forward layers."""

    forward_norm: NormConfig
    backward_norm: NormConfig
    attention: AttentionConfig
    norm: NormConfig
    feed_forward: FeedForwardConfig

    def flops(self, tokens: float, seen: float = 0) -> float:
        attention = self.attention.flops(tokens, 2 * tokens) + self.attention.memory_flops(2 * tokens)
        return attention + self.feed_forward.flops(tokens)


@dataclass(frozen=True, kw_only=True)
class TowersConfig(Config):
    """Two stacks over the same embeddings, and one layer over ``both``."""

    embeddings: EmbeddingsConfig
    forward: StackConfig
    backward: StackConfig
    both: MeetingConfig

    def flops(self, tokens: float, seen: float = 0) -> float:
        """FLOPs of one row of ``tokens``. Attention is computed over the whole square: masks save nothing."""
        towers = self.forward.flops(tokens, tokens) + self.backward.flops(tokens, tokens)
        return towers + self.both.flops(tokens)


@dataclass(frozen=True, kw_only=True)
class EveryTokenConfig(HeadConfig):
    """The prediction of every token among ``words``, with the table of the token vectors as the output layer."""

    fills: ClassVar[bool] = True
    width: int
    words: int

    def row_flops(self, length: int) -> float:
        return length * 2 * self.width * self.words


def towers(size: Size, vocabulary: int) -> TowersConfig:
    """The cloze model's network: L layers in each tower of width D."""
    D, norm = size.width, NormConfig(width=size.width, epsilon=1e-5)
    feed_forward = FeedForwardConfig(
        width=D, inner=size.inner, activation="relu", inner_dropout=True, start_in=GLOROT, start=GLOROT
    )
    attention = AttentionConfig(width=D, heads=size.heads, start=GLOROT)
    block = BlockConfig(attention=attention, feed_forward=feed_forward, norm=norm, norm_first=True)
    stack = StackConfig(block=block, layers=size.layers)
    start = Start(kind="random_normal", deviations=(D**-0.5,))
    return TowersConfig(
        embeddings=EmbeddingsConfig(
            rows=size.length,
            tokens=TableConfig(rows=vocabulary, width=D, start=start),
            positions=TowerWavesConfig(rows=size.length, width=D),
            scale=D**0.5,
        ),
        forward=stack,
        backward=stack,
        both=MeetingConfig(
            forward_norm=norm,
            backward_norm=norm,
            attention=AttentionConfig(width=D, heads=size.heads, memory=D, start=GLOROT),
            norm=norm,
            feed_forward=feed_forward,
        ),
    )
