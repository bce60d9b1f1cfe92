"""Unified language modelling: MLM with four attention masks in one batch. Dong et al. (2019), sections 2.3 and 2.4.

    L = L_MLM + L_NSP,   L_MLM = - 1/|M| sum_{t in M} ln p(x_t | what t may see of x with M hidden)

A third of the rows is bidirectional: two texts, of which the second is random in half of these rows, with NSP. A third
is sequence-to-sequence: the second text follows the first and is read from left to right. A sixth is read from the left
and a sixth from the right, both texts as one. `models.architectures.masked_encoder` describes how segments determine
the masks. The kind of each row is drawn independently, so batches have these shares on average only.

15 % of the text is hidden, in both texts: one token in 80 % of the draws, a bigram or trigram in 20 %; 80/10/10 as in
BERT. Runs of tokens end with their text and may touch, as in the authors' code. Special tokens are never drawn.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.models.architectures.masked_encoder import BACKWARD, FORWARD, SOURCE
from ptmbench.models.layers.operations import shape
from ptmbench.models.objective import Batches, sampled
from ptmbench.models.objectives import masking, mlm, nsp
from ptmbench.models.objectives.sampling import Pairs
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary

SHARES = (1 / 3, 1 / 3, 1 / 6, 1 / 6)
"""Bidirectional, sequence-to-sequence, left-to-right, right-to-left."""
NGRAMS = (0.8, 0.1, 0.1)
"""p(n) for the number n of tokens that one draw hides."""


@sampled()
def batches(corpus: Corpus, vocabulary: Vocabulary, batch: int, length: int) -> Batches:
    """Returns a function from (step, seed) to the arrays of `models.objectives.mlm.noise`, with ``segments`` 0 ... 5
    and ``next`` int32 [B], which counts in bidirectional rows only."""
    paired, following = (Pairs(corpus, vocabulary, length, share) for share in (nsp.RANDOM_SECOND, 0.0))

    def make(step: int, seed: int) -> dict[str, np.ndarray]:
        rows, rng = paired(step, batch, seed)
        second, _ = following(step, batch, seed)
        kind = rng.choice(4, batch, p=SHARES)[:, None]  # [B, 1]
        tokens = np.where(kind == 0, rows["tokens"], second["tokens"])
        segments = np.where(kind == 0, rows["segments"], second["segments"] + SOURCE)
        segments = np.where(kind >= 2, np.where(kind == 2, FORWARD, BACKWARD), segments).astype(np.int32)
        rows |= {"tokens": tokens, "segments": segments}
        return masking.ngrams(rows, np.ones(tokens.shape, bool), rng, vocabulary, NGRAMS, merge=True)

    return make


class NextSentence(nsp.NextSentence):
    """The head of `models.objectives.nsp`, for the bidirectional rows only."""

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"pairs": tf.math.count_nonzero(batch["segments"][:, 0] < FORWARD, dtype=tf.int32)}

    def call(self, encoding: Any, batch: dict[str, Any], totals: dict[str, Any]) -> dict[str, Any]:
        logits = tf.cast(self.scores(encoding.pooled), tf.float32)  # [B, 2]
        weights = tf.cast(batch["segments"][:, 0] < FORWARD, tf.float32)  # [B]
        total = tf.cast(tf.maximum(totals["pairs"], 1), tf.float32)
        nll = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["next"], logits)  # [B]
        hit = tf.cast(tf.equal(tf.argmax(logits, -1, output_type=tf.int32), batch["next"]), tf.float32)
        return {
            "nsp_loss": tf.reduce_sum(nll * weights) / total,
            "nsp_accuracy": tf.reduce_sum(hit * weights) / total,
        }


def make_decode(encoder: Any, head: mlm.MaskedLm, mask: int) -> Any:
    """Returns the `models.pretrainable.Pretrainable.decode` of ``encoder`` with its MLM ``head``. ``mask`` is the token
    at which the next one is predicted."""

    def logits(batch: dict[str, Any], seed: Any = None) -> tf.Tensor:
        tokens, targets = (tf.convert_to_tensor(batch[name], tf.int32) for name in ("tokens", "targets"))
        x = encoder.continuation(tokens, targets, mask, seed)  # [B, S, D]
        rows, length = shape(targets)
        every = tf.tile(tf.range(length)[None, :], [rows, 1])  # [B, S]
        scores = head.logits(x, every)  # [B * S, V]
        return tf.reshape(scores, [rows, length, scores.shape[-1]])

    return logits
