"""Pairwise ranking of windows: a window has to score higher than its copy with a random word in the middle.

Collobert and Weston (2008), section 5; Collobert et al. (2011), section 4.2, equation 17, and section 3.2 for f:

    L = mean over windows x of  max(0, 1 - f(x) + f(x^(w)))        f(x) = a . HardTanh(M [v_1; ...; v_11] + d)

x^(w) has the word w in the middle, drawn uniformly from the dictionary. The dictionary here is the set of words that
occur in the corpus. Vectors beyond the ends of a row are zeros. f has no additive constant, since it would cancel in
the difference.

M applied to a window is a sum over its 11 positions. One product gives the contributions of each token to all
positions. The second window differs from the first in one position only.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.models.layers import recurrent  # noqa: F401  the layers that configurations name
from ptmbench.models.layers.core import made_from
from ptmbench.models.layers.operations import shape
from ptmbench.models.layers.vector_heads import WindowRankingConfig
from ptmbench.models.objective import Batches, sampled
from ptmbench.models.objectives._loss import Loss
from ptmbench.models.objectives.sampling import TokenRuns, generator, take
from ptmbench.models.text.corpus import Corpus


@sampled()
def batches(corpus: Corpus, batch: int, length: int) -> Batches:
    """Returns a function from (step, seed) to ``tokens`` int32 [B, T] and ``others`` int32 [B, T], a random word for
    each token."""
    runs = TokenRuns(corpus.ids, length)
    dictionary = np.flatnonzero(corpus.counts()).astype(np.int32)

    def make(step: int, seed: int) -> dict[str, np.ndarray]:
        tokens = take(corpus.ids, runs.starts(step, batch, seed)[:, None] + np.arange(length))
        return {
            "tokens": tokens,
            "others": dictionary[generator(seed, step).integers(len(dictionary), size=tokens.shape)],
        }

    return make


@made_from(WindowRankingConfig)
class WindowRanking(Loss):
    """The ``loss`` of a table of word vectors. It owns the network that scores windows."""

    over_vocabulary = False
    reports = ("ranking_accuracy",)

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"windows": tf.size(batch["tokens"])}

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        totals = totals or self.totals(batch)
        rows, length = shape(batch["tokens"])
        width, hidden, window = self.encoder.width, self.config.inner, self.config.window
        side = window // 2
        vectors = tf.reshape(self.encoder(batch, seed=seed).tokens, [-1, width])  # [B * T, D]
        parts = tf.reshape(self.places(vectors), [rows, length, window, hidden])
        padded = tf.pad(parts, [[0, 0], [side, side], [0, 0], [0, 0]])
        written = sum(padded[:, place : place + length, place] for place in range(window)) + self.bias  # [B, T, F]
        # The same seed gives both words the same dropout, so that it cannot tell them apart.
        others = tf.reshape(self.encoder({"tokens": batch["others"]}, seed=seed).tokens, [-1, width])
        middle = self.places.whole()[:, side * hidden : (side + 1) * hidden]
        other = tf.reshape(tf.matmul(others, tf.cast(middle, others.dtype)), [rows, length, hidden])
        changed = written - parts[:, :, side] + tf.cast(other, parts.dtype)
        margin = 1.0 - self._scored(written) + self._scored(changed)  # [B * T]
        total = tf.cast(totals["windows"], tf.float32)
        return {
            "loss": tf.reduce_sum(tf.nn.relu(margin)) / total,
            "ranking_accuracy": tf.reduce_sum(tf.cast(margin < 1.0, tf.float32)) / total,
        }

    def _scored(self, hidden: tf.Tensor) -> tf.Tensor:
        """Maps hidden values [B, T, F], before the HardTanh, to scores, float32 [B * T]."""
        flat = tf.clip_by_value(tf.reshape(hidden, [-1, self.config.inner]), -1.0, 1.0)
        return tf.cast(self.score(flat), tf.float32)[:, 0]
