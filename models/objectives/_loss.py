"""The base class of losses that are built from the configuration of a head, over one encoder."""

from typing import Any, Self

import keras

from ptmbench.models.layers.config import Config
from ptmbench.models.layers.core import Layer
from ptmbench.models.objective import Objective


class Loss(Objective, Layer):
    """Base class of the losses of a `models.pretrainable.Pretrainable` that own the weights of their head."""

    OTHERS = ("encoder",)

    def __init__(self, config: Config, encoder: keras.layers.Layer, name: str = "loss", **kwargs: Any):
        super().__init__(config, name=name, **kwargs)
        self.encoder = encoder

    @classmethod
    def over(cls, encoder: keras.layers.Layer, config: Config) -> Self:
        """Returns the built loss of ``encoder`` with a head of ``config``."""
        loss = cls(config, encoder)
        loss.build()
        return loss
