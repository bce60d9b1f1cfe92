"""The two-stream Transformer of XLNet, as a configuration of `models.layers.two_stream.TwoStream`.

Source: Yang et al. (2019), sections 2.3 to 2.5; layer-norm after each residual sum and feed-forward layers as in their
code. Scores are those of Transformer-XL (`models.layers.relative`), but with distances of both signs, biases per layer,
and a term that depends only on whether two tokens are in the same segment. GELU is the exact one, as `transformers`
reads the published settings; the authors' program has its tanh form.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ptmbench.models.card import Size
from ptmbench.models.layers.config import NORMAL, Config, EmbeddingsConfig, Shape, StackConfig, TableConfig
from ptmbench.models.layers.relative_config import relative_stack


@dataclass(frozen=True, kw_only=True)
class TwoStreamConfig(Config):
    """An encoder with a query stream. All queries begin with the same vector, and one token in ``every`` has a query.
    The memory of a row of pre-training is half as long as the row."""

    embeddings: EmbeddingsConfig
    stack: StackConfig
    every: int = 6

    def weights(self) -> Mapping[str, Shape]:
        return {"query": (self.stack.block.norm.width,)}

    def flops(self, tokens: float, seen: float = 0) -> float:
        """FLOPs of the content stream for one row of ``tokens``, all of which see each other."""
        return self.stack.flops(tokens, tokens)

    def training_flops(self, length: int) -> float:
        """FLOPs of a training step for one row: three times the forward pass of both streams, and once that of the
        memory without its last layer.

        The content stream does not need its last layer either. Two kinds of products have a gradient for one factor
        only: those with the memory, and those that move a query to its place.
        """
        block, layers = self.stack.block, self.stack.layers
        attention, memory, slots = block.attention, length // 2, math.ceil(length / self.every)
        keys = memory + length
        content = (layers - 1) * block.flops(length, keys) + attention.memory_flops(length)
        queries = attention.query_flops(slots, length, keys) + block.feed_forward.flops(slots)
        once = attention.memory_flops(memory) + 2 * length * slots * attention.width
        before = (layers - 1) * block.flops(memory, memory)
        return 3 * (content + layers * queries) + 2 * layers * once + before


def xlnet(size: Size, vocabulary: int) -> TwoStreamConfig:
    """XLNet's network: relative positions only, and relative segments."""
    tokens = TableConfig(rows=vocabulary, width=size.width, start=NORMAL)
    return TwoStreamConfig(
        embeddings=EmbeddingsConfig(rows=size.length, tokens=tokens),
        stack=relative_stack(size, epsilon=1e-12, activation="gelu", own_biases=True, both_ways=True, segments=True),
    )
