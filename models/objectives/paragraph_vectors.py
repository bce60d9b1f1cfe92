"""Paragraph vectors: distinguish a text's words from random ones by the text's vector. Le and Mikolov (2014), 2.2, 2.3.

    L = mean over words w of  - ln s(u_w . h_w) - k E_{n ~ p} ln s(- u_n . h_w),        p(n) ~ count(n)^(3/4)

where h_w is the vector of the text alone (DBOW), or its mean with those of the words around w (DM), as in
`models.layers.vectors.Paragraphs`. The paper uses a hierarchical softmax. This is the negative sampling of Mikolov,
Sutskever et al. (2013), equation 4, which gensim's Doc2Vec also uses.

A text is a document of the corpus. Frequent words are dropped as in `models.objectives.skipgram`, but windows do not
extend to fill their places. K noise words are shared by a row. For new texts the network needs p, and learns it from
the noise words of the batch: - mean ln softmax(q)_n has a gradient for q alone, and its value is not part of the
reported loss.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.models.layers.core import made_from
from ptmbench.models.layers.vector_heads import SHARED, NoiseWordsConfig
from ptmbench.models.layers.vectors import NEGATIVES, WINDOW
from ptmbench.models.objective import Batches, sampled
from ptmbench.models.objectives._loss import Loss
from ptmbench.models.objectives.sampling import TokenRuns, generator, take
from ptmbench.models.objectives.skipgram import subsampling
from ptmbench.models.text.corpus import Corpus


@sampled()
def batches(corpus: Corpus, rows: int, batch: int, length: int) -> Batches:
    """Returns a function from (step, seed) to ``tokens``, ``windows``, ``documents`` int32 [B, T] and ``noise``
    int32 [B, K].

    ``windows`` are the half widths of the windows, 0 for a dropped word. ``documents`` are rows of a table of ``rows``
    vectors: the number of the text modulo ``rows``.
    """
    counts = corpus.counts().astype(np.float64)
    keep, _ = subsampling(counts)
    runs = TokenRuns(corpus.ids, length)
    noise = np.cumsum(counts**0.75)
    noise /= noise[-1]

    def make(step: int, seed: int) -> dict[str, np.ndarray]:
        rng = generator(seed, step)
        where = (runs.starts(step, batch, seed)[:, None] + np.arange(length)) % corpus.tokens  # [B, T]
        tokens = take(corpus.ids, where)
        sentence = corpus.sentences.searchsorted(where.ravel(), side="right") - 1
        document = corpus.documents.searchsorted(sentence, side="right") - 1
        kept = rng.random(tokens.shape, np.float32) < keep[tokens]
        return {
            "tokens": tokens,
            "windows": (rng.integers(1, WINDOW + 1, tokens.shape) * kept).astype(np.int32),
            "documents": (document.reshape(tokens.shape) % rows).astype(np.int32),
            "noise": np.searchsorted(noise, rng.random((batch, SHARED))).astype(np.int32),
        }

    return make


@made_from(NoiseWordsConfig)
class ParagraphVectors(Loss):
    """The ``loss`` of the tables of a `models.layers.vectors.Paragraphs`, which own all trained weights."""

    over_vocabulary = False

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {
            "words": tf.math.count_nonzero(batch["windows"], dtype=tf.int32),
            "noise": tf.size(batch["noise"]),
        }

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        totals = totals or self.totals(batch)
        batch = {name: tf.convert_to_tensor(value) for name, value in batch.items()}
        beside, number = self.encoder.context(batch["tokens"], batch["windows"], batch["documents"])
        h = self.encoder.documents(batch["documents"]) + beside
        h /= 1.0 + number[:, :, None]  # [B, T, D]
        near = tf.reduce_sum(h * self.encoder.answers(batch["tokens"]), axis=2)  # [B, T]
        far = tf.matmul(h, self.encoder.answers(batch["noise"]), transpose_b=True)  # [B, T, K]
        false = tf.reduce_mean(tf.math.softplus(tf.cast(far, tf.float32)), axis=2)  # [B, T]
        each = tf.math.softplus(-tf.cast(near, tf.float32)) + NEGATIVES * false
        there = tf.cast(batch["windows"] > 0, tf.float32)
        loss = tf.reduce_sum(there * each) / tf.cast(tf.maximum(totals["words"], 1), tf.float32)
        shares = tf.nn.log_softmax(tf.cast(self.encoder.noise.value, tf.float32))  # [V]
        noise = -tf.reduce_sum(tf.gather(shares, batch["noise"])) / tf.cast(totals["noise"], tf.float32)
        return {"loss": loss + noise - tf.stop_gradient(noise)}
