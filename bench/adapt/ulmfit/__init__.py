"""ULMFiT's fine-tuning of a language model, with a setting for each technique. Howard and Ruder (2018), sections 3.2
and 3.3.

1. The model goes on as a language model on the texts of the training set (``lm_epochs``; `First`).
2. Rates rise for a tenth of the steps and then fall, all in straight lines (``slanted``; equation 3).
3. A layer learns 2.6 times slower than the one above it (``discriminative``; equation 2).
4. The head learns alone in the first epoch; each further one lets the next lower layer learn too (``unfreeze``).
5. The head reads the text's pooled vector (for an LSTM, the last state), the maximum and the mean of its tokens
   (``concat``; equation 4), through a hidden layer. That is as wide as the encoder here; the paper has 50 units, batch
   normalisation and dropout.

Batches are made by `bench.adapt.loop`; the paper's back-propagation through parts of long documents is left out: a
text has ``length`` tokens. While the language model learns, rates are slanted and discriminative too, and a table of
vectors that is its output layer as well counts as that, the last layer, as in the authors' code.
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
    """As many epochs as a small network has layers to unfreeze, and some for all of them. ``max_steps`` holds for the
    language model and for the task, each."""

    # 3 as `Learning` has 2; 2 since the language model reads every token once a pass, and its output layer is the last
    VERSION = 3
    beta1: float = settings.share(0.7, baked=True)
    beta2: float = settings.share(0.99, baked=True)
    """Of the language model's steps too (section 4.1)."""
    epochs: int = settings.positive(8)
    patience: int = settings.setting(5)
    lm_epochs: int = settings.setting(1)
    """Passes over the task's texts as a language model."""
    slanted: int = settings.switch(1)
    """1: rates rise for a tenth of the steps and then fall; 0: they stay at their peak."""
    discriminative: float = settings.positive(2.6)
    """How many times slower a layer learns than the one above it; 1 is as fast."""
    unfreeze: int = settings.switch(1)
    """1: each epoch one more layer learns, from the top; 0: all do from the beginning."""
    concat: int = settings.switch(1, baked=True)
    """1: a text is its pooled vector, the maximum and the mean of its tokens; 0: its pooled vector."""
    layers: str = settings.one_reading("the top layer is read")

    def flops(self, network: Network, form: Form) -> tuple[float, float]:
        """The language model's epochs are spread over the epochs of the task."""
        learning, answering = super().flops(network, form)
        return learning + self.lm_epochs / self.epochs * network.learning(self.length), answering


class Ulmfit(Adaptation):
    summary = "a language model learns the task's texts, then the task from the top layer down, at rates of their own"
    settings = Own

    def reading(self, encoder: Any, settings: Any, *others: Any) -> Any:
        from ptmbench.bench.adapt.ulmfit.network import Reading

        return Reading(encoder, settings)

    def first(self, network: Any, vocabulary: Any, form: Form, **options: Any) -> Any:
        from ptmbench.bench.adapt.ulmfit.network import First

        return First(network, vocabulary, form, **options)

    def step(self, loss: Any, variables: Sequence[Any], **options: Any) -> Any:
        from ptmbench.bench.adapt.rated import RatedStep

        return RatedStep(loss, variables, **options)

    def rate(self, step: Any, number: int, steps: int, settings: Any) -> float:
        from ptmbench.bench.adapt.ulmfit.network import rate

        return rate(step, number, steps, settings)


ADAPTATION = Ulmfit()
