"""Attention with relative positions by fixed waves, and stacks of such blocks, with a memory of the text before.

Source: Dai et al. (2019), section 3.3; segments: Yang et al. (2019), section 2.5. With queries q and keys k of a layer,
and R the waves (sines and cosines) of a distance, the score of key j for query i is the following sum, divided by the
root of the head's width:

    (q_i + u) . k_j + (q_i + v) . (W_R R_{i-j}) + (q_i + b) . s_{same or other segment}

The last term is XLNet's alone.
"""

from functools import partial
from typing import Any, NamedTuple

import tensorflow as tf

from ptmbench.models.layers.blocks import Attention, Stack, append_to_past
from ptmbench.models.layers.config import Start
from ptmbench.models.layers.core import NO_DROP, Drop, Rows, made_from, recomputed
from ptmbench.models.layers.operations import relative_shift, shape, waves
from ptmbench.models.layers.relative_config import RelativeAttentionConfig

Seen = tuple[tf.Tensor, tf.Tensor, tf.Tensor]
"""Keys and values [B, H, U, K], and the keys of distances [1, H, P, K]."""


class View(NamedTuple):
    """The arguments of attention besides queries, keys and values. () stands for what a network does not have."""

    bias: tf.Tensor
    """float32 [B or 1, 1, N or 1, U]: hides keys."""
    waves: Any = ()
    """[P, D] of the distances from the last query to each key, from far to near (see `relative_shift`)."""
    biases: tuple[tf.Tensor, ...] = ()
    """u and v [H, 1, K], if all layers share them."""
    elsewhere: Any = ()
    """float32 [B, 1, N, U]: 1 for keys in another segment."""
    places: Any = ()
    """int32 [B, N]: the positions of the queries in the row of T tokens, if they are not all T."""


def distance_waves(keys: Any, nearest: Any, width: int, drop: Drop) -> tf.Tensor:
    """The waves [P, D] of the distances ``keys`` ... ``nearest`` + 1."""
    return drop(waves(tf.range(keys, nearest, -1), width))


@made_from(RelativeAttentionConfig)
class RelativeAttention(Attention):
    """Multi-head attention [N, D] to [N, D] whose scores depend on distances. Its bias is a `View`."""

    def starts(self) -> dict[str, Start]:
        return dict.fromkeys(self.config.weights(), self.config.start)

    def read(self, memory: tf.Tensor, rows: Rows, past: Any = None, waves: Any = None) -> tuple[tf.Tensor, ...]:
        """Keys and values of the ``past``, followed by those of a ``memory`` [B * U, D] with (B, U) = ``rows``. With
        ``waves``, the keys of distances too."""
        pair = append_to_past(past, self.heads(self.key_value(memory), rows, 2))  # [B, H, U, K]
        if waves is None:
            return pair
        return *pair, *self.heads(self.distance(waves), Rows(1, shape(waves)[0]))

    def call(
        self, x: tf.Tensor, view: View, rows: Rows, drop: Drop = NO_DROP, memory: Any = None, past: Any = None
    ) -> tuple[tf.Tensor, Seen]:
        """Returns the attention's result [N, D] for ``x``, and the keys and values that it used: the ``memory`` (from
        `read`) if given; otherwise those of the ``past`` and of ``x``."""
        key, value, r = seen = self.read(x, rows, past, view.waves) if memory is None else memory
        (q,) = self.heads(self.query(x), rows)  # [B, H, N, K]
        u, v = view.biases or (self.content_bias, self.position_bias)
        scale = q.shape[-1] ** -0.5
        bias = self._by_distance((q + tf.cast(v, q.dtype)) * scale, r, shape(key)[2], view.places)  # [B, H, N, U]
        bias = tf.cast(bias, tf.float32)
        if self.config.segments:
            # The score for the query's own segment is the same for all keys, so softmax cancels it. Only the difference
            # to the other segment matters.
            same, other = tf.unstack(tf.cast(self.segment_vectors, q.dtype)[:, :, None, :])  # [H, 1, K]
            b = tf.cast(self.segment_bias, q.dtype)
            other = tf.reduce_sum((q + b) * scale * (other - same), axis=-1, keepdims=True)  # [B, H, N, 1]
            bias += view.elsewhere * tf.cast(other, tf.float32)
        return self.mixed((q + tf.cast(u, q.dtype)) * scale, (key, value), bias + view.bias, drop), seen

    def _by_distance(self, q: tf.Tensor, r: tf.Tensor, keys: Any, places: Any) -> tf.Tensor:
        """The scores [B, H, N, U] of queries [B, H, N, K] with the keys of distances."""
        if isinstance(places, tuple):
            return relative_shift(tf.matmul(q, r, transpose_b=True), keys)
        # Moves each query to its position in the row, because `relative_shift` shifts by rows.
        spread = tf.one_hot(places, shape(r)[2] - keys, axis=1, dtype=q.dtype)  # [B, T, N]
        q = tf.matmul(spread[:, None, :, :], q)  # [B, H, T, K]
        return tf.gather(relative_shift(tf.matmul(q, r, transpose_b=True), keys), places, axis=2, batch_dims=1)


def run_with_memory(
    stack: Stack, x: tf.Tensor, view: View, rows: Rows, drop: Drop, memory: list[tf.Tensor | None], before: Any = 0
) -> list[tf.Tensor]:
    """Runs the first layers of ``stack``, one for each entry of ``memory``, and returns ``x`` [B * T, D] and the output
    of each layer. An entry is the layer's input for the ``before`` tokens before the text, [B * before, D], or None."""
    layers = [x]
    for index, (block, old) in enumerate(zip(stack, memory, strict=False)):

        def apply(x: tf.Tensor, biases: tuple, *old: tf.Tensor, block: Any, drop: Drop) -> tf.Tensor:
            past = block.read(old[0], Rows(rows.batch, before)) if old else None
            return block(x, view._replace(biases=biases), rows=rows, drop=drop, past=past)[0]

        step = partial(apply, block=block, drop=drop.at(10 * (index + 1)))
        x = recomputed(step, x, view.biases, *([] if old is None else [old]))
        x = stack.through("between", x, index=index)
        layers.append(x)
    return layers
