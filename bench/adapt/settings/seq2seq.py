"""Settings of a new decoder over an encoder (`bench.adapt.seq2seq`)."""

from dataclasses import dataclass

from bench.adapt import settings
from bench.adapt.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Own(Settings):
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
