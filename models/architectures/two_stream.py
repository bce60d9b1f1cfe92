"""The two-stream Transformer of XLNet: relative positions in both directions, relative segments, and a memory.

Source: Yang et al. (2019), sections 2.3 to 2.5; layer-norm after each residual sum and feed-forward layers as in
their code. The score of key j for query i, over the root of the head's width, is

    (q_i + u) . k_j + (q_i + v) . (W_R R_{i-j}) + (q_i + b) . s_{same or other segment}

as in Transformer-XL (`relative_decoder`), but with distances of both signs, biases per layer, and a term that knows
only whether two tokens stand in the same segment. GELU is the exact one, as `transformers` reads the published
settings; the authors' program has its tanh form.

The content stream is an ordinary encoder. The query stream, which is for pre-training only, holds one vector per
position to predict: it knows the position, starts from one learned vector whatever stands there, and looks at the
content stream.
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
    fold,
    gelu,
    layer_norm,
    relative_shift,
    shape,
    split_heads,
    waves,
)
from ptmbench.models.architectures.products import product
from ptmbench.models.card import Size
from ptmbench.models.pretrainable import Encoding

EPSILON = 1e-12
_CLS = 2
"""The id that [CLS] has in every vocabulary here."""


def initializer() -> keras.initializers.Initializer:
    """Normal with standard deviation 0.02, as in the authors' code; a fresh one per weight."""
    return keras.initializers.RandomNormal(stddev=0.02)


