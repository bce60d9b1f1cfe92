"""The encoder of MPNet: BERT's layers with relative positions, and two more streams for pre-training.

Source: Song et al. (2020), sections 2.2 and 2.3; relative positions are learned scalars per distance as in T5, shared
by all layers and added to the scores, beside absolute ones, which begin as `models.layers.core.sinusoids`; epsilon
from the authors' code (fairseq).

The row with [MASK] at the predicted places, n tokens, is encoded both ways, as it will be downstream. A content and a
query stream of one vector per predicted token look at it. Each of their vectors sees n positions at any time: the
tokens that were predicted before as what they are, in place of their masks, and all others as the row shows them.
That is the position compensation; the query of a token does not see its content, which sees itself.
"""

from functools import partial
from types import SimpleNamespace
from typing import Any

import keras
import tensorflow as tf

from ptmbench.models.architectures.parts import (
    HIDDEN,
    attention,
    block,
    check_length,
    dense,
    dropout,
    gelu,
    layer_norm,
    shape,
    split_heads,
)
from ptmbench.models.card import Size
from ptmbench.models.layers.config import BERT
from ptmbench.models.layers.core import initializer, sinusoids
from ptmbench.models.layers.embeddings import BUCKETS, FARTHEST, distance_buckets, padding_bias
from ptmbench.models.pretrainable import Encoding

EPSILON = 1e-5


