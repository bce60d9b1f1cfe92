"""ALBERT's encoder: narrow token vectors widened by one product, and one layer applied L times.

Source: Lan et al. (2020), section 3.1; the tanh form of GELU, and where the embeddings are normalised (before they are
widened), from the authors' released code.

What differs from BERT's (`models.architectures.transformer_encoder`): the tables are E wide and not D, which keeps a
large vocabulary cheap, and all layers share their weights, which keeps depth free. The work per token is the same.
"""

from functools import partial
from types import SimpleNamespace
from typing import Any

import keras
import tensorflow as tf

from models.architectures.parts import HIDDEN, attention, block, dense, dropout, layer_norm, shape, split_heads
from models.architectures.transformer_encoder import EPSILON, Embeddings, initializer
from models.card import Size
from models.pretrainable import Encoding


def gelu(x: tf.Tensor) -> tf.Tensor:
    """The Gaussian error linear unit by its tanh approximation (Hendrycks and Gimpel, 2016, section 2)."""
    return tf.nn.gelu(x, approximate=True)


class SharedStack(keras.layers.Layer):
    """One encoder layer, applied L times to x [B * T, D]; every token sees every token that is not padding."""

    def __init__(self, size: Size, name: str = "stack"):
        super().__init__(name=name)
        self.heads, self.depth, self.dropout = size.heads, size.layers, 0.1
        width, inner = size.width, size.inner

        def weight(part: str, *dims: int, start: Any = "zeros") -> keras.Variable:
            return self.add_weight(dims, start, name=f"layer_{part}")

        self.block = SimpleNamespace(
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
        self.built = True

    def call(self, x: tf.Tensor, tokens: tf.Tensor, seed: Any = None) -> list[tf.Tensor]:
        """The L + 1 tensors [B * T, D]: ``x``, then after each turn; ``tokens`` [B, T] say where padding is."""
        batch, length = shape(tokens)
        hidden = tf.where(tf.equal(tokens, 0), HIDDEN, 0.0)[:, None, None, :]  # [B, 1, 1, T]
        layers = [x]

        def layer(x: tf.Tensor, weights: SimpleNamespace, salt: int) -> tf.Tensor:
            q, k, v = split_heads(
                dense(x, weights.qkv_kernel, weights.qkv_bias), batch, length, self.heads, 3
            )  # [B, H, T, K]
            context = attention(q * q.shape[-1] ** -0.5, k, v, hidden, self.dropout, seed, salt)  # [B * T, D]
            update = dropout(dense(context, weights.output_kernel, weights.output_bias), self.dropout, seed, salt + 1)
            x = layer_norm(x + update, weights.attention_norm_scale, weights.attention_norm_bias, EPSILON)
            inner = gelu(dense(x, weights.inner_kernel, weights.inner_bias))  # [B * T, F]
            update = dropout(dense(inner, weights.outer_kernel, weights.outer_bias), self.dropout, seed, salt + 2)
            return layer_norm(x + update, weights.norm_scale, weights.norm_bias, EPSILON)

        for turn in range(self.depth):
            layers.append(block(partial(layer, salt=10 * (turn + 1)), layers[-1], self.block))
        return layers


class SharedEncoder(keras.layers.Layer):
    """Embeddings ``inner_width`` E wide, their widening to D, a `SharedStack`, and BERT's pooler: batch to `Encoding`.

    ``dropout`` is read when a graph is traced.
    """

    causal = False
    recurrent = False

    def __init__(self, size: Size, vocabulary: int, inner_width: int, name: str = "encoder"):
        super().__init__(name=name)
        self.width, self.depth, self.length = size.width, size.layers, size.length
        with keras.name_scope(name):
            self.embeddings = Embeddings(vocabulary, inner_width, size.length)
            self.stack = SharedStack(size)
        self.widening_kernel = self.add_weight((inner_width, size.width), initializer(), name="widening_kernel")
        self.widening_bias = self.add_weight((size.width,), "zeros", name="widening_bias")
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
        x = dense(self.embeddings(batch, seed=seed), self.widening_kernel, self.widening_bias)  # [B * T, D]
        flat = self.stack(x, batch["tokens"], seed=seed)
        layers = tuple(tf.reshape(x, [batch_size, length, self.width]) for x in flat)
        pooled = tf.tanh(dense(layers[-1][:, 0], self.pooler_kernel, self.pooler_bias))  # [B, D]
        return Encoding(tokens=layers[-1], pooled=pooled, layers=layers)
