"""Mask and infill: words that show the label are masked, and a model that knows the wanted label fills the blanks.

Wu et al. (2019), section 3, AC-MLM; survey, section 7.3. The words that show a text's label (`bench.adapt.attributes`)
become blanks. Let x_1 ... x_M be these words in the text x, and v its label. The model learns to write them again,

    L = - 1/M sum_m ln p(x_m | x without x_m ... x_M, v)

and then fills the blanks under the other label. The label takes the place of segments, as in the authors' Conditional
BERT (Wu et al., 2018): every token of a text has the segment of its label, so there are no new weights. Blanks are
filled from left to right, in training and in prediction, so that each depends on those already filled. If all were
filled at once, neighbouring words would not depend on each other.

The paper's masks by attention, and its loss through a classifier (AC-MLM-SS), are left out. The scores of the pieces
for a blank are `models.pretrainable.Pretrainable.fill`, in which there is no dropout. Languages and mentions are taken
from the words around the blanks.
"""

from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.contract import Adaptation
from ptmbench.bench.adapt.settings import Learning
from ptmbench.tasks.forms import Form


@dataclass(frozen=True, kw_only=True)
class Own(Learning):
    """Defaults for short sentences, each with a few blanks to learn from."""

    WRITES = False
    epochs: int = settings.positive(6)
    learning_rate: float = settings.setting(3e-4)
    patience: int = settings.setting(2)
    length: int = settings.positive(64)
    beam: int = settings.setting(1, "1: every blank gets its likeliest piece", lambda value: value == 1)
    layers: str = settings.one_reading("the model fills blanks as it learnt to")
    salience: float = settings.setting(0.0)
    """Threshold at which a run of words shows the label (gamma of `bench.adapt.attributes`); 0 is the task's own."""
    smoothing: float = settings.positive(1.0)
    """lambda of `bench.adapt.attributes`."""


class Infilling(Adaptation):
    summary = "all weights learn to fill the words that say a label, given it; the other label is written into them"
    settings = Own
    heads = {Form.GENERATION: "infill.head"}

    def decoding(self, network: Any, vocabulary: Any, settings: Any) -> Any:
        from ptmbench.bench.adapt.infill.network import Decoding

        return Decoding(network, vocabulary, settings)


ADAPTATION = Infilling()
