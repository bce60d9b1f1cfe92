"""Extraction: summarizes by choosing sentences. All weights are trained to predict which ones the summary has.

BERTSUM; Liu & Lapata (2019), section 3.1; survey, section 7.6. `bench.adapt.extract.head` composes the encoder's input.
"""

from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.contract import Adaptation
from ptmbench.bench.adapt.settings import Learning
from ptmbench.tasks.forms import Form


@dataclass(frozen=True, kw_only=True)
class Own(Learning):
    """A row holds a whole article, as in the paper. The learning rate is that of encoders."""

    WRITES = False
    length: int = settings.positive(512)
    epochs: int = settings.positive(4)
    batch: int = settings.positive(16)
    learning_rate: float = settings.setting(3e-4)
    head_dropout: float = settings.share(0.1, baked=True)
    sentences: int = settings.setting(0)
    """Sentences of a summary; 0: as many as the task's ``lead`` baseline takes."""
    inter_layers: int = settings.setting(2)
    """Transformer layers over the vectors of the sentences."""
    blocking: int = settings.switch(1)
    """1: sentences that repeat a trigram of a better one are skipped; 0: they are kept."""
    layers: str = settings.one_reading("the top layer is read")


class Extraction(Adaptation):
    summary = "all weights learn; summaries are sentences of the text, each judged by its own vector"
    settings = Own
    heads = {Form.GENERATION: "extract.head"}

    def reading(self, encoder: Any, settings: Any, *others: Any) -> Any:
        from ptmbench.bench.adapt.extract.network import Reading

        return Reading(encoder, settings)


ADAPTATION = Extraction()
