"""The encoder of UniLM and UniLMv2: BERT's with a caller-supplied attention mask and position ids.

Source: Dong et al. (2019), section 2.2, equations 2 and 3, and section 2.5; Bao et al. (2020).
"""

from typing import Any

import tensorflow as tf

from ptmbench.models.architectures.masked_encoder import BACKWARD, FORWARD, SOURCE, TARGET, MaskedConfig
from ptmbench.models.layers.core import NO_DROP, Drop, Rows, made_from
from ptmbench.models.layers.operations import HIDDEN, check_length, shape
from ptmbench.models.layers.transformers import Encoder, built
from ptmbench.models.pretrainable import Encoding

__all__ = ["MaskedEncoder", "built"]


def may_attend(segments: tf.Tensor) -> tf.Tensor:
    """Whether each token may attend to each other one, for ``segments`` [B, T]: bool [B, T, T], queries first."""
    place = tf.range(shape(segments)[1])
    before, after = place[None, :] <= place[:, None], place[None, :] >= place[:, None]  # [T, T]
    query, key = segments[:, :, None], segments[:, None, :]
    return (
        (query < FORWARD)
        | (tf.equal(query, FORWARD) & before)
        | (tf.equal(query, BACKWARD) & after)
        | (tf.equal(query, SOURCE) & tf.equal(key, SOURCE))
        | (tf.equal(query, TARGET) & (tf.equal(key, SOURCE) | before))
    )


def _segments(batch: dict[str, Any]) -> tf.Tensor:
    """The segments [B, T] of ``batch``; zeros where it has none."""
    segments = batch.get("segments")
    return tf.zeros_like(batch["tokens"]) if segments is None else segments


@made_from(MaskedConfig)
class MaskedEncoder(Encoder):
    """Batch to `Encoding`; the pooled vector is BERT's, a dense layer with tanh on the first token, or without a pooler
    the first token's vector.

    For ``segments`` see `models.architectures.masked_encoder`. Without them every token attends to all others.
    """

    def hidden(
        self, tokens: tf.Tensor, segments: tf.Tensor, visible: tf.Tensor, positions: Any = None, seed: Any = None
    ) -> list[tf.Tensor]:
        """The L + 1 tensors [B * T, D]: embeddings, then each layer.

        ``visible`` bool [B, T, T] is true where a query may attend to a key; padding is always masked. ``positions``
        int32 [B, T] count from the left by default.
        """
        drop = Drop(self.dropout, seed, 0)
        x, bias = self._entered(tokens, segments, visible, positions, drop)
        return self.stack(x, bias, rows=Rows(*shape(tokens)), drop=drop)

    def entered(self, batch: dict[str, Any], drop: Drop = NO_DROP) -> tuple[tf.Tensor, tf.Tensor]:
        segments = _segments(batch)
        return self._entered(batch["tokens"], segments, may_attend(segments), None, drop)

    def _entered(
        self, tokens: tf.Tensor, segments: tf.Tensor, visible: tf.Tensor, positions: Any, drop: Drop
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The vectors [B * T, D] that the first block reads, and the bias [B, 1 or H, T, T] of all blocks."""
        if positions is None:
            check_length(shape(tokens)[1], self.length, "encoder")
        x = self.embeddings(tokens, positions=positions, segments=segments, drop=drop)
        return x, self._bias(visible & tf.not_equal(tokens, 0)[:, None, :], positions)

    def _bias(self, visible: tf.Tensor, positions: Any) -> tf.Tensor:
        """The bias of the scores: float32 [B, 1, T, T], or [B, H, T, T] with distances, which are [1, H, T, T] if all
        rows have the same positions."""
        bias = tf.where(visible, 0.0, HIDDEN)[:, None, :, :]
        if self.config.distances is None:
            return bias
        return self.distances.between(tf.range(shape(visible)[1])[None, :] if positions is None else positions) + bias

    def call(self, batch: dict[str, Any], seed: Any = None) -> Encoding:
        tokens = batch["tokens"]
        rows, length = shape(tokens)
        segments = _segments(batch)
        flat = self.hidden(tokens, segments, may_attend(segments), seed=seed)
        layers = tuple(tf.reshape(x, [rows, length, self.width]) for x in flat)
        pooled = layers[-1][:, 0]  # [B, D]
        if self.config.pooler is not None:
            pooled = tf.tanh(self.pooler(pooled))
        return Encoding(tokens=layers[-1], pooled=pooled, layers=layers)

    def continuation(self, tokens: tf.Tensor, targets: tf.Tensor, mask: int, seed: Any = None) -> tf.Tensor:
        """Vectors [B, S, D] that predict what follows each of ``targets`` [B, S] after the source ``tokens`` [B, T].

        In the paper (section 2.5), a ``mask`` is appended to the tokens that are written so far. It attends to them and
        to the source, and predicts the next token. Here all S masks are in one row, each at the position of the token
        that it predicts. No other token attends to a mask, so one pass has the same result as S passes. The symbol that
        opens the targets is left out, because in the paper the target follows the source's [SEP] directly.
        """
        (rows, source), length = shape(tokens), shape(targets)[1]
        check_length(source + length, self.length, "encoder")
        written = targets[:, 1:]  # [B, S - 1]
        asking = tf.fill([rows, length], mask)
        step = tf.concat([tf.zeros([source], tf.int32), tf.range(1, length), tf.range(length)], 0)  # [T + 2 S - 1]
        # 0: source, 1: written tokens, 2: masks.
        kind = tf.concat([tf.fill([source], 0), tf.fill([length - 1], 1), tf.fill([length], 2)], 0)
        query, key = kind[:, None], kind[None, :]
        earlier = tf.equal(key, 1) & (step[None, :] <= step[:, None])
        own = tf.equal(key, 2) & tf.equal(query, 2) & tf.equal(step[None, :], step[:, None])
        visible = tf.equal(key, 0) | (query > 0) & (earlier | own)  # [T + 2 S - 1, T + 2 S - 1]
        count = tf.reduce_sum(tf.cast(tf.not_equal(tokens, 0), tf.int32), axis=1)[:, None]  # [B, 1]
        places = tf.concat([tf.range(source), tf.range(length - 1), tf.range(length)], 0)
        positions = places + tf.where(kind > 0, count, 0)  # [B, T + 2 S - 1]
        every = tf.concat([tokens, written, asking], axis=1)
        segments = tf.broadcast_to(tf.where(kind > 0, self.config.target, self.config.source), tf.shape(every))
        x = self.hidden(every, segments, visible[None], positions, seed)[-1]  # [B * (T + 2 S - 1), D]
        return tf.reshape(x, [rows, -1, self.width])[:, source + length - 1 :]  # [B, S, D]
