"""Configurations of a decoder with predicting streams, without TensorFlow; `models.layers.streams` has the layers."""

from collections.abc import Iterator
from dataclasses import dataclass

from ptmbench.models.layers.config import AttentionConfig, Config, DecoderConfig, LinearConfig, TableConfig


@dataclass(frozen=True, kw_only=True)
class StreamAttentionConfig(AttentionConfig):
    """Attention of several streams over the first of them. Each vector computes a score for each of the ``buckets`` of
    distances and each head."""

    buckets: int = 32

    def parts(self) -> Iterator[tuple[str, Config]]:
        yield from super().parts()
        outputs = self.buckets * self.heads
        yield "distances", LinearConfig(inputs=self.width, outputs=outputs, start=self.start)


@dataclass(frozen=True, kw_only=True)
class StreamDecoderConfig(DecoderConfig):
    """A decoder with a main stream and one predicting stream for each row of ``streams``, a vector that identifies the
    stream."""

    streams: TableConfig

    def stream_flops(self, targets: float, memory: float, vocabulary: int, streams: int) -> float:
        """FLOPs of one row with the given number of predicting ``streams`` and the logits of each. Looking up distances
        is not counted."""
        cross = self.stack.block.cross
        layers = (1 + streams) * self.stack.flops(targets, targets, memory)
        layers += self.stack.layers * cross.memory_flops(memory)
        return layers + streams * 2 * targets * cross.width * vocabulary

    def decoding_flops(self, targets: float, memory: float, vocabulary: int) -> float:
        """FLOPs of one row of ``targets`` over an encoding of ``memory`` tokens, with the first predicting stream."""
        return self.stream_flops(targets, memory, vocabulary, 1)
