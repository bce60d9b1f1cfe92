"""ProphetNet's decoder, which predicts several tokens ahead, one stream for each.

Source: Qi et al. (2020), section 2.3, and the authors' code. The main stream is the usual decoder over the tokens so
far. At position s, predicting stream i (from 0) has a vector of its own instead of a token. It predicts token s + 1
from the main stream up to s - i: the first stream as any decoder does, the next one without the last token. All streams
share all weights, so the main stream is computed once for all of them. Positions enter twice: as learned vectors of the
inputs, and as a bias of the attention scores. Each token computes this bias from its own vector, for every bucket of
distances (those of T5).
"""

from typing import Any, NamedTuple

import tensorflow as tf

from ptmbench.models.layers.blocks import Attention, Pair, append_to_past
from ptmbench.models.layers.core import NO_DROP, Drop, Rows, made_from, recomputed
from ptmbench.models.layers.embeddings import BUCKETS, FARTHEST, distance_buckets, padding_bias
from ptmbench.models.layers.operations import HIDDEN, check_length, dropout, shape
from ptmbench.models.layers.stream_config import StreamAttentionConfig, StreamDecoderConfig
from ptmbench.models.layers.transformers import Decoder, built

__all__ = ["StreamDecoder", "built"]


class Streams(NamedTuple):
    """The masks of 1 + N streams of S positions, and their distances to the main stream."""

    visible: tf.Tensor
    """float32 [1 + N, S, S + 1], from `visibility`."""
    main: tf.Tensor
    ahead: tf.Tensor
    """[1 or B, 1, S, S, BUCKETS] each, from `distances`: for the main stream and for the predicting ones."""


def visibility(streams: int, length: Any) -> tf.Tensor:
    """The bias [1 + N, S, S + 1] that masks keys for each query. The first S columns are the keys of the main stream,
    and the last column is the query's own key.

    The main stream attends to positions up to its own. Predicting stream i attends to positions up to i before its own,
    and always to the first token, because it would have nothing to start from without it. A predicting stream attends
    to its own key; the key of the main stream is already among the S.
    """
    query, key = tf.range(length)[:, None], tf.range(length)[None, :]
    lag = tf.constant([0, *range(streams)])[:, None, None]
    seen = tf.logical_or(key <= query - lag, tf.equal(key, 0))  # [1 + N, S, S]
    own = tf.repeat(tf.constant([[[HIDDEN]]] + [[[0.0]]] * streams), length, axis=1)  # [1 + N, S, 1]
    return tf.concat([tf.where(seen, 0.0, HIDDEN), own], axis=2)


