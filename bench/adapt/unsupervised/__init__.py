"""Unsupervised translation: learns from texts in two languages without translated pairs.

Lample and Conneau (2019), section 4.2; Song et al. (2019), section 4.2, for an encoder-decoder; survey, section 7.5.
It begins from a model that was pre-trained on text of both languages: a masked language model, whose layers encoder
and decoder begin with, or an encoder-decoder. One network reads both languages and writes both; the symbol that its
decoder begins with says which. Of each text y two rows are made, at every step anew:

    L = - ln p(y | u(y)) - lambda ln p(y | noise(y))        u(y): y in the other language, as the network writes it now

A network that copies would find its back-translations easy, and go on to copy. So in the first ``constrained`` steps
u(y) is of pieces that were met in texts of its language (Liu et al., 2020, section 5.1; there in more than 1 % of
them). What is evaluated is written freely.

Back-translation (Sennrich et al., 2016) takes u(y) as given: no gradient goes through it. Noise moves words by a few
places, drops some and blanks some (Lample et al., 2018, section 2.3). Both directions learn in every batch.

The training pairs of a task are taken apart: of each example one side is used, and no pair is ever seen. When to stop
is decided by the dev pairs, as under any adaptation; a criterion that needs no pair (Lample et al., 2018, section 3.2)
is left out.
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
    """Two languages and no pair take more passes than pairs do. Words are dropped and moved as in Lample et al. (2018),
    section 2.3, and blanked as often as they are dropped."""

    epochs: int = settings.positive(20)
    learning_rate: float = settings.setting(5e-4)
    patience: int = settings.setting(5)
    beta2: float = settings.share(0.98, baked=True)
    """As in the commands of XLM and MASS."""
    denoising: float = settings.setting(1.0)
    """lambda, the weight of the denoising loss; 0 leaves it out, as MASS does."""
    drop: float = settings.share(0.1)
    """The share of words that noise leaves out."""
    blank: float = settings.share(0.1)
    """The share of words that noise replaces by [MASK]."""
    shuffle: int = settings.setting(3)
    """How many places noise moves a word at most."""
    constrained: int = settings.setting(1000)
    """For so many steps back-translations are of pieces that texts of their own language have."""
    back_sample: int = settings.switch(0)
    """1: the sources of back-translation are drawn; 0: each is the text that greedy decoding finds."""
    decoder_layers: int = settings.setting(0, baked=True)
    warm_decoder: int = settings.switch(1, baked=True)
    """Of a model that is an encoder alone: layers of its new decoder (0: as many as the encoder has), and whether it
    begins with the encoder's."""
    layers: str = settings.one_reading("the decoder looks at the top layer")

    def decoder(self, network: Network) -> Decoder:
        return super().decoder(network) or decoder_on(network, self.decoder_layers)

    def writing(self, network: Network) -> tuple[float, float]:
        """Each text is translated, and written after that and after noise."""
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
