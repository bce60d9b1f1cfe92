"""Configurations of MobileBERT's layers: blocks that are narrower or wider inside than their input and output.

Letters: D width of a block's input and output, C width inside of it, E width of token vectors. Source: Sun et al.
(2020), and the authors' code (google-research/google-research, `mobilebert/modeling.py` at 0c1bbe5).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ptmbench.models.layers.config import (
    BERT,
    AttentionConfig,
    BlockConfig,
    Config,
    EmbeddingsConfig,
    EncoderConfig,
    LinearConfig,
    NormConfig,
    Start,
)

READS = ("shared", "narrow", "wide")
"""The inputs that a block's attention can read: see `BottleneckBlockConfig`."""


@dataclass(frozen=True, kw_only=True)
class NoNormConfig(NormConfig):
    """A replacement for layer-norm: scale * x + bias. It computes no statistics, so ``epsilon`` is unused."""


@dataclass(frozen=True, kw_only=True)
class SplitAttentionConfig(AttentionConfig):
    """Self-attention of ``width`` C. Queries and keys are computed from vectors of width ``query_inputs``, and values
    from other vectors, of width ``value_inputs``."""

    query_inputs: int
    value_inputs: int

    def parts(self) -> Iterator[tuple[str, Config]]:
        C, start = self.width, self.start_in or self.start
        yield "query_key", LinearConfig(inputs=self.query_inputs, outputs=2 * C, bias=self.bias, start=start)
        yield "value", LinearConfig(inputs=self.value_inputs, outputs=C, bias=self.bias, start=start)
        yield "projection", LinearConfig(inputs=C, outputs=C, bias=self.bias, start=self.start)


@dataclass(frozen=True, kw_only=True)
class BottleneckBlockConfig(BlockConfig):
    """A block over vectors of ``width`` D that computes in C dimensions, those of its ``attention``.

    A product maps D to C. Attention and ``feed_forwards`` equal feed-forward layers follow, each with a residual sum
    and ``inner_norm``. A last product maps back to D; then the block's input is added and ``norm`` applied.

    ``reads`` selects the input of the attention. "shared": queries and keys read one further product from D to C, and
    values the block's input (MobileBERT). "narrow": all three read the first product (MobileBERT-tiny). "wide": all
    three read the block's input (IB-BERT). ``start`` are the initial values of the products into the block,
    ``start_exit`` those of the product out of it.
    """

    width: int
    inner_norm: NormConfig
    start: Start = BERT
    start_exit: Start = BERT
    feed_forwards: int = 1
    reads: str = "shared"

    def __post_init__(self) -> None:
        C, attention = self.attention.width, self.attention
        wanted = {"shared": (C, self.width), "narrow": (C, C), "wide": (self.width, self.width)}
        if self.reads not in wanted:
            raise ValueError(f"A block's attention reads {', '.join(READS)}, not {self.reads!r}.")
        if (attention.query_inputs, attention.value_inputs) != wanted[self.reads]:
            raise ValueError(
                f"With reads={self.reads!r} the attention's query_inputs and value_inputs are {wanted[self.reads]}, "
                f"not {(attention.query_inputs, attention.value_inputs)}."
            )

    def parts(self) -> Iterator[tuple[str, Config]]:
        narrow = LinearConfig(inputs=self.width, outputs=self.attention.width, start=self.start)
        yield "entry", narrow
        yield "entry_norm", self.inner_norm
        if self.reads == "shared":
            yield "query_entry", narrow
            yield "query_entry_norm", self.inner_norm
        yield "attention", self.attention
        yield "attention_norm", self.inner_norm
        for index in range(self.feed_forwards - 1):
            yield f"feed_forward_{index}", self.feed_forward
            yield f"feed_forward_{index}_norm", self.inner_norm
        yield "feed_forward", self.feed_forward
        yield "feed_forward_norm", self.inner_norm
        yield "exit", LinearConfig(inputs=self.attention.width, outputs=self.width, start=self.start_exit)
        yield "norm", self.norm

    def flops(self, tokens: float, seen: float = 0, memory: float = 0) -> float:
        return sum(part.flops(tokens, seen) for _, part in self.parts())


@dataclass(frozen=True, kw_only=True)
class TrigramEmbeddingsConfig(EmbeddingsConfig):
    """Token vectors of width E. ``trigrams`` maps the vectors of each token and its two neighbours, 3 E numbers, to D.
    Positions and segments are added to the result."""

    trigrams: LinearConfig


@dataclass(frozen=True, kw_only=True)
class TrigramEncoderConfig(EncoderConfig):
    """An encoder over `TrigramEmbeddingsConfig`."""

    def embedding_flops(self, tokens: float) -> float:
        return self.embeddings.trigrams.flops(tokens)
