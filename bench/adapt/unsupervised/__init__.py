"""Unsupervised translation: learns from texts in two languages without translated pairs.

Lample and Conneau (2019), section 4.2; Song et al. (2019), section 4.2, for an encoder-decoder; survey, section 7.5.
Training starts from a model that was pre-trained on text of both languages. This is an encoder-decoder, or a masked
language model whose layers initialise both encoder and decoder. One network reads and writes both languages; the first
symbol of its decoder selects the language. Each step makes two rows of each text y:

    L = - ln p(y | u(y)) - lambda ln p(y | noise(y))        u(y): the network's current translation of y

A network that copies its input would reconstruct y easily from such translations, and continue to copy. So in the first
``constrained`` steps u(y) consists only of pieces that occurred in texts of its language (Liu et al., 2020, section
5.1; there in more than 1 % of them). Evaluation has no such constraint.

Back-translation (Sennrich et al., 2016) treats u(y) as constant: no gradient goes through it. Noise moves words by a
few places, drops some and masks some (Lample et al., 2018, section 2.3). Every batch trains both directions.

The training pairs of a task are separated: one side of each example is used, so training sees no pairs. Early stopping
uses the dev pairs, as in any adaptation. A criterion without pairs (Lample et al., 2018, section 3.2) is not
implemented.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.contract import Adaptation
from ptmbench.bench.adapt.effort import Decoder, Network
from ptmbench.bench.adapt.seq2seq import decoder_on
from ptmbench.bench.adapt.settings import Learning
from ptmbench.tasks.forms import Form


@dataclass(frozen=True, kw_only=True)
class Own(Learning):
    """Training without pairs needs more passes than training on pairs. Words are dropped and moved as in Lample et al.
    (2018), section 2.3. They are masked as often as they are dropped."""

    epochs: int = settings.positive(20)
    learning_rate: float = settings.setting(5e-4)
    patience: int = settings.setting(5)
    beta2: float = settings.share(0.98, baked=True)
    """As in the commands of XLM and MASS."""
    denoising: float = settings.setting(1.0)
    """lambda, the weight of the denoising loss; 0 for no denoising, as in MASS."""
    drop: float = settings.share(0.1)
    """Share of words that noise drops."""
    blank: float = settings.share(0.1)
    """Share of words that noise replaces by [MASK]."""
    shuffle: int = settings.setting(3)
    """Maximum number of places by which noise moves a word."""
    constrained: int = settings.setting(1000)
    """Number of steps in which back-translations have only pieces that occurred in texts of their language."""
    back_sample: int = settings.switch(0)
    """1: back-translations are sampled; 0: they are decoded greedily."""
    decoder_layers: int = settings.setting(0, baked=True)
    """Layers of the new decoder of a model without one; 0 for as many as its encoder has."""
    warm_decoder: int = settings.switch(1, baked=True)
    """1: the new decoder starts with the encoder's weights; 0: with random weights."""
    layers: str = settings.one_reading("the decoder looks at the top layer")

    def decoder(self, network: Network) -> Decoder:
        return super().decoder(network) or decoder_on(network, self.decoder_layers)

    def writing(self, network: Network) -> tuple[float, float]:
        """As in `Effort.writing`. Each text is translated, and then written after its translation and after noise."""
        learning, answering = super().writing(network)
        start, half = (self.decoder(network).flops(self.length, n) for n in (0, self.target_length / 2))
        return learning * (2 if self.denoising else 1) + start + 2 * (half - start), answering


class Unsupervised(Adaptation):
    summary = "all weights learn to translate without pairs: by denoising and back-translation"
    settings = Own
    heads = {Form.GENERATION: "unsupervised.head"}

    def decoding(self, network: Any, vocabulary: Any, settings: Any) -> Any:
        from ptmbench.bench.adapt.unsupervised.network import Decoding

        return Decoding(network, vocabulary, settings)

    def make(
        self, adapted: Any, rows: Sequence[Any], settings: Any, seed: tuple[int, int]
    ) -> tuple[Sequence[Any], float]:
        from ptmbench.bench.adapt.unsupervised.network import make

        return make(adapted, rows, settings, seed)


ADAPTATION = Unsupervised()
