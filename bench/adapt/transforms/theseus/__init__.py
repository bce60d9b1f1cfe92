"""BERT-of-Theseus: layers of the adapted model are replaced at random by fewer layers, which learn to take their place.

Xu, Zhou, Ge, Wei and Zhou (2020), "BERT-of-Theseus: Compressing BERT by Progressive Module Replacing", section 3. The
adapted model is the predecessor. Its layers form modules prd_1 ... prd_n of ``replaced`` layers each. The successor has
one layer scc_i for each module. Training has two phases:

1. Module replacing (equations 2 and 3). For each batch and module, with r_i ~ Bernoulli(p),

       y_i = r_i scc_i(y_{i-1}) + (1 - r_i) prd_i(y_{i-1})

2. Successor fine-tuning (section 3.2): p = 1, so the successor learns alone.

Both phases minimise the loss of the task. With ``schedule=linear`` (equation 6) the probability rises, and phase 2
begins when it reaches 1. With ``schedule=constant`` it is b until phase 2. At step t, counted from 0,

    p_t = min(1, k t + b)        b = ``replacing``, and k such that p_t is 1 after the share ``ramp`` of all steps

Only the successor's layers learn. Embeddings, pooler and head are the predecessor's and frozen in both phases, as in
the authors' code (JetRunner/BERT-of-Theseus); section 3.1 states this for the first phase. The successor starts with
the lowest layers of the predecessor, as in the authors' code, or with new weights (``start=random``). The score on the
selection split is always measured on the successor alone.

Control: ``replacing=1`` fine-tunes the successor from the first step on, without the predecessor. The difference from
this control shows the gain from module replacing.
"""

from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt.settings import Settings as Adapting
from ptmbench.bench.adapt.settings import one_of, positive, setting
from ptmbench.bench.adapt.transforms.contract import Material, Transformed
from ptmbench.bench.adapt.transforms.further import without_early_stopping
from ptmbench.bench.errors import NotApplicable


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of ``theseus:name=value``."""

    replaced: int = setting(2, "2 or above", lambda value: value >= 2)
    """Layers of the predecessor that one layer of the successor replaces."""
    schedule: str = one_of("linear", "linear", "constant")
    """The probability of a replacement before it is 1: rising linearly or constant."""
    replacing: float = setting(0.3, "above 0 and 1 at most", lambda value: 0 < value <= 1)
    """Probability at the first step that a module is replaced; 1 trains the successor alone."""
    ramp: float = setting(0.5, "above 0 and 1 at most", lambda value: 0 < value <= 1)
    """Share of the steps before the probability is 1."""
    start: str = one_of("bottom", "bottom", "random")
    """The successor's initial weights: the lowest layers of the predecessor, or new weights."""
    epochs: int = positive(5)
    """Passes over the training examples, in both phases together."""
    max_steps: int = setting(0)
    """Maximum number of training steps; 0 for no limit."""
    learning_rate: float = setting(0.0)
    """Peak learning rate; 0 for the adaptation's."""

    def probability(self, step: int, steps: int) -> float:
        """p at ``step`` of ``steps``, counted from 0."""
        alone = self.ramp * steps
        if step >= alone:
            return 1.0
        rise = (1 - self.replacing) / alone if self.schedule == "linear" else 0.0
        return min(1.0, rise * step + self.replacing)

    def modules(self, layers: int) -> int:
        """The number of modules of a predecessor with ``layers`` layers. Raises `NotApplicable` if one module would be
        smaller than the others."""
        if layers % self.replaced:
            raise NotApplicable(
                "modules",
                f"because the model has {layers} layers, which do not form modules of {self.replaced} layers each. Set "
                "replaced to a divisor.",
            )
        return layers // self.replaced


class Theseus:
    """A `bench.adapt.transforms.contract.Transform` with training."""

    summary = "layers are replaced at random by fewer layers, which learn in their place (BERT-of-Theseus)"
    settings = Settings
    version = 1
    compression = "replacing"
    rebuilds = False
    final = False

    def label(self, settings: Settings) -> str:
        if settings.replacing == 1:
            return f"one of {settings.replaced} layers, without module replacing"
        return f"one layer for {settings.replaced} by module replacing"

    def training(self, settings: Settings, adaptation: Adapting) -> Adapting:
        return without_early_stopping(settings, adaptation)

    def transformed(self, material: Material) -> Transformed:
        from ptmbench.bench.adapt.transforms.theseus.network import train_successor

        return train_successor(material)

    def prepare(self, adapted: Any, settings: Settings) -> None:
        """Does nothing, because the shape of the stack fully describes the network."""


TRANSFORM = Theseus()
