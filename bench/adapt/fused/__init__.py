"""BERT-fused: a new translator whose layers also attend to the output of a frozen encoder.

BERT-fused NMT; Zhu et al. (2020); survey, section 7.5: the pre-trained model as extra memory. Encoder and decoder are
fresh (`models.layers.fused` has the equations), the pre-trained encoder reads the source once and
never learns. ``drop_net`` is the paper's p, 1 as in the authors' script.

The authors begin from a translator that has learnt without the pre-trained encoder, and only what looks at that is new
(section 5.1). So do the ``stages``: in the first half of the steps the frozen vectors do not count, in the second they
do, beginning from the best of the first, and each has a warm-up of its own.

A random twin is the same translator over vectors that say nothing, and ``finetune`` of a random encoder-decoder is the
translator alone. Unlike in the paper, source and frozen encoder share a vocabulary, as all rows of a run do.
"""

from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.contract import Adaptation
from ptmbench.bench.adapt.effort import Decoder, Network
from ptmbench.bench.adapt.seq2seq import turn
from ptmbench.bench.adapt.settings import Learning
from ptmbench.models.architectures.encoder_decoders import fused
from ptmbench.models.card import Size
from ptmbench.tasks.forms import Form


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
    """Width of the translator; 0: the width of the frozen encoder."""
    layers: str = settings.one_reading("the translator looks at the top layer")

    def shape(self, width: int, depth: int, length: int) -> Size:
        """The translator's `Size` for an encoder of ``width`` columns and ``depth`` layers and ``length`` tokens."""
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
    encoder, decoder = fused(translator, vocabulary, memory=memory)
    return encoder.flops(length) + decoder.decoding_flops(targets, length, vocabulary)


class Fused(Adaptation):
    summary = "frozen encoder; a fresh translator learns, each layer of which looks at its vectors too"
    settings = Own
    heads = {Form.GENERATION: "heads.generation"}

    def decoding(self, network: Any, vocabulary: Any, settings: Any) -> Any:
        from ptmbench.bench.adapt.fused.network import Decoding

        return Decoding(network, vocabulary, settings)

    def turn(self, steps: int, settings: Any) -> int:
        return turn(steps, settings)

    def rate(self, step: Any, number: int, steps: int, settings: Any) -> float:
        from ptmbench.bench.adapt.fused.network import rate

        return rate(step, number, steps, settings)


ADAPTATION = Fused()
