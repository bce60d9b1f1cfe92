"""TagLM's two recurrent layers in TensorFlow."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from ptmbench.bench.adapt import parts
from ptmbench.bench.adapt.heads import InputRow
from ptmbench.bench.adapt.taglm import Own
from ptmbench.bench.engine.step import TrainStep
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.layers.operations import dropout
from ptmbench.models.layers.recurrent_config import BothWaysConfig
from ptmbench.models.layers.recurrent_networks import built, by_rows


class Step(TrainStep):
    """A step that passes its seed to the reading in the batch, because only the tagger has dropout, not the frozen
    encoder."""

    def __init__(self, loss: Callable, variables: Sequence[Any], **options: Any):
        super().__init__(lambda batch, seed: loss({**batch, "seed": seed}, seed), variables, **options)


class Reading(parts.Reading):
    """Replaces the encoder's token vectors by the tagger's last layer, [B, T, 2 C], or [B, T, 2 C + D] if m joins after
    it. ``pooled`` is unchanged.

    If the batch has a ``seed``, dropout is applied to the inputs of both LSTMs, but not to their recurrent connections,
    as in the paper's section 4.
    """

    def __init__(self, encoder: Any, settings: Own):
        super().__init__(name="taglm")
        self.place, self.dropout = settings.place, settings.dropout
        self.which = {"embedding": slice(0), "all": slice(None)}.get(settings.layers, slice(-1, None))
        if encoder.depth == 0 and settings.layers != "embedding":
            raise NotApplicable(
                "no-context",
                "because this model's vectors do not depend on context. Set layers=embedding to give the tagger "
                "these vectors alone.",
            )
        first, second = settings.widths(encoder.width)
        self.normalise = keras.layers.LayerNormalization(center=False, scale=False, epsilon=1e-6, name="normalise")
        if settings.layers == "all":
            self.mix = self.add_weight(shape=(encoder.depth + 1,), initializer="zeros", name="mix")
        self.first = BiLstm(first, settings.hidden, name="first")
        self.second = BiLstm(second, settings.hidden, name="second")
        self.glorot = [*self.first.trainable_variables, *self.second.trainable_variables]
        self.flops_per_token = settings.tagger_flops(encoder.width)

    def call(self, encoding: Any, batch: dict[str, Any]) -> Any:
        lengths = tf.math.count_nonzero(batch["tokens"], axis=1, dtype=tf.int32)  # [B]
        states = [self._states(encoding.layers[self.which])] if encoding.layers[self.which] else []

        def joined(x: Any, place: str) -> Any:
            return ops.concatenate([x, *states], axis=-1) if self.place == place else x

        x = joined(self.normalise(encoding.layers[0]), "input")  # [B, T, D] or [B, T, 2 D]
        x = joined(self.first(dropout(x, self.dropout, batch.get("seed"), 0), lengths), "first")
        x = joined(self.second(dropout(x, self.dropout, batch.get("seed"), 1), lengths), "second")
        return encoding._replace(tokens=x)

    def flops(self, rows: Sequence[InputRow]) -> float:
        return self.flops_per_token * sum(row.tokens for row in rows)

    def _states(self, layers: Sequence[Any]) -> Any:
        """m [B, T, D]."""
        if len(layers) == 1:
            return self.normalise(layers[0])
        share = ops.softmax(self.mix)
        return sum(share[i] * self.normalise(layer) for i, layer in enumerate(layers))


class BiLstm(keras.layers.Layer):
    """One LSTM layer of C cells in each direction: x [B, T, D] to [forward; backward], [B, T, 2 C]."""

    def __init__(self, width: int, cells: int, name: str):
        super().__init__(name=name)
        self.both = built(BothWaysConfig(inputs=width, cells=cells), name="both")
        self.built = True

    def call(self, x: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        """``lengths`` int32 [B] are the numbers of tokens without the padding on the right. The backward direction
        starts before the padding."""
        return by_rows(self.both(by_rows(x), lengths))
