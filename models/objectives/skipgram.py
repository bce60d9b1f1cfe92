"""Skip-gram with negative sampling (SGNS): tell the words around a word from random ones.

Mikolov, Sutskever, Chen, Corrado and Dean (2013), section 2.2 (equation 4) and 2.3:

    L = - mean over pairs (w, c) of  ln s(u_c . v_w) + k E_{n ~ p} ln s(- u_n . v_w),        p(n) ~ count(n)^(3/4)

Frequent words are dropped with probability 1 - sqrt(t / frequency) before windows are laid (so windows reach further),
and each window's half width is drawn from 1 ... W, which weighs near words more. Windows end at sentence ends.

The authors' program walks pair by pair. Here a row of T tokens is one product: the scores of every token with every
other, of which the band inside the windows counts, and with K noise words that the row shares (Ji et al., 2016, share
them within a window). It is the same objective, its expectation over noise estimated from K samples instead of k, and
no vector is gathered twice.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from models.architectures.word_vectors import initializer
from models.corpus import Corpus
from models.objectives.sampling import Runs, generator, take
from models.pretrainable import Batches

WINDOW, NEGATIVES, SHARED = 5, 5, 64
"""W, k and K."""
THRESHOLD = 1e-3
"""t of the authors' program (the paper's 1e-5 is for a billion words), raised where it would drop words of average
frequency: a vocabulary of subwords, or of a small world, has few rare ones."""
_FAR = 1 << 16


def batches(corpus: Corpus, batch: int, length: int) -> Batches:
    """(step, seed) to ``tokens``, ``places``, ``windows`` int32 [B, T] and ``noise`` int32 [B, K].

    ``places`` number the tokens that were kept, with a gap wider than any window at sentence ends; ``windows`` are the
    half widths, 0 where a token was dropped: it is neither a centre nor a context.
    """
    runs = Runs(corpus.ids, length)
    counts = corpus.counts().astype(np.float64)
    frequency = counts / counts.sum()
    threshold = max(THRESHOLD, 1.0 / np.count_nonzero(counts))
    keep = np.sqrt(threshold / np.maximum(frequency, 1e-12)).astype(np.float32)  # [V], above 1: always kept
    noise = np.cumsum(counts**0.75)
    noise /= noise[-1]

    def make(step: int, seed: int) -> dict[str, np.ndarray]:
        rng = generator(seed, step)
        where = runs.starts(step, batch, seed)[:, None] + np.arange(length)  # [B, T]
        tokens = take(corpus.ids, where)
        kept = rng.random(tokens.shape, np.float32) < keep[tokens]
        windows = rng.integers(1, WINDOW + 1, tokens.shape) * kept
        rounds, inside = np.divmod(where, corpus.tokens)
        sentence = corpus.sentences.searchsorted(inside.ravel(), side="right").reshape(where.shape)
        sentence += rounds * len(corpus.sentences)  # the last window goes on at the beginning
        places = np.cumsum(kept, axis=1) + _FAR * (sentence - sentence[:, :1])
        return {
            "tokens": tokens.astype(np.int32),
            "places": places.astype(np.int32),
            "windows": windows.astype(np.int32),
            "noise": np.searchsorted(noise, rng.random((batch, SHARED))).astype(np.int32),
        }

    return make


class SkipGram(keras.layers.Layer):
    """``loss`` of a table of word vectors: holds the second table, of the words as contexts."""

    def __init__(self, encoder: keras.layers.Layer, name: str = "loss"):
        super().__init__(name=name)
        self.encoder = encoder
        self.contexts = self.add_weight(encoder.table.shape, initializer(encoder.width), name="contexts")
        self.built = True

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"pairs": tf.math.count_nonzero(_pairs(batch), dtype=tf.int32)}

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        totals = totals or self.totals(batch)
        tokens, pairs = batch["tokens"], tf.cast(_pairs(batch), tf.float32)  # [B, T], [B, T, T]
        centres = self.encoder(batch, seed=seed).tokens  # [B, T, D]
        around = tf.gather(self.contexts.value, tokens)  # [B, T, D]
        near = tf.cast(tf.matmul(centres, around, transpose_b=True), tf.float32)  # [B, T, T]
        far = tf.matmul(centres, tf.gather(self.contexts.value, batch["noise"]), transpose_b=True)  # [B, T, K]
        far = tf.cast(far, tf.float32)
        true = tf.reduce_sum(tf.math.softplus(-near) * pairs, axis=2)  # [B, T]
        false = tf.reduce_mean(tf.math.softplus(far), axis=2)  # [B, T]
        each = tf.reduce_sum(pairs, axis=2)  # [B, T] pairs per centre
        total = tf.cast(tf.maximum(totals["pairs"], 1), tf.float32)
        return {"loss": tf.reduce_sum(true + NEGATIVES * each * false) / total}


def _pairs(batch: dict[str, Any]) -> tf.Tensor:
    """Whether the second token is a context of the first: bool [B, T, T]."""
    places, windows = tf.convert_to_tensor(batch["places"]), tf.convert_to_tensor(batch["windows"])  # [B, T]
    away = tf.abs(places[:, :, None] - places[:, None, :])  # the own place is 0 away, and a dropped token's is no one's
    return (away <= windows[:, :, None]) & (windows[:, None, :] > 0) & (away > 0)
