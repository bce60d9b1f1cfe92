"""TagLM: trains a tagger of two bidirectional LSTMs, with the states of a frozen language model between them.

Peters, Ammar, Bhagavatula and Power (2017), sections 3.2 to 3.4; survey, section 7.4. x is the lowest layer of the
frozen encoder (the token vectors), and m is its top layer (for ELMo or Flair the states of both directions):

    h = [forward LSTM(x); backward LSTM(x)]        h' = [forward LSTM([h; m]); backward LSTM([h; m])]

The tagging head reads h', with a CRF (``crf``). This is ``place=first``: m joins after the first layer, where the paper
found it to help most (section 4). With ``input`` the first layer reads [x; m]; with ``second`` the head reads [h'; m].
``layers`` determines m. By default it is the top layer. With ``all`` it is a mix of all layers with learnt weights, as
later in ELMo. With ``embedding`` there is no m: this is the paper's tagger without a language model.

Differences: the token vectors are the encoder's and are frozen, while the paper's tagger learns word and character
vectors. The LSTMs read subwords, and the head reads the first one of each word. x and the layers of m are normalised
first, because norms differ several fold between layers and models.
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
    """A tagger with random initial weights needs more passes than a head. The learning rate, dropout and clip are from
    the paper's section 4."""

    VERSION = 3  # 3: version 2 of `Learning`; 2: recurrent layers initialised with the variance of Glorot and Bengio
    FREEZES = True
    epochs: int = settings.positive(12)
    patience: int = settings.setting(3)
    learning_rate: float = settings.setting(1e-3)
    dropout: float = settings.share(0.25, baked=True)
    head_dropout: float = settings.share(0.0, baked=True)
    """The paper has dropout on the inputs of the LSTMs, and none on the head's input."""
    clip: float = settings.setting(5.0, baked=True)
    crf: int = settings.switch(1)
    """As in `Settings`, but on by default, because the paper's tagger has a CRF."""
    hidden: int = settings.positive(128, baked=True)
    """Cells of each LSTM in each direction."""
    place: str = settings.one_of("first", "input", "first", "second", baked=True)
    """Where the language model's states are joined: at the input, after the first layer or after the second one."""

    def widths(self, encoder: int) -> tuple[int, int]:
        """The input widths of both layers, for an encoder of the width ``encoder``."""
        states = 0 if self.layers == "embedding" else encoder
        first, second = (states if self.place == place else 0 for place in ("input", "first"))
        return encoder + first, 2 * self.hidden + second

    def tagger_flops(self, encoder: int) -> float:
        """FLOPs of the two layers per token, in both directions."""
        return sum(2 * 2 * 4 * self.hidden * (width + self.hidden) for width in self.widths(encoder))

    def flops(self, network: Network, form: Form) -> tuple[float, float]:
        """As in `Effort.flops`. The encoder is frozen and the two layers learn."""
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
