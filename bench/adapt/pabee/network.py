"""PABEE in TensorFlow: the inputs of its classifiers, their loss, and early exit."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from ptmbench.bench.adapt import exits, parts
from ptmbench.bench.adapt.fastbert.head import Logits
from ptmbench.bench.adapt.heads import InputRow
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.layers.encoding import mean


class Reading(parts.Reading):
    """The pooled vectors of all layers: ``tokens`` [B, L - 1, D] for the lower layers, ``pooled`` [B, D] for the last.

    Raises `NotApplicable` for an encoder that does not allow early exit.
    """

    def __init__(self, encoder: Any):
        super().__init__(name="exits")
        parts.check_stepwise(encoder, "no exit fits between them")
        if encoder.depth < 2:
            raise NotApplicable("one-layer", "because a model of one layer has no earlier exit.")
        self._config, self._causal, self._depth = encoder.config, encoder.causal, encoder.depth
        pooler = getattr(encoder, "pooler", None)
        # A function, because Keras would otherwise track the encoder's pooler as a part of this layer.
        self._first = (lambda x: x) if pooler is None else (lambda x: tf.tanh(pooler(x)))

    def call(self, encoding: Any, batch: dict[str, Any]) -> Any:
        *lower, top = [self.pooled(x, batch["tokens"]) for x in encoding.layers[1:]]
        return encoding._replace(tokens=tf.stack(lower, axis=1), pooled=top)

    def pooled(self, x: tf.Tensor, tokens: tf.Tensor) -> tf.Tensor:
        """The pooled vector [B, D] of x [B, T, D], computed as the encoder computes it from its last layer."""
        if self._causal:
            last = tf.reduce_sum(tf.cast(tf.not_equal(tokens, 0), tf.int32), axis=1) - 1  # [B]
            return tf.gather(x, tf.maximum(last, 0), batch_dims=1)
        if self._config.pooled == "mean":
            return mean(x, tokens)
        return self._first(x[:, 0])

    @property
    def pooler_flops(self) -> float:
        """FLOPs of one pooled vector."""
        pooler = getattr(self._config, "pooler", None)
        return 0.0 if pooler is None else pooler.flops(1)

    def flops(self, rows: Sequence[InputRow]) -> float:
        """FLOPs of the pooled vectors of the layers below the last one, which training needs."""
        return len(rows) * (self._depth - 1) * self.pooler_flops


def weighted(logits: Logits, labels: tf.Tensor) -> tf.Tensor:
    """The mean of the cross-entropies of all classifiers, weighted by their layer numbers (from 1)."""
    every = tf.concat([logits.students, logits.teacher[:, None]], axis=1)  # [B, L, C]
    count = every.shape[1]
    each = keras.losses.sparse_categorical_crossentropy(
        tf.repeat(labels[:, None], count, axis=1), every, from_logits=True
    )
    weights = tf.range(1, count + 1, dtype=each.dtype)
    return tf.reduce_sum(tf.reduce_mean(each, axis=0) * weights) / tf.reduce_sum(weights)


def exit_logits(adapted: Any, batch: dict[str, tf.Tensor], unchanged: tf.Tensor) -> tf.Tensor:
    """The logits of each row at the layer where it leaves, and the number of that layer: [B, C + 1]. A row leaves when
    ``unchanged`` layers in a row have repeated the answer of the layer before, or after the last layer."""
    reading, head, last = adapted.reading, adapted.head, adapted.network.encoder.depth - 1

    def read(index: int, x: tf.Tensor, tokens: tf.Tensor) -> tf.Tensor:
        vector = reading.pooled(x, tokens)
        return head.teacher(vector) if index == last else head.students.one(index, vector)

    def stay(logits: tf.Tensor, unused: tf.Tensor, memory: Any) -> tuple[tf.Tensor, Any]:
        answer = tf.argmax(logits, axis=-1)  # [B']
        counter = tf.zeros_like(answer)
        if memory is not None:
            before, counted = memory
            counter = tf.where(tf.equal(answer, before), counted + 1, counter)
        return tf.cast(counter, tf.float32) < unchanged, (answer, counter)

    return exits.exit_logits(adapted, batch, read, stay)
