"""HIBERT's networks: an encoder of words, an encoder of sentences, and a decoder that writes sentences.

Source: Zhang et al. (2019), sections 3.1 and 3.2. The first encoder reads the words of each sentence separately. The
vector of the sentence's last token, its end mark, represents the sentence. The second encoder reads these vectors, with
the sentences' positions added, and computes a vector d of each sentence in the context of its neighbours.

Here a row is a flat text and a sentence ends at a [SEP], so texts of tasks have as many sentences as marks. The paper
has no word vectors that depend on the document. Where they are needed, a word's vector is the sum of its own and its
sentence's vector.
"""

from functools import partial
from typing import Any, NamedTuple

import tensorflow as tf

from ptmbench.models.architectures.hierarchical_transformer import (
    SENTENCES,
    HierarchicalConfig,
    HierarchicalDecoderConfig,
    places,
)
from ptmbench.models.layers.core import Drop, Layer, Rows, made_from, recomputed
from ptmbench.models.layers.operations import HIDDEN, check_length, shape
from ptmbench.models.layers.products import product
from ptmbench.models.layers.transformers import Network, built
from ptmbench.models.pretrainable import Encoding

__all__ = ["HierarchicalDecoder", "HierarchicalEncoder", "built"]


def sentences_in(length: Any) -> Any:
    """`places`, also for a ``length`` that is known only while the graph runs."""
    return places(length) if isinstance(length, int) else tf.minimum(SENTENCES, length // 2 + 1)


class Structure(NamedTuple):
    """The sentences of a row, at most N = `places`."""

    number: Any
    """int32 [B, T]: the number of each token's sentence."""
    place: Any
    """int32 [B, T]: the number of tokens of the same sentence before each token."""
    last: Any
    """int32 [B, N]: the position of the last token of each sentence."""
    filled: Any
    """bool [B, N]: the places that have a sentence."""
    words: Any
    """float32 [B, 1, T, T]: masks tokens of other sentences, and padding."""
    sentences: Any
    """float32 [B, 1, 1, N]: masks places without a sentence."""


def structure(tokens: tf.Tensor, separator: int) -> Structure:
    """Finds the sentences of ``tokens`` [B, T]. Each ends with a ``separator``, which the last one may lack."""
    _, length = shape(tokens)
    count = sentences_in(length)
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
        words=tf.where(together, 0.0, HIDDEN)[:, None, :, :],
        sentences=tf.where(filled, 0.0, HIDDEN)[:, None, None, :],
    )


def pick(x: tf.Tensor, where: tf.Tensor) -> tf.Tensor:
    """The vectors of x [B, N, D] at ``where`` int32 [B, M], as [B * M, D]."""
    rows, count, width = shape(x)
    return tf.gather(tf.reshape(x, [-1, width]), tf.reshape(tf.range(rows)[:, None] * count + where, [-1]))


@made_from(HierarchicalConfig)
class HierarchicalEncoder(Network):
    """Batch to `Encoding`: L layers over words and L over sentences, so each word has 2 L + 1 vectors. The pooled
    vector is the mean over sentences."""

    causal = False

    @staticmethod
    def dims(config: HierarchicalConfig) -> tuple[int, int, int]:
        block = config.words.block
        return block.norm.width, config.words.layers + config.sentences.layers, block.attention.heads

    def hidden(self, tokens: tf.Tensor, seed: Any = None) -> tuple[list[tf.Tensor], list[tf.Tensor], Structure]:
        """For ``tokens`` [B, T]: the L + 1 tensors [B * T, D] of the words, the L + 1 tensors [B, N, D] of the
        sentences, and the `Structure` of the rows."""
        tokens = tf.convert_to_tensor(tokens, tf.int32)
        batch, length = shape(tokens)
        check_length(length, self.length, "encoder")
        count, where, drop = sentences_in(length), structure(tokens, self.config.separator), Drop(self.dropout, seed, 0)
        x = self.embeddings(tokens, positions=where.place, drop=drop)  # [B * T, D]
        words = self.words(x, where.words, rows=Rows(batch, length), drop=drop)
        x = pick(tf.reshape(words[-1], [batch, length, self.width]), where.last)  # [B * N, D]
        x = tf.reshape(x, [batch, count, self.width])
        x += tf.cast(self.sentence_positions.first(count), x.dtype)
        x = drop(tf.reshape(x, [-1, self.width]), 1)
        sentences = self.sentences(x, where.sentences, rows=Rows(batch, count), drop=drop.at(500))
        return words, [tf.reshape(x, [batch, count, self.width]) for x in sentences], where

    def call(self, batch: dict[str, Any], seed: Any = None) -> Encoding:
        words, sentences, where = self.hidden(batch["tokens"], seed)
        joined = [words[-1] + pick(x, where.number) for x in sentences[1:]]  # [B * T, D]
        dims = [*shape(where.number), self.width]
        layers = tuple(tf.reshape(x, dims) for x in words + joined)
        filled = tf.cast(where.filled, sentences[-1].dtype)[:, :, None]  # [B, N, 1]
        pooled = tf.reduce_sum(sentences[-1] * filled, 1) / tf.maximum(tf.reduce_sum(filled, 1), 1.0)
        return Encoding(tokens=layers[-1], pooled=pooled, layers=layers)


@made_from(HierarchicalDecoderConfig)
class HierarchicalDecoder(Layer):
    """Next-word logits of sentences, given the vector of each sentence in its document. This vector is added to the
    output of the self-attention of every layer (section 3.2). Word and position vectors are those of ``encoder``, and
    the word vectors are the output layer too."""

    OTHERS = ("encoder",)

    def __init__(self, config: HierarchicalDecoderConfig, encoder: HierarchicalEncoder, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.encoder, self.width = encoder, config.stack.block.norm.width

    def call(
        self, words: tf.Tensor, places: tf.Tensor, numbers: tf.Tensor, sentences: tf.Tensor, seed: Any = None
    ) -> tf.Tensor:
        """Logits [B, S, V] after each of ``words`` [B, S]. ``places`` [B, S] are their positions in their sentences,
        ``numbers`` [B, S] the numbers of these sentences, and ``sentences`` [B, N, D] the vectors of all sentences.

        The sentences that are side by side in a row do not attend to each other. Dropout places are numbered from 1000,
        apart from the encoder's.
        """
        batch, length = shape(words)
        encoder, drop = self.encoder, Drop(self.encoder.dropout, seed, 1000)
        ahead = tf.range(length)[:, None] < tf.range(length)[None, :]
        apart = tf.not_equal(numbers[:, :, None], numbers[:, None, :])  # [B, S, S]
        bias = tf.where(tf.logical_or(ahead, apart), HIDDEN, 0.0)[:, None, :, :]  # [B, 1, S, S]
        vectors = pick(sentences, numbers)  # [B * S, D]
        x = encoder.embeddings(words, positions=places, drop=drop)  # [B * S, D]

        def apply(x: tf.Tensor, vectors: tf.Tensor, block: Any, drop: Drop) -> tf.Tensor:
            return block(x, bias, rows=Rows(batch, length), drop=drop, addend=vectors)[0]

        for index, block in enumerate(self.stack):
            x = recomputed(partial(apply, block=block, drop=drop.at(10 * (index + 1))), x, vectors)
            x = self.stack.through("between", x, index=index)
        logits = product(x, encoder.token_embedding, transposed=True)
        return tf.reshape(logits, [batch, length, logits.shape[-1]])
