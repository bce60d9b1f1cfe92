"""MobileBERT's layers: a norm without statistics, blocks with bottlenecks, embeddings of trigrams, and its encoder.

Source: Sun et al. (2020), and the authors' code (google-research/google-research, `mobilebert/modeling.py` at 0c1bbe5).
Two things differ from their code. In a trigram, padding counts as zeros, like places beyond the ends of the row, so the
vectors of a text do not depend on padding. Tokens of another text of the same row (the channel ``documents``) count as
zeros too.
"""

from typing import Any

import tensorflow as tf

from ptmbench.models.layers.blocks import Attention, Block, Pair
from ptmbench.models.layers.bottleneck_config import (
    BottleneckBlockConfig,
    NoNormConfig,
    SplitAttentionConfig,
    TrigramEmbeddingsConfig,
    TrigramEncoderConfig,
)
from ptmbench.models.layers.core import NO_DROP, Drop, Norm, Rows, made_from
from ptmbench.models.layers.embeddings import Embeddings
from ptmbench.models.layers.operations import shape
from ptmbench.models.layers.transformers import Encoder, built

__all__ = ["TrigramEncoder", "built"]


@made_from(NoNormConfig)
class NoNorm(Norm):
    """scale * x + bias of vectors [N, D]."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return x * self.scale + self.bias


@made_from(SplitAttentionConfig)
class SplitAttention(Attention):
    """Multi-head attention whose queries and keys read other vectors than its values."""

    def call(
        self, query_input: tf.Tensor, value_input: tf.Tensor, bias: tf.Tensor, rows: Rows, drop: Drop = NO_DROP
    ) -> tuple[tf.Tensor, Pair]:
        """Returns the attention's result [N, C], and its keys and values without those of extensions. Queries and keys
        are computed from ``query_input`` [N, Q], and values from ``value_input`` [N, W]."""
        q, k = self.heads(self.query_key(query_input), rows, 2)  # [B, H, T, K]
        (v,) = self.heads(self.value(value_input), rows)
        if self.config.scaled:
            q = q * q.shape[-1] ** -0.5
        return self.mixed(q, (k, v), bias, drop), (k, v)


@made_from(BottleneckBlockConfig)
class BottleneckBlock(Block):
    """One layer of MobileBERT or IB-BERT, [N, D] to [N, D], C dimensions wide inside.

    Extensions at "before_attention" get the block's input [N, D], as the attention and its bottlenecks read it. Those
    at "after_attention" get the attention's result [N, C]. Those at "before_feed_forward" get the input of the first
    feed-forward layer and of its residual sum [N, C]. Those at "after_feed_forward" get the vectors that the block adds
    to its input [N, D].
    """

    def call(self, x: tf.Tensor, bias: tf.Tensor, rows: Rows, drop: Drop = NO_DROP) -> tuple[tf.Tensor, Pair]:
        """The block's result [N, D], and the keys and values of its attention."""
        read = self.through("before_attention", x)
        h = self.entry_norm(self.entry(read))  # [N, C]
        query_input, value_input = {"shared": (None, read), "narrow": (h, h), "wide": (read, read)}[self.config.reads]
        if self.config.reads == "shared":
            query_input = self.query_entry_norm(self.query_entry(read))  # [N, C]
        attended, own = self.attention(query_input, value_input, bias, rows=rows, drop=drop)
        h = self.attention_norm(h + self.through("after_attention", attended))
        h = self.through("before_feed_forward", h)
        for index in range(self.config.feed_forwards - 1):
            fed = getattr(self, f"feed_forward_{index}")(h)
            h = getattr(self, f"feed_forward_{index}_norm")(h + fed)
        h = self.feed_forward_norm(h + self.feed_forward(h))
        left = self.through("after_feed_forward", self.exit(h))  # [N, D]
        return self.norm(x + drop(left, 1)), own


@made_from(TrigramEmbeddingsConfig)
class TrigramEmbeddings(Embeddings):
    """`Embeddings` whose token vectors are made of trigrams."""

    def words(self, tokens: tf.Tensor, table: Any = None, batch: Any = None) -> tf.Tensor:
        x = super().words(tokens, table, batch)  # [B, T, E]
        x *= tf.cast(tf.not_equal(tokens, 0), x.dtype)[..., None]
        after, before = x[:, 1:], x[:, :-1]
        if batch is not None and (documents := batch.get("documents")) is not None:
            same = tf.cast(tf.equal(documents[:, 1:], documents[:, :-1]), x.dtype)[..., None]  # [B, T - 1, 1]
            after, before = after * same, before * same
        after, before = tf.pad(after, [[0, 0], [0, 1], [0, 0]]), tf.pad(before, [[0, 0], [1, 0], [0, 0]])
        x = tf.reshape(tf.concat([after, x, before], axis=-1), [-1, 3 * x.shape[-1]])  # [B * T, 3 E]
        x = self.trigrams(x)
        return tf.reshape(x, [*shape(tokens), x.shape[-1]])


@made_from(TrigramEncoderConfig)
class TrigramEncoder(Encoder):
    """BERT's encoder over embeddings of trigrams."""
