"""The encoder of the Universal Transformer, as a configuration of `models.layers.universal`.

One layer is applied again and again, as often as each token needs. Source: Dehghani et al. (2019), sections 2.1 and
2.2; what these leave open follows the authors' code (Tensor2Tensor). In step t, of at most L,

    Z = H^{t-1} + P^t        A = norm(Z + attention(Z))        H^t = norm(A + transition(A))
    P^t at position i, in dimensions 2j and 2j + 1:   sin(i r_j) + sin(t r_j)  and  cos(i r_j) + cos(t r_j),
    with r_j = 10000^(-2j / D)

Adaptive computation time (Graves, 2016) decides for each token how many steps it takes. With p_t = sigmoid(w . Z + b),
a token halts in the step N where p_1 + ... + p_N first exceeds 0.99, or in the last one. Its encoding is the mean of
H^1 ... H^N with weights p_1 ... p_{N-1} and the remainder R = 1 - p_1 - ... - p_{N-1}; its cost is N + R. A token that
has halted keeps its state, and the others still attend to it (section 2.2). Shapes do not depend on which tokens have
halted: their further steps are computed and not used.

The listing in the paper's appendix mixes the states one after the other instead of by these weights, which then do not
add up to one; the authors' code has both ways.
"""

from dataclasses import dataclass

from ptmbench.models.card import Size
from ptmbench.models.layers.config import (
    GLOROT,
    AttentionConfig,
    BlockConfig,
    Config,
    EmbeddingsConfig,
    FeedForwardConfig,
    LinearConfig,
    NormConfig,
    Start,
    TableConfig,
)


@dataclass(frozen=True, kw_only=True)
class UniversalConfig(Config):
    """One ``block`` that is applied up to ``steps`` times, and the product ``halt`` that decides when a token halts."""

    embeddings: EmbeddingsConfig
    block: BlockConfig
    halt: LinearConfig
    steps: int

    def flops(self, tokens: float, seen: float = 0) -> float:
        """FLOPs of one row of ``tokens`` in all steps. The further steps of a token that has halted are computed too,
        because shapes do not depend on it."""
        return self.steps * (self.block.flops(tokens, tokens) + self.halt.flops(tokens))


def universal(size: Size, vocabulary: int) -> UniversalConfig:
    """The Universal Transformer with at most ``size.layers`` steps."""
    D = size.width
    if D % 2:
        raise ValueError(f"Positions made of sines and cosines need an even width, not {D}.")
    start = Start(kind="random_normal", deviations=(D**-0.5,))
    tokens = TableConfig(rows=vocabulary, width=D, start=start)
    return UniversalConfig(
        embeddings=EmbeddingsConfig(rows=size.length, tokens=tokens, scale=D**0.5),
        block=BlockConfig(
            attention=AttentionConfig(width=D, heads=size.heads, start=GLOROT),
            feed_forward=FeedForwardConfig(
                width=D, inner=size.inner, activation="relu", inner_dropout=True, start_in=GLOROT, start=GLOROT
            ),
            norm=NormConfig(width=D, epsilon=1e-6),
        ),
        halt=LinearConfig(inputs=D, outputs=1, start=GLOROT),
        steps=size.layers,
    )
