"""Sequence to sequence from language models: encoder and decoder both begin as the pre-trained language model.

Ramachandran, Liu and Le (2017), sections 2.1 to 2.3; survey, section 3.1. The word vectors, the lowest layers and the
output layer of both sides are from a left-to-right LSTM language model; the ``upper`` layers above are new. With h the
states of the lowest part of the encoder and H of its top, g and G the same for the decoder:

    w_t = softmax(H G_t)        c_t = [h^T w_t; H^T w_t]        p(y_t) = softmax(E (g_t + tanh(W [c_t; G_t] + b)))

The output layer reads g_t, as in pre-training, and new layers only add to it (the paper's residual connection). The
decoder attends to the lowest and the top layer of the encoder with the same weights (its attention over several
layers). Both sides keep their loss as language models, with equal weight (``lm_weight``), so that they do not forget:

    L = L_task + lm_weight (L_LM(source) + L_LM(target))

Differences: both sides start as the same model, with one vocabulary. Their losses as language models are on the texts
of the task's own pairs, where the paper has more text. The decoder starts with states of zero, as its language model
does. The tanh over [c; G] is from Luong et al. (2015). A random twin is the same network from scratch;
``warm_decoder=0`` is the paper's variant in which only the encoder is pre-trained.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.contract import Adaptation
from ptmbench.bench.adapt.effort import Decoder, Network
from ptmbench.bench.adapt.settings import Learning
from ptmbench.tasks.forms import Form


@dataclass(frozen=True, kw_only=True)
class Own(Learning):
    """All weights have the same learning rate, as in the paper."""

    lm_weight: float = settings.setting(1.0, baked=True)
    """Weight of the loss of each language model, where the task's loss has 1; 0 leaves them out."""
    warm_decoder: int = settings.switch(1, baked=True)
    """1: the decoder starts as the language model, too; 0: with random weights."""
    upper: int = settings.positive(1, baked=True)
    """New layers above the layers of the language model, on either side."""
    layers: str = settings.one_reading("the decoder looks at the lowest and the top layer")

    def lm_flops(self, width: int, vocabulary: int, words: float) -> float:
        """FLOPs of predicting ``words`` tokens with the language models in a training step, forward and backward."""
        return 3 * 2 * width * vocabulary * words * (self.lm_weight > 0)

    def decoder(self, network: Network) -> Decoder:
        shape, words = network.shape, network.vocabulary.size
        return Decoder(lambda *given: flops(shape.width, shape.layers + self.upper, words, *given))

    def writing(self, network: Network) -> tuple[float, float]:
        learning, answering = super().writing(network)
        words = self.length + self.target_length
        return learning + self.lm_flops(network.shape.width, network.vocabulary.size, words), answering


def flops(width: int, layers: int, vocabulary: int, length: float, targets: float) -> float:
    """FLOPs of one forward pass for one row: ``layers`` layers on either side, and ``targets`` tokens to write over
    ``length`` tokens of the source. Each target token takes two means over the source, and computes the scores of
    each."""
    layer, looks = 2 * 2 * width * 4 * width, 2 * 4 * length * width
    return length * layers * layer + targets * (layers * layer + looks + 2 * 3 * width * width + 2 * width * vocabulary)


class LanguageModels(Adaptation):
    summary = (
        "all weights learn; encoder and decoder begin as the LSTM language model, whose loss is added to the task's"
    )
    settings = Own
    heads = {Form.GENERATION: "lm_seq2seq.head"}

    def decoding(self, network: Any, vocabulary: Any, settings: Any) -> Any:
        from ptmbench.bench.adapt.lm_seq2seq.network import Decoding

        return Decoding(network, vocabulary, settings)

    def make(
        self, adapted: Any, rows: Sequence[Any], settings: Any, seed: tuple[int, int]
    ) -> tuple[Sequence[Any], float]:
        from ptmbench.bench.adapt.lm_seq2seq.network import make

        return make(adapted, rows, settings, seed)


ADAPTATION = LanguageModels()
