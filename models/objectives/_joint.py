"""Several objectives over one encoding, added up."""

from typing import Any

import keras


class Joint(keras.layers.Layer):
    """``loss`` of a `models.pretrainable.Pretrainable`: the sum of the losses of ``heads`` over what ``encoder`` gives.

    Each head is a Keras layer ``head(encoding, batch) -> {"x_loss": [], "x_accuracy": []}``; every value that ends
    in "_loss" counts.
    """

    def __init__(self, encoder: keras.layers.Layer, heads: list[keras.layers.Layer], name: str = "loss"):
        super().__init__(name=name)
        self.encoder, self.heads = encoder, heads
        self.built = True

    def call(self, batch: dict[str, Any], seed: Any = None) -> dict[str, Any]:
        encoding = self.encoder(batch, seed=seed)
        parts: dict[str, Any] = {}
        for head in self.heads:
            parts |= head(encoding, batch)
        return {"loss": sum(value for name, value in parts.items() if name.endswith("_loss")), **parts}
