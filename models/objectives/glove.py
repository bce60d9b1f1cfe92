"""Weighted least squares on the logarithms of co-occurrence counts. Pennington et al. (2014), section 3, equation 8:

    L = mean over pairs i, j that co-occur of  f(X_ij) (w_i . w~_j + b_i + b~_j - ln X_ij)^2

    f(x) = min(1, (x / x_max)^(3/4)),        x_max = 100

Two words at a distance of d words in a sentence, at most 10, add 1 / d to X, in both directions (section 4.2). The
corpus is counted before the first step. The table of pairs stays in memory: 12 bytes per pair.

A row consists of T pairs instead of T tokens. Every pair occurs once per epoch, in an order that is independent of the
text, as in the authors' program.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.models.layers.core import made_from
from ptmbench.models.layers.operations import dropout
from ptmbench.models.layers.vector_heads import GloveConfig
from ptmbench.models.objective import Batches, sampled
from ptmbench.models.objectives._loss import Loss
from ptmbench.models.objectives.sampling import TokenRuns, generator, take
from ptmbench.models.text.corpus import Corpus

WINDOW, MOST, POWER = 10, 100.0, 0.75
"""The largest distance, x_max and the exponent of f."""
_BLOCK = 1 << 18  # tokens that are counted in one pass


def count(corpus: Corpus) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts the pairs that co-occur. Returns i and j int32 [N] in ascending order, and X_ij float64 [N]."""
    size = len(corpus.counts())
    keys, sums = np.zeros(0, np.int64), np.zeros(0)
    for begin in range(0, corpus.tokens, _BLOCK):
        end = min(begin + _BLOCK + WINDOW, corpus.tokens)  # windows of the last words extend into the next block
        where = np.arange(begin, end)
        ids = corpus.ids.take(where, mode="wrap").astype(np.int64)
        sentence = corpus.sentences.searchsorted(where, side="right")
        found, weights = [keys], [sums]
        for distance in range(1, WINDOW + 1):
            first = np.arange(max(0, min(_BLOCK, len(ids) - distance)))
            first = first[sentence[first] == sentence[first + distance]]
            one, other = ids[first], ids[first + distance]
            found += [one * size + other, other * size + one]
            weights += [np.full(2 * len(first), 1.0 / distance)]
        keys, inverse = np.unique(np.concatenate(found), return_inverse=True)
        sums = np.bincount(inverse, np.concatenate(weights), len(keys))
    return (keys // size).astype(np.int32), (keys % size).astype(np.int32), sums


@sampled()
def batches(corpus: Corpus, batch: int, length: int) -> Batches:
    """Returns a function from (step, seed) to ``tokens`` and ``others`` int32 [B, T], i and j of pairs, and ``counts``,
    X_ij float32 [B, T]. The bits of the counts are passed as int32, since Keras would round floats to bfloat16. Raises
    `ValueError` if the corpus has no pairs."""
    one, other, counts = count(corpus)
    if not len(counts):
        raise ValueError("No two words share a sentence of this corpus: GloVe has nothing to count. Give longer text.")
    order = generator(0, len(counts)).permutation(len(counts)).astype(np.int32)
    one, other, counts = one[order], other[order], counts[order].astype(np.float32).view(np.int32)
    runs = TokenRuns(one, length)

    def make(step: int, seed: int) -> dict[str, np.ndarray]:
        where = runs.starts(step, batch, seed)[:, None] + np.arange(length)  # [B, T]
        return {"tokens": take(one, where), "others": take(other, where), "counts": counts.take(where, mode="wrap")}

    return make


@made_from(GloveConfig)
class Glove(Loss):
    """The ``loss`` of a `models.layers.vectors.SummedVectors`. It owns the biases."""

    over_vocabulary = False

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"pairs": tf.size(batch["tokens"])}

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        totals = totals or self.totals(batch)
        one, other = batch["tokens"], batch["others"]  # [B, T]
        words = dropout(self.encoder.tokens(one), self.encoder.dropout, seed, 0)  # [B, T, D]
        contexts = dropout(self.encoder.contexts(other), self.encoder.dropout, seed, 1)
        # A batched matrix product of single rows and columns would take 2.3 times as long.
        product = tf.cast(tf.reduce_sum(words * contexts, axis=2), tf.float32)  # [B, T]
        biases = tf.gather(self.bias.value, one) + tf.gather(self.context_bias.value, other)
        counts = tf.bitcast(tf.convert_to_tensor(batch["counts"]), tf.float32)
        error = product + tf.cast(biases, tf.float32) - tf.math.log(counts)
        weights = tf.minimum(1.0, (counts / MOST) ** POWER)
        return {"loss": tf.reduce_sum(weights * tf.square(error)) / tf.cast(totals["pairs"], tf.float32)}
