"""Sequence to sequence: trains a new Transformer decoder on the output of any encoder.

Survey, sections 7.5 and 7.6.

Encoder and decoder have rates and warm-ups of their own, since one has learnt before and the other has not
(BERTSUMABS; Liu & Lapata, 2019, section 3.2): ``encoder_rate`` and ``encoder_warmup`` are the encoder's, both fall
with the root of the steps. With ``stages`` 2 the encoder stays as it is for the first half of the steps. With
``warm_decoder`` the decoder begins with the encoder's layers, and only what looks at the source is new (BERT2BERT;
Rothe et al., 2020, section 3). A random twin is the same network from scratch: give both rates the same value to
compare with it fairly.

The decoder is BART's (`models.architectures.encoder_decoders.bart`), L layers of the encoder's width. It has token
vectors of its own, which begin as the encoder's where these are as wide.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.contract import Adaptation
from ptmbench.bench.adapt.effort import Decoder, Network
from ptmbench.bench.adapt.settings import Learning
from ptmbench.models.architectures.encoder_decoders import bart
from ptmbench.models.card import Size
from ptmbench.models.costs import Model
from ptmbench.tasks.forms import Form


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
    return Decoder(partial(topped_flops, network.model, network.vocabulary.size, above))


def topped_flops(model: Model, vocabulary: int, decoder: Size, length: float, targets: float) -> float:
    """FLOPs of one row under a new decoder of the shape ``decoder`` on the encoder of ``model``: ``targets`` tokens of
    the one over ``length`` of the other, with so many tokens in the ``vocabulary``."""
    return model.encoder_flops(length) + bart(decoder, vocabulary)[1].decoding_flops(targets, length, vocabulary)


def turn(steps: int, settings: Any) -> int:
    """The step of ``steps`` that the second of two ``stages`` begins with."""
    return steps // 2 if settings.stages == 2 else 0


class SequenceToSequence(Adaptation):
    summary = "all weights learn; a fresh Transformer decoder writes, at a rate of its own"
    settings = Own
    heads = {Form.GENERATION: "heads.generation"}

    def decoding(self, network: Any, vocabulary: Any, settings: Any) -> Any:
        from ptmbench.bench.adapt.seq2seq.network import Decoding

        return Decoding(network, vocabulary, settings)

    def turn(self, steps: int, settings: Any) -> int:
        return turn(steps, settings)

    def step(self, loss: Any, variables: Sequence[Any], **options: Any) -> Any:
        from ptmbench.bench.adapt.rated import RatedStep

        return RatedStep(loss, variables, **options)

    def rate(self, step: Any, number: int, steps: int, settings: Any) -> float:
        from ptmbench.bench.adapt.seq2seq.network import rate

        return rate(step, number, steps, settings)


ADAPTATION = SequenceToSequence()
