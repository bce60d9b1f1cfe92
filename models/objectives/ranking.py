"""Pairwise ranking of windows: what was written has to score higher than the same with a random word in the middle.

Collobert and Weston (2008), section 5; Collobert et al. (2011), section 4.2, equation 17, and section 3.2 for f:

    L = mean over windows x of  max(0, 1 - f(x) + f(x^(w)))        f(x) = a . HardTanh(M [v_1; ...; v_11] + d)

x^(w) has in the middle w, any word of the dictionary as likely as any other. A dictionary here is what occurs in the
corpus. Beyond the ends of a row there are zeros. A constant added to f changes no difference, so f has none.

M applied to a window is a sum over its 11 places: what each token contributes to each place is one product, and the
second window differs from the first in one place.
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
from ptmbench.models.objectives.sampling import Runs, generator, take
from ptmbench.models.text.corpus import Corpus


@sampled()
def batches(corpus: Corpus, batch: int, length: int) -> Batches:
    """(step, seed) to ``tokens`` int32 [B, T] and ``others`` int32 [B, T], the random word for each."""
    runs = Runs(corpus.ids, length)
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
    """``loss`` of a table of word vectors: holds the network that scores windows."""

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
        # With the same seed what is dropped of a word is dropped of the other one, too: it must not tell them apart.
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
        """[B, T, F] before the HardTanh to scores, float32 [B * T]."""
        flat = tf.clip_by_value(tf.reshape(hidden, [-1, self.config.inner]), -1.0, 1.0)
        return tf.cast(self.score(flat), tf.float32)[:, 0]
