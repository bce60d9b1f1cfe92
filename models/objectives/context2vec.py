"""Predict words from their whole sentence, by negative sampling. Melamud, Goldberger and Dagan (2016), sections 2.2 and
2.3:

    c_t = MLP([forward_{t-1}; backward_{t+1}])        L = - mean_t  ln s(u_{x_t} . c_t) + k E_{n ~ p} ln s(- u_n . c_t)

forward_{t-1} has read the text before the word and backward_{t+1} the text after it, so a context never contains its
word. The MLP has one hidden layer of rectified units, as wide as its input; k = 10 and p(n) ~ count(n)^(3/4). The noise
words are shared by a row, as in `models.objectives.skipgram`.

Rows are [CLS] text [SEP], where the authors take sentences. Special tokens are read but not predicted.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.models.layers.core import made_from
from ptmbench.models.layers.vector_heads import SHARED, Context2VecConfig
from ptmbench.models.objective import Batches, sampled
from ptmbench.models.objectives._loss import Loss
from ptmbench.models.objectives.sampling import FullSentences, generator
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary

NEGATIVES = 10
"""k."""


@sampled()
def batches(corpus: Corpus, vocabulary: Vocabulary, batch: int, length: int) -> Batches:
    """Returns a function from (step, seed) to ``tokens`` int32 [B, T] and ``noise`` int32 [B, K]."""
    texts = FullSentences(corpus, vocabulary, length)
    noise = np.cumsum(corpus.counts().astype(np.float64) ** 0.75)
    noise /= noise[-1]

    def make(step: int, seed: int) -> dict[str, np.ndarray]:
        rows, _ = texts(step, batch, seed)
        drawn = np.searchsorted(noise, generator(seed, step).random((batch, SHARED)), side="right")
        return rows | {"noise": drawn.astype(np.int32)}

    return make


@made_from(Context2VecConfig)
class Context2Vec(Loss):
    """The ``loss`` of an encoder with ``both`` directions (see `models.layers.recurrent_networks.Bidirectional`). It
    owns the MLP and the vectors of the predicted words."""

    over_vocabulary = False

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"words": tf.math.count_nonzero(_words(batch), dtype=tf.int32)}

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        totals = totals or self.totals(batch)
        tokens = tf.convert_to_tensor(batch["tokens"])
        contexts = self.contexts(tokens, seed)  # [B, T - 2, D]
        targets = self.targets(tokens[:, 1:-1])
        near = tf.cast(tf.reduce_sum(contexts * targets, axis=2), tf.float32)  # [B, T - 2]
        far = tf.matmul(contexts, self.targets(batch["noise"]), transpose_b=True)  # [B, T - 2, K]
        false = tf.reduce_mean(tf.math.softplus(tf.cast(far, tf.float32)), axis=2)
        each = (tf.math.softplus(-near) + NEGATIVES * false) * tf.cast(_words(batch), tf.float32)
        return {"loss": tf.reduce_sum(each) / tf.cast(tf.maximum(totals["words"], 1), tf.float32)}

    def contexts(self, tokens: tf.Tensor, seed: Any = None) -> tf.Tensor:
        """c_t of all ``tokens`` [B, T] except the first and the last, [B, T - 2, D]."""
        before, behind = (layers[-1] for layers in self.encoder.both(tokens, seed))  # [T, B, D / 2]
        both = tf.transpose(tf.concat([before[:-2], behind[2:]], axis=2), [1, 0, 2])  # [B, T - 2, D]
        hidden = tf.nn.relu(self.inner(tf.reshape(both, [-1, self.encoder.width])))
        return tf.reshape(self.outer(hidden), tf.shape(both))


def _words(batch: dict[str, Any]) -> tf.Tensor:
    """Which tokens are predicted, bool [B, T - 2]: all except special tokens and the ends of rows."""
    inner = tf.convert_to_tensor(batch["tokens"])[:, 1:-1]
    return tf.equal(inner, 1) | (inner > 4)  # id 1, [UNK], is the only special id that counts as a word
