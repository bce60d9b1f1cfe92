"""Configurations of convolutions over the tokens of a row, and of an encoder made of them.

Letters: D width, W window, L layers. Source: Chia, Witteveen and Andrews (2019); `models.architectures.convolutional`
has the equations and the differences from the paper.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ptmbench.models.layers.config import Config, EmbeddingsConfig, LinearConfig, Start

HE = Start(kind="he_normal", deviations=())
"""He et al. (2015), equation 10: before ReLU, the vectors of all layers are equally large."""


@dataclass(frozen=True, kw_only=True)
class ConvolutionConfig(Config):
    """``width`` filters over each token and its neighbours, ``window`` tokens in all, and ReLU. ``window`` is odd, so
    that the same number of neighbours is read on either side."""

    width: int
    window: int
    start: Start = HE

    def __post_init__(self) -> None:
        if self.window < 1 or self.window % 2 == 0:
            raise ValueError(f"The window of a convolution is an odd number of tokens, not {self.window}.")

    def parts(self) -> Iterator[tuple[str, Config]]:
        yield "filters", LinearConfig(inputs=self.window * self.width, outputs=self.width, start=self.start)


@dataclass(frozen=True, kw_only=True)
class ConvolutionalConfig(Config):
    """An encoder of ``layers`` convolutions one after the other. ``pooler`` reads the largest values of all of them."""

    embeddings: EmbeddingsConfig
    convolution: ConvolutionConfig
    layers: int

    def parts(self) -> Iterator[tuple[str, Config]]:
        yield "embeddings", self.embeddings
        for index in range(self.layers):
            yield f"layer_{index}", self.convolution
        D, start = self.convolution.width, self.convolution.start
        yield "pooler", LinearConfig(inputs=self.layers * D, outputs=D, start=start)

    def flops(self, tokens: float, seen: float = 0) -> float:
        """FLOPs of one row of ``tokens``."""
        return self.layers * self.convolution.flops(tokens) + self._pooled_flops

    def training_flops(self, length: float) -> float:
        """FLOPs of a training step for one row. Pre-training predicts tokens, and needs no pooled vector."""
        return 3 * (self.flops(length) - self._pooled_flops)

    @property
    def _pooled_flops(self) -> float:
        return 2 * self.layers * self.convolution.width**2
