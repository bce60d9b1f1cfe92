"""A Transformer that looks into a second memory in every layer: BERT-fused NMT.

Source: Zhu et al. (2020), section 4. Somebody else's vectors M [B, T, W] of the source, those of a pre-trained encoder,
stand beside what the network itself makes of it. With attn_S, attn_M and attn_E as attentions with weights of their
own, over the layer's own input, over M, and, in the decoder, over the network's encoder:

    encoder    x' = x + 1/2 (attn_S(x, x) + attn_M(x, M))                  equation 1
    decoder    y' = y + attn_S(y, y before it)
               y'' = y' + 1/2 (attn_E(y', x) + attn_M(y', M))              equation 2

and a feed-forward layer after each. While learning, a layer takes attn_M alone, or the other one alone, each with
probability p / 2, and the mean else (drop-net, equation 3): both have to be of use without the other.

All else is BART's (`models.architectures.encoder_decoders.bart`): layer-norm after each sum, GELU, learned positions.
"""

from functools import partial
from types import SimpleNamespace
from typing import Any

import keras
import tensorflow as tf

from ptmbench.models.card import Size
from ptmbench.models.layers.config import NORMAL
from ptmbench.models.layers.core import initializer, sinusoids
from ptmbench.models.layers.embeddings import padding_bias
from ptmbench.models.layers.operations import (
    HIDDEN,
    Weights,
    attention,
    block,
    check_length,
    dense,
    dropout,
    fold,
    gelu,
    layer_norm,
    shape,
    split_heads,
)
from ptmbench.models.layers.products import product

EPSILON = 1e-5


def embed(layer: keras.layers.Layer, tokens: tf.Tensor, positions: tf.Tensor, seed: Any, salt: int) -> tf.Tensor:
    """Token vectors [B, T, D] and position vectors [T, D] or [B, T, D], summed and normalised: [B * T, D]."""
    x = tf.reshape(tf.gather(layer.token_embedding.value, tokens) + positions, [-1, layer.width])
    x = layer_norm(x, layer.embedding_norm_scale, layer.embedding_norm_bias, EPSILON)
    return dropout(x, layer.dropout, seed, salt)


def mixed(own: tf.Tensor, other: tf.Tensor, fused: Any, drop_net: float, seed: Any, salt: int) -> tf.Tensor:
    """Half of ``own`` and half of ``other`` [N, D]; with a ``seed``, one of them alone with probability ``drop_net``,
    drawn once for all rows. ``fused`` is 1, or 0 where ``other`` does not count at all."""
    share = tf.constant(0.5)
    if seed is not None and drop_net:
        draw = tf.random.stateless_uniform([], fold(seed, salt))
        share = tf.where(draw < drop_net / 2, 0.0, tf.where(draw > 1 - drop_net / 2, 1.0, share))
    share = tf.cast(share * fused, own.dtype)
    return (1 - share) * own + share * other


def look(
    q: tf.Tensor,
    k: tf.Tensor,
    v: tf.Tensor,
    bias: tf.Tensor,
    output: tuple[Any, Any],
    rate: float,
    seed: Any,
    salt: int,
) -> tf.Tensor:
    """An attention and its ``output`` layer, kernel and bias: queries [B, H, S, K], keys and values [B, H, T, K] to
    [B * S, D]. Takes two places for dropout from ``salt`` on."""
    h = attention(q * q.shape[-1] ** -0.5, k, v, bias, rate, seed, salt)  # [B * S, D]
    return dropout(dense(h, *output), rate, seed, salt + 1)


def feed(x: tf.Tensor, w: SimpleNamespace, rate: float, seed: Any, salt: int) -> tf.Tensor:
    """The feed-forward layer over x [N, D], with its sum and layer-norm."""
    h = gelu(dense(x, w.inner_kernel, w.inner_bias))  # [N, F]
    h = dropout(dense(h, w.outer_kernel, w.outer_bias), rate, seed, salt)
    return layer_norm(x + h, w.norm_scale, w.norm_bias, EPSILON)


