"""The encoder-decoder Transformer of ProphetNet: a decoder that predicts several tokens ahead, one stream for each.

Source: Qi et al. (2020), section 2.3, and the authors' code; the encoder is BART's. The main
stream is the usual decoder over the tokens so far. Predicting stream i (from 0) has at position s no token but a vector
of its own, and guesses token s + 1 from the main stream up to s - i: the first one as any decoder does, the next one
without the last token. All streams share all weights, so the main stream is computed once for all of them. Positions
count twice: as learned vectors of the inputs, and as a bias of the attention scores, which each token computes for
every bucket of distances (those of T5) from its own vector.
"""

from functools import partial
from types import SimpleNamespace
from typing import Any

import keras
import tensorflow as tf

from ptmbench.models.architectures.parts import (
    HIDDEN,
    Weights,
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
from ptmbench.models.architectures.products import product
from ptmbench.models.card import Size
from ptmbench.models.layers.config import NORMAL
from ptmbench.models.layers.core import initializer, sinusoids
from ptmbench.models.layers.embeddings import BUCKETS, FARTHEST, distance_buckets, padding_bias
from ptmbench.models.layers.transformers import Encoder

EPSILON = 1e-5


class Decoder(keras.layers.Layer):
    """Logits of ``streams`` predicting streams over what ``encoder`` gives; its token embedding serves as input and as
    output layer here too.

    A predicting stream stands one position further than its token, so targets have to be one shorter than positions.
    """

    def __init__(self, size: Size, encoder: Encoder, streams: int, name: str = "decoder"):
        super().__init__(name=name)
        self.encoder, self.width, self.length, self.heads = encoder, size.width, size.length, size.heads
        self.streams = streams
        D, F, weight = size.width, size.inner, Weights(self, "")
        self.positions = weight("positions", size.length, D, start=sinusoids)
        self.stream_vectors = weight("streams", streams, D, start=initializer(NORMAL))
        self.embedding_norm_scale, self.embedding_norm_bias = weight.norm("embedding_norm", D).values()
        self.blocks = [self._block(Weights(self, f"layer_{index}_"), D, F) for index in range(size.layers)]
        self.built = True

    def _block(self, weight: Weights, D: int, F: int) -> SimpleNamespace:
        return SimpleNamespace(
            **weight.dense("qkv", D, 3 * D),
            **weight.dense("distances", D, BUCKETS * self.heads),
            **weight.dense("output", D, D),
            **weight.norm("attention_norm", D),
            **weight.dense("cross_q", D, D),
            **weight.dense("cross_kv", D, 2 * D),
            **weight.dense("cross_output", D, D),
            **weight.norm("cross_norm", D),
            **weight.dense("inner", D, F),
            **weight.dense("outer", F, D),
            **weight.norm("norm", D),
        )

    def hidden(
        self,
        targets: tf.Tensor,
        memory: tf.Tensor,
        tokens: tf.Tensor,
        seed: Any = None,
        positions: tf.Tensor | None = None,
        streams: int | None = None,
    ) -> list[tf.Tensor]:
        """The L + 1 tensors [B, 1 + N, S, D] for ``targets`` [B, S], given ``memory`` [B, T, D], the encoding of
        ``tokens`` [B, T]: embeddings, then each layer; first the main stream, then N = ``streams`` predicting ones.

        ``positions`` int32 [B, S] are those of the targets, 0, 1, 2 ... when not given. The decoder's places for
        dropout are numbered from 1000, apart from the encoder's.
        """
        batch, length = shape(targets)
        source, rate, N = shape(tokens)[1], self.encoder.dropout, streams or self.streams
        check_length(length, self.length - 1, "decoder")
        if positions is None:
            positions = tf.range(length)[None]
        every = (1 + N) * length
        absent = padding_bias(tokens)  # [B, 1, 1, T]
        visible = visibility(N, length)  # [1 + N, S, S + 1]
        nearness = distances(positions, self.compute_dtype)  # two of [1 or B, 1, S, S, BUCKETS]
        memory = tf.reshape(memory, [-1, self.width])  # [B * T, D]
        x = tf.reshape(self._inputs(targets, positions, N), [-1, self.width])  # [B * (1 + N) * S, D]
        x = layer_norm(x, self.embedding_norm_scale, self.embedding_norm_bias, EPSILON)
        layers = [dropout(x, rate, seed, 1000)]

        def layer(x: tf.Tensor, w: SimpleNamespace, memory: tf.Tensor, salt: int) -> tf.Tensor:
            qkv = split_heads(dense(x, w.qkv_kernel, w.qkv_bias), batch, every, self.heads, 3)
            q, k, v = (tf.reshape(part, [batch, self.heads, 1 + N, length, part.shape[-1]]) for part in qkv)
            near = tf.reshape(
                dense(x, w.distances_kernel, w.distances_bias), [batch, 1 + N, length, BUCKETS, self.heads]
            )
            h = stream_attention(q * q.shape[-1] ** -0.5, k, v, near, nearness, visible, rate, seed, salt)
            h = dropout(dense(h, w.output_kernel, w.output_bias), rate, seed, salt + 1)  # [B * (1 + N) * S, D]
            x = layer_norm(x + h, w.attention_norm_scale, w.attention_norm_bias, EPSILON)
            (q,) = split_heads(dense(x, w.cross_q_kernel, w.cross_q_bias), batch, every, self.heads)
            h = dense(memory, w.cross_kv_kernel, w.cross_kv_bias)  # [B * T, 2 D]
            k, v = split_heads(h, batch, source, self.heads, 2)  # [B, H, T, K]
            h = attention(q * q.shape[-1] ** -0.5, k, v, absent, rate, seed, salt + 2)
            h = dropout(dense(h, w.cross_output_kernel, w.cross_output_bias), rate, seed, salt + 3)
            x = layer_norm(x + h, w.cross_norm_scale, w.cross_norm_bias, EPSILON)
            h = gelu(dense(x, w.inner_kernel, w.inner_bias))  # [B * (1 + N) * S, F]
            h = dropout(dense(h, w.outer_kernel, w.outer_bias), rate, seed, salt + 4)
            return layer_norm(x + h, w.norm_scale, w.norm_bias, EPSILON)

        for index, weights in enumerate(self.blocks):
            layers.append(block(partial(layer, salt=1000 + 10 * (index + 1)), layers[-1], weights, memory))
        return [tf.reshape(x, [batch, 1 + N, length, self.width]) for x in layers]

    def begin(self, memory: tf.Tensor, tokens: tf.Tensor) -> tuple[Any, Any]:
        """What `step` needs of ``memory`` [B, T, D], the encoding of ``tokens`` [B, T]: each layer's keys and values of
        it; and a past without any (see `models.pretrainable.Writer`)."""
        batch, source = shape(tokens)
        flat = tf.reshape(memory, [-1, self.width])  # [B * T, D]
        cross = [
            split_heads(dense(flat, w.cross_kv_kernel, w.cross_kv_bias), batch, source, self.heads, 2)
            for w in self.blocks
        ]
        none = tf.zeros([batch, self.heads, 0, self.width // self.heads], flat.dtype)
        return (padding_bias(tokens), cross), [(none, none) for _ in self.blocks]

    def step(self, memory: Any, past: Any, written: tf.Tensor, seen: tf.Tensor) -> tuple[tf.Tensor, Any]:
        """Logits [B, K, V] after ``written`` [B, K, S], and ``past`` grown by this step's keys and values (see
        `models.pretrainable.Writer`): those of the main stream, the only ones that anything later looks at."""
        (absent, cross), (batch, beam, length), kept = memory, shape(written), []
        check_length(length, self.length - 1, "decoder")
        places = tf.zeros([1, 1], tf.int32) + length - 1  # all hypotheses stand at the same one
        x = self._inputs(tf.reshape(written[:, :, -1], [-1, 1]), places, 1)  # [B * K, 2, 1, D]
        x = tf.transpose(tf.reshape(x, [batch, beam, 2, self.width]), [0, 2, 1, 3])  # [B, 2, K, D]
        x = tf.reshape(x, [-1, self.width])  # [B * 2 * K, D]
        x = layer_norm(x, self.embedding_norm_scale, self.embedding_norm_bias, EPSILON)
        visible = tf.where(seen, 0.0, HIDDEN)[:, None]  # [B, 1, K, U]
        for w, looked_at, before in zip(self.blocks, cross, past, strict=True):
            qkv = split_heads(dense(x, w.qkv_kernel, w.qkv_bias), batch, 2 * beam, self.heads, 3)
            q, k, v = (tf.reshape(part, [batch, self.heads, 2, beam, part.shape[-1]]) for part in qkv)
            kept.append(tuple(tf.concat([old, new[:, :, 0]], axis=2) for old, new in zip(before, (k, v), strict=True)))
            near = tf.reshape(dense(x, w.distances_kernel, w.distances_bias), [batch, 2, beam, BUCKETS, self.heads])
            h = self._looking_back(q * q.shape[-1] ** -0.5, k, v, near, kept[-1], visible)  # [B * 2 * K, D]
            h = dense(h, w.output_kernel, w.output_bias)
            x = layer_norm(x + h, w.attention_norm_scale, w.attention_norm_bias, EPSILON)
            (q,) = split_heads(dense(x, w.cross_q_kernel, w.cross_q_bias), batch, 2 * beam, self.heads)
            h = attention(q * q.shape[-1] ** -0.5, *looked_at, absent, 0.0, None, 0)
            h = dense(h, w.cross_output_kernel, w.cross_output_bias)
            x = layer_norm(x + h, w.cross_norm_scale, w.cross_norm_bias, EPSILON)
            h = dense(gelu(dense(x, w.inner_kernel, w.inner_bias)), w.outer_kernel, w.outer_bias)
            x = layer_norm(x + h, w.norm_scale, w.norm_bias, EPSILON)
        x = tf.reshape(tf.reshape(x, [batch, 2, beam, self.width])[:, 1], [-1, self.width])  # [B * K, D]
        logits = product(x, self.encoder.token_embedding, transposed=True)
        return tf.reshape(logits, [batch, beam, logits.shape[-1]]), kept

    def _looking_back(
        self, q: tf.Tensor, k: tf.Tensor, v: tf.Tensor, near: tf.Tensor, past: Any, visible: tf.Tensor
    ) -> tf.Tensor:
        """`stream_attention` of both streams of K hypotheses at one place, [B, H, 2, K, ...], over the main stream's
        keys and values of all places, ``past`` [B, H, U, ...]: [B * 2 * K, D]."""
        batch, heads, _, beam, size = shape(q)
        flat, keys = [batch, heads, 2 * beam, size], shape(past[0])[2]
        scores = tf.reshape(
            tf.matmul(tf.reshape(q, flat), past[0], transpose_b=True), [batch, heads, 2, beam, keys]
        )  # [B, H, 2, K, U]
        back = keys // beam - 1 - tf.repeat(tf.range(keys // beam), beam)  # [U]: how far each column lies back
        buckets = tf.constant(distance_buckets(BUCKETS))
        far = [
            tf.gather(near[:, stream], tf.gather(buckets, tf.minimum(back + stream, FARTHEST)), axis=2)
            for stream in (0, 1)
        ]  # two of [B, K, U, H]
        scores += tf.transpose(tf.stack(far, axis=1), [0, 4, 1, 2, 3])
        own = tf.reduce_sum(q * k, axis=-1) + tf.transpose(near[:, :, :, 0], [0, 3, 1, 2])  # [B, H, 2, K]
        itself = tf.constant([HIDDEN, 0.0])[:, None, None]  # the main stream's own key is in the past already
        scores = tf.cast(tf.concat([scores + visible[:, :, None], own[..., None] + itself], axis=-1), tf.float32)
        weights = tf.cast(tf.nn.softmax(scores), v.dtype)  # [B, H, 2, K, U + 1]
        context = tf.matmul(tf.reshape(weights[..., :-1], [batch, heads, 2 * beam, keys]), past[1])
        context += tf.reshape(weights[..., -1:] * v, flat)
        return tf.reshape(tf.transpose(context, [0, 2, 1, 3]), [-1, heads * size])

    def _inputs(self, targets: tf.Tensor, positions: tf.Tensor, streams: int) -> tf.Tensor:
        """What goes in, [B, 1 + N, S, D]. The first stream takes the last vector of the table (authors' code)."""
        batch, length = shape(targets)
        table = self.positions.value
        main = tf.gather(self.encoder.token_embedding.value, targets) + tf.gather(table, positions)  # [B, S, D]
        of_stream = tf.roll(tf.convert_to_tensor(self.stream_vectors), 1, axis=0)[:streams]  # [N, D]
        ahead = tf.gather(table, positions + 1)[:, None] + of_stream[:, None]  # [1 or B, N, S, D]
        ahead = tf.broadcast_to(ahead, [batch, streams, length, self.width])
        return tf.concat([main[:, None], ahead], axis=1)

    def call(
        self,
        targets: tf.Tensor,
        memory: tf.Tensor,
        tokens: tf.Tensor,
        seed: Any = None,
        positions: tf.Tensor | None = None,
        streams: int | None = None,
    ) -> tf.Tensor:
        """Logits [B, N, S, V] of the predicting streams; the arguments are those of `hidden`."""
        x = self.hidden(targets, memory, tokens, seed, positions, streams)[-1][:, 1:]  # [B, N, S, D]
        logits = product(tf.reshape(x, [-1, self.width]), self.encoder.token_embedding, transposed=True)
        return tf.reshape(logits, [*shape(x)[:3], logits.shape[-1]])


def visibility(streams: int, length: Any) -> tf.Tensor:
    """Bias [1 + N, S, S + 1]: hides what a query may not see of the S keys of the main stream and, in the last column,
    of its own key.

    The main stream sees up to itself, predicting stream i up to i tokens before, and always the first token, without
    which it would have nothing to start from. A predicting stream sees its own key, which the main stream has already.
    """
    query, key = tf.range(length)[:, None], tf.range(length)[None, :]
    lag = tf.constant([0, *range(streams)])[:, None, None]
    seen = tf.logical_or(key <= query - lag, tf.equal(key, 0))  # [1 + N, S, S]
    own = tf.repeat(tf.constant([[[HIDDEN]]] + [[[0.0]]] * streams), length, axis=1)  # [1 + N, S, 1]
    return tf.concat([tf.where(seen, 0.0, HIDDEN), own], axis=2)


def distances(positions: tf.Tensor, dtype: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """For the main and for the predicting streams, the bucket of the distance from each key of the main stream to each
    query, one-hot: two of [B, 1, S, S, BUCKETS] from ``positions`` [B, S]. A product with it looks the bucket up, and
    so does its gradient."""
    back = positions[:, :, None] - positions[:, None, :]  # [B, S, S], query minus key
    buckets = tf.constant(distance_buckets(BUCKETS))

    def of(back: tf.Tensor) -> tf.Tensor:
        return tf.one_hot(tf.gather(buckets, tf.clip_by_value(back, 0, FARTHEST)), BUCKETS, dtype=dtype)[:, None]

    return of(back), of(back + 1)


def stream_attention(
    q: tf.Tensor,
    k: tf.Tensor,
    v: tf.Tensor,
    near: tf.Tensor,
    nearness: tuple[tf.Tensor, tf.Tensor],
    visible: tf.Tensor,
    rate: float,
    seed: Any,
    salt: int,
) -> tf.Tensor:
    """Softmax attention of each stream over the main stream and, at its own position, itself: [B * (1 + N) * S, D].

    Queries, keys and values are [B, H, 1 + N, S, K]; ``near`` [B, 1 + N, S, BUCKETS, H] is what each query gives for a
    distance. Of its own 2 S keys a predicting stream sees at most S + 1, and no others are computed.
    """
    batch, heads, streams, length, size = shape(q)
    main = [part[:, :, 0] for part in (k, v)]  # [B, H, S, K]
    flat = [batch, heads, streams * length]
    scores = tf.matmul(tf.reshape(q, [*flat, size]), main[0], transpose_b=True)  # [B, H, (1 + N) * S, S]
    scores = tf.reshape(scores, [batch, heads, streams, length, length])
    far = tf.concat([tf.matmul(nearness[0], near[:, :1]), tf.matmul(nearness[1], near[:, 1:])], axis=1)
    scores += tf.transpose(far, [0, 4, 1, 2, 3])  # [B, 1 + N, S, S, H] to [B, H, 1 + N, S, S]
    own = tf.reduce_sum(q * k, axis=-1) + tf.transpose(near[:, :, :, 0], [0, 3, 1, 2])  # [B, H, 1 + N, S]
    scores = tf.cast(tf.concat([scores, own[..., None]], axis=-1), tf.float32) + visible  # [B, H, 1 + N, S, S + 1]
    weights = dropout(tf.cast(tf.nn.softmax(scores), v.dtype), rate, seed, salt)
    context = tf.matmul(tf.reshape(weights[..., :-1], [*flat, length]), main[1])  # [B, H, (1 + N) * S, K]
    context += tf.reshape(weights[..., -1:] * v, [*flat, size])
    return tf.reshape(tf.transpose(context, [0, 2, 1, 3]), [-1, heads * size])