class TwoStream(keras.layers.Layer):
    """Batch to `Encoding` by the content stream, in which every token sees every other. The pooled vector is that of
    [CLS] wherever it stands: last in the paper, first in what is trained here; without one that of the first token.

    Positions are relative, so ``length`` bounds only what is meant to be used. ``dropout`` is read when a graph is
    traced.
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
        self.token_embedding = self.add_weight((vocabulary, size.width), initializer(), name="tokens")
        self.query = self.add_weight((size.width,), initializer(), name="query")
        self.blocks = [self._block(f"layer_{index}", size) for index in range(size.layers)]
        self.built = True

    def _block(self, name: str, size: Size) -> SimpleNamespace:
        D, F, H, K = size.width, size.inner, size.heads, size.width // size.heads

        def weight(part: str, *dims: int, start: Any = "zeros") -> keras.Variable:
            return self.add_weight(dims, start, name=f"{name}_{part}")

        return SimpleNamespace(
            q_kernel=weight("q_kernel", D, D, start=initializer()),
            kv_kernel=weight("kv_kernel", D, 2 * D, start=initializer()),
            distance_kernel=weight("distance_kernel", D, D, start=initializer()),
            output_kernel=weight("output_kernel", D, D, start=initializer()),  # [out, in], as it is published
            content_bias=weight("content_bias", H, 1, K, start=initializer()),  # u
            position_bias=weight("position_bias", H, 1, K, start=initializer()),  # v
            segment_bias=weight("segment_bias", H, 1, K, start=initializer()),  # b
            segment_vectors=weight("segment_vectors", 2, H, K, start=initializer()),  # same, other
            attention_norm_scale=weight("attention_norm_scale", D, start="ones"),
            attention_norm_bias=weight("attention_norm_bias", D),
            inner_kernel=weight("inner_kernel", D, F, start=initializer()),
            inner_bias=weight("inner_bias", F),
            outer_kernel=weight("outer_kernel", F, D, start=initializer()),
            outer_bias=weight("outer_bias", D),
            norm_scale=weight("norm_scale", D, start="ones"),
            norm_bias=weight("norm_bias", D),
        )

    def content(self, tokens: tf.Tensor, segments: tf.Tensor | None, seed: Any, depth: int) -> list[tf.Tensor]:
        """``depth`` + 1 tensors [B * T, D] for tokens and segments [B, T]: embeddings, then each layer; every token
        sees every token that is not padding."""
        _, length = shape(tokens)
        check_length(length, self.length, "encoder")
        keys = Keys(tokens, tf.zeros_like(tokens) if segments is None else segments, 0)
        layers, far = [self._embed(tokens, seed)], self._distances(keys, seed)
        view = keys.view(keys.segments, tf.ones([1, 1, 1], tf.bool))

        def layer(h: tf.Tensor, weights: SimpleNamespace, salt: int) -> tf.Tensor:
            return self._update(h, view, None, *self._project(h, None, far, keys, weights), weights, seed, salt)

        for index, weights in enumerate(self.blocks[:depth]):
            layers.append(block(partial(layer, salt=10 * (index + 1)), layers[-1], weights))
        return layers

    def predict(self, batch: dict[str, Any], seed: Any = None) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """Both streams: L tensors [B * T, D] of the content, and L + 1 [B * S, D] of the queries.

        ``tokens``, ``segments`` and ``ranks`` int32 [B, T]: rank 0 is context that all may see, and a token of rank r
        sees that, the tokens of smaller ranks, and itself. ``predicted_positions`` int32 [B, S] have ranks above 0;
        their queries see what their tokens see, without themselves. ``memory`` int32 [B, M] are the M tokens before
        the row, in its first segment, padded on the left; all may see them. They are encoded from themselves alone,
        and no gradient reaches them.
        """
        tokens, ranks, memory = batch["tokens"], batch["ranks"], batch["memory"]
        check_length(shape(tokens)[1], self.length, "encoder")
        before = shape(memory)[1]
        # What the last layer makes of the memory is nobody's key.
        old = [tf.stop_gradient(x) for x in self.content(memory, None, fold(seed, 5000), self.depth - 1)]
        segments = tf.concat([tf.zeros_like(memory), batch["segments"]], axis=1)  # [B, U]
        keys = Keys(tf.concat([memory, tokens], axis=1), segments, before)
        order = tf.concat([tf.zeros_like(memory), ranks], axis=1)[:, None]  # [B, 1, U]
        positions = batch["predicted_positions"]  # [B, S]
        rank = tf.gather(ranks, positions, batch_dims=1)  # [B, S]
        itself = tf.equal(tf.range(keys.length)[:, None] + before, tf.range(keys.count)[None, :])  # [T, U]
        content_view = keys.view(batch["segments"], (order == 0) | (order < ranks[:, :, None]) | itself)
        segment = tf.gather(batch["segments"], positions, batch_dims=1)  # [B, S]
        query_view = keys.view(segment, (order == 0) | (order < rank[:, :, None]))

        h, far = self._embed(tokens, seed), self._distances(keys, seed)
        slots = shape(positions)[0] * shape(positions)[1]
        g = dropout(tf.tile(tf.convert_to_tensor(self.query)[None], [slots, 1]), self.dropout, seed, 2)  # [B * S, D]
        contents, queries = [h], [g]

        def layer(
            h: tf.Tensor, weights: SimpleNamespace, g: tf.Tensor, old: tf.Tensor, salt: int, last: bool
        ) -> tuple[tf.Tensor, ...]:
            projected = self._project(h, old, far, keys, weights)
            g = self._update(g, query_view, positions, *projected, weights, seed, salt + 5)
            if last:  # nobody reads the content any more
                return (g,)
            return self._update(h, content_view, None, *projected, weights, seed, salt), g

        for index, (weights, memory_states) in enumerate(zip(self.blocks, old, strict=True)):
            last = index == self.depth - 1
            step = partial(layer, old=memory_states, salt=10 * (index + 1), last=last)
            *h, g = block(step, contents[-1], weights, queries[-1])
            contents += h
            queries.append(g)
        queries[-1] = dropout(queries[-1], self.dropout, seed, 3)
        return contents, queries

    def _embed(self, tokens: tf.Tensor, seed: Any) -> tf.Tensor:
        x = tf.reshape(tf.gather(self.token_embedding.value, tokens), [-1, self.width])  # [B * T, D]
        return dropout(x, self.dropout, seed, 0)

    def _distances(self, keys: "Keys", seed: Any) -> tf.Tensor:
        """The waves [U + T, D] of the distances U ... 1 - T, which `relative_shift` reads."""
        far = waves(tf.range(keys.count, -keys.length, -1), self.width)
        return dropout(tf.cast(far, self.compute_dtype), self.dropout, seed, 1)

    def _project(
        self, h: tf.Tensor, old: tf.Tensor | None, far: tf.Tensor, keys: "Keys", weights: SimpleNamespace
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Keys and values [B, H, U, K] of the memory and the content, and the keys of distances [1, H, U + T, K]."""
        key, value = split_heads(product(h, weights.kv_kernel), keys.batch, keys.length, self.heads, 2)
        if old is not None:  # a product of its own: its input needs no gradient
            parts = split_heads(product(old, weights.kv_kernel), keys.batch, keys.before, self.heads, 2)
            key, value = tf.concat([parts[0], key], axis=2), tf.concat([parts[1], value], axis=2)
        (r,) = split_heads(product(far, weights.distance_kernel), 1, shape(far)[0], self.heads)
        return key, value, r

    def _update(
        self,
        x: tf.Tensor,
        view: tuple[tf.Tensor, tf.Tensor],
        positions: tf.Tensor | None,
        key: tf.Tensor,
        value: tf.Tensor,
        r: tf.Tensor,
        weights: SimpleNamespace,
        seed: Any,
        salt: int,
    ) -> tf.Tensor:
        """A layer for x [B * N, D] of either stream: content, with N = T, or queries at ``positions`` [B, N]."""
        batch, keys, rate = shape(key)[0], shape(key)[2], self.dropout
        length = shape(r)[2] - keys  # T
        count = length if positions is None else shape(positions)[1]
        hidden, differs = view  # [B, 1, N or 1, U]
        (q,) = split_heads(product(x, weights.q_kernel), batch, count, self.heads)  # [B, H, N, K]
        scale = q.shape[-1] ** -0.5
        places = (q + weights.position_bias) * scale
        if positions is not None:  # each query moves to its own place: scores by distance are shifted by rows
            spread = tf.one_hot(positions, length, axis=1, dtype=places.dtype)  # [B, T, N]
            places = tf.matmul(spread[:, None], places)  # [B, H, T, K]
        places = relative_shift(tf.matmul(places, r, transpose_b=True), keys)  # [B, H, T, U]
        if positions is not None:
            places = tf.gather(places, positions, axis=2, batch_dims=1)  # [B, H, N, U]
        # What a query thinks of its own segment is the same for all keys and falls out of the softmax; what counts is
        # the difference.
        other = (weights.segment_vectors[1] - weights.segment_vectors[0])[:, None]  # [H, 1, K]
        other = tf.reduce_sum((q + weights.segment_bias) * scale * other, axis=-1, keepdims=True)  # [B, H, N, 1]
        bias = tf.cast(places, tf.float32) + differs * tf.cast(other, tf.float32) + hidden
        context = attention((q + weights.content_bias) * scale, key, value, bias, rate, seed, salt)  # [B * N, D]
        update = dropout(product(context, weights.output_kernel, transposed=True), rate, seed, salt + 1)
        x = layer_norm(x + update, weights.attention_norm_scale, weights.attention_norm_bias, EPSILON)
        inner = dropout(gelu(dense(x, weights.inner_kernel, weights.inner_bias)), rate, seed, salt + 2)
        update = dropout(dense(inner, weights.outer_kernel, weights.outer_bias), rate, seed, salt + 3)
        return layer_norm(x + update, weights.norm_scale, weights.norm_bias, EPSILON)

    def call(self, batch: dict[str, Any], seed: Any = None) -> Encoding:
        tokens = batch["tokens"]
        rows, length = shape(tokens)
        flat = self.content(tokens, batch.get("segments"), seed, self.depth)
        flat[-1] = dropout(flat[-1], self.dropout, seed, 3)
        layers = tuple(tf.reshape(x, [rows, length, self.width]) for x in flat)
        place = tf.argmax(tf.cast(tf.equal(tokens, _CLS), tf.float32), axis=1, output_type=tf.int32)  # [B]
        return Encoding(tokens=layers[-1], pooled=tf.gather(layers[-1], place, batch_dims=1), layers=layers)


class Keys:
    """What attention looks at: U = M + T tokens and their segments [B, U], of which the first ``before`` are memory."""

    def __init__(self, tokens: tf.Tensor, segments: tf.Tensor, before: Any):
        self.tokens, self.segments, self.before = tokens, segments, before
        self.batch, self.count = shape(tokens)
        self.length = self.count - before

    def view(self, segments: tf.Tensor, sees: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """For queries in ``segments`` [B, N] that may see what ``sees`` [B or 1, N or 1, U or 1] says: what to add to
        their scores, and which keys stand in another segment, both float32 [B, 1, N or 1, U]."""
        sees &= tf.not_equal(self.tokens, 0)[:, None]
        differs = tf.not_equal(segments[:, :, None], self.segments[:, None])
        return tf.where(sees, 0.0, HIDDEN)[:, None], tf.cast(differs, tf.float32)[:, None]