class Encoder(keras.layers.Layer):
    """``tokens`` [B, T] and the memory M [B, T, W] of them to vectors [B, T, D].

    ``fused`` is a number that does not learn: 0 leaves the memory out, here and in the decoder, 1 lets it in.
    ``dropout`` is read when a graph is traced.
    """

    def __init__(self, size: Size, vocabulary: int, memory: int, drop_net: float, name: str = "fused_encoder"):
        super().__init__(name=name)
        self.width, self.length, self.heads = size.width, size.length, size.heads
        self.memory, self.drop_net, self.dropout = memory, drop_net, 0.1
        D, F, weight = size.width, size.inner, Weights(self, "")
        self.token_embedding = weight("tokens", vocabulary, D, start=initializer(NORMAL))
        self.positions = weight("positions", size.length, D, start=sinusoids)
        self.embedding_norm_scale, self.embedding_norm_bias = weight.norm("embedding_norm", D).values()
        self.blocks = [self._block(Weights(self, f"layer_{index}_"), D, F) for index in range(size.layers)]
        self.fused = self.add_weight((), "ones", trainable=False, name="fused")
        self.built = True

    def _block(self, weight: Weights, D: int, F: int) -> SimpleNamespace:
        return SimpleNamespace(
            **weight.dense("qkv", D, 3 * D),
            **weight.dense("output", D, D),
            **weight.dense("memory_q", D, D),
            **weight.dense("memory_kv", self.memory, 2 * D),
            **weight.dense("memory_output", D, D),
            **weight.norm("attention_norm", D),
            **weight.dense("inner", D, F),
            **weight.dense("outer", F, D),
            **weight.norm("norm", D),
        )

    def call(self, tokens: tf.Tensor, memory: tf.Tensor, seed: Any = None) -> tf.Tensor:
        rows, rate = shape(tokens), self.dropout
        check_length(rows[1], self.length, "encoder")
        hidden = padding_bias(tokens)  # [B, 1, 1, T]
        memory = tf.reshape(memory, [-1, self.memory])  # [B * T, W]
        x = embed(self, tokens, self.positions[: rows[1]], seed, 0)  # [B * T, D]

        def layer(x: tf.Tensor, w: SimpleNamespace, memory: tf.Tensor, salt: int) -> tf.Tensor:
            q, k, v = split_heads(dense(x, w.qkv_kernel, w.qkv_bias), *rows, self.heads, 3)  # [B, H, T, K]
            own = look(q, k, v, hidden, (w.output_kernel, w.output_bias), rate, seed, salt)  # [B * T, D]
            (q,) = split_heads(dense(x, w.memory_q_kernel, w.memory_q_bias), *rows, self.heads)
            k, v = split_heads(dense(memory, w.memory_kv_kernel, w.memory_kv_bias), *rows, self.heads, 2)
            other = look(q, k, v, hidden, (w.memory_output_kernel, w.memory_output_bias), rate, seed, salt + 2)
            h = mixed(own, other, self.fused, self.drop_net, seed, salt + 4)
            x = layer_norm(x + h, w.attention_norm_scale, w.attention_norm_bias, EPSILON)
            return feed(x, w, rate, seed, salt + 5)

        for index, weights in enumerate(self.blocks):
            x = block(partial(layer, salt=10 * (index + 1)), x, weights, memory)
        return tf.reshape(x, [*rows, self.width])


