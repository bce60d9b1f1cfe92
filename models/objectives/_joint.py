"""Several objectives over one encoding, added up."""

from typing import Any

import keras


class Joint(keras.layers.Layer):
    """``loss`` of a `models.pretrainable.Pretrainable`: the sum of the losses of ``heads`` over what ``encoder`` gives.

    Each head is a Keras layer ``head(encoding, batch, totals) -> {"x_loss": [], "x_accuracy": []}`` with a method
    ``totals(batch)``; every value that ends in "_loss" counts.
    """

    def __init__(self, encoder: keras.layers.Layer, heads: list[keras.layers.Layer], name: str = "loss"):
        super().__init__(name=name)
        self.encoder, self.heads = encoder, heads
        for head in heads:
            if not head.built:
                head.build()
        self.built = True

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {name: total for head in self.heads for name, total in head.totals(batch).items()}

    @property
    def fill(self) -> Any:
        """The `models.pretrainable.Pretrainable.fill` of the head that predicts tokens; None when there is none."""
        head = next((head for head in self.heads if hasattr(head, "fill")), None)
        return head and (lambda batch: head.fill(self.encoder(batch, seed=None), batch["places"]))

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        totals = totals or self.totals(batch)
        encoding = self.encoder(batch, seed=seed)
        parts: dict[str, Any] = {}
        for head in self.heads:
            parts |= head(encoding, batch, totals)
        return {"loss": sum(value for name, value in parts.items() if name.endswith("_loss")), **parts}
