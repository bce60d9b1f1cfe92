"""Mapping: an orthogonal map from word vectors to the vectors of the translations; the model is frozen.

Mikolov, Le & Sutskever (2013), with the map orthogonal as in Xing et al. (2015) and Conneau et al. (2018), section 2;
survey, section 4.2. With x the vector of a question's word and y the vector of its answer, both of length 1,

    W = argmax_W sum_(x, y) (x W) . y + e tr(W)    with W' W = I    is    U V',    U S V' the SVD of sum x y' + e I

(Procrustes; Schoenemann, 1966). The small e = 0.001 keeps words where they are if the dictionary gives no information
about them. The papers map the space of one model into the space of another. Here one model is trained on both
languages, so vectors can be compared in two ways: mapped, and as they are (``mapped=0``), which shows how far the model
has brought the languages together by itself.

Words have the language that the task says, one for questions and one for candidates.

The gradient of -sum (x W) . y is -sum x y': a training step adds it up, and its update is the SVD.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ptmbench.bench.adapt import settings
from ptmbench.bench.adapt.contract import Adaptation
from ptmbench.bench.adapt.settings import Settings
from ptmbench.tasks.forms import Form


@dataclass(frozen=True, kw_only=True)
class Own(Settings):
    """The map is found in one pass; the largest batches take the least time."""

    FREEZES = True
    epochs: int = settings.setting(1, "1: the map is found in one pass", lambda value: value == 1)
    batch: int = settings.positive(1024)
    layers: str = settings.one_of("embedding", "embedding", "top", "all", baked=True)
    """Layers over which a word's vector is the mean: its embedding, the top layer of the word read alone, or all
    layers."""
    mapped: int = settings.switch(1)
    """1: the vectors of questions are mapped; 0: they are compared with the vectors of answers unchanged."""
    csls: int = settings.switch(1)
    """1: cosines are corrected for words that are near to many (CSLS); 0: the nearest word is the answer."""
    neighbours: int = settings.positive(10)
    """Number of neighbours over which CSLS takes its means."""


class Mapping(Adaptation):
    summary = "frozen encoder; an orthogonal map takes word vectors to the vectors of their translations"
    settings = Own
    heads = {Form.RANKING: "mapping.head"}

    def reading(self, encoder: Any, settings: Any, *others: Any) -> Any:
        from ptmbench.bench.adapt.mapping.network import Reading

        return Reading(encoder, settings)

    def step(self, loss: Any, variables: Sequence[Any], **options: Any) -> Any:
        from ptmbench.bench.adapt.mapping.network import Step

        return Step(loss, variables, **options)

    def rate(self, step: Any, number: int, steps: int, settings: Any) -> float:
        return float(settings.mapped)  # the weight of the map that the step finds; the rest is the identity


ADAPTATION = Mapping()
