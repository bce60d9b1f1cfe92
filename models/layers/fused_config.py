"""Configurations of Transformers with a second memory, without TensorFlow; `models.layers.fused` has the layers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ptmbench.models.layers.config import AttentionConfig, BlockConfig, Config, DecoderConfig, EncoderConfig, Shape


@dataclass(frozen=True, kw_only=True)
class FusedBlockConfig(BlockConfig):
    """A Transformer layer with one more attention, ``other``, to a second memory. The mean of its result and that of
    the last regular attention (``cross``, or ``attention`` without one) is added to the input.

    ``drop_net`` is the probability that a training step uses only one of the two.
    """

    other: AttentionConfig
    drop_net: float

    def parts(self) -> Iterator[tuple[str, Config]]:
        mixed = "cross" if self.cross is not None else "attention"
        for name, part in super().parts():
            yield name, part
            if name == mixed:
                yield "other", self.other

    def flops(self, tokens: float, seen: float = 0, memory: float = 0) -> float:
        """FLOPs for ``tokens`` vectors. Each attends to ``seen`` vectors, in ``cross`` to ``memory`` vectors, and in
        ``other`` to as many as in ``cross``, or as in ``attention`` without one."""
        second = memory if self.cross is not None else seen
        return super().flops(tokens, seen, memory) + self.other.flops(tokens, second)


@dataclass(frozen=True, kw_only=True)
class FusedEncoderConfig(EncoderConfig):
    """An encoder of `FusedBlockConfig` blocks. Its weight ``fused`` is a number that is not trained: 1, or 0 to ignore
    the second memory."""

    def weights(self) -> Mapping[str, Shape]:
        return {"fused": ()}

    def flops(self, tokens: float, seen: float = 0) -> float:
        """FLOPs of one row of ``tokens`` over as many vectors of the second memory."""
        return super().flops(tokens) + self.stack.layers * self.stack.block.other.memory_flops(tokens)


@dataclass(frozen=True, kw_only=True)
class FusedDecoderConfig(DecoderConfig):
    """A decoder of `FusedBlockConfig` blocks."""

    def decoding_flops(self, targets: float, memory: float, vocabulary: int) -> float:
        """FLOPs of one row of ``targets`` over ``memory`` vectors of the encoder and as many of the second memory, with
        the logits of ``targets``."""
        read = self.stack.layers * self.stack.block.other.memory_flops(memory)
        return super().decoding_flops(targets, memory, vocabulary) + read
