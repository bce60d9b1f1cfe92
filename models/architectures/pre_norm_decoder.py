"""The left-to-right Transformer decoder of GPT-2: what GPT's is, with each norm moved in front of its part.

Source: Radford et al. (2019), section 2.3: layer-norm at the input of each part and one more after the last layer, so
that a stream runs from the embeddings to the end and is only added to; the kernels that write into it begin smaller
by the root of their number, 2 L. GELU in the tanh form and no segments, as in GPT. The learned positions begin as
`transformer_encoder.sinusoids`. Its nearest relative here is `transformer_decoder`.
"""

from functools import partial
from types import SimpleNamespace
from typing import Any

import keras
import tensorflow as tf

from models.architectures.parts import (
    HIDDEN,
    attention,
    block,
    check_length,
    dense,
    dropout,
    layer_norm,
    shape,
    split_heads,
)
from models.architectures.transformer_encoder import sinusoids
from models.card import Size
from models.pretrainable import Encoding

EPSILON = 1e-5


def initializer(writers: int = 1) -> keras.initializers.Initializer:
    """Normal with standard deviation 0.02, over the root of the number of kernels that are added up in one stream; a
    fresh one per weight, so that no two weights are equal."""
    return keras.initializers.RandomNormal(stddev=0.02 * writers**-0.5)


