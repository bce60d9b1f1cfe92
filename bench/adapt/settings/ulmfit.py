"""Settings of ULMFiT's way to fine-tune (`bench.adapt.ulmfit`): every trick can be left out."""

from dataclasses import dataclass

from ptmbench.bench.adapt import settings
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
        """The language model's epochs are shared out among those of the task."""
        learning, answering = super().flops(network, form)
        return learning + self.lm_epochs / self.epochs * network.learning(self.length), answering