class PositionCompensated(keras.layers.Layer):
    """Batch to `Encoding`; the pooled vector is that of the first token. ``segments`` are not read: MPNet has none.

    ``dropout`` is read when a graph is traced.
    """

    causal = False
    recurrent = False

    def __init__(self, size: Size, vocabulary: int, name: str = "encoder"):
        super().__init__(name=name)
        self.width, self.depth, self.length, self.heads, self.dropout = (
            size.width,
            size.layers,
            size.length,
            size.heads,
            0.1,
        )
        self.token_embedding = self.add_weight((vocabulary, size.width), initializer(BERT), name="tokens")
        self.positions = self.add_weight((size.length, size.width), sinusoids, name="positions")
        self.norm_scale = self.add_weight((size.width,), "ones", name="norm_scale")
        self.norm_bias = self.add_weight((size.width,), "zeros", name="norm_bias")
        self.distances = self.add_weight((BUCKETS, size.heads), initializer(BERT), name="distances")
        self.blocks = [self._block(f"layer_{index}", size.width, size.inner) for index in range(size.layers)]
        self.built = True

    def _block(self, name: str, width: int, inner: int) -> SimpleNamespace:
        def weight(part: str, *dims: int, start: Any = "zeros") -> keras.Variable:
            return self.add_weight(dims, start, name=f"{name}_{part}")

        return SimpleNamespace(
            qkv_kernel=weight("qkv_kernel", width, 3 * width, start=initializer(BERT)),
            qkv_bias=weight("qkv_bias", 3 * width),
            output_kernel=weight("output_kernel", width, width, start=initializer(BERT)),
            output_bias=weight("output_bias", width),
            attention_norm_scale=weight("attention_norm_scale", width, start="ones"),
            attention_norm_bias=weight("attention_norm_bias", width),
            inner_kernel=weight("inner_kernel", width, inner, start=initializer(BERT)),
            inner_bias=weight("inner_bias", inner),
            outer_kernel=weight("outer_kernel", inner, width, start=initializer(BERT)),
            outer_bias=weight("outer_bias", width),
            norm_scale=weight("norm_scale", width, start="ones"),
            norm_bias=weight("norm_bias", width),
        )

    def hidden(self, tokens: tf.Tensor, seed: Any = None) -> list[tf.Tensor]:
        """The L + 1 tensors [B * T, D] for tokens [B, T]: embeddings, then each layer."""
        rows, length = shape(tokens)
        check_length(length, self.length, "encoder")
        place = tf.range(length)[None]
        bias = self._bias(place, place) + padding_bias(tokens)  # [B, H, T, T]
        layers = [self._embed(tokens, self.positions[:length], seed, 0)]

        def layer(x: tf.Tensor, weights: SimpleNamespace, bias: tf.Tensor, salt: int) -> tf.Tensor:
            q, k, v = split_heads(dense(x, weights.qkv_kernel, weights.qkv_bias), rows, length, self.heads, 3)
            return self._update(x, q, k, v, bias, weights, seed, salt)

        for index, weights in enumerate(self.blocks):
            layers.append(block(partial(layer, salt=10 * (index + 1)), layers[-1], weights, bias))
        return layers

    def predict(self, batch: dict[str, Any], seed: Any = None) -> tf.Tensor:
        """The query stream's last layer [B, M, D].

        ``tokens`` int32 [B, T] are the row as it is shown; ``masked_positions`` and ``masked_labels`` int32 [B, M] the
        tokens to predict, in the order of prediction; slots with ``masked_weights`` 0 stand last.
        """
        tokens, positions, labels = batch["tokens"], batch["masked_positions"], batch["masked_labels"]
        rows, length = shape(tokens)
        slots = shape(positions)[1]
        check_length(length, self.length, "encoder")
        place = tf.range(length)[None]
        bias = self._bias(place, place) + padding_bias(tokens)  # [B, H, T, T]
        keys = tf.concat([tf.tile(place, [rows, 1]), positions], axis=1)  # [B, T + M]
        near = self._bias(positions, keys)  # [B, H, M, T + M]
        near += tf.pad(padding_bias(tokens), [[0, 0], [0, 0], [0, 0], [0, slots]])
        content_bias = near + self._replaced(positions, length, itself=True)
        query_bias = near + self._replaced(positions, length, itself=False)

        where = tf.gather(self.positions.value, positions)  # [B, M, D]
        x = self._embed(tokens, self.positions[:length], seed, 0)  # [B * T, D]
        content = self._embed(labels, where, seed, 1)  # [B * M, D]
        query = self._embed(tf.gather(tokens, positions, batch_dims=1), where, seed, 2)  # what is shown there

        def layer(
            query: tf.Tensor,
            weights: SimpleNamespace,
            x: tf.Tensor,
            content: tf.Tensor,
            bias: tf.Tensor,
            content_bias: tf.Tensor,
            query_bias: tf.Tensor,
            salt: int,
            last: bool,
        ) -> tuple[tf.Tensor, ...]:
            kernel, shift, D = weights.qkv_kernel, weights.qkv_bias, self.width
            first = D if last else 0  # nobody reads what the last layer makes of row and content: no queries of theirs
            parts = 2 if last else 3
            *q, k, v = split_heads(dense(x, kernel[:, first:], shift[first:]), rows, length, self.heads, parts)
            *c, more_k, more_v = split_heads(
                dense(content, kernel[:, first:], shift[first:]), rows, slots, self.heads, parts
            )
            all_k, all_v = tf.concat([k, more_k], axis=2), tf.concat([v, more_v], axis=2)  # [B, H, T + M, K]
            (g,) = split_heads(dense(query, kernel[:, :D], shift[:D]), rows, slots, self.heads)
            query = self._update(query, g, all_k, all_v, query_bias, weights, seed, salt + 6)
            if last:
                return (query,)
            x = self._update(x, q[0], k, v, bias, weights, seed, salt)
            content = self._update(content, c[0], all_k, all_v, content_bias, weights, seed, salt + 3)
            return query, x, content

        for index, weights in enumerate(self.blocks):
            step = partial(layer, salt=10 * (index + 1), last=index == self.depth - 1)
            query, *others = block(step, query, weights, x, content, bias, content_bias, query_bias)
            x, content = others or (x, content)
        return tf.reshape(query, [rows, slots, self.width])

    def _embed(self, tokens: tf.Tensor, where: tf.Tensor, seed: Any, salt: int) -> tf.Tensor:
        """Sum of token and position vectors, normalised: tokens [B, N] to [B * N, D]."""
        x = tf.reshape(tf.gather(self.token_embedding.value, tokens) + where, [-1, self.width])
        return dropout(layer_norm(x, self.norm_scale, self.norm_bias, EPSILON), self.dropout, seed, salt)

    def _bias(self, queries: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
        """Scores float32 [B, H, N, U] to add, by the distance of keys at places [B, U] from queries at [B, N]."""
        ahead = keys[:, None, :] - queries[:, :, None]  # [B, N, U]
        bucket = tf.gather(tf.constant(distance_buckets(BUCKETS // 2)), tf.minimum(tf.abs(ahead), FARTHEST))
        bucket += tf.where(ahead > 0, BUCKETS // 2, 0)
        return tf.transpose(tf.cast(tf.gather(self.distances.value, bucket), tf.float32), [0, 3, 1, 2])

    def _replaced(self, positions: tf.Tensor, length: Any, itself: bool) -> tf.Tensor:
        """What slot s of the content (which sees ``itself``) or the query stream may not see, float32 [B, 1, M, T + M]:
        the row at the positions of slots before, and the contents of the others."""
        rows, slots = shape(positions)
        at = tf.cumsum(tf.one_hot(positions, length), axis=1, exclusive=not itself)  # [B, M, T]
        order = tf.range(slots)
        seen = order[None, :] <= order[:, None] if itself else order[None, :] < order[:, None]  # [M, M]
        contents = tf.tile(tf.where(seen, 0.0, HIDDEN)[None], [rows, 1, 1])
        return tf.concat([tf.where(at > 0, HIDDEN, 0.0), contents], axis=2)[:, None]

    def _update(
        self,
        x: tf.Tensor,
        q: tf.Tensor,
        k: tf.Tensor,
        v: tf.Tensor,
        bias: tf.Tensor,
        weights: SimpleNamespace,
        seed: Any,
        salt: int,
    ) -> tf.Tensor:
        """A layer of BERT for x [B * N, D], with its queries and whatever keys and values it looks at."""
        rate = self.dropout
        context = attention(q * q.shape[-1] ** -0.5, k, v, bias, rate, seed, salt)  # [B * N, D]
        update = dropout(dense(context, weights.output_kernel, weights.output_bias), rate, seed, salt + 1)
        x = layer_norm(x + update, weights.attention_norm_scale, weights.attention_norm_bias, EPSILON)
        inner = gelu(dense(x, weights.inner_kernel, weights.inner_bias))  # [B * N, F]
        update = dropout(dense(inner, weights.outer_kernel, weights.outer_bias), rate, seed, salt + 2)
        return layer_norm(x + update, weights.norm_scale, weights.norm_bias, EPSILON)

    def call(self, batch: dict[str, Any], seed: Any = None) -> Encoding:
        rows, length = shape(batch["tokens"])
        layers = tuple(tf.reshape(x, [rows, length, self.width]) for x in self.hidden(batch["tokens"], seed))
        return Encoding(tokens=layers[-1], pooled=layers[-1][:, 0], layers=layers)
