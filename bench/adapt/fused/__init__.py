"""BERT-fused: a new translator whose layers also attend to the output of a frozen encoder.

BERT-fused NMT; Zhu et al. (2020); survey, section 7.5: the pre-trained model as extra memory. The encoder and the
decoder of the translator are new (`models.layers.fused` has the equations). The pre-trained encoder reads the source
once and is never trained. ``drop_net`` is the paper's p, 1 as in the authors' script.

The authors start from a translator that was trained without the pre-trained encoder, so that only the attention to it
is new (section 5.1). ``stages=2`` does the same: the first half of the steps ignores the frozen vectors. The second
half uses them, and starts from the best weights of the first. Each half has a warm-up of its own.

The random twin is the same translator over the vectors of a random encoder. `finetune` of a random encoder-decoder is
the translator alone. Unlike in the paper, translator and frozen encoder share a vocabulary, as all rows of a run do.
"""

from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.contract import Adaptation
from ptmbench.bench.adapt.effort import Decoder, Network
from ptmbench.bench.adapt.seq2seq import second_stage_start
from ptmbench.bench.adapt.settings import Learning
from ptmbench.models.architectures.encoder_decoders import fused
from ptmbench.models.card import Size
from ptmbench.tasks.forms import Form


@dataclass(frozen=True, kw_only=True)
class Own(Learning):
    """The learning rate and the warm-up of each stage are the usual ones."""

    FREEZES = True
    beta2: float = settings.share(0.98, baked=True)
    """As in the authors' script (bert-nmt/bert-nmt)."""
    drop_net: float = settings.setting(1.0, "from 0 to 1", lambda value: 0 <= value <= 1, baked=True)
    """Probability that a layer uses only one of its two attentions in a training step. Otherwise it uses their mean, as
    it always does when it writes."""
    stages: int = settings.one_of(2, 1, 2)
    """2: for the first half of the steps the translator is trained without the frozen encoder; 1: with it from the
    start."""
    own_layers: int = settings.setting(0, baked=True)
    """Layers of the translator's encoder, and of its decoder; 0: as many as the frozen encoder has."""
    own_width: int = settings.setting(0, baked=True)
    """Width of the translator; 0: the width of the frozen encoder."""
    layers: str = settings.one_reading("the translator looks at the top layer")

    def shape(self, width: int, depth: int, length: int) -> Size:
        """The translator's `Size` for a frozen encoder of this ``width`` and ``depth``, and for ``length`` tokens."""
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
        """The frozen encoder has no backward pass."""
        learning, answering = super().writing(network)
        return learning - 2 * network.reading(self.length), answering


def flops(translator: Size, memory: int, vocabulary: int, length: float, targets: float) -> float:
    """FLOPs of one forward pass of ``translator`` for one row: ``targets`` tokens of the decoder and ``length`` tokens
    of the source. The frozen encoder, whose vectors are ``memory`` wide, is not counted."""
    encoder, decoder = fused(translator, vocabulary, memory=memory)
    return encoder.flops(length) + decoder.decoding_flops(targets, length, vocabulary)


class Fused(Adaptation):
    summary = "frozen encoder; a fresh translator learns, each layer of which looks at its vectors too"
    settings = Own
    heads = {Form.GENERATION: "heads.generation"}

    def decoding(self, network: Any, vocabulary: Any, settings: Any) -> Any:
        from ptmbench.bench.adapt.fused.network import Decoding

        return Decoding(network, vocabulary, settings)

    def second_stage_start(self, steps: int, settings: Any) -> int:
        return second_stage_start(steps, settings)

    def rate(self, step: Any, number: int, steps: int, settings: Any) -> float:
        from ptmbench.bench.adapt.fused.network import rate

        return rate(step, number, steps, settings)


ADAPTATION = Fused()
