"""Stacked: trains a tagger on the concatenated word vectors of several frozen models.

Akbik, Blythe and Vollgraf (2018), section 2.3: a word has a contextual string embedding and a classic vector, and
both go, as one longer vector, into a BiLSTM-CRF. With v_m(w) what model m has at the first token of word w,

    x_w = [N v_0(w); N v_1(w); ...]        h = [forward LSTM(x); backward LSTM(x)]

and the head of tagging reads h, with a chain of tags (``crf``). Model 0 is the cell's own; the ``encoders``
are pre-trained on the same corpus, at the same size and budget, each over tokens of the kind that its paper has: for
GloVe words, for Flair characters. Words are what they share, and so the LSTM reads words, whatever they are cut
into. v_m is the model's top layer, for Flair the states at both ends of the word; ``layers`` says otherwise for all.
``encoders=`` names none: the same tagger over the cell's own model, the baseline of every stack.

A random twin has random weights in place of the cell's own model only; the extra encoders are the same. So the
difference is what pre-training adds to them, not what they bring themselves.

Other forms are not applicable: their heads read one vector of a text, or a token's, and tokens of two models do not
meet. Differences: N brings every vector to mean 0 and deviation 1, for norms differ several fold between models;
dropout falls on single columns of words, in the paper on the same ones throughout a sentence; the optimizer is AdamW,
as in every adaptation, and the paper's is SGD.
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
    """A tagger from random weights takes more passes than a head. 256 cells and the clip are the paper's; rate and
    dropout are taken from the nearest tagger here, TagLM (`bench.adapt.taglm`)."""

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
    encoders: str = settings.names("glove", "models", baked=True)
    """The extra encoders; none: the same tagger over the vectors of the cell's own model."""
    tokenizer: str = settings.one_of("", "", "wordpiece", "bpe", "unigram", "word", "character")
    """What those models read; "": each the kind of its own paper."""

    def models(self, form: Form) -> Mapping[str, str]:
        named = self.encoders.split("+") if form is Form.TAGGING else ()
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
