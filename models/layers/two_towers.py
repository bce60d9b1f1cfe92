"""The cloze model's network: two towers, and one layer over both (Baevski et al., 2019, section 3)."""

from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.models.architectures.two_towers import MeetingConfig, TowersConfig, TowerWavesConfig
from ptmbench.models.layers.core import NO_DROP, Drop, Layer, Rows, made_from, recomputed
from ptmbench.models.layers.operations import HIDDEN, check_length, shape
from ptmbench.models.layers.transformers import Network, built
from ptmbench.models.pretrainable import Encoding

__all__ = ["TwoTowers", "built"]


def waves(length: int, width: int) -> np.ndarray:
    """The fixed positions of Vaswani et al. (2017), section 3.5: float32 [T, D], all sines before all cosines."""
    rates = 10_000.0 ** -np.linspace(0, 1, width // 2)
    angle = np.arange(length)[:, None] * rates  # [T, D / 2]
    return np.concatenate([np.sin(angle), np.cos(angle)], axis=1).astype(np.float32)


def joins(tokens: tf.Tensor, documents: tf.Tensor | None) -> tf.Tensor:
    """Whether tokens t and t + 1 belong to one text: bool [B, T - 1]."""
    present = tf.not_equal(tokens, 0)
    joined = present[:, :-1] & present[:, 1:]
    return joined if documents is None else joined & tf.equal(documents[:, :-1], documents[:, 1:])


def neighbours(forward: tf.Tensor, backward: tf.Tensor, tokens: tf.Tensor, documents: tf.Tensor | None) -> tf.Tensor:
    """F_{t-1} + B_{t+1}, [B * T, D]; zero in place of a neighbour that is padding or of another document."""
    width = forward.shape[-1]
    forward, backward = (tf.reshape(x, [*shape(tokens), width]) for x in (forward, backward))
    joined = tf.cast(joins(tokens, documents)[:, :, None], forward.dtype)  # [B, T - 1, 1]
    left = tf.pad(forward[:, :-1] * joined, [[0, 0], [1, 0], [0, 0]])
    right = tf.pad(backward[:, 1:] * joined, [[0, 0], [0, 1], [0, 0]])
    return tf.reshape(left + right, [-1, width])


@made_from(TowerWavesConfig)
class TowerWaves(Layer):
    """Fixed vectors of positions."""

    def first(self, count: Any) -> tf.Tensor:
        """The vectors [T, D] of positions 0 to T - 1."""
        return tf.constant(waves(self.config.rows, self.config.width), self.compute_dtype)[:count]


@made_from(MeetingConfig)
class Meeting(Layer):
    """One layer over the last vectors of both towers, [N, D] each, to [N, D]. The attention's output replaces the
    query. Extensions at "before_..." and "after_..." are those of `models.layers.blocks.Block`."""

    SEAMS = ("before_attention", "after_attention", "before_feed_forward", "after_feed_forward")
    CASTS = False

    def call(
        self,
        forward: tf.Tensor,
        backward: tf.Tensor,
        bias: tf.Tensor,
        tokens: tf.Tensor,
        documents: Any = None,
        drop: Drop = NO_DROP,
    ) -> tf.Tensor:
        """``bias`` float32 [B, 1, T, 2 T] masks some of the vectors of both towers."""
        rows = Rows(*shape(tokens))
        forward, backward = self.forward_norm(forward), self.backward_norm(backward)
        query = self.through("before_attention", neighbours(forward, backward, tokens, documents))
        pair = self.attention.read(backward, rows, self.attention.read(forward, rows))  # [B, H, 2 T, K]
        h, _ = self.attention(query, bias, rows=rows, drop=drop, memory=pair)
        x = drop(self.through("after_attention", h), 1)
        h = self.feed_forward(self.through("before_feed_forward", self.norm(x)), drop=drop.at(3))
        return x + drop(self.through("after_feed_forward", h), 4)


@made_from(TowersConfig)
class TwoTowers(Network):
    """Batch to `Encoding`: L layers in each tower of width D, and one layer over both.

    ``Encoding.layers`` are the embeddings, the mean of both towers after each of their layers, and the last layer, so
    ``depth`` is L + 1. The pooled vector is the mean of the first and the last token's vectors. The paper concatenates
    the vectors of the boundary tokens for a classifier.
    """

    causal = False

    @staticmethod
    def dims(config: TowersConfig) -> tuple[int, int, int]:
        block = config.forward.block
        return block.norm.width, config.forward.layers + 1, block.attention.heads

    def hidden(
        self, tokens: tf.Tensor, seed: Any = None, documents: tf.Tensor | None = None, see_itself: bool = True
    ) -> list[tf.Tensor]:
        """The L + 2 tensors [B * T, D] of `Encoding.layers` for tokens [B, T].

        With ``see_itself`` false, the last tensor at t does not depend on token t. A token attends only to tokens with
        its number in ``documents`` [B, T]. If there are none, its vector has no meaning.
        """
        rows, drop = Rows(*shape(tokens)), Drop(self.dropout, seed, 0)
        check_length(rows.tokens, self.length, "encoder")
        together = tf.not_equal(tokens, 0)[:, None, :]  # [B, 1, T]
        if documents is not None:
            together &= tf.equal(documents[:, :, None], documents[:, None, :])  # [B, T, T]
        ahead = tf.range(rows.tokens)[None, :] - tf.range(rows.tokens)[:, None]  # [T, T], key minus query

        def seen(where: tf.Tensor) -> tf.Tensor:
            return tf.where(together & where, 0.0, HIDDEN)[:, None, :, :]  # [B, 1, T, T]

        def apply(x: tf.Tensor, bias: tf.Tensor, block: Any, drop: Drop) -> tf.Tensor:
            return block(x, bias, rows=rows, drop=drop)[0]

        forward = backward = x = self.embeddings(tokens, drop=drop)  # [B * T, D]
        before, after, layers = seen(ahead <= 0), seen(ahead >= 0), [x]
        for index, (onwards, back) in enumerate(zip(self.forward, self.backward, strict=True)):
            place = drop.at(20 * (index + 1))
            forward = recomputed(partial(apply, block=onwards, drop=place), forward, before)
            backward = recomputed(partial(apply, block=back, drop=place.at(10)), backward, after)
            forward = self.forward.through("between", forward, index=index)
            backward = self.backward.through("between", backward, index=index)
            layers.append((forward + backward) / 2)
        if not see_itself:
            before, after = seen(ahead < 0), seen(ahead > 0)
        bias = tf.concat([before, after], axis=-1)  # [B, 1, T, 2 T]
        meet = partial(self.both, tokens=tokens, documents=documents, drop=drop.at(1))
        return [*layers, recomputed(meet, forward, backward, bias)]

    def call(self, batch: dict[str, Any], seed: Any = None) -> Encoding:
        tokens = batch["tokens"]
        rows, length = shape(tokens)
        flat = self.hidden(tokens, seed)
        layers = tuple(tf.reshape(x, [rows, length, self.width]) for x in flat)
        count = tf.reduce_sum(tf.cast(tf.not_equal(tokens, 0), tf.int32), axis=1)  # [B]
        last = tf.gather(flat[-1], tf.range(rows) * length + tf.maximum(count - 1, 0))  # [B, D]
        return Encoding(tokens=layers[-1], pooled=(layers[-1][:, 0] + last) / 2, layers=layers)
