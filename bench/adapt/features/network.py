"""Frozen features in TensorFlow: the scalar mix and the hidden layer that the head reads."""

from typing import Any

import keras
from keras import ops

from ptmbench.bench.adapt import parts
from ptmbench.bench.adapt.settings import Settings


class Reading(parts.Reading):
    """Scalar mix of the layers (Peters et al., 2018, equation 1), and a hidden layer over means of its vectors. With
    ``layers`` "embedding" or "top" only the first or the last one is read.

    Each layer is normalised first, which that paper found to help (section 3.2): norms differ several fold between
    layers and models. For a pair of texts the means of both, their difference and their product are read, since a
    frozen encoder cannot learn to compare.
    """

    def __init__(self, encoder: Any, settings: Settings):
        super().__init__(name="features")
        self.which = {"embedding": slice(1), "top": slice(-1, None)}.get(settings.layers, slice(None))
        self.mix = self.add_weight(shape=(encoder.depth + 1,), initializer="zeros", name="mix")
        self.gain = self.add_weight(shape=(), initializer="ones", name="gain")
        self.hidden = keras.layers.Dense(encoder.width, activation="relu", name="hidden")

    def call(self, encoding: Any, batch: dict[str, Any]) -> Any:
        layers = encoding.layers[self.which]
        share = ops.softmax(self.mix) if len(layers) > 1 else [1.0]
        mixed = sum(share[i] * _normalised(layer) for i, layer in enumerate(layers)) * self.gain  # [B, T, D]
        real = ops.cast(batch["tokens"] != 0, "float32")  # [B, T]
        second = real * ops.cast(batch["segments"], "float32")
        a, b = _mean(mixed, real - second), _mean(mixed, second)
        pooled = self.hidden(ops.concatenate([a, b, ops.abs(a - b), a * b], axis=-1))  # [B, D]
        return encoding._replace(tokens=mixed, pooled=pooled)


def _normalised(x: Any) -> Any:
    x = x - ops.mean(x, axis=-1, keepdims=True)
    return x * ops.rsqrt(ops.mean(ops.square(x), axis=-1, keepdims=True) + 1e-6)


def _mean(vectors: Any, mask: Any) -> Any:
    total = ops.sum(vectors * mask[..., None], axis=1)
    return total / ops.maximum(ops.sum(mask, axis=1, keepdims=True), 1.0)
