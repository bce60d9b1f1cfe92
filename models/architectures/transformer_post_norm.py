"""The encoder-decoder Transformer of BART: learned positions, layer-norm after each residual sum and on the embeddings.

Source: Lewis et al. (2020), section 2.1; Vaswani et al. (2017), section 3. Beside the Transformer of 2017: GELU in the
place of ReLU, learned positions, layer-norm on the embeddings as in BERT (authors' code), one table of token vectors
for both inputs and the output layer, which has no bias. Positions begin as `transformer_encoder.sinusoids`.
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
    gelu,
    layer_norm,
    shape,
    split_heads,
)
from models.architectures.products import product
from models.architectures.transformer_encoder import sinusoids
from models.card import Size
from models.pretrainable import Encoding

EPSILON = 1e-5


def initializer() -> keras.initializers.Initializer:
    """Normal with standard deviation 0.02 (authors' code, after BERT); a fresh one per weight."""
    return keras.initializers.RandomNormal(stddev=0.02)


class Weights:
    """Names and starts the weights of one place: ``weight("kernel", 4, 8)`` is the variable ``{place}_kernel``."""

    def __init__(self, layer: keras.layers.Layer, place: str):
        self.layer, self.place = layer, place

    def __call__(self, part: str, *dims: int, start: Any = "zeros") -> keras.Variable:
        return self.layer.add_weight(dims, start, name=f"{self.place}{part}")

    def dense(self, part: str, rows: int, columns: int) -> dict[str, keras.Variable]:
        """Kernel and bias of a dense layer."""
        kernel = self(f"{part}_kernel", rows, columns, start=initializer())
        return {f"{part}_kernel": kernel, f"{part}_bias": self(f"{part}_bias", columns)}

    def norm(self, part: str, width: int) -> dict[str, keras.Variable]:
        """Scale and bias of a layer-norm."""
        return {
            f"{part}_scale": self(f"{part}_scale", width, start="ones"),
            f"{part}_bias": self(f"{part}_bias", width),
        }


def embed(layer: keras.layers.Layer, tokens: tf.Tensor, positions: tf.Tensor, seed: Any, salt: int) -> tf.Tensor:
    """Token vectors [B, T, D] and position vectors [T, D] or [B, T, D], summed and normalised: [B * T, D]."""
    x = tf.reshape(tf.gather(layer.token_embedding.value, tokens) + positions, [-1, layer.width])
    x = layer_norm(x, layer.embedding_norm_scale, layer.embedding_norm_bias, EPSILON)
    return dropout(x, layer.dropout, seed, salt)


class Encoder(keras.layers.Layer):
    """Batch to `Encoding`; the pooled vector is the mean over tokens. ``dropout`` is read when a graph is traced."""

    causal = False
    recurrent = False

    def __init__(self, size: Size, vocabulary: int, name: str = "encoder"):
        super().__init__(name=name)
        self.width, self.depth, self.length = size.width, size.layers, size.length
        self.heads, self.dropout = size.heads, 0.1
        D, F, weight = size.width, size.inner, Weights(self, "")
        self.token_embedding = weight("tokens", vocabulary, D, start=initializer())
        self.positions = weight("positions", size.length, D, start=sinusoids)
        self.embedding_norm_scale, self.embedding_norm_bias = weight.norm("embedding_norm", D).values()
        self.blocks = [self._block(Weights(self, f"layer_{index}_"), D, F) for index in range(size.layers)]
        self.built = True

    def _block(self, weight: Weights, D: int, F: int) -> SimpleNamespace:
        return SimpleNamespace(
            **weight.dense("qkv", D, 3 * D),
            **weight.dense("output", D, D),
            **weight.norm("attention_norm", D),
            **weight.dense("inner", D, F),
            **weight.dense("outer", F, D),
            **weight.norm("norm", D),
        )

    def call(self, batch: dict[str, Any], seed: Any = None) -> Encoding:
        tokens = batch["tokens"]
        batch_size, length = shape(tokens)
        check_length(length, self.length, "encoder")
        rate = self.dropout
        hidden = padding_bias(tokens)  # [B, 1, 1, T]
        layers = [embed(self, tokens, self.positions[:length], seed, 0)]  # [B * T, D]

        def layer(x: tf.Tensor, w: SimpleNamespace, salt: int) -> tf.Tensor:
            q, k, v = split_heads(dense(x, w.qkv_kernel, w.qkv_bias), batch_size, length, self.heads, 3)  # [B, H, T, K]
            h = attention(q * q.shape[-1] ** -0.5, k, v, hidden, rate, seed, salt)  # [B * T, D]
            h = dropout(dense(h, w.output_kernel, w.output_bias), rate, seed, salt + 1)
            x = layer_norm(x + h, w.attention_norm_scale, w.attention_norm_bias, EPSILON)
            h = gelu(dense(x, w.inner_kernel, w.inner_bias))  # [B * T, F]
            h = dropout(dense(h, w.outer_kernel, w.outer_bias), rate, seed, salt + 2)
            return layer_norm(x + h, w.norm_scale, w.norm_bias, EPSILON)

        for index, weights in enumerate(self.blocks):
            layers.append(block(partial(layer, salt=10 * (index + 1)), layers[-1], weights))
        layers = tuple(tf.reshape(x, [batch_size, length, self.width]) for x in layers)
        return Encoding(tokens=layers[-1], pooled=mean(layers[-1], tokens), layers=layers)


class Decoder(keras.layers.Layer):
    """Next-token logits over what ``encoder`` gives; its token embedding serves as input and as output layer here
    too."""

    def __init__(self, size: Size, encoder: Encoder, name: str = "decoder"):
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

    def hidden(
        self, targets: tf.Tensor, memory: tf.Tensor, tokens: tf.Tensor, seed: Any = None, first: Any = None
    ) -> list[tf.Tensor]:
        """The L + 1 tensors [B * S, D] for ``targets`` [B, S], given ``memory`` [B, T, D], the encoding of ``tokens``
        [B, T]: embeddings, then each layer.

        ``first`` int32 [B] are the positions of the first targets, 0 when not given. The decoder's places for dropout
        are numbered from 1000, apart from the encoder's.
        """
        (batch, length), source = shape(targets), shape(tokens)[1]
        check_length(length, self.length, "decoder")
        future = tf.linalg.band_part(tf.fill([length, length], -HIDDEN), -1, 0)[None, None] + HIDDEN  # [1, 1, S, S]
        absent = padding_bias(tokens)  # [B, 1, 1, T]
        if first is None:
            positions = self.positions[:length]  # [S, D]
        else:
            positions = tf.gather(self.positions.value, first[:, None] + tf.range(length))  # [B, S, D]
        memory = tf.reshape(memory, [-1, self.width])  # [B * T, D]
        layers = [embed(self, targets, positions, seed, 1000)]  # [B * S, D]

        def layer(x: tf.Tensor, w: SimpleNamespace, memory: tf.Tensor, salt: int) -> tf.Tensor:
            cross = self._cross(memory, w, batch, source)
            return self._layer(x, w, cross, None, future, absent, (batch, length), seed, salt)[0]

        for index, weights in enumerate(self.blocks):
            layers.append(block(partial(layer, salt=1000 + 10 * (index + 1)), layers[-1], weights, memory))
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
        rate = self.dropout
        q, k, v = split_heads(dense(x, w.qkv_kernel, w.qkv_bias), *rows, self.heads, 3)  # [B, H, S, K]
        if past is not None:
            k, v = tf.concat([past[0], k], axis=2), tf.concat([past[1], v], axis=2)  # [B, H, U, K]
        h = attention(q * q.shape[-1] ** -0.5, k, v, bias, rate, seed, salt)  # [B * S, D]
        h = dropout(dense(h, w.output_kernel, w.output_bias), rate, seed, salt + 1)
        x = layer_norm(x + h, w.attention_norm_scale, w.attention_norm_bias, EPSILON)
        (q,) = split_heads(dense(x, w.cross_q_kernel, w.cross_q_bias), *rows, self.heads)  # [B, H, S, K]
        h = attention(q * q.shape[-1] ** -0.5, *cross, absent, rate, seed, salt + 2)  # [B * S, D]
        h = dropout(dense(h, w.cross_output_kernel, w.cross_output_bias), rate, seed, salt + 3)
        x = layer_norm(x + h, w.cross_norm_scale, w.cross_norm_bias, EPSILON)
        h = gelu(dense(x, w.inner_kernel, w.inner_bias))  # [B * S, F]
        h = dropout(dense(h, w.outer_kernel, w.outer_bias), rate, seed, salt + 4)
        return layer_norm(x + h, w.norm_scale, w.norm_bias, EPSILON), (k, v)

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
        check_length(length, self.length, "decoder")
        bias, kept = tf.where(seen, 0.0, HIDDEN)[:, None], []  # [B, 1, K, U]
        x = embed(self, written[:, :, -1], self.positions[length - 1], None, 1000)  # [B * K, D]
        for w, looked_at, before in zip(self.blocks, cross, past, strict=True):
            x, grown = self._layer(x, w, looked_at, before, bias, absent, tuple(rows), None, 1000)
            kept.append(grown)
        logits = product(x, self.token_embedding, transposed=True)
        return tf.reshape(logits, [*rows, logits.shape[-1]]), kept

    def call(
        self, targets: tf.Tensor, memory: tf.Tensor, tokens: tf.Tensor, seed: Any = None, first: Any = None
    ) -> tf.Tensor:
        """Logits [B, S, V] after each of ``targets``; the arguments are those of `hidden`."""
        logits = product(self.hidden(targets, memory, tokens, seed, first)[-1], self.token_embedding, transposed=True)
        return tf.reshape(logits, [*shape(targets), logits.shape[-1]])


def padding_bias(tokens: tf.Tensor) -> tf.Tensor:
    """[B, 1, 1, T]: hides the keys that are padding."""
    return tf.where(tf.equal(tokens, 0), HIDDEN, 0.0)[:, None, None, :]


def mean(x: tf.Tensor, tokens: tf.Tensor) -> tf.Tensor:
    """The mean [B, D] of x [B, T, D] over the tokens that are not padding."""
    present = tf.cast(tf.not_equal(tokens, 0), x.dtype)[:, :, None]  # [B, T, 1]
    return tf.reduce_sum(x * present, 1) / tf.maximum(tf.reduce_sum(present, 1), 1.0)
