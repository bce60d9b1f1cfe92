"""The encoder-decoder Transformer of PEGASUS: layer-norm before each part, sinusoidal positions, ReLU.

Source: Zhang, Zhao et al. (2020), section 6.2 and figure 1; Vaswani et al. (2017), section 3. As in the authors' code,
each layer adds to a stream that is only normalised on the way into a part and at the end, token vectors are scaled by
the root of the width, and positions are fixed: all sines, then all cosines. One table of token vectors serves both
inputs and the output layer, which has no bias.
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
from models.architectures.products import product
from models.card import Size
from models.pretrainable import Encoding

EPSILON = 1e-5


def sinusoids(length: Any, width: int) -> tf.Tensor:
    """Fixed vectors [T, D] of the positions 0 ... T - 1: D / 2 sines, then D / 2 cosines."""
    rates = 10_000.0 ** (-tf.range(0, width, 2, dtype=tf.float32) / width)  # [D / 2]
    angles = tf.cast(tf.range(length), tf.float32)[:, None] * rates  # [T, D / 2]
    return tf.concat([tf.sin(angles), tf.cos(angles)], axis=1)


def embed(table: Any, tokens: tf.Tensor, rate: float, seed: Any, salt: int) -> tf.Tensor:
    """Token vectors of ``tokens`` [B, T], scaled, plus positions: [B * T, D]."""
    x, width = tf.gather(table.value, tokens), table.shape[1]  # [B, T, D]
    x = x * width**0.5 + tf.cast(sinusoids(shape(tokens)[1], width), x.dtype)
    return dropout(tf.reshape(x, [-1, width]), rate, seed, salt)


def padding_bias(tokens: tf.Tensor) -> tf.Tensor:
    """[B, 1, 1, T]: hides the keys that are padding."""
    return tf.where(tf.equal(tokens, 0), HIDDEN, 0.0)[:, None, None, :]


class Stack(keras.layers.Layer):
    """What encoder and decoder share: how their weights start."""

    def _dense(self, name: str, rows: int, columns: int) -> dict[str, keras.Variable]:
        """Kernel and bias of a dense layer; normal with the root of its fan-in, which a normalised stream bears."""
        start = keras.initializers.RandomNormal(stddev=rows**-0.5)
        kernel = self.add_weight((rows, columns), start, name=f"{name}_kernel")
        return {"kernel": kernel, "bias": self.add_weight((columns,), "zeros", name=f"{name}_bias")}

    def _norm(self, name: str, width: int) -> dict[str, keras.Variable]:
        """Scale and bias of a layer-norm."""
        scale = self.add_weight((width,), "ones", name=f"{name}_scale")
        return {"scale": scale, "bias": self.add_weight((width,), "zeros", name=f"{name}_bias")}

    def _block(self, index: int, D: int, F: int, cross: bool) -> SimpleNamespace:
        """The weights of layer ``index``, with ``cross`` those of attention to the encoder as well."""
        place, found = f"layer_{index}", {}
        shapes = {"qkv": (D, 3 * D), "output": (D, D), "inner": (D, F), "outer": (F, D)}
        norms = ["attention_norm", "norm"]
        if cross:
            shapes |= {"cross_q": (D, D), "cross_kv": (D, 2 * D), "cross_output": (D, D)}
            norms.append("cross_norm")
        for part in norms:
            found |= {f"{part}_{key}": value for key, value in self._norm(f"{place}_{part}", D).items()}
        for part, dims in shapes.items():
            found |= {f"{part}_{key}": value for key, value in self._dense(f"{place}_{part}", *dims).items()}
        return SimpleNamespace(**found)


class Encoder(Stack):
    """Batch to `Encoding`; the pooled vector is the mean over tokens. ``dropout`` is read when a graph is traced.

    Positions are computed, so ``length`` bounds only what is meant to be used.
    """

    causal = False
    recurrent = False

    def __init__(self, size: Size, vocabulary: int, name: str = "encoder"):
        super().__init__(name=name)
        self.width, self.depth, self.length = size.width, size.layers, size.length
        self.heads, self.dropout = size.heads, 0.1
        D, F = size.width, size.inner
        start = keras.initializers.RandomNormal(stddev=D**-0.5)
        self.token_embedding = self.add_weight((vocabulary, D), start, name="tokens")
        self.blocks = [self._block(index, D, F, cross=False) for index in range(size.layers)]
        self.norm_scale, self.norm_bias = self._norm("norm", D).values()
        self.built = True

    def call(self, batch: dict[str, Any], seed: Any = None) -> Encoding:
        tokens = batch["tokens"]
        batch_size, length = shape(tokens)
        check_length(length, self.length, "encoder")
        rate, hidden = self.dropout, padding_bias(tokens)  # [B, 1, 1, T]
        layers = [embed(self.token_embedding, tokens, rate, seed, 0)]  # [B * T, D]

        def layer(x: tf.Tensor, w: SimpleNamespace, salt: int) -> tf.Tensor:
            h = layer_norm(x, w.attention_norm_scale, w.attention_norm_bias, EPSILON)
            q, k, v = split_heads(dense(h, w.qkv_kernel, w.qkv_bias), batch_size, length, self.heads, 3)  # [B, H, T, K]
            h = attention(q * q.shape[-1] ** -0.5, k, v, hidden, rate, seed, salt)  # [B * T, D]
            x += dropout(dense(h, w.output_kernel, w.output_bias), rate, seed, salt + 1)
            h = layer_norm(x, w.norm_scale, w.norm_bias, EPSILON)
            h = tf.nn.relu(dense(h, w.inner_kernel, w.inner_bias))  # [B * T, F]
            return x + dropout(dense(h, w.outer_kernel, w.outer_bias), rate, seed, salt + 2)

        for index, weights in enumerate(self.blocks):
            layers.append(block(partial(layer, salt=10 * (index + 1)), layers[-1], weights))
        layers[-1] = layer_norm(layers[-1], self.norm_scale, self.norm_bias, EPSILON)
        layers = tuple(tf.reshape(x, [batch_size, length, self.width]) for x in layers)
        present = tf.cast(tf.not_equal(tokens, 0), layers[-1].dtype)[:, :, None]  # [B, T, 1]
        pooled = tf.reduce_sum(layers[-1] * present, 1) / tf.maximum(tf.reduce_sum(present, 1), 1.0)  # [B, D]
        return Encoding(tokens=layers[-1], pooled=pooled, layers=layers)


class Decoder(Stack):
    """Next-token logits over what ``encoder`` gives; its token embedding serves as input and as output layer here
    too."""

    def __init__(self, size: Size, encoder: Encoder, name: str = "decoder"):
        super().__init__(name=name)
        self.encoder, self.width, self.heads = encoder, size.width, size.heads
        self.blocks = [self._block(index, size.width, size.inner, cross=True) for index in range(size.layers)]
        self.norm_scale, self.norm_bias = self._norm("norm", size.width).values()
        self.built = True

    def hidden(self, targets: tf.Tensor, memory: tf.Tensor, tokens: tf.Tensor, seed: Any = None) -> list[tf.Tensor]:
        """The L + 1 tensors [B * S, D] for ``targets`` [B, S], given ``memory`` [B, T, D], the encoding of ``tokens``
        [B, T]: embeddings, then each layer, the last one normalised.

        The decoder's places for dropout are numbered from 1000, apart from the encoder's.
        """
        batch, length = shape(targets)
        source, rate = shape(tokens)[1], self.encoder.dropout
        future = tf.linalg.band_part(tf.fill([length, length], -HIDDEN), -1, 0)[None, None] + HIDDEN  # [1, 1, S, S]
        absent = padding_bias(tokens)  # [B, 1, 1, T]
        memory = tf.reshape(memory, [-1, self.width])  # [B * T, D]
        layers = [embed(self.encoder.token_embedding, targets, rate, seed, 1000)]  # [B * S, D]

        def layer(x: tf.Tensor, w: SimpleNamespace, memory: tf.Tensor, salt: int) -> tf.Tensor:
            cross = self._cross(memory, w, batch, source)
            return self._layer(x, w, cross, None, future, absent, (batch, length), seed, salt)[0]

        for index, weights in enumerate(self.blocks):
            layers.append(block(partial(layer, salt=1000 + 10 * (index + 1)), layers[-1], weights, memory))
        layers[-1] = layer_norm(layers[-1], self.norm_scale, self.norm_bias, EPSILON)
        return layers

    def _cross(self, memory: tf.Tensor, w: SimpleNamespace, batch: Any, source: Any) -> list[tf.Tensor]:
        """Keys and values [B, H, T, K] of memory [B * T, D]."""
        return split_heads(dense(memory, w.cross_kv_kernel, w.cross_kv_bias), batch, source, self.heads, 2)

    def _layer(
        self,
        x: tf.Tensor,
        w: SimpleNamespace,
        cross: list[tf.Tensor],
        past: Any,
        bias: tf.Tensor,
        absent: tf.Tensor,
        rows: tuple,
        seed: Any,
        salt: int,
    ) -> tuple[tf.Tensor, tuple]:
        """A layer for x [B * S, D] of (B, S) = ``rows``, and the keys and values that it looked at: those of the
        ``past``, if any, and its own. ``bias`` hides some of them, ``absent`` some of the memory's, ``cross``."""
        rate = self.encoder.dropout
        h = layer_norm(x, w.attention_norm_scale, w.attention_norm_bias, EPSILON)
        q, k, v = split_heads(dense(h, w.qkv_kernel, w.qkv_bias), *rows, self.heads, 3)  # [B, H, S, K]
        if past is not None:
            k, v = tf.concat([past[0], k], axis=2), tf.concat([past[1], v], axis=2)  # [B, H, U, K]
        h = attention(q * q.shape[-1] ** -0.5, k, v, bias, rate, seed, salt)  # [B * S, D]
        x += dropout(dense(h, w.output_kernel, w.output_bias), rate, seed, salt + 1)
        h = layer_norm(x, w.cross_norm_scale, w.cross_norm_bias, EPSILON)
        (q,) = split_heads(dense(h, w.cross_q_kernel, w.cross_q_bias), *rows, self.heads)  # [B, H, S, K]
        h = attention(q * q.shape[-1] ** -0.5, *cross, absent, rate, seed, salt + 2)  # [B * S, D]
        x += dropout(dense(h, w.cross_output_kernel, w.cross_output_bias), rate, seed, salt + 3)
        h = layer_norm(x, w.norm_scale, w.norm_bias, EPSILON)
        h = tf.nn.relu(dense(h, w.inner_kernel, w.inner_bias))  # [B * S, F]
        return x + dropout(dense(h, w.outer_kernel, w.outer_bias), rate, seed, salt + 4), (k, v)

    def begin(self, memory: tf.Tensor, tokens: tf.Tensor) -> tuple[Any, Any]:
        """What `step` needs of ``memory`` [B, T, D], the encoding of ``tokens`` [B, T]: each layer's keys and values of
        it; and a past without any (see `models.pretrainable.Writer`)."""
        batch, source = shape(tokens)
        flat = tf.reshape(memory, [-1, self.width])  # [B * T, D]
        cross = [self._cross(flat, w, batch, source) for w in self.blocks]
        none = tf.zeros([batch, self.heads, 0, self.width // self.heads], flat.dtype)
        return (padding_bias(tokens), cross), [(none, none) for _ in self.blocks]

    def step(self, memory: Any, past: Any, written: tf.Tensor, seen: tf.Tensor) -> tuple[tf.Tensor, Any]:
        """Logits [B, K, V] after ``written`` [B, K, S], and ``past`` grown by this step's keys and values (see
        `models.pretrainable.Writer`)."""
        (absent, cross), (*rows, length) = memory, shape(written)
        bias, kept = tf.where(seen, 0.0, HIDDEN)[:, None], []  # [B, 1, K, U]
        table = self.encoder.token_embedding
        x = tf.gather(table.value, tf.reshape(written[:, :, -1], [-1])) * self.width**0.5  # [B * K, D]
        x += tf.cast(sinusoids(length, self.width)[-1], x.dtype)
        for w, looked_at, before in zip(self.blocks, cross, past, strict=True):
            x, grown = self._layer(x, w, looked_at, before, bias, absent, tuple(rows), None, 1000)
            kept.append(grown)
        x = layer_norm(x, self.norm_scale, self.norm_bias, EPSILON)
        logits = product(x, table, transposed=True)
        return tf.reshape(logits, [*rows, logits.shape[-1]]), kept

    def call(self, targets: tf.Tensor, memory: tf.Tensor, tokens: tf.Tensor, seed: Any = None) -> tf.Tensor:
        """Logits [B, S, V] after each of ``targets``; the arguments are those of `hidden`."""
        x = self.hidden(targets, memory, tokens, seed)[-1]
        logits = product(x, self.encoder.token_embedding, transposed=True)
        return tf.reshape(logits, [*shape(targets), logits.shape[-1]])
