"""Continuous bag of words (CBOW) with negative sampling: tell a word from random ones by the mean of those around it.

Mikolov, Chen, Corrado and Dean (2013), Efficient Estimation of Word Representations in Vector Space, section 3.1; the
loss is equation 4 of Mikolov, Sutskever et al. (2013), with the mean h of the context's vectors for the word's own:

    L = - mean over words w of  ln s(u_w . h) + k E_{n ~ p} ln s(- u_n . h),        p(n) ~ count(n)^(3/4)

Subsampling, windows and noise are those of `models.objectives.skipgram`. Here a row makes one prediction per word and
there one per pair of words: a fraction of the work, and of the signal for rare words. A word that was left alone by
subsampling or by the ends of its sentence has no context and is not predicted.
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
    """``loss`` of a table of word vectors, which are the contexts' here: holds the second table, of the words as
    answers."""

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
    """The mean of the ``vectors`` [B, T, D] around each word, [B, T, D], and 1 where there are any, float32 [B, T]."""
    contexts = tf.cast(contexts_of(batch), tf.float32)  # [B, N, S, R]
    each = tf.reduce_sum(contexts, axis=3)  # [B, N, S]
    shares = tf.cast(contexts / tf.maximum(each, 1.0)[..., None], vectors.dtype)
    _, around = blocks(vectors)  # [B, N, R, D]
    rows, length, width = shape(vectors)
    means = tf.reshape(tf.matmul(shares, around), [rows, -1, width])[:, :length]  # without what fills the last block
    return means, tf.reshape(tf.minimum(each, 1.0), [rows, -1])[:, :length]


def words_with_context(batch: dict[str, Any]) -> tf.Tensor:
    """How many words have a context: int32 []."""
    return tf.math.count_nonzero(tf.reduce_any(contexts_of(batch), axis=3), dtype=tf.int32)
