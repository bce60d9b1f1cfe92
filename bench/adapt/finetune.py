"""Fine-tuning: every weight of the encoder goes on learning under the head (survey, section 4.3.1)."""

from typing import Any

import keras

SUMMARY = "all weights learn; the head reads the last layer"
FREEZES = False


class Reading(keras.layers.Layer):
    """The encoder's own last layer and pooled vector, as its paper uses them."""

    def __init__(self, encoder: Any):
        super().__init__(name="reading")

    def call(self, encoding: Any, batch: dict[str, Any]) -> Any:
        return encoding
