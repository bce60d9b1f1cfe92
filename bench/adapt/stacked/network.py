"""The tagger over the vectors of several models in TensorFlow."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from keras import ops

from ptmbench.bench.adapt import parts
from ptmbench.bench.adapt.heads import InputRow
from ptmbench.bench.adapt.stacked import Own
from ptmbench.bench.adapt.taglm import network as taglm
from ptmbench.models.layers.operations import dropout, layer_norm


class Reading(parts.Reading):
    """Replaces the encoder's token vectors by the tagger's states of words, [B, W, 2 C]. ``pooled`` is unchanged.

    ``neighbours`` are the extra encoders. A batch has ``firsts_m`` int32 [B, W], the places of the words' first tokens
    for model m, and ``places`` [B, W], below 0 after the last word. If it has a ``seed``, dropout is applied to the
    inputs of the LSTM and of the head.
    """

    def __init__(self, encoder: Any, settings: Own, *neighbours: Any):
        super().__init__(name="stacked")
        encoders = (encoder, *neighbours)
        self.dropout = settings.dropout
        self.which = {"embedding": slice(1), "all": slice(None)}.get(settings.layers, slice(-1, None))
        if settings.layers == "all":
            self.mixes = [
                self.add_weight(shape=(one.depth + 1,), initializer="zeros", name=f"mix_{number}")
                for number, one in enumerate(encoders)
            ]
        width = sum(one.width for one in encoders)
        self.tagger = taglm.BiLstm(width, settings.hidden, name="tagger")
        self.glorot = self.tagger.trainable_variables
        self.flops_per_word = settings.tagger_flops(width)

    def call(self, encoding: Any, batch: dict[str, Any], *neighbours: Any) -> Any:
        seed, count = batch.get("seed"), tf.math.count_nonzero(batch["places"] >= 0, axis=1, dtype=tf.int32)  # [B]
        encodings = enumerate((encoding, *neighbours))
        x = ops.concatenate([self._words(one, number, batch) for number, one in encodings], axis=-1)  # [B, W, sum of D]
        states = self.tagger(dropout(x, self.dropout, seed, 0), count)
        return encoding._replace(tokens=dropout(states, self.dropout, seed, 1))

    def flops(self, rows: Sequence[InputRow]) -> float:
        return self.flops_per_word * sum(len(row.arrays["places"]) for row in rows)

    def _words(self, encoding: Any, number: int, batch: dict[str, Any]) -> Any:
        """The vectors [B, W, D] of the words in one model."""
        firsts = batch[f"firsts_{number}"]
        words = [tf.gather(layer, firsts, batch_dims=1) for layer in encoding.layers[self.which]]
        layers = [layer_norm(layer, 1.0, 0.0, 1e-6) for layer in words]
        share = ops.softmax(self.mixes[number]) if len(layers) > 1 else [1.0]
        return sum(share[i] * layer for i, layer in enumerate(layers))
