"""ULMFiT's fine-tuning of a language model, with a setting for each technique.

Howard and Ruder (2018), sections 3.2 and 3.3.

1. The model continues its training as a language model on the texts of the training set (``lm_epochs``; `First`).
2. Learning rates rise linearly for a tenth of the steps and then fall linearly (``slanted``; equation 3).
3. The learning rate of a layer is 2.6 times lower than that of the layer above (``discriminative``; equation 2).
4. The head learns alone in the first epoch. Each further epoch unfreezes the next lower layer (``unfreeze``).
5. The head reads the text's pooled vector (for an LSTM, the last state) and the maximum and the mean of its tokens
   (``concat``; equation 4), through a hidden layer. This is as wide as the encoder here; the paper has 50 units, batch
   normalisation and dropout.

`bench.adapt.loop` makes the batches. The paper's back-propagation through parts of long documents is left out: texts
are cut to ``length`` tokens. Rates are slanted and discriminative in the language model's training too. There, an
embedding table that is also the output layer counts as the last layer, as in the authors' code.
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
    """The epochs are enough to unfreeze a small network's layers, and some more for all layers. ``max_steps`` limits
    the training of the language model and of the task separately."""

    # 3: version 2 of `Learning`; 2: the language model reads every token once a pass, and its output layer is the last
    VERSION = 3
    beta1: float = settings.share(0.7, baked=True)
    beta2: float = settings.share(0.99, baked=True)
    """Adam's beta1 and beta2 (section 4.1), for the language model's steps too."""
    epochs: int = settings.positive(8)
    patience: int = settings.setting(5)
    lm_epochs: int = settings.setting(1)
    """Passes over the task's texts as a language model."""
    slanted: int = settings.switch(1)
    """1: learning rates rise for a tenth of the steps and then fall; 0: they are constant."""
    discriminative: float = settings.positive(2.6)
    """The ratio of the learning rates of a layer and of the layer below it; 1 for equal rates."""
    unfreeze: int = settings.switch(1)
    """1: each epoch unfreezes one more layer, from the top; 0: all layers learn from the beginning."""
    concat: int = settings.switch(1, baked=True)
    """1: the head reads the pooled vector, the maximum and the mean of the tokens; 0: the pooled vector alone."""
    layers: str = settings.one_reading("the top layer is read")

    def flops(self, network: Network, form: Form) -> tuple[float, float]:
        """As in `Effort.flops`. The cost of the language model's epochs is spread over the epochs of the task."""
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
