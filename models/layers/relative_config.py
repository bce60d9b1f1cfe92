"""The configuration of attention with relative positions by fixed waves, as in Transformer-XL and XLNet.

`models.layers.relative` has the layer.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ptmbench.models.card import Size
from ptmbench.models.layers.config import (
    NORMAL,
    AttentionConfig,
    BlockConfig,
    Config,
    FeedForwardConfig,
    LinearConfig,
    NormConfig,
    Shape,
    StackConfig,
)


@dataclass(frozen=True, kw_only=True)
class RelativeAttentionConfig(AttentionConfig):
    """Attention with terms for distances: Dai et al. (2019), section 3.3.

    ``own_biases``: the layer has the biases u and v of the scores; otherwise its network has them, for all layers.
    ``both_ways``: keys may be after the query. ``segments`` adds a term that depends only on whether query and key are
    in the same segment (Yang et al., 2019, section 2.5).
    """

    own_biases: bool = False
    both_ways: bool = False
    segments: bool = False

    def weights(self) -> Mapping[str, Shape]:
        H, K = self.heads, self.width // self.heads
        biases = {"content_bias": (H, 1, K), "position_bias": (H, 1, K)} if self.own_biases else {}
        return biases | ({"segment_bias": (H, 1, K), "segment_vectors": (2, H, K)} if self.segments else {})

    def parts(self) -> Iterator[tuple[str, Config]]:
        D = self.width
        for name, outputs in (("query", D), ("key_value", 2 * D), ("distance", D), ("projection", D)):
            yield name, LinearConfig(inputs=D, outputs=outputs, bias=self.bias, start=self.start)

    def query_flops(self, queries: float, tokens: float, seen: float) -> float:
        """FLOPs of ``queries`` queries in a row of ``tokens`` tokens that attend to ``seen`` keys, without making keys
        and values.

        Scores by distance are computed for all tokens. The keys of distances are computed once for all rows of a step
        and are not counted.
        """
        D, distances = self.width, seen + (tokens if self.both_ways else 1)
        return 4 * queries * D * D + 4 * queries * seen * D + 2 * tokens * distances * D

    def flops(self, tokens: float, seen: float = 0) -> float:
        """FLOPs for ``tokens`` whose own keys are among the ``seen`` ones. `memory_flops` counts those of the
        others."""
        return self.query_flops(tokens, tokens, seen) + self.memory_flops(tokens)


def relative_stack(
    size: Size,
    *,
    epsilon: float,
    activation: str,
    own_biases: bool = False,
    both_ways: bool = False,
    segments: bool = False,
) -> StackConfig:
    """``size.layers`` blocks with layer-norm after each residual sum, and products without biases in attention."""
    D = size.width
    attention = RelativeAttentionConfig(
        width=D,
        heads=size.heads,
        bias=False,
        start=NORMAL,
        own_biases=own_biases,
        both_ways=both_ways,
        segments=segments,
    )
    feed_forward = FeedForwardConfig(
        width=D, inner=size.inner, activation=activation, inner_dropout=True, start_in=NORMAL, start=NORMAL
    )
    block = BlockConfig(attention=attention, feed_forward=feed_forward, norm=NormConfig(width=D, epsilon=epsilon))
    return StackConfig(block=block, layers=size.layers)
