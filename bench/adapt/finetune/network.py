"""Fine-tuning in TensorFlow: what the head reads."""

from typing import Any

from ptmbench.bench.adapt import parts
from ptmbench.bench.adapt.features import network as features
from ptmbench.bench.adapt.settings import Settings


class Reading(parts.Reading):
    """The encoder's own last layer and pooled vector, as its paper uses them. Other ``layers`` have no pooled vector of
    their own, so they are read as in `features`."""

    def __init__(self, encoder: Any, settings: Settings):
        super().__init__(name="reading")
        self.other = features.Reading(encoder, settings) if settings.layers in ("embedding", "all") else None

    def call(self, encoding: Any, batch: dict[str, Any]) -> Any:
        return self.other(encoding, batch) if self.other else encoding