def distances(positions: tf.Tensor, dtype: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """The bucket of the distance from each key of the main stream to each query, one-hot: two tensors
    [B, 1, S, S, BUCKETS] from ``positions`` [B, S], for the main stream and for the predicting streams. With one-hot
    vectors, the lookup of a bucket and its gradient are products."""
    back = positions[:, :, None] - positions[:, None, :]  # [B, S, S], query minus key
    buckets = tf.constant(distance_buckets(BUCKETS))

    def of(back: tf.Tensor) -> tf.Tensor:
        bucket = tf.gather(buckets, tf.clip_by_value(back, 0, FARTHEST))
        return tf.one_hot(bucket, BUCKETS, dtype=dtype)[:, None, :, :, :]

    return of(back), of(back + 1)


def stream_attention(
    q: tf.Tensor, k: tf.Tensor, v: tf.Tensor, near: tf.Tensor, streams: Streams, drop: Drop
) -> tf.Tensor:
    """Softmax attention of each stream over the main stream and, at its own position, over itself:
    [B * (1 + N) * S, D].

    Queries, keys and values are [B, H, 1 + N, S, K]. ``near`` [B, 1 + N, S, BUCKETS, H] has the score of each query for
    each bucket of distances. A predicting stream attends to at most S + 1 of its 2 S keys, and the others are not
    computed.
    """
    batch, heads, count, length, size = shape(q)
    main = [part[:, :, 0] for part in (k, v)]  # [B, H, S, K]
    flat = [batch, heads, count * length]
    scores = tf.matmul(tf.reshape(q, [*flat, size]), main[0], transpose_b=True)  # [B, H, (1 + N) * S, S]
    scores = tf.reshape(scores, [batch, heads, count, length, length])
    far = tf.concat([tf.matmul(streams.main, near[:, :1]), tf.matmul(streams.ahead, near[:, 1:])], axis=1)
    scores += tf.transpose(far, [0, 4, 1, 2, 3])  # [B, 1 + N, S, S, H] to [B, H, 1 + N, S, S]
    own = tf.reduce_sum(q * k, axis=-1) + tf.transpose(near[:, :, :, 0], [0, 3, 1, 2])  # [B, H, 1 + N, S]
    scores = tf.cast(tf.concat([scores, own[..., None]], axis=-1), tf.float32) + streams.visible
    weights = dropout(tf.cast(tf.nn.softmax(scores), v.dtype), drop.rate, drop.seed, drop.place)
    context = tf.matmul(tf.reshape(weights[..., :-1], [*flat, length]), main[1])  # [B, H, (1 + N) * S, K]
    context += tf.reshape(weights[..., -1:] * v, [*flat, size])
    return tf.reshape(tf.transpose(context, [0, 2, 1, 3]), [-1, heads * size])


def step_attention(
    q: tf.Tensor, k: tf.Tensor, v: tf.Tensor, near: tf.Tensor, past: Pair, visible: tf.Tensor
) -> tf.Tensor:
    """`stream_attention` of both streams of K hypotheses at one position, [B, H, 2, K, ...], over the main stream's
    keys and values of all positions, ``past`` [B, H, U, ...]. Returns [B * 2 * K, D]."""
    batch, heads, _, beam, size = shape(q)
    flat, keys = [batch, heads, 2 * beam, size], shape(past[0])[2]
    scores = tf.matmul(tf.reshape(q, flat), past[0], transpose_b=True)
    scores = tf.reshape(scores, [batch, heads, 2, beam, keys])  # [B, H, 2, K, U]
    back = keys // beam - 1 - tf.repeat(tf.range(keys // beam), beam)  # [U]: distance to each column
    buckets = tf.constant(distance_buckets(BUCKETS))
    far = [
        tf.gather(near[:, stream], tf.gather(buckets, tf.minimum(back + stream, FARTHEST)), axis=2) for stream in (0, 1)
    ]  # two of [B, K, U, H]
    scores += tf.transpose(tf.stack(far, axis=1), [0, 4, 1, 2, 3])
    own = tf.reduce_sum(q * k, axis=-1) + tf.transpose(near[:, :, :, 0], [0, 3, 1, 2])  # [B, H, 2, K]
    itself = tf.constant([HIDDEN, 0.0])[:, None, None]  # the main stream's own key is already in the past
    seen = tf.cast(scores, tf.float32) + visible[:, :, None]
    scores = tf.concat([seen, tf.cast(own, tf.float32)[..., None] + itself], axis=-1)
    weights = tf.cast(tf.nn.softmax(scores), v.dtype)  # [B, H, 2, K, U + 1]
    context = tf.matmul(tf.reshape(weights[..., :-1], [batch, heads, 2 * beam, keys]), past[1])
    context += tf.reshape(weights[..., -1:] * v, flat)
    return tf.reshape(tf.transpose(context, [0, 2, 1, 3]), [-1, heads * size])


@made_from(StreamAttentionConfig)
class StreamAttention(Attention):
    """The self-attention of all streams, [B * (1 + N) * S, D] to the same shape, with `Streams` as its bias. With a
    ``past`` (the main stream's keys and values of earlier positions) there are two streams, and the bias masks parts of
    the past."""

    SEAMS = ()

    def call(
        self, x: tf.Tensor, streams: Any, rows: Rows, drop: Drop = NO_DROP, memory: Any = None, past: Any = None
    ) -> tuple[tf.Tensor, Pair]:
        """Returns the attention's result, and the keys and values of the ``past`` followed by those of the main
        stream."""
        count = 2 if past is not None else shape(streams.visible)[0]
        length, heads = rows.tokens // count, self.config.heads
        parts = self.heads(self.query_key_value(x), rows, 3)
        q, k, v = (tf.reshape(part, [rows.batch, heads, count, length, part.shape[-1]]) for part in parts)
        q = q * q.shape[-1] ** -0.5
        near = tf.reshape(self.distances(x), [rows.batch, count, length, BUCKETS, heads])
        own = append_to_past(past, (k[:, :, 0], v[:, :, 0]))
        if past is None:
            return self.projection(stream_attention(q, k, v, near, streams, drop)), own
        return self.projection(step_attention(q, k, v, near, own, streams)), own


@made_from(StreamDecoderConfig)
class StreamDecoder(Decoder):
    """Logits of predicting streams over the output of ``encoder``. Its token embedding is the input and output layer
    here too.

    A predicting stream is one position ahead of its token, so targets have to be one shorter than positions.
    """

    def _check_length(self, length: Any) -> None:
        check_length(length, self.length - 1, "decoder")

    def hidden(
        self,
        targets: tf.Tensor,
        memory: tf.Tensor,
        tokens: tf.Tensor,
        seed: Any = None,
        positions: tf.Tensor | None = None,
        streams: int | None = None,
    ) -> list[tf.Tensor]:
        """The L + 1 tensors [B, 1 + N, S, D] for ``targets`` [B, S]: embeddings, then each layer. In each, the main
        stream is first, then N = ``streams`` predicting streams. ``memory`` [B, T, D] is the encoding of ``tokens``
        [B, T].

        ``positions`` int32 [B, S] are those of the targets (default: 0, 1, 2 ...).
        """
        (batch, length), source, drop = shape(targets), shape(tokens), Drop(self.dropout, seed, 1000)
        N = streams or self.config.streams.rows
        self._check_length(length)
        if positions is None:
            positions = tf.range(length)[None, :]
        absent = padding_bias(tokens)  # [B, 1, 1, T]
        view = Streams(visibility(N, length), *distances(positions, self.compute_dtype))
        memory = tf.reshape(memory, [-1, self.width])  # [B * T, D]
        x = tf.reshape(self._inputs(targets, positions, N), [-1, self.width])  # [B * (1 + N) * S, D]
        layers = [self.embeddings.ended(x, drop)]
        for index, block in enumerate(self.stack):

            def apply(x: tf.Tensor, memory: tf.Tensor, block: Any = block, index: int = index) -> tf.Tensor:
                read, place = block.cross.read(memory, Rows(*source)), drop.at(10 * (index + 1))
                rows = Rows(batch, (1 + N) * length)
                return block(x, view, rows=rows, drop=place, memory=read, absent=absent)[0]

            x = recomputed(apply, layers[-1], memory)
            layers.append(self.stack.through("between", x, index=index))
        return [tf.reshape(x, [batch, 1 + N, length, self.width]) for x in layers]

    def step(self, memory: Any, past: Any, written: tf.Tensor, seen: tf.Tensor) -> tuple[tf.Tensor, Any]:
        """Logits [B, K, V] after ``written`` [B, K, S], and ``past`` extended by this step's keys and values (see
        `models.pretrainable.Writer`). Only those of the main stream are kept, because nothing later attends to the
        others."""
        (absent, cross), (batch, beam, length), grown = memory, shape(written), []
        self._check_length(length)
        places = tf.zeros([1, 1], tf.int32) + length - 1  # the same position for all hypotheses
        x = self._inputs(tf.reshape(written[:, :, -1], [-1, 1]), places, 1)  # [B * K, 2, 1, D]
        x = tf.transpose(tf.reshape(x, [batch, beam, 2, self.width]), [0, 2, 1, 3])  # [B, 2, K, D]
        x = self.embeddings.ended(tf.reshape(x, [-1, self.width]))  # [B * 2 * K, D]
        visible, rows = tf.where(seen, 0.0, HIDDEN)[:, None], Rows(batch, 2 * beam)  # [B, 1, K, U]
        for index, (block, read, before) in enumerate(zip(self.stack, cross, past, strict=True)):
            x, kept = block(x, visible, rows=rows, memory=read, absent=absent, past=before)
            x = self.stack.through("between", x, index=index)
            grown.append(kept)
        x = tf.reshape(tf.reshape(x, [batch, 2, beam, self.width])[:, 1], [-1, self.width])  # [B * K, D]
        return self._logits(x, [batch, beam]), grown

    def _inputs(self, targets: tf.Tensor, positions: tf.Tensor, streams: int) -> tf.Tensor:
        """The inputs [B, 1 + N, S, D]. The first predicting stream uses the last vector of the table (authors'
        code)."""
        batch, length = shape(targets)
        places = self.embeddings.positions
        main = tf.gather(self.token_embedding.value, targets)  # [B, S, D]
        main = tf.cast(main, self.compute_dtype) + places(positions)
        table = self.streams.whole()
        of_stream = tf.cast(tf.concat([table[-1:], table[:-1]], axis=0)[:streams], self.compute_dtype)  # [N, D]
        ahead = places(positions + 1)[:, None, :, :] + of_stream[:, None, :]  # [1 or B, N, S, D]
        ahead = tf.broadcast_to(ahead, [batch, streams, length, self.width])
        return tf.concat([main[:, None, :, :], ahead], axis=1)

    def call(
        self,
        targets: tf.Tensor,
        memory: tf.Tensor,
        tokens: tf.Tensor,
        seed: Any = None,
        positions: tf.Tensor | None = None,
        streams: int | None = None,
    ) -> tf.Tensor:
        """Logits [B, N, S, V] of the predicting streams. For the arguments see `hidden`."""
        x = self.hidden(targets, memory, tokens, seed, positions, streams)[-1][:, 1:]  # [B, N, S, D]
        return self._logits(tf.reshape(x, [-1, self.width]), shape(x)[:3])
