"""Fine-tuning: every weight of the encoder goes on learning under the head (survey, section 4.3.1)."""

from typing import Any

import keras

from ptmbench.bench.adapt import features
from ptmbench.bench.adapt.settings import Settings

SUMMARY = "all weights learn; the head reads the last layer, or what --set layers says"


class Reading(keras.layers.Layer):
    """The encoder's own last layer and pooled vector, as its paper uses them. Other ``layers`` have no pooled vector of
    their own: they are read as features are."""

    def __init__(self, encoder: Any, settings: Settings):
        super().__init__(name="reading")
        self.other = features.Reading(encoder, settings) if settings.layers in ("embedding", "all") else None

    def call(self, encoding: Any, batch: dict[str, Any]) -> Any:
        return self.other(encoding, batch) if self.other else encoding
