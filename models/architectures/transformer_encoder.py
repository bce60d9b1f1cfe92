"""The bidirectional Transformer encoder of BERT: learned positions, layer-norm after each residual sum, erf-GELU.

Source: Devlin et al. (2019), section 3; Vaswani et al. (2017), section 3.1; shapes and epsilon from the authors'
released configuration.

Hand-laid because it is faster and can be read: with fused queries, keys and values, flat [B * T, D] activations and
one Keras layer for the whole stack, a BERT-mini training step (B 32, T 128, V 8192, two CPU threads) takes 0.74 of
the processor time of the same network made of keras-hub's layers, and 0.73 of the time to trace.
"""

from functools import partial
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
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
from models.card import Size
from models.pretrainable import Encoding

EPSILON = 1e-12


def initializer() -> keras.initializers.Initializer:
    """Normal with standard deviation 0.02, cut at two deviations; a fresh one per weight, so that no two weights
    are equal."""
    return keras.initializers.TruncatedNormal(stddev=0.02)


def sinusoids(dims: tuple[int, int], dtype: Any = None) -> tf.Tensor:
    """Initial vectors [T, D] of the learned positions: those of Vaswani et al. (2017), section 3.5, at twice the
    deviation of `initializer`.

    Random ones tell neighbours apart only once each has been learnt by itself, and until an encoder can look at a
    word's neighbours MLM learns no more than how frequent words are. BERT-mini (B 16, T 32, rate 1e-3) after 0.84M
    tokens of novels and wikitext-2: loss 7.0 from random positions (6.9 is the unigram level), 6.3 from these.
    """
    length, width = dims
    angle = np.arange(length)[:, None] / 10_000 ** (np.arange(0, width, 2) / width)  # [T, D / 2]
    waves = np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(length, width)
    return tf.constant(0.04 * 2**0.5 * waves, dtype or "float32")


class Embeddings(keras.layers.Layer):
    """Sum of token, position and segment vectors, normalised: tokens [B, T] to [B * T, D]."""

    def __init__(
        self,
        vocabulary: int,
        width: int,
        length: int,
        segments: int = 2,
        epsilon: float = EPSILON,
        name: str = "embeddings",
    ):
        super().__init__(name=name)
        self.length, self.epsilon, self.dropout = length, epsilon, 0.1
        self.tokens = self.add_weight((vocabulary, width), initializer(), name="tokens")
        self.positions = self.add_weight((length, width), sinusoids, name="positions")
        self.segments = self.add_weight((segments, width), initializer(), name="segments")
        self.norm_scale = self.add_weight((width,), "ones", name="norm_scale")
        self.norm_bias = self.add_weight((width,), "zeros", name="norm_bias")
        self.built = True

    def call(self, batch: dict[str, Any], seed: Any = None) -> tf.Tensor:
        tokens, segments = batch["tokens"], batch.get("segments")
        _, length = shape(tokens)
        check_length(length, self.length, "encoder")
        x = tf.gather(self.tokens.value, tokens) + self.positions[:length]  # [B, T, D]
        x = tf.reshape(x, [-1, x.shape[-1]])  # [B * T, D]
        if segments is None or self.segments.shape[0] == 1:
            x += self.segments[0]
        else:  # a product with two rows: its gradient is a product too, not a scatter of B * T rows
            x += tf.matmul(tf.one_hot(tf.reshape(segments, [-1]), 2, dtype=x.dtype), self.segments)
        return dropout(layer_norm(x, self.norm_scale, self.norm_bias, self.epsilon), self.dropout, seed, 0)


