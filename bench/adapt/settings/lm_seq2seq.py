"""Settings of a translator that begins as two language models (`bench.adapt.lm_seq2seq`), and its FLOPs."""

from dataclasses import dataclass

from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.effort import Decoder, Network
from ptmbench.bench.adapt.settings import Learning


@dataclass(frozen=True, kw_only=True)
class Own(Learning):
    """The rate is one for all weights, as in the paper."""

    beside: float = settings.setting(1.0, baked=True)
    """How much both language models count beside the task; 0 leaves them out."""
    warm_decoder: int = settings.switch(1, baked=True)
    """1: the decoder begins as the language model, too; 0: with random weights."""
    upper: int = settings.positive(1, baked=True)
    """Fresh layers above those of the language model, on either side."""
    layers: str = settings.one_reading("the decoder looks at the lowest and the top layer")

    def beside_flops(self, width: int, vocabulary: int, words: float) -> float:
        """FLOPs of predicting so many ``words`` by both language models in a training step: there and back."""
        return 3 * 2 * width * vocabulary * words * (self.beside > 0)

    def decoder(self, network: Network) -> Decoder:
        shape, words = network.shape, network.vocabulary.size
        return Decoder(lambda *given: flops(shape.width, shape.layers + self.upper, words, *given))

    def writing(self, network: Network) -> tuple[float, float]:
        learning, answering = super().writing(network)
        words = self.length + self.target_length
        return learning + self.beside_flops(network.shape.width, network.vocabulary.size, words), answering


def flops(width: int, layers: int, vocabulary: int, length: float, targets: float) -> float:
    """FLOPs of one forward pass for one row: so many ``layers`` on either side, ``targets`` tokens to write over
    ``length`` of the source. Two means are taken by one query, each with scores of its own."""
    layer, looks = 2 * 2 * width * 4 * width, 2 * 4 * length * width
    return length * layers * layer + targets * (layers * layer + looks + 2 * 3 * width * width + 2 * width * vocabulary)