class PreNormDecoder(keras.layers.Layer):
    """Batch to `Encoding`; the pooled vector is that of the last token, the only one that has seen the whole text.

    ``dropout`` is read when a graph is traced.
    """

    causal = True
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
        self.positions = self.add_weight((size.length, size.width), sinusoids, name="positions")
        self.blocks = [self._block(f"layer_{index}", size.width, size.inner) for index in range(size.layers)]
        self.norm_scale = self.add_weight((size.width,), "ones", name="norm_scale")
        self.norm_bias = self.add_weight((size.width,), "zeros", name="norm_bias")
        self.built = True

    def _block(self, name: str, width: int, inner: int) -> SimpleNamespace:
        def weight(part: str, *dims: int, start: Any = "zeros") -> keras.Variable:
            return self.add_weight(dims, start, name=f"{name}_{part}")

        return SimpleNamespace(
            attention_norm_scale=weight("attention_norm_scale", width, start="ones"),
            attention_norm_bias=weight("attention_norm_bias", width),
            qkv_kernel=weight("qkv_kernel", width, 3 * width, start=initializer()),
            qkv_bias=weight("qkv_bias", 3 * width),
            output_kernel=weight("output_kernel", width, width, start=initializer(2 * self.depth)),
            output_bias=weight("output_bias", width),
            norm_scale=weight("norm_scale", width, start="ones"),
            norm_bias=weight("norm_bias", width),
            inner_kernel=weight("inner_kernel", width, inner, start=initializer()),
            inner_bias=weight("inner_bias", inner),
            outer_kernel=weight("outer_kernel", inner, width, start=initializer(2 * self.depth)),
            outer_bias=weight("outer_bias", width),
        )

    def hidden(
        self, tokens: tf.Tensor, seed: Any = None, gaps: bool = False, documents: tf.Tensor | None = None
    ) -> list[tf.Tensor]:
        """The L + 1 tensors [B * T, D] for tokens [B, T]: embeddings, then each layer, the last one normalised.

        Padding at the right end needs no mask, since nothing before it looks there. With ``gaps`` there may be
        padding between tokens: it is masked and takes up no position. A token sees only those of its own number in
        ``documents`` [B, T].
        """
        batch, length = shape(tokens)
        check_length(length, self.length, "decoder")
        bias = tf.linalg.band_part(tf.fill([length, length], -HIDDEN), -1, 0)[None, None] + HIDDEN  # [1, 1, T, T]
        if gaps:
            present = tf.not_equal(tokens, 0)
            positions = tf.maximum(tf.cumsum(tf.cast(present, tf.int32), axis=1) - 1, 0)  # [B, T]
            position_vectors = tf.gather(self.positions.value, positions)  # [B, T, D]
            bias = tf.minimum(bias, tf.where(present, 0.0, HIDDEN)[:, None, None, :])  # [B, 1, T, T]
        else:
            position_vectors = self.positions[:length]  # [T, D]
        if documents is not None:
            together = tf.equal(documents[:, :, None], documents[:, None, :])[:, None]  # [B, 1, T, T]
            bias = tf.minimum(bias, tf.where(together, 0.0, HIDDEN))
        x = tf.gather(self.token_embedding.value, tokens) + position_vectors  # [B, T, D]
        x = dropout(tf.reshape(x, [-1, self.width]), self.dropout, seed, 0)  # [B * T, D]
        layers = [x]

        def layer(x: tf.Tensor, weights: SimpleNamespace, salt: int) -> tf.Tensor:
            return self._layer(x, weights, None, bias, (batch, length), seed, salt)[0]

        for index, weights in enumerate(self.blocks):
            layers.append(block(partial(layer, salt=10 * (index + 1)), layers[-1], weights))
        layers[-1] = layer_norm(layers[-1], self.norm_scale, self.norm_bias, EPSILON)
        return layers

    def _layer(
        self, x: tf.Tensor, weights: SimpleNamespace, past: Any, bias: tf.Tensor, rows: tuple, seed: Any, salt: int
    ) -> tuple[tf.Tensor, tuple]:
        """A layer for x [B * T, D] of (B, T) = ``rows``, and the keys and values that it looked at: those of the
        ``past``, if any, and its own. ``bias`` hides some of them."""
        h = layer_norm(x, weights.attention_norm_scale, weights.attention_norm_bias, EPSILON)
        q, k, v = split_heads(dense(h, weights.qkv_kernel, weights.qkv_bias), *rows, self.heads, 3)  # [B, H, T, K]
        if past is not None:
            k, v = tf.concat([past[0], k], axis=2), tf.concat([past[1], v], axis=2)  # [B, H, U, K]
        context = attention(q * q.shape[-1] ** -0.5, k, v, bias, self.dropout, seed, salt)  # [B * T, D]
        x += dropout(dense(context, weights.output_kernel, weights.output_bias), self.dropout, seed, salt + 1)
        h = layer_norm(x, weights.norm_scale, weights.norm_bias, EPSILON)
        h = tf.nn.gelu(dense(h, weights.inner_kernel, weights.inner_bias), approximate=True)  # [B * T, F]
        return x + dropout(dense(h, weights.outer_kernel, weights.outer_bias), self.dropout, seed, salt + 2), (k, v)

    def begin(self, tokens: tf.Tensor) -> tuple[Any, Any]:
        """What `step` needs of ``tokens`` [B, T], and each layer's keys and values of them as the past (see
        `models.pretrainable.Writer`)."""
        batch, length = shape(tokens)
        check_length(length, self.length, "decoder")
        bias = tf.linalg.band_part(tf.fill([length, length], -HIDDEN), -1, 0)[None, None] + HIDDEN  # [1, 1, T, T]
        x = tf.gather(self.token_embedding.value, tokens)  # [B, T, D]
        x, past = tf.reshape(x + self.positions[:length], [-1, self.width]), []  # [B * T, D]
        for weights in self.blocks:
            x, kept = self._layer(x, weights, None, bias, (batch, length), None, 0)
            past.append(kept)
        present = tf.not_equal(tokens, 0)  # [B, T]
        count = tf.reduce_sum(tf.cast(present, tf.int32), axis=1)  # [B]
        return (count, tf.where(present, 0.0, HIDDEN)[:, None, None]), past

    def step(self, memory: Any, past: Any, written: tf.Tensor, seen: tf.Tensor) -> tuple[tf.Tensor, Any]:
        """Vectors [B * K, D] after ``written`` [B, K, S], and ``past`` grown by this step's keys and values (see
        `models.pretrainable.Writer`)."""
        (count, absent), (batch, beam, length) = memory, shape(written)
        place = count + length - 1  # [B]
        check_length(tf.reduce_max(place) + 1, self.length, "decoder")
        absent = tf.repeat(absent, beam, axis=2)  # [B, 1, K, T]
        bias, kept = tf.concat([absent, tf.where(seen, 0.0, HIDDEN)[:, None]], axis=3), []  # [B, 1, K, T + U]
        x = tf.gather(self.token_embedding.value, written[:, :, -1])  # [B, K, D]
        x = tf.reshape(x + tf.gather(self.positions.value, place)[:, None], [-1, self.width])  # [B * K, D]
        for weights, before in zip(self.blocks, past, strict=True):
            x, grown = self._layer(x, weights, before, bias, (batch, beam), None, 0)
            kept.append(grown)
        return layer_norm(x, self.norm_scale, self.norm_bias, EPSILON), kept

    def call(self, batch: dict[str, Any], seed: Any = None) -> Encoding:
        tokens = batch["tokens"]
        batch_size, length = shape(tokens)
        flat = self.hidden(tokens, seed)
        count = tf.reduce_sum(tf.cast(tf.not_equal(tokens, 0), tf.int32), axis=1)  # [B]
        last = tf.range(batch_size) * length + tf.maximum(count - 1, 0)
        layers = tuple(tf.reshape(x, [batch_size, length, self.width]) for x in flat)
        return Encoding(tokens=layers[-1], pooled=tf.gather(flat[-1], last), layers=layers)