class Decoder(keras.layers.Layer):
    """Next-token logits over what ``encoder`` gives and over its memory; token vectors, dropout and drop-net are the
    encoder's too. Places for dropout are numbered from 1000, apart from the encoder's."""

    def __init__(self, size: Size, encoder: Encoder, name: str = "fused_decoder"):
        super().__init__(name=name)
        self.encoder, self.width, self.length, self.heads = encoder, size.width, size.length, size.heads
        D, F, weight = size.width, size.inner, Weights(self, "")
        self.positions = weight("positions", size.length, D, start=sinusoids)
        self.embedding_norm_scale, self.embedding_norm_bias = weight.norm("embedding_norm", D).values()
        self.blocks = [self._block(Weights(self, f"layer_{index}_"), D, F) for index in range(size.layers)]
        self.built = True

    def _block(self, weight: Weights, D: int, F: int) -> SimpleNamespace:
        return SimpleNamespace(
            **weight.dense("qkv", D, 3 * D),
            **weight.dense("output", D, D),
            **weight.norm("attention_norm", D),
            **weight.dense("cross_q", D, D),
            **weight.dense("cross_kv", D, 2 * D),
            **weight.dense("cross_output", D, D),
            **weight.dense("memory_q", D, D),
            **weight.dense("memory_kv", self.encoder.memory, 2 * D),
            **weight.dense("memory_output", D, D),
            **weight.norm("cross_norm", D),
            **weight.dense("inner", D, F),
            **weight.dense("outer", F, D),
            **weight.norm("norm", D),
        )

    @property
    def dropout(self) -> float:
        return self.encoder.dropout

    @property
    def token_embedding(self) -> keras.Variable:
        return self.encoder.token_embedding

    def call(
        self, targets: tf.Tensor, encoded: tf.Tensor, memory: tf.Tensor, tokens: tf.Tensor, seed: Any = None
    ) -> tf.Tensor:
        """Logits [B, S, V] after each of ``targets`` [B, S], given ``encoded`` [B, T, D] and ``memory`` [B, T, W] of
        ``tokens`` [B, T]."""
        rows, source = shape(targets), shape(tokens)[1]
        length = rows[1]
        check_length(length, self.length, "decoder")
        future = tf.linalg.band_part(tf.fill([length, length], -HIDDEN), -1, 0)[None, None] + HIDDEN  # [1, 1, S, S]
        absent = padding_bias(tokens)  # [B, 1, 1, T]
        encoded, memory = tf.reshape(encoded, [-1, self.width]), tf.reshape(memory, [-1, self.encoder.memory])
        x = embed(self, targets, self.positions[:length], seed, 1000)  # [B * S, D]

        def layer(x: tf.Tensor, w: SimpleNamespace, encoded: tf.Tensor, memory: tf.Tensor, salt: int) -> tf.Tensor:
            read = self._read(encoded, memory, w, (rows[0], source))
            return self._layer(x, w, read, None, future, absent, tuple(rows), seed, salt)[0]

        for index, weights in enumerate(self.blocks):
            x = block(partial(layer, salt=1000 + 10 * (index + 1)), x, weights, encoded, memory)
        logits = product(x, self.token_embedding, transposed=True)
        return tf.reshape(logits, [*rows, logits.shape[-1]])

    def _read(self, encoded: tf.Tensor, memory: tf.Tensor, w: SimpleNamespace, rows: tuple) -> tuple:
        """Keys and values [B, H, T, K] of ``encoded`` [B * T, D], then those of ``memory`` [B * T, W]."""
        return (
            split_heads(dense(encoded, w.cross_kv_kernel, w.cross_kv_bias), *rows, self.heads, 2),
            split_heads(dense(memory, w.memory_kv_kernel, w.memory_kv_bias), *rows, self.heads, 2),
        )

    def _layer(
        self,
        x: tf.Tensor,
        w: SimpleNamespace,
        read: tuple,
        past: Any,
        bias: tf.Tensor,
        absent: tf.Tensor,
        rows: tuple,
        seed: Any,
        salt: int,
    ) -> tuple[tf.Tensor, tuple]:
        """A layer for x [B * S, D] of (B, S) = ``rows`` over what it has ``read``, and the keys and values of what is
        written that it looked at: those of the ``past``, if any, and its own. ``bias`` hides some of them, ``absent``
        some of the source's."""
        rate, (encoded, memory) = self.dropout, read
        q, k, v = split_heads(dense(x, w.qkv_kernel, w.qkv_bias), *rows, self.heads, 3)  # [B, H, S, K]
        if past is not None:
            k, v = tf.concat([past[0], k], axis=2), tf.concat([past[1], v], axis=2)  # [B, H, U, K]
        h = look(q, k, v, bias, (w.output_kernel, w.output_bias), rate, seed, salt)  # [B * S, D]
        x = layer_norm(x + h, w.attention_norm_scale, w.attention_norm_bias, EPSILON)
        (q,) = split_heads(dense(x, w.memory_q_kernel, w.memory_q_bias), *rows, self.heads)
        other = look(q, *memory, absent, (w.memory_output_kernel, w.memory_output_bias), rate, seed, salt + 2)
        (q,) = split_heads(dense(x, w.cross_q_kernel, w.cross_q_bias), *rows, self.heads)
        own = look(q, *encoded, absent, (w.cross_output_kernel, w.cross_output_bias), rate, seed, salt + 4)
        h = mixed(own, other, self.encoder.fused, self.encoder.drop_net, seed, salt + 6)
        x = layer_norm(x + h, w.cross_norm_scale, w.cross_norm_bias, EPSILON)
        return feed(x, w, rate, seed, salt + 7), (k, v)

    def begin(self, encoded: tf.Tensor, memory: tf.Tensor, tokens: tf.Tensor) -> tuple[Any, Any]:
        """What `step` needs of ``encoded`` [B, T, D] and ``memory`` [B, T, W] of ``tokens`` [B, T]: each layer's keys
        and values of both; and a past without any (see `models.pretrainable.Writer`)."""
        rows = shape(tokens)
        flat = tf.reshape(encoded, [-1, self.width]), tf.reshape(memory, [-1, self.encoder.memory])
        none = tf.zeros([rows[0], self.heads, 0, self.width // self.heads], encoded.dtype)
        return (padding_bias(tokens), [self._read(*flat, w, tuple(rows)) for w in self.blocks]), [
            (none, none) for _ in self.blocks
        ]

    def step(self, memory: Any, past: Any, written: tf.Tensor, seen: tf.Tensor) -> tuple[tf.Tensor, Any]:
        """Logits [B, K, V] after ``written`` [B, K, S], and ``past`` grown by this step's keys and values (see
        `models.pretrainable.Writer`)."""
        (absent, read), (*rows, length) = memory, shape(written)
        check_length(length, self.length, "decoder")
        bias, kept = tf.where(seen, 0.0, HIDDEN)[:, None], []  # [B, 1, K, U]
        x = embed(self, written[:, :, -1], self.positions[length - 1], None, 1000)  # [B * K, D]
        for w, looked_at, before in zip(self.blocks, read, past, strict=True):
            x, grown = self._layer(x, w, looked_at, before, bias, absent, tuple(rows), None, 1000)
            kept.append(grown)
        logits = product(x, self.token_embedding, transposed=True)
        return tf.reshape(logits, [*rows, logits.shape[-1]]), kept
