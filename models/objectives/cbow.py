"""Continuous bag of words (CBOW) with negative sampling: distinguish a word from random words by the mean vector of its
context.

Mikolov, Chen, Corrado and Dean (2013), Efficient Estimation of Word Representations in Vector Space, section 3.1. The
loss is equation 4 of Mikolov, Sutskever et al. (2013), with the mean h of the context's vectors in place of the word's
vector:

    L = - mean over words w of  ln s(u_w . h) + k E_{n ~ p} ln s(- u_n . h),        p(n) ~ count(n)^(3/4)

Subsampling, windows and noise are those of `models.objectives.skipgram`. A row has one prediction per word instead of
one per pair of words, which is a fraction of the work, and of the training signal for rare words. A word without a
context, because of subsampling or sentence ends, is not predicted.
"""

from typing import Any

import tensorflow as tf

from ptmbench.models.layers.core import made_from
from ptmbench.models.layers.operations import shape
from ptmbench.models.layers.vector_heads import MeansConfig
from ptmbench.models.objectives._loss import Loss
from ptmbench.models.objectives.skipgram import NEGATIVES, batches, blocks, contexts_of

__all__ = ["Cbow", "batches", "context_means"]


@made_from(MeansConfig)
class Cbow(Loss):
    """The ``loss`` of a table of word vectors, which are those of contexts here. It owns the second table, with the
    vectors of the predicted words."""

    over_vocabulary = False

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"words": words_with_context(batch)}

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        totals = totals or self.totals(batch)
        means, weights = context_means(self.encoder(batch, seed=seed).tokens, batch)  # [B, T, D], [B, T]
        answers = self.answers(batch["tokens"])  # [B, T, D]
        near = tf.cast(tf.reduce_sum(means * answers, axis=2), tf.float32)  # [B, T]
        far = tf.matmul(means, self.answers(batch["noise"]), transpose_b=True)  # [B, T, K]
        false = tf.reduce_mean(tf.math.softplus(tf.cast(far, tf.float32)), axis=2)  # [B, T]
        total = tf.cast(tf.maximum(totals["words"], 1), tf.float32)
        return {"loss": tf.reduce_sum(weights * (tf.math.softplus(-near) + NEGATIVES * false)) / total}


def context_means(vectors: tf.Tensor, batch: dict[str, Any]) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the mean of the ``vectors`` [B, T, D] in the context of each word, [B, T, D], and 1 for words that have a
    context, float32 [B, T]."""
    contexts = tf.cast(contexts_of(batch), tf.float32)  # [B, N, S, R]
    each = tf.reduce_sum(contexts, axis=3)  # [B, N, S]
    shares = tf.cast(contexts / tf.maximum(each, 1.0)[..., None], vectors.dtype)
    _, around = blocks(vectors)  # [B, N, R, D]
    rows, length, width = shape(vectors)
    means = tf.reshape(tf.matmul(shares, around), [rows, -1, width])[:, :length]  # without padding of the last block
    return means, tf.reshape(tf.minimum(each, 1.0), [rows, -1])[:, :length]


def words_with_context(batch: dict[str, Any]) -> tf.Tensor:
    """The number of words with a context, int32 []."""
    return tf.math.count_nonzero(tf.reduce_any(contexts_of(batch), axis=3), dtype=tf.int32)
