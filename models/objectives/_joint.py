"""The sum of several objectives over one encoding."""

from collections.abc import Sequence
from typing import Any

import keras

from ptmbench.models.objective import Objective, Part


class Joint(Objective, keras.layers.Layer):
    """The ``loss`` of a `models.pretrainable.Pretrainable`: the sum of the losses of ``heads`` over the output of
    ``encoder``.

    Every value of a head whose name ends in "_loss" is a summand.
    """

    unreached: tuple[str, ...] = ()
    """Prefixes of the paths of variables without a gradient, because no head reads their output."""

    def __init__(
        self, encoder: keras.layers.Layer, heads: Sequence[Part], name: str = "loss", unreached: tuple[str, ...] = ()
    ):
        super().__init__(name=name)
        self.encoder, self.heads = encoder, list(heads)
        if unreached:
            self.unreached = unreached
        for head in heads:
            if not head.built:
                head.build()
        self.built = True

    @property
    def reports(self) -> tuple[str, ...]:
        return tuple(name for head in self.heads for name in head.reports)

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {name: total for head in self.heads for name, total in head.totals(batch).items()}

    @property
    def fill(self) -> Any:
        """The `models.pretrainable.Pretrainable.fill` of the head that predicts tokens; None if there is none."""
        head = next((head for head in self.heads if head.fill is not None), None)
        return head and (lambda batch: head.fill(self.encoder(batch, seed=None), batch["places"]))

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        totals = totals or self.totals(batch)
        encoding = self.encoder(batch, seed=seed)
        parts: dict[str, Any] = {}
        for head in self.heads:
            parts |= head(encoding, batch, totals)
        return {"loss": sum(value for name, value in parts.items() if name.endswith("_loss")), **parts}
