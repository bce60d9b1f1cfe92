"""Frozen features in TensorFlow: the scalar mix and the hidden layer that the head reads."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import keras
import numpy as np
from keras import ops

from ptmbench.bench.adapt import loop, parts
from ptmbench.bench.adapt.heads import LAYERS, InputRow
from ptmbench.bench.adapt.settings import Settings

ROOM = 2 << 30
"""Largest size in bytes of the vectors of all training rows. If they are larger, the encoder reads the rows in every
step."""


class Reading(parts.Reading):
    """Scalar mix of the layers (Peters et al., 2018, equation 1), and a hidden layer over means of its vectors. With
    ``layers`` "embedding" or "top" only the first or the last one is read.

    Each layer is normalised first, which that paper found to help (section 3.2): norms differ several fold between
    layers and models. The input of the hidden layer has the means of both texts of a pair, their difference and their
    product, because a frozen encoder cannot learn to compare.
    """

    def __init__(self, encoder: Any, settings: Settings):
        super().__init__(name="features")
        self.which = {"embedding": slice(1), "top": slice(-1, None)}.get(settings.layers, slice(None))
        self.read = len(range(encoder.depth + 1)[self.which])
        """The number of layers that are read."""
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


def read_once(adapted: Any, rows: Sequence[InputRow]) -> tuple[Sequence[InputRow], float]:
    """Returns ``rows`` with the vectors of their layers, and the FLOPs of reading them. If the vectors exceed `ROOM`,
    the rows are unchanged and the FLOPs are 0.

    A frozen encoder without dropout computes the same vectors for a row in every epoch. The other rows of a batch can
    change their last bits, so all rows are read in one fixed order, whatever the batches of the training are.
    """
    tokens = sum(row.arrays["tokens"].size for row in rows)
    if tokens * adapted.reading.read * adapted.network.encoder.width * 4 > ROOM:
        return rows, 0.0
    found = loop.outputs(adapted, rows, answer=lambda batch: adapted.run(_layers, adapted.channels(batch)))
    known = [
        replace(row, arrays=row.arrays | {LAYERS: values[_places(row)]})
        for row, values in zip(rows, found, strict=True)
    ]
    return known, adapted.forward_flops(rows)


def _layers(adapted: Any, batch: Mapping[str, Any], number: Any) -> Any:
    """The layers that the head reads, joined: [B, T, L * D], or [B, C, T, L * D] for C texts in one row."""
    read = ops.concatenate(adapted.encoded(batch).layers[adapted.reading.which], axis=-1)
    return ops.reshape(read, (*ops.shape(batch["tokens"]), read.shape[-1]))


def _places(row: InputRow) -> tuple[slice, ...]:
    """The slices of a padded array that hold the tokens of ``row``."""
    return tuple(slice(0, n) for n in np.shape(row.arrays["tokens"]))


def _normalised(x: Any) -> Any:
    x = x - ops.mean(x, axis=-1, keepdims=True)
    return x * ops.rsqrt(ops.mean(ops.square(x), axis=-1, keepdims=True) + 1e-6)


def _mean(vectors: Any, mask: Any) -> Any:
    total = ops.sum(vectors * mask[..., None], axis=1)
    return total / ops.maximum(ops.sum(mask, axis=1, keepdims=True), 1.0)
