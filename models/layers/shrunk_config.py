"""A stack whose blocks have lost different numbers of heads or inner dimensions.

Networks are made with equal blocks (`models.layers.config.StackConfig`). Structured pruning (Michel et al., 2019)
leaves blocks of different shapes. These configurations give their weights and FLOPs.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ptmbench.models.layers.config import AttentionConfig, BlockConfig, Config, LinearConfig, StackConfig


@dataclass(frozen=True, kw_only=True)
class ShrunkAttentionConfig(AttentionConfig):
    """Self-attention over vectors of ``width`` with ``heads`` heads of ``size`` dimensions each. All heads together may
    be narrower than ``width``."""

    size: int

    def parts(self) -> Iterator[tuple[str, Config]]:
        D, inner, bias = self.width, self.heads * self.size, self.bias
        start = self.start_in or self.start
        yield "query_key_value", LinearConfig(inputs=D, outputs=3 * inner, bias=bias, start=start)
        yield "projection", LinearConfig(inputs=inner, outputs=D, bias=bias, start=self.start)

    def flops(self, tokens: float, seen: float = 0) -> float:
        products = sum(part.flops(tokens) for _, part in self.parts())
        return products + 4 * tokens * seen * self.heads * self.size


@dataclass(frozen=True, kw_only=True)
class ShrunkStackConfig(StackConfig):
    """``layers`` blocks one after the other, with the shapes in ``blocks``. If ``shared``, the only block is applied
    ``layers`` times. ``block`` is the block that they were made from."""

    blocks: tuple[BlockConfig, ...]

    def parts(self) -> Iterator[tuple[str, Config]]:
        for index, block in enumerate(self.blocks):
            yield f"layer_{index}", block

    def flops(self, tokens: float, seen: float = 0, memory: float = 0) -> float:
        once = sum(block.flops(tokens, seen, memory) for block in self.blocks)
        return self.layers * once if self.shared else once
