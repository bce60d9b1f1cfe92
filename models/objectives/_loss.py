"""A ``loss`` that is made from the configuration of a head, over one encoder."""

from typing import Any, Self

import keras

from ptmbench.models.layers.config import Config
from ptmbench.models.layers.core import Layer
from ptmbench.models.objective import Objective


class Loss(Objective, Layer):
    """Base of losses of a `models.pretrainable.Pretrainable` that own the weights of their head themselves."""

    OTHERS = ("encoder",)

    def __init__(self, config: Config, encoder: keras.layers.Layer, name: str = "loss", **kwargs: Any):
        super().__init__(config, name=name, **kwargs)
        self.encoder = encoder

    @classmethod
    def over(cls, encoder: keras.layers.Layer, config: Config) -> Self:
        """The loss of ``encoder`` by a head of ``config``, with the head's weights."""
        loss = cls(config, encoder)
        loss.build()
        return loss