class Stack(keras.layers.Layer):
    """L encoder layers over x [B * T, D]; every token sees every token that is not padding."""

    def __init__(self, size: Size, epsilon: float = EPSILON, name: str = "stack"):
        super().__init__(name=name)
        self.heads, self.epsilon, self.dropout = size.heads, epsilon, 0.1
        self.blocks = [self._block(f"layer_{index}", size.width, size.inner) for index in range(size.layers)]
        self.built = True

    def _block(self, name: str, width: int, inner: int) -> SimpleNamespace:
        def weight(part: str, *dims: int, start: Any = "zeros") -> keras.Variable:
            return self.add_weight(dims, start, name=f"{name}_{part}")

        return SimpleNamespace(
            qkv_kernel=weight("qkv_kernel", width, 3 * width, start=initializer()),
            qkv_bias=weight("qkv_bias", 3 * width),
            output_kernel=weight("output_kernel", width, width, start=initializer()),
            output_bias=weight("output_bias", width),
            attention_norm_scale=weight("attention_norm_scale", width, start="ones"),
            attention_norm_bias=weight("attention_norm_bias", width),
            inner_kernel=weight("inner_kernel", width, inner, start=initializer()),
            inner_bias=weight("inner_bias", inner),
            outer_kernel=weight("outer_kernel", inner, width, start=initializer()),
            outer_bias=weight("outer_bias", width),
            norm_scale=weight("norm_scale", width, start="ones"),
            norm_bias=weight("norm_bias", width),
        )

    def call(self, x: tf.Tensor, tokens: tf.Tensor, seed: Any = None) -> list[tf.Tensor]:
        """The L + 1 tensors [B * T, D]: ``x``, then each layer; ``tokens`` [B, T] say where padding is."""
        batch, length = shape(tokens)
        hidden = tf.where(tf.equal(tokens, 0), HIDDEN, 0.0)[:, None, None, :]  # [B, 1, 1, T]
        layers = [x]

        def layer(x: tf.Tensor, weights: SimpleNamespace, salt: int) -> tf.Tensor:
            q, k, v = split_heads(
                dense(x, weights.qkv_kernel, weights.qkv_bias), batch, length, self.heads, 3
            )  # [B, H, T, K]
            context = attention(q * q.shape[-1] ** -0.5, k, v, hidden, self.dropout, seed, salt)  # [B * T, D]
            update = dropout(dense(context, weights.output_kernel, weights.output_bias), self.dropout, seed, salt + 1)
            x = layer_norm(x + update, weights.attention_norm_scale, weights.attention_norm_bias, self.epsilon)
            inner = gelu(dense(x, weights.inner_kernel, weights.inner_bias))  # [B * T, F]
            update = dropout(dense(inner, weights.outer_kernel, weights.outer_bias), self.dropout, seed, salt + 2)
            return layer_norm(x + update, weights.norm_scale, weights.norm_bias, self.epsilon)

        for index, weights in enumerate(self.blocks):
            layers.append(block(partial(layer, salt=10 * (index + 1)), layers[-1], weights))
        return layers


class TransformerEncoder(keras.layers.Layer):
    """`Embeddings` and a `Stack`: batch to `Encoding`.

    With ``pooler`` the pooled vector is BERT's dense layer with tanh on the first token, otherwise it is the first
    token's vector. ``segments`` is the number of texts that are told apart: with 1, the batch's ``segments`` are not
    read. Vectors of tokens that are narrower than the layers, by ``size.embedding``, are widened by a product, as in
    ELECTRA-small (Clark et al., 2020, section 3.3). ``dropout`` is read when a graph is traced.
    """

    causal = False
    recurrent = False

    def __init__(
        self,
        size: Size,
        vocabulary: int,
        pooler: bool = True,
        segments: int = 2,
        epsilon: float = EPSILON,
        name: str = "encoder",
    ):
        super().__init__(name=name)
        self.width, self.depth, self.length = size.width, size.layers, size.length
        with keras.name_scope(name):
            narrow = size.embedding or size.width
            self.embeddings = Embeddings(vocabulary, narrow, size.length, segments, epsilon)
            self.stack = Stack(size, epsilon)
        self.widening_kernel = self.widening_bias = None
        if narrow != size.width:
            self.widening_kernel = self.add_weight((narrow, size.width), initializer(), name="widening_kernel")
            self.widening_bias = self.add_weight((size.width,), "zeros", name="widening_bias")
        self.pooler_kernel = self.pooler_bias = None
        if pooler:
            self.pooler_kernel = self.add_weight((size.width, size.width), initializer(), name="pooler_kernel")
            self.pooler_bias = self.add_weight((size.width,), "zeros", name="pooler_bias")
        self.built = True

    @property
    def dropout(self) -> float:
        return self.stack.dropout

    @dropout.setter
    def dropout(self, rate: float) -> None:
        self.embeddings.dropout = self.stack.dropout = rate

    @property
    def token_embedding(self) -> keras.Variable:
        """[V, E], which objectives tie their output layer to."""
        return self.embeddings.tokens

    def call(self, batch: dict[str, Any], seed: Any = None) -> Encoding:
        batch_size, length = shape(batch["tokens"])
        x = self.embeddings(batch, seed=seed)  # [B * T, E]
        if self.widening_kernel is not None:
            x = dense(x, self.widening_kernel, self.widening_bias)  # [B * T, D]
        flat = self.stack(x, batch["tokens"], seed=seed)
        layers = tuple(tf.reshape(x, [batch_size, length, self.width]) for x in flat)
        pooled = layers[-1][:, 0]  # [B, D]
        if self.pooler_kernel is not None:
            pooled = tf.tanh(dense(pooled, self.pooler_kernel, self.pooler_bias))
        return Encoding(tokens=layers[-1], pooled=pooled, layers=layers)
