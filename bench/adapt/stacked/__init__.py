"""Stacked: trains a tagger on the concatenated word vectors of several frozen models.

Akbik, Blythe and Vollgraf (2018), section 2.3: the contextual string embedding and the classic vector of a word are
concatenated and read by a BiLSTM-CRF. v_m(w) is the vector of model m at the first token of word w:

    x_w = [N v_0(w); N v_1(w); ...]        h = [forward LSTM(x); backward LSTM(x)]

The tagging head reads h, with a CRF (``crf``). Model 0 is the cell's own. The ``encoders`` are pre-trained on the same
corpus, at the same size and budget, each with the kind of tokens of its paper: words for GloVe, characters for Flair.
The models have only words in common, so the LSTM reads words. v_m is the model's top layer, for Flair the states at
both ends of the word; ``layers`` changes this for all models. With ``encoders=`` (none) the same tagger reads the
cell's own model alone, which is the baseline of every stack.

A random twin has random weights for the cell's own model only; the extra encoders are the same. So the difference shows
what pre-training adds to the extra encoders.

Other forms are not applicable: their heads read one vector of a text or of a token, and two models have different
tokens. Differences from the paper: N normalises every vector to mean 0 and deviation 1, because norms differ several
fold between models. Dropout masks are drawn for each word; the paper uses one mask for a sentence. The optimizer is
AdamW, as in every adaptation, instead of SGD.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.contract import Adaptation
from ptmbench.bench.adapt.effort import Network
from ptmbench.bench.adapt.settings import Learning
from ptmbench.bench.errors import NotApplicable
from ptmbench.tasks.forms import Form


@dataclass(frozen=True, kw_only=True)
class Own(Learning):
    """A tagger with random initial weights needs more passes than a head. ``hidden`` and ``clip`` are the paper's. The
    learning rate and dropout are those of the most similar tagger here, TagLM (`bench.adapt.taglm`)."""

    VERSION = 3  # 3: version 2 of `Learning`; 2: recurrent layers initialised with the variance of Glorot and Bengio
    FREEZES = True
    epochs: int = settings.positive(12)
    patience: int = settings.setting(3)
    learning_rate: float = settings.setting(1e-3)
    dropout: float = settings.share(0.25, baked=True)
    head_dropout: float = settings.share(0.0, baked=True)
    """``dropout`` already applies to the head's input."""
    clip: float = settings.setting(5.0, baked=True)
    crf: int = settings.switch(1)
    """As in `Settings`, but on by default, because the paper's tagger has a CRF."""
    context: int = settings.setting(0, "0: a sentence is read alone", lambda value: value == 0, sparing=True)
    hidden: int = settings.positive(256, baked=True)
    """Cells of the LSTM in each direction."""
    encoders: str = settings.names("glove", "models", baked=True)
    """The extra encoders. If empty, the tagger reads the vectors of the cell's own model alone."""
    tokenizer: str = settings.one_of("", "", "wordpiece", "bpe", "unigram", "word", "character")
    """The kind of tokens that the extra encoders read; "" for the kind of each one's paper."""

    def models(self, form: Form) -> Mapping[str, str]:
        named = self.encoders.split("+") if form is Form.TAGGING else ()
        return {name: self.tokenizer for name in named if name}

    def tagger_flops(self, width: int) -> float:
        """FLOPs of the LSTM per word, in both directions, over vectors of ``width`` dimensions."""
        return 2 * 2 * 4 * self.hidden * (width + self.hidden)

    def flops(self, network: Network, form: Form) -> tuple[float, float]:
        """As in `Effort.flops`. All encoders are frozen and the tagger learns. Every token is counted as a word."""
        if form is not Form.TAGGING:
            raise NotApplicable("no-head", "because the adaptation stacked is for tagging tasks.")
        every = (network, *network.neighbours)
        read = sum(self.forward(one) for one in every)
        tagger = self.length * self.tagger_flops(sum(one.shape.width for one in every))
        return read + 3 * tagger, read + tagger


class Stacked(Adaptation):
    summary = "frozen vectors of the model and of extra encoders, word by word; a recurrent tagger learns (Flair)"
    settings = Own
    heads = {Form.TAGGING: "stacked.head"}

    def reading(self, encoder: Any, settings: Any, *others: Any) -> Any:
        from ptmbench.bench.adapt.stacked.network import Reading

        return Reading(encoder, settings, *others)

    def step(self, loss: Any, variables: Sequence[Any], **options: Any) -> Any:
        from ptmbench.bench.adapt.taglm.network import Step

        return Step(loss, variables, **options)


ADAPTATION = Stacked()
