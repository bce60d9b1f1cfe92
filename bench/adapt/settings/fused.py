"""Settings of a translator beside a frozen encoder (`bench.adapt.fused`), its shape, and its FLOPs."""

from dataclasses import dataclass

from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.effort import Decoder, Network
from ptmbench.bench.adapt.settings import Learning
from ptmbench.models.card import Size


@dataclass(frozen=True, kw_only=True)
class Own(Learning):
    """The rate and the warm-up of each stage are the usual ones."""

    FREEZES = True
    beta2: float = settings.share(0.98, baked=True)
    """As in the authors' script (bert-nmt/bert-nmt)."""
    drop_net: float = settings.setting(1.0, "from 0 to 1", lambda value: 0 <= value <= 1, baked=True)
    """How often a layer that learns takes one of its two attentions alone; else, and when it writes, their mean."""
    stages: int = settings.one_of(2, 1, 2)
    """2: for the first half of the steps the translator learns without the frozen encoder; 1: with it at once."""
    own_layers: int = settings.setting(0, baked=True)
    """Layers of the translator's encoder, and of its decoder; 0: as many as the frozen encoder has."""
    own_width: int = settings.setting(0, baked=True)
    """Width of the translator; 0: that of the frozen encoder."""
    layers: str = settings.one_reading("the translator looks at the top layer")

    def shape(self, width: int, depth: int, length: int) -> Size:
        """The translator's `Size` beside an encoder of so many columns and layers, for inputs of ``length`` tokens."""
        D = self.own_width or width
        heads = next(n for n in range(max(1, D // 64), 0, -1) if D % n == 0)
        layers = self.own_layers or max(1, depth)
        return Size(layers=layers, width=D, heads=heads, inner=4 * D, length=length)

    def decoder(self, network: Network) -> Decoder:
        shape, words = network.shape, network.vocabulary.size
        translator = self.shape(shape.width, shape.layers, shape.length)
        return Decoder(
            lambda length, targets: network.reading(length) + flops(translator, shape.width, words, length, targets)
        )

    def writing(self, network: Network) -> tuple[float, float]:
        """The encoder only reads."""
        learning, answering = super().writing(network)
        return learning - 2 * network.reading(self.length), answering


def flops(translator: Size, memory: int, vocabulary: int, length: float, targets: float) -> float:
    """FLOPs of one forward pass of ``translator`` for one row, without the frozen encoder, whose vectors are ``memory``
    wide: ``targets`` tokens of the decoder over ``length`` of the source."""
    D, F, L = translator.width, translator.inner, translator.layers
    kept = 2 * 2 * memory * D  # keys and values of what is frozen, once per source token, in each layer of both
    encoder = 2 * (6 * D * D + 2 * D * F) + kept + 2 * 4 * length * D
    read = kept + 2 * 2 * D * D  # and in the decoder of the translator's own encoding
    decoder = 2 * (8 * D * D + 2 * D * F) + 4 * targets * D + 2 * 4 * length * D
    return length * L * (encoder + read) + targets * (L * decoder + 2 * D * vocabulary)
