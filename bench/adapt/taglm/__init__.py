"""TagLM: trains a tagger of two bidirectional LSTMs, with the states of a frozen language model between them.

Peters, Ammar, Bhagavatula and Power (2017), sections 3.2 to 3.4; survey, section 7.4. With x the lowest layer of the
frozen encoder, the vectors of the tokens, and m its top layer, for ELMo or Flair the states of both directions:

    h = [forward LSTM(x); backward LSTM(x)]        h' = [forward LSTM([h; m]); backward LSTM([h; m])]

and the head of tagging reads h', with a chain of tags (``crf``). That is ``place=first``, behind the first layer, where
the paper found m to help most (section 4); ``input`` has [x; m] in the place of x, and ``second`` has the head read
[h'; m]. ``layers`` says what m is: the top layer; ``all``, a mix with learnt shares, which is how ELMo goes on from
here; ``embedding``, no m at all, the paper's tagger without a language model.

Differences: token vectors are the encoder's own and stay as they are, where the paper's tagger learns vectors of words
and of letters; the LSTMs read pieces, of which the head looks at the first of each word; x and the layers of m are
normalised first, for norms differ several fold between layers and models.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.contract import Adaptation
from ptmbench.bench.adapt.effort import Network
from ptmbench.bench.adapt.settings import Learning
from ptmbench.tasks.forms import Form


@dataclass(frozen=True, kw_only=True)
class Own(Learning):
    """A tagger from random weights takes more passes than a head. Rate, dropout and clip are from the paper's
    section 4."""

    VERSION = 3  # 3 as `Learning` has 2; 2 since its recurrent layers begin by the variance of Glorot and Bengio
    FREEZES = True
    epochs: int = settings.positive(12)
    patience: int = settings.setting(3)
    learning_rate: float = settings.setting(1e-3)
    dropout: float = settings.share(0.25, baked=True)
    head_dropout: float = settings.share(0.0, baked=True)
    """The paper drops what the LSTMs read, and not what the head does."""
    clip: float = settings.setting(5.0, baked=True)
    crf: int = settings.switch(1)
    """As everywhere, but 1: the paper's tagger judges sequences of tags."""
    hidden: int = settings.positive(128, baked=True)
    """Cells of each LSTM in each direction."""
    place: str = settings.one_of("first", "input", "first", "second", baked=True)
    """Where the language model's states join: at the input, behind the first layer, behind the second one."""

    def widths(self, encoder: int) -> tuple[int, int]:
        """The widths of the inputs of both layers, for an ``encoder`` of so many columns."""
        states = 0 if self.layers == "embedding" else encoder
        first, second = (states if self.place == place else 0 for place in ("input", "first"))
        return encoder + first, 2 * self.hidden + second

    def tagger_flops(self, encoder: int) -> float:
        """FLOPs of the two layers per token, both directions of each."""
        return sum(2 * 2 * 4 * self.hidden * (width + self.hidden) for width in self.widths(encoder))

    def flops(self, network: Network, form: Form) -> tuple[float, float]:
        """The encoder is frozen, the two layers learn."""
        read, tagger = self.forward(network), self.length * self.tagger_flops(network.shape.width)
        return read + 3 * tagger, read + tagger


class TagLm(Adaptation):
    summary = "frozen encoder; two recurrent layers learn to tag, its top layer joins them behind the first"
    settings = Own
    heads = {Form.TAGGING: "heads.tagging"}

    def reading(self, encoder: Any, settings: Any, *others: Any) -> Any:
        from ptmbench.bench.adapt.taglm.network import Reading

        return Reading(encoder, settings)

    def step(self, loss: Any, variables: Sequence[Any], **options: Any) -> Any:
        from ptmbench.bench.adapt.taglm.network import Step

        return Step(loss, variables, **options)


ADAPTATION = TagLm()
