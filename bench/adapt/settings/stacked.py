"""Settings of stacked vectors (`bench.adapt.stacked`), and the FLOPs of the tagger above them."""

from collections.abc import Mapping
from dataclasses import dataclass

from ptmbench.bench.adapt import NotApplicable, settings
from ptmbench.bench.adapt.effort import Network
from ptmbench.bench.adapt.settings import Learning
from ptmbench.tasks.forms import Form


@dataclass(frozen=True, kw_only=True)
class Own(Learning):
    """A tagger from random weights takes more passes than a head. 256 cells and the clip are the paper's; rate and
    dropout are those of TagLM here (`bench.adapt.settings.taglm`), the tagger that is nearest."""

    VERSION = 3  # 3 as `Learning` has 2; 2 since its recurrent layers begin by the variance of Glorot and Bengio
    FREEZES = True
    epochs: int = settings.positive(12)
    patience: int = settings.setting(3)
    learning_rate: float = settings.setting(1e-3)
    dropout: float = settings.share(0.25, baked=True)
    head_dropout: float = settings.share(0.0, baked=True)
    """What the head reads is dropped by ``dropout`` already."""
    clip: float = settings.setting(5.0, baked=True)
    crf: int = settings.switch(1)
    """As everywhere, but 1: the paper's tagger judges sequences of tags."""
    context: int = settings.setting(0, "0: a sentence is read alone", lambda value: value == 0, sparing=True)
    hidden: int = settings.positive(256, baked=True)
    """Cells of the LSTM in each direction."""
    beside: str = settings.names("glove", "models", baked=True)
    """The models whose vectors stand beside those of the cell's own; none: the same tagger over its own alone."""
    tokenizer: str = settings.one_of("", "", "wordpiece", "bpe", "unigram", "word", "character")
    """What those models read; "": each the kind of its own paper."""

    def models(self, form: Form) -> Mapping[str, str]:
        named = self.beside.split("+") if form is Form.TAGGING else ()
        return {name: self.tokenizer for name in named if name}

    def tagger_flops(self, width: int) -> float:
        """FLOPs of the LSTM per word, in both directions, over vectors of so many columns."""
        return 2 * 2 * 4 * self.hidden * (width + self.hidden)

    def flops(self, network: Network, form: Form) -> tuple[float, float]:
        """All encoders are frozen, the tagger learns; every token is counted as a word."""
        if form is not Form.TAGGING:
            raise NotApplicable("no-head", "because the adaptation stacked is for tagging tasks.")
        every = (network, *network.neighbours)
        read = sum(self.forward(one) for one in every)
        tagger = self.length * self.tagger_flops(sum(one.shape.width for one in every))
        return read + 3 * tagger, read + tagger
