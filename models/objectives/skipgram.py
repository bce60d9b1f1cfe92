"""Skip-gram with negative sampling (SGNS): distinguish the words around a word from random ones.

Mikolov, Sutskever, Chen, Corrado and Dean (2013), section 2.2 (equation 4) and 2.3:

    L = - mean over pairs (w, c) of  ln s(u_c . v_w) + k E_{n ~ p} ln s(- u_n . v_w),        p(n) ~ count(n)^(3/4)

Frequent words are dropped with probability 1 - sqrt(t / frequency) before windows are formed (so windows reach
further). The half width of each window is drawn from 1 ... W, which gives near words a larger weight. Windows end at
sentence ends. A row has the T tokens that are kept of about T / s tokens of text, where s is the share that is kept:
dropped words cost nothing.

The authors' program processes pair by pair. Here a row is cut into blocks of S tokens. One product gives the scores of
a block's tokens with each other and with W tokens on either side; only the band inside the windows counts. Another
product gives the scores with K noise words, which are shared by the row (Ji et al., 2016, share them within a window).
It is the same objective. Its expectation over noise is estimated from K samples instead of k, and no vector is gathered
twice.
"""

import math
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.models.layers.core import made_from
from ptmbench.models.layers.operations import shape
from ptmbench.models.layers.vector_heads import BLOCK, SHARED, WINDOW, NegativeSamplingConfig
from ptmbench.models.objective import Batches, sampled
from ptmbench.models.objectives._loss import Loss
from ptmbench.models.objectives.sampling import TokenRuns, generator, take
from ptmbench.models.text.corpus import Corpus

NEGATIVES = 5
"""k. W and K are `WINDOW` and `SHARED`."""
THRESHOLD = 1e-3
"""t of the authors' program (the paper's 1e-5 is for a billion words). It is raised if it would drop words of average
frequency, since a vocabulary of subwords, or of a small domain, has few rare words."""
FAR = 1 << 16
"""The distance between texts in ``places``; larger than any window."""


@sampled()
def batches(corpus: Corpus, batch: int, length: int) -> Batches:
    """Returns a function from (step, seed) to ``tokens``, ``places``, ``windows`` int32 [B, T] and ``noise``
    int32 [B, K].

    ``places`` number the tokens of a row, with a gap larger than any window at sentence ends; ``windows`` are the half
    widths. A token with window 0 is neither a centre nor a context: it is padding, if fewer than T tokens of a stretch
    of text were kept. Rows are cut so that this is rare. The excess tokens of a stretch are sampled in another epoch.
    """
    counts = corpus.counts().astype(np.float64)
    keep, share = subsampling(counts)
    span = round(length / share)
    runs = TokenRuns(corpus.ids, span)
    reach = span + math.ceil(5 * math.sqrt(span * (1 - share) / share))  # a margin of five standard deviations
    noise = np.cumsum(counts**0.75)
    noise /= noise[-1]

    def make(step: int, seed: int) -> dict[str, np.ndarray]:
        rng = generator(seed, step)
        where = runs.starts(step, batch, seed)[:, None] + np.arange(reach)  # [B, R]
        text = take(corpus.ids, where)
        kept = rng.random(text.shape, np.float32) < keep[text]
        column = np.cumsum(kept, axis=1, dtype=np.int32) - 1
        kept &= column < length
        row, column, where = np.nonzero(kept)[0], column[kept], where[kept]
        rounds, inside = np.divmod(where, corpus.tokens)
        sentence = corpus.sentences.searchsorted(inside, side="right")
        sentence += rounds * len(corpus.sentences)  # the last window continues at the beginning
        tokens, places = np.zeros((2, batch, length), np.int32)
        tokens[row, column] = text[kept]
        first = sentence[np.searchsorted(row, row)]  # the first sentence of each token's row
        places[row, column] = column + FAR * (sentence - first)
        return {
            "tokens": tokens,
            "places": places,
            "windows": (rng.integers(1, WINDOW + 1, tokens.shape) * (tokens > 0)).astype(np.int32),
            "noise": np.searchsorted(noise, rng.random((batch, SHARED))).astype(np.int32),
        }

    return make


def subsampling(counts: np.ndarray) -> tuple[np.ndarray, float]:
    """Returns the probabilities to keep words that occur ``counts`` [V] times, float32 [V], where values above 1 mean
    always; and the share of the text that is kept."""
    frequency = counts / counts.sum()
    threshold = max(THRESHOLD, 1.0 / np.count_nonzero(counts))
    keep = np.sqrt(threshold / np.maximum(frequency, 1e-12)).astype(np.float32)
    return keep, float(frequency @ np.minimum(keep, 1.0))


@made_from(NegativeSamplingConfig)
class SkipGram(Loss):
    """The ``loss`` of a table of word vectors. It owns the second table, with the vectors of words as contexts."""

    over_vocabulary = False

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"pairs": tf.math.count_nonzero(contexts_of(batch), dtype=tf.int32)}

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        totals = totals or self.totals(batch)
        tokens, pairs = batch["tokens"], tf.cast(contexts_of(batch), tf.float32)  # [B, T], [B, N, S, R]
        centres = self.encoder(batch, seed=seed).tokens  # [B, T, D]
        own, _ = blocks(centres)  # [B, N, S, D]
        _, around = blocks(self.contexts(tokens))  # [B, N, R, D]
        near = tf.cast(tf.matmul(own, around, transpose_b=True), tf.float32)  # [B, N, S, R]
        far = tf.matmul(centres, self.contexts(batch["noise"]), transpose_b=True)  # [B, T, K]
        false = tf.reduce_mean(tf.math.softplus(tf.cast(far, tf.float32)), axis=2)  # [B, T]
        each, _ = blocks(false)  # [B, N, S]
        each *= tf.reduce_sum(pairs, axis=3)  # one noise term for each pair of a centre
        total = tf.cast(tf.maximum(totals["pairs"], 1), tf.float32)
        true = tf.reduce_sum(tf.math.softplus(-near) * pairs)
        return {"loss": (true + NEGATIVES * tf.reduce_sum(each)) / total}


def blocks(values: tf.Tensor, beside: int = WINDOW) -> tuple[tf.Tensor, tf.Tensor]:
    """Cuts ``values`` [B, T, ...] into N blocks of S, [B, N, S, ...]. Returns them without and with ``beside`` further
    values on either side, [B, N, R, ...].

    The last block and positions outside of the row are padded with zeros. S is at most `BLOCK`.
    """
    rows, length, *rest = shape(values)
    number = -(-length // BLOCK)
    size = -(-length // number)
    values = tf.pad(values, [[0, 0], [0, number * size - length], *([[0, 0]] * len(rest))])
    own = tf.reshape(values, [rows, number, size, *rest])
    nothing = tf.zeros_like(own[:, :1, :beside])
    before = tf.concat([nothing, own[:, :-1, -beside:]], axis=1)
    after = tf.concat([own[:, 1:, :beside], nothing], axis=1)
    return own, tf.concat([before, own, after], axis=2)


def contexts_of(batch: dict[str, Any]) -> tf.Tensor:
    """Returns whether the second token is a context of the first, bool [B, N, S, R]. The first token is in a block, the
    second in the block or next to it."""
    places, windows = tf.convert_to_tensor(batch["places"]), tf.convert_to_tensor(batch["windows"])  # [B, T]
    centres, others = blocks(places)
    reach, present = blocks(windows)
    others = tf.where(present > 0, others, -FAR)
    away = tf.abs(centres[..., None] - others[:, :, None])  # the token itself has distance 0
    return (away <= reach[..., None]) & (away > 0)
