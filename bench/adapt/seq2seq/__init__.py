"""Sequence to sequence: trains a new Transformer decoder on the output of any encoder.

Survey, sections 7.5 and 7.6.

Encoder and decoder have separate learning rates and warm-ups, since only the encoder is pre-trained (BERTSUMABS; Liu &
Lapata, 2019, section 3.2): ``encoder_rate`` and ``encoder_warmup`` are the encoder's. Both rates fall with the inverse
square root of the step. With ``stages`` 2 the encoder is frozen for the first half of the steps. With ``warm_decoder``
the decoder starts with the encoder's layers, and only the cross-attention is new (BERT2BERT; Rothe et al., 2020,
section 3). A random twin is the same network from scratch: give both rates the same value for a fair comparison.

The decoder is BART's (`models.architectures.encoder_decoders.bart`), L layers of the encoder's width. It has its own
token vectors, which are initialised with the encoder's if these have the same shape.
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
    """``learning_rate`` and ``warmup`` are the decoder's. The encoder has its own."""

    encoder_rate: float = settings.setting(2e-4)
    """Peak learning rate of the encoder."""
    encoder_warmup: float = settings.share(0.2)
    """Share of the training steps in which the encoder's rate rises."""
    stages: int = settings.one_of(1, 1, 2)
    """2: the encoder is frozen for the first half of the steps; 1: both learn at once."""
    warm_decoder: int = settings.switch(0, baked=True)
    """1: the decoder starts with the encoder's layers; 0: with random layers."""
    decoder_layers: int = settings.setting(0, baked=True)
    """Layers of the decoder; 0: as many as the encoder has."""
    layers: str = settings.one_reading("the decoder looks at the top layer")

    def decoder(self, network: Network) -> Decoder:
        return decoder_on(network, self.decoder_layers)


def decoder_on(network: Network, layers: int) -> Decoder:
    """A new decoder of ``layers`` layers on the encoder of ``network``; 0: as many layers as the encoder has."""
    shape = network.shape
    above = replace(shape, layers=layers or shape.layers, inner=shape.inner or 4 * shape.width)
    return Decoder(partial(topped_flops, network.model, network.vocabulary.size, above))


def topped_flops(model: Model, vocabulary: int, decoder: Size, length: float, targets: float) -> float:
    """FLOPs of one row in the encoder of ``model`` and a new decoder of the shape ``decoder``. The encoder reads
    ``length`` tokens, and the decoder writes ``targets`` tokens. ``vocabulary`` is the number of different tokens."""
    return model.encoder_flops(length) + bart(decoder, vocabulary)[1].decoding_flops(targets, length, vocabulary)


def second_stage_start(steps: int, settings: Any) -> int:
    """The first of ``steps`` that belongs to the second stage; 0 for a single stage."""
    return steps // 2 if settings.stages == 2 else 0


class SequenceToSequence(Adaptation):
    summary = "all weights learn; a fresh Transformer decoder writes, at a rate of its own"
    settings = Own
    heads = {Form.GENERATION: "heads.generation"}

    def decoding(self, network: Any, vocabulary: Any, settings: Any) -> Any:
        from ptmbench.bench.adapt.seq2seq.network import Decoding

        return Decoding(network, vocabulary, settings)

    def second_stage_start(self, steps: int, settings: Any) -> int:
        return second_stage_start(steps, settings)

    def step(self, loss: Any, variables: Sequence[Any], **options: Any) -> Any:
        from ptmbench.bench.adapt.rated import RatedStep

        return RatedStep(loss, variables, **options)

    def rate(self, step: Any, number: int, steps: int, settings: Any) -> float:
        from ptmbench.bench.adapt.seq2seq.network import rate

        return rate(step, number, steps, settings)


ADAPTATION = SequenceToSequence()
