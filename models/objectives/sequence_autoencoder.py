"""Sequence autoencoding: read a text to its end, then generate it from the final state.

Dai and Le (2015), section 2, after Sutskever et al. (2014); the same weights read and generate:

    L_SA = - 1/(T - 1) sum_{t >= 1} ln p(x_t | h, x_0 ... x_{t-1})        h the state after x_0 ... x_{T-1}

Rows are [CLS] text [SEP]; generation begins with [CLS].
"""

from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.models.objective import Batches, sampled
from ptmbench.models.objectives.lm import CausalLm
from ptmbench.models.objectives.sampling import FullSentences
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary


@sampled()
def batches(corpus: Corpus, vocabulary: Vocabulary, batch: int, length: int) -> Batches:
    """Returns a function from (step, seed) to ``tokens`` int32 [B, T], which are the targets too."""
    texts = FullSentences(corpus, vocabulary, length)

    def make(step: int, seed: int) -> dict[str, np.ndarray]:
        return texts(step, batch, seed)[0]

    return make


class SequenceAutoencoder(CausalLm):
    """The ``loss`` of an encoder as for `models.objectives.lm.CausalLm`: its ``decode``, with the source itself as the
    target."""

    fill = None
    """Not available: the network has learned to repeat its input, not to predict missing tokens."""

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        totals = totals or self.totals(batch)
        tokens = tf.convert_to_tensor(batch["tokens"], tf.int32)
        following = tokens[:, 1:]  # [B, T - 1]
        logits = self.decode({"tokens": tokens, "targets": tokens[:, :-1]}, seed)  # [B, T - 1, V]
        nll = tf.nn.sparse_softmax_cross_entropy_with_logits(following, logits)
        nll *= tf.cast(tf.not_equal(following, 0), tf.float32)
        return {"loss": tf.reduce_sum(nll) / tf.cast(tf.maximum(totals["tokens"], 1), tf.float32)}
