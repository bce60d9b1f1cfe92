"""Settings of a new decoder over an encoder (`bench.adapt.seq2seq`), and its FLOPs."""

from dataclasses import dataclass, replace
from typing import Any

from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.effort import Decoder, Network
from ptmbench.bench.adapt.settings import Learning


@dataclass(frozen=True, kw_only=True)
class Own(Learning):
    """The decoder's rate and warm-up are the usual ones, the encoder has others."""

    encoder_rate: float = settings.setting(2e-4)
    encoder_warmup: float = settings.share(0.2)
    """Peak rate and share of warm-up of the encoder."""
    stages: int = settings.one_of(1, 1, 2)
    """2: the encoder stays as it is for the first half of the steps; 1: both learn at once."""
    warm_decoder: int = settings.switch(0, baked=True)
    """1: the decoder begins with the encoder's layers; 0: with random ones."""
    decoder_layers: int = settings.setting(0, baked=True)
    """Layers of the decoder; 0: as many as the encoder has."""
    layers: str = settings.one_reading("the decoder looks at the top layer")

    def decoder(self, network: Network) -> Decoder:
        return decoder_on(network, self.decoder_layers)


def decoder_on(network: Network, layers: int) -> Decoder:
    """A new decoder of so many ``layers`` on the encoder of ``network``; 0: as many as that has."""
    shape = network.shape
    above = replace(shape, layers=layers or shape.layers, inner=shape.inner or 4 * shape.width)
    return Decoder(lambda *given: topped_flops(network.module, shape, network.vocabulary, above, *given))


def topped_flops(module: Any, shape: Any, vocabulary: Any, decoder: Any, length: float, targets: float) -> float:
    """FLOPs of one row under a new decoder of the shape ``decoder`` on the encoder of ``module``: ``targets`` tokens
    of the one over ``length`` of the other."""
    D, F = decoder.width, decoder.inner
    layer = 2 * (6 * D * D + 2 * D * F) + 4 * targets * D + 4 * length * D
    memory = 2 * 2 * D * D  # keys and values of cross-attention, once per input token
    read = module.encoder_flops_per_token(shape, length) + decoder.layers * memory
    return length * read + targets * (decoder.layers * layer + 2 * D * vocabulary.size)
