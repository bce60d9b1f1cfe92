"""MPNet's encoder, whose pre-training has two more streams: Song et al. (2020), sections 2.2 and 2.3.

The row of n tokens, with [MASK] at the predicted positions, is encoded in both directions, as it is in downstream
tasks. A content stream and a query stream, with one vector per predicted token each, attend to it. Each of their
vectors attends to n positions at any time. Tokens that were predicted earlier are visible as they are, instead of their
masks. All other positions are visible as in the row. That is the position compensation. A content vector attends to
itself, but the query of a token does not attend to the token's content.
"""

from functools import partial
from typing import Any

import tensorflow as tf

from ptmbench.models.architectures.position_compensated import CompensatedConfig
from ptmbench.models.layers.core import Drop, Rows, made_from, recomputed
from ptmbench.models.layers.embeddings import padding_bias
from ptmbench.models.layers.operations import HIDDEN, check_length, shape
from ptmbench.models.layers.transformers import Encoder, built

__all__ = ["PositionCompensated", "built"]


def stream_bias(positions: tf.Tensor, length: Any, itself: bool) -> tf.Tensor:
    """The bias float32 [B, 1, M, T + M] of the M slots of the content stream (which attends to ``itself``) or of the
    query stream. Slot s attends to the contents of the slots before s (and in the content stream of s), instead of the
    row at the ``positions`` [B, M] of these slots."""
    rows, slots = shape(positions)
    at = tf.cumsum(tf.one_hot(positions, length), axis=1, exclusive=not itself)  # [B, M, T]
    order = tf.range(slots)
    seen = order[None, :] <= order[:, None] if itself else order[None, :] < order[:, None]  # [M, M]
    contents = tf.tile(tf.where(seen, 0.0, HIDDEN)[None, :, :], [rows, 1, 1])
    return tf.concat([tf.where(at > 0, HIDDEN, 0.0), contents], axis=2)[:, None, :, :]


@made_from(CompensatedConfig)
class PositionCompensated(Encoder):
    """Batch to `Encoding`. The pooled vector is that of the first token. ``segments`` are not read: MPNet has none."""

    def predict(self, batch: dict[str, Any], seed: Any = None) -> tf.Tensor:
        """The query stream's last layer [B, M, D].

        ``tokens`` int32 [B, T] are the row with masks. ``masked_positions`` and ``masked_labels`` int32 [B, M] are the
        positions and ids of the tokens to predict, in the order of prediction. Slots with ``masked_weights`` 0 are
        last.
        """
        tokens, positions, labels = batch["tokens"], batch["masked_positions"], batch["masked_labels"]
        (count, length), slots, drop = shape(tokens), shape(positions)[1], Drop(self.dropout, seed, 0)
        check_length(length, self.length, "encoder")
        place = tf.range(length)[None, :]
        bias = self.distances.between(place) + padding_bias(tokens)  # [B, H, T, T]
        near = self.distances.between(positions, tf.concat([tf.tile(place, [count, 1]), positions], axis=1))
        near += tf.pad(padding_bias(tokens), [[0, 0], [0, 0], [0, 0], [0, slots]])  # [B, H, M, T + M]
        biases = [bias, *(near + stream_bias(positions, length, itself) for itself in (True, False))]

        shown = tf.gather(tokens, positions, batch_dims=1)
        x = self.embeddings(tokens, drop=drop, batch=batch)  # [B * T, D]
        content = self.embeddings(labels, positions=positions, drop=drop.at(1))  # [B * M, D]
        query = self.embeddings(shown, positions=positions, drop=drop.at(2))
        row, slot = Rows(count, length), Rows(count, slots)

        def layer(
            query: tf.Tensor, x: tf.Tensor, content: tf.Tensor, *biases: tf.Tensor, block: Any, drop: Drop, last: bool
        ) -> tuple[tf.Tensor, ...]:
            if last:  # row and content are not used after the last layer
                seen = block.read(content, slot, block.read(x, row))  # [B, H, T + M, K]
            else:
                x, seen = block(x, biases[0], rows=row, drop=drop)
                content, seen = block(content, biases[1], rows=slot, drop=drop.at(3), past=seen)
            query, _ = block(query, biases[2], rows=slot, drop=drop.at(6), seen=seen)
            return (query,) if last else (query, x, content)

        for index, block in enumerate(self.stack):
            step = partial(layer, block=block, drop=drop.at(10 * (index + 1)), last=index == self.depth - 1)
            streams = recomputed(step, query, x, content, *biases)
            query, *others = (self.stack.through("between", stream, index=index) for stream in streams)
            x, content = others or (x, content)
        return tf.reshape(query, [count, slots, self.width])
