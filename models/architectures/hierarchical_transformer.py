"""The hierarchical Transformer of HIBERT: words make sentences, and sentences a document; a decoder writes sentences.

Source: Zhang et al. (2019), sections 3.1 (encoders) and 3.2 (decoder). One encoder reads the words of each sentence by
itself; the vector of the sentence's last token, its end mark, stands for it. A second encoder reads these vectors, with
the sentence's position added, and gives each sentence a vector d that knows its neighbours.

Here a row is a flat text and a sentence ends at a [SEP], so that texts of tasks have as many sentences as marks. What
the paper leaves open is taken from Vaswani et al. (2017): layer-norm after each residual sum, ReLU, no bias in the
output layer. Positions are learned, beginning as sinusoids. The paper has no vector of a word that knows the document;
for what asks for one, a word's vector is the sum of its own and its sentence's.
"""

from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from ptmbench.models.architectures.parts import (
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
from ptmbench.models.architectures.products import product
from ptmbench.models.card import Size
from ptmbench.models.layers.config import BERT
from ptmbench.models.layers.core import initializer, sinusoids
from ptmbench.models.pretrainable import Encoding

EPSILON = 1e-5
SENTENCES = 32
"""Sentences that the second encoder reads; further ones share the last place. (Section 4.2 reads 30.)"""


def places(length: Any) -> Any:
    """How many sentences are provided for in rows of ``length`` tokens: no more than fit, each with a word and a mark,
    so that a row's result does not depend on its padding."""
    if isinstance(length, int):
        return min(SENTENCES, length // 2 + 1)
    return tf.minimum(SENTENCES, length // 2 + 1)


def waves(dims: tuple[int, int], dtype: Any = None) -> tf.Tensor:
    """`sinusoids` as large as what they are added to, sentence vectors out of a layer-norm."""
    return sinusoids(dims, dtype) * (25 / 2**0.5)


class Structure(NamedTuple):
    """Where the sentences of a row are, N = `places` of them at most."""

    number: Any
    """int32 [B, T]: which sentence each token is in."""
    place: Any
    """int32 [B, T]: how many tokens of its sentence stand before it."""
    last: Any
    """int32 [B, N]: where the last token of each sentence stands."""
    filled: Any
    """bool [B, N]: the places that have a sentence."""
    words: Any
    """float32 [B, 1, T, T]: hides tokens of other sentences, and padding."""
    sentences: Any
    """float32 [B, 1, 1, N]: hides places without a sentence."""


def structure(tokens: tf.Tensor, separator: int) -> Structure:
    """The sentences of ``tokens`` [B, T], each up to and with a ``separator``; the last one may be without."""
    _, length = shape(tokens)
    count = places(length)
    present = tf.not_equal(tokens, 0)
    ends = tf.cast(tf.equal(tokens, separator), tf.int32)
    number = tf.minimum(tf.cumsum(ends, axis=1, exclusive=True), count - 1)  # [B, T]
    query, key = number[:, :, None], number[:, None, :]
    earlier = tf.logical_and(key < query, present[:, None, :])  # [B, T, T]
    together = tf.logical_and(tf.equal(key, query), present[:, None, :])
    place = tf.range(length) - tf.reduce_sum(tf.cast(earlier, tf.int32), axis=2)
    member = tf.logical_and(tf.equal(number[:, :, None], tf.range(count)), present[:, :, None])  # [B, T, N]
    sizes = tf.reduce_sum(tf.cast(member, tf.int32), axis=1)  # [B, N]
    filled = sizes > 0
    return Structure(
        number=number,
        place=place,
        last=tf.maximum(tf.cumsum(sizes, axis=1) - 1, 0),
        filled=filled,
        words=tf.where(together, 0.0, HIDDEN)[:, None],
        sentences=tf.where(filled, 0.0, HIDDEN)[:, None, None, :],
    )


def pick(x: tf.Tensor, where: tf.Tensor) -> tf.Tensor:
    """The vectors of x [B, N, D] at ``where`` int32 [B, M], as [B * M, D]."""
    rows, count, width = shape(x)
    return tf.gather(tf.reshape(x, [-1, width]), tf.reshape(tf.range(rows)[:, None] * count + where, [-1]))


def weights(owner: keras.layers.Layer, name: str, D: int, F: int) -> SimpleNamespace:
    """The weights of one layer, made by ``owner`` under ``name``."""
    found = {}
    for part, dims in {"qkv": (D, 3 * D), "output": (D, D), "inner": (D, F), "outer": (F, D)}.items():
        found[f"{part}_kernel"] = owner.add_weight(dims, initializer(BERT), name=f"{name}_{part}_kernel")
        found[f"{part}_bias"] = owner.add_weight(dims[1:], "zeros", name=f"{name}_{part}_bias")
    for part in ("attention_norm", "norm"):
        found[f"{part}_scale"] = owner.add_weight((D,), "ones", name=f"{name}_{part}_scale")
        found[f"{part}_bias"] = owner.add_weight((D,), "zeros", name=f"{name}_{part}_bias")
    return SimpleNamespace(**found)


def layer(
    x: tf.Tensor,
    w: SimpleNamespace,
    told: tf.Tensor | None = None,
    *,
    bias: tf.Tensor,
    dims: tuple[Any, Any],
    heads: int,
    rate: float,
    seed: Any,
    salt: int,
) -> tf.Tensor:
    """One layer over ``x`` [B * T, D] of rows and tokens ``dims``; ``told`` [B * T, D] is added to what attention
    gives (section 3.2)."""
    q, k, v = split_heads(dense(x, w.qkv_kernel, w.qkv_bias), *dims, heads, 3)  # [B, H, T, K]
    h = attention(q * q.shape[-1] ** -0.5, k, v, bias, rate, seed, salt)  # [B * T, D]
    h = dropout(dense(h, w.output_kernel, w.output_bias), rate, seed, salt + 1)
    x = layer_norm(x + h if told is None else x + h + told, w.attention_norm_scale, w.attention_norm_bias, EPSILON)
    h = tf.nn.relu(dense(x, w.inner_kernel, w.inner_bias))  # [B * T, F]
    h = dropout(dense(h, w.outer_kernel, w.outer_bias), rate, seed, salt + 2)
    return layer_norm(x + h, w.norm_scale, w.norm_bias, EPSILON)


class Encoder(keras.layers.Layer):
    """Batch to `Encoding`: L layers over words and L over sentences, so 2 L + 1 vectors of each word. The pooled vector
    is the mean over sentences. ``separator`` is the id that ends one. ``dropout`` is read when a graph is traced."""

    causal = False
    recurrent = False

    def __init__(self, size: Size, vocabulary: int, separator: int, name: str = "encoder"):
        super().__init__(name=name)
        self.width, self.depth, self.length = size.width, 2 * size.layers, size.length
        self.heads, self.separator, self.dropout = size.heads, separator, 0.1
        D, F, L = size.width, size.inner, size.layers
        self.token_embedding = self.add_weight((vocabulary, D), initializer(BERT), name="tokens")
        self.positions = self.add_weight((size.length, D), sinusoids, name="positions")
        self.sentence_positions = self.add_weight((places(size.length), D), waves, name="sentence_positions")
        self.words = [weights(self, f"words_{index}", D, F) for index in range(L)]
        self.sentences = [weights(self, f"sentences_{index}", D, F) for index in range(L)]
        self.built = True

    def hidden(self, tokens: tf.Tensor, seed: Any = None) -> tuple[list[tf.Tensor], list[tf.Tensor], Structure]:
        """For ``tokens`` [B, T]: the L + 1 tensors [B * T, D] of the words, the L + 1 tensors [B, N, D] of the
        sentences, and which is where."""
        tokens = tf.convert_to_tensor(tokens, tf.int32)
        batch, length = shape(tokens)
        check_length(length, self.length, "encoder")
        count, rate, where = places(length), self.dropout, structure(tokens, self.separator)
        x = tf.gather(self.token_embedding.value, tokens) + tf.gather(self.positions.value, where.place)  # [B, T, D]
        words = [dropout(tf.reshape(x, [-1, self.width]), rate, seed, 0)]
        settings = {"heads": self.heads, "rate": rate, "seed": seed}
        for index, w in enumerate(self.words):
            step = partial(layer, bias=where.words, dims=(batch, length), salt=10 * (index + 1), **settings)
            words.append(block(step, words[-1], w))
        x = pick(tf.reshape(words[-1], [batch, length, self.width]), where.last)  # [B * N, D]
        x = tf.reshape(x, [batch, count, self.width]) + self.sentence_positions[:count]
        sentences = [dropout(tf.reshape(x, [-1, self.width]), rate, seed, 1)]
        for index, w in enumerate(self.sentences):
            step = partial(layer, bias=where.sentences, dims=(batch, count), salt=500 + 10 * (index + 1), **settings)
            sentences.append(block(step, sentences[-1], w))
        return words, [tf.reshape(x, [batch, count, self.width]) for x in sentences], where

    def call(self, batch: dict[str, Any], seed: Any = None) -> Encoding:
        words, sentences, where = self.hidden(batch["tokens"], seed)
        joined = [words[-1] + pick(x, where.number) for x in sentences[1:]]  # [B * T, D]
        dims = [*shape(where.number), self.width]
        layers = tuple(tf.reshape(x, dims) for x in words + joined)
        filled = tf.cast(where.filled, sentences[-1].dtype)[:, :, None]  # [B, N, 1]
        pooled = tf.reduce_sum(sentences[-1] * filled, 1) / tf.maximum(tf.reduce_sum(filled, 1), 1.0)
        return Encoding(tokens=layers[-1], pooled=pooled, layers=layers)


class Decoder(keras.layers.Layer):
    """Next-word logits of sentences, each given its vector out of the document; word and position vectors are those of
    ``encoder``, and the word vectors are the output layer too."""

    def __init__(self, size: Size, encoder: Encoder, name: str = "decoder"):
        super().__init__(name=name)
        self.encoder, self.width, self.heads = encoder, size.width, size.heads
        self.layers = [weights(self, f"layer_{index}", size.width, size.inner) for index in range(size.layers)]
        self.built = True

    def call(
        self, words: tf.Tensor, places: tf.Tensor, numbers: tf.Tensor, sentences: tf.Tensor, seed: Any = None
    ) -> tf.Tensor:
        """Logits [B, S, V] after each of ``words`` [B, S], that stand at ``places`` [B, S] of the sentences
        ``numbers`` [B, S], given the vectors [B, N, D] of all ``sentences``.

        Several sentences stand side by side in a row and do not see each other. The places for dropout are numbered
        from 1000, apart from the encoder's.
        """
        batch, length = shape(words)
        encoder, rate = self.encoder, self.encoder.dropout
        ahead = tf.range(length)[:, None] < tf.range(length)[None, :]
        apart = tf.not_equal(numbers[:, :, None], numbers[:, None, :])  # [B, S, S]
        bias = tf.where(tf.logical_or(ahead, apart), HIDDEN, 0.0)[:, None]  # [B, 1, S, S]
        told = pick(sentences, numbers)  # [B * S, D]
        x = tf.gather(encoder.token_embedding.value, words) + tf.gather(encoder.positions.value, places)
        x = dropout(tf.reshape(x, [-1, self.width]), rate, seed, 1000)  # [B * S, D]
        for index, w in enumerate(self.layers):
            settings = {"heads": self.heads, "rate": rate, "seed": seed, "salt": 1000 + 10 * (index + 1)}
            x = block(partial(layer, bias=bias, dims=(batch, length), **settings), x, w, told)
        logits = product(x, encoder.token_embedding, transposed=True)
        return tf.reshape(logits, [batch, length, logits.shape[-1]])
