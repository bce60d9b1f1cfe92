"""Adapters in TensorFlow: the layer, and its attachment to an encoder."""

from typing import Any

import keras
import tensorflow as tf

from ptmbench.bench.adapt.adapters import Own
from ptmbench.bench.adapt.parts import Extension
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.layers.blocks import Block
from ptmbench.models.layers.core import Norm
from ptmbench.models.layers.operations import gelu
from ptmbench.models.layers.products import product

SEAMS = ("after_attention", "after_feed_forward")
DEVIATION = 1e-2
"""Standard deviation of the initial matrices: the largest one that the paper found to train well (section 3.6)."""


@keras.saving.register_keras_serializable(package="ptmbench")
class Adapter(keras.layers.Layer):
    """Maps x [N, D] to x + W_2 gelu(W_1 x + b_1) + b_2."""

    def __init__(self, width: int, bottleneck: int, **options: Any):
        super().__init__(**options)
        self.width, self.bottleneck = width, bottleneck

    def build(self, input_shape: Any = None) -> None:
        near = keras.initializers.TruncatedNormal(stddev=DEVIATION)
        self.down = self.add_weight((self.width, self.bottleneck), near, name="down")
        self.down_bias = self.add_weight((self.bottleneck,), "zeros", name="down_bias")
        self.up = self.add_weight((self.bottleneck, self.width), near, name="up")
        self.up_bias = self.add_weight((self.width,), "zeros", name="up_bias")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        h = gelu(tf.nn.bias_add(product(x, self.down), self.down_bias))  # [N, m]
        return x + tf.nn.bias_add(product(h, self.up), self.up_bias)

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"width": self.width, "bottleneck": self.bottleneck}


def extension(encoder: Any, settings: Own) -> Extension:
    """Attaches adapters to every block of ``encoder``. The adapters and all layer norms are trained.

    Raises `NotApplicable` for an encoder without blocks, or with blocks of another width than its own.
    """
    layers = list(encoder._flatten_layers())
    blocks = [layer for layer in layers if isinstance(layer, Block)]
    if not blocks:
        raise NotApplicable("no-seams", "because this model's layers have no places for adapters.")
    if any(block.config.attention.width != encoder.width for block in blocks):
        raise NotApplicable("no-seams", "because adapters have one width, and this model's layers are narrower inside.")
    new = []
    for block in blocks:
        for seam in SEAMS:
            adapter = Adapter(encoder.width, settings.bottleneck, name=f"{seam}_adapter")
            with keras.name_scope(seam, override_parent=block.path):
                adapter.build()
            block.attach(seam, adapter)
            new += adapter.trainable_variables
    norms = [variable for layer in layers if isinstance(layer, Norm) for variable in layer.trainable_variables]
    return Extension(
        learning=[*new, *norms],
        new=new,
        flops_per_token=settings.adapter_flops(encoder.width, encoder.depth),
        deviation=DEVIATION,
        whole=False,
    )
