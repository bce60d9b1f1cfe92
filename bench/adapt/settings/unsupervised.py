"""Settings of translation without pairs (`bench.adapt.unsupervised`)."""

from dataclasses import dataclass

from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.effort import Decoder, Network
from ptmbench.bench.adapt.settings import Learning
from ptmbench.bench.adapt.settings.seq2seq import decoder_on


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
