"""Pseudo-masked language modelling (PMLM): autoencoding and partially autoregressive modelling of the same hidden
tokens in one pass. Bao et al. (2020), section 2.

    L = L_AE + L_PAR
    L_AE  = - 1/|M| sum_{t in M} ln p(x_t | x without M)
    L_PAR = - 1/|M| sum_i sum_{t in M_i} ln p(x_t | x without M_i, M_{i+1} ...)

M is hidden in blocks of adjacent tokens M_1 ... M_n, in random order. The input is the text with M as [MASK], for L_AE,
and after it, at the positions of M, each original token and a pseudo mask, for L_PAR. Each token attends to:

    text and [MASK]      text and [MASK]
    originals of M_i     text and [MASK], originals of M_1 ... M_i
    pseudo masks of M_i  text and [MASK], originals of M_1 ... M_{i-1}, pseudo masks of M_i

So the text is encoded once for both losses, and no prediction sees its own token. All of M must be [MASK] in the text:
a token left in place, as 10 % are in BERT, would reach its own pseudo mask through the text. The pseudo mask is the
first of the free special tokens. 15 % of the text is hidden, one token in 60 % of the draws, 2 to 6 in 40 %.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptmbench.models.layers.core import built
from ptmbench.models.layers.heads import PseudoMaskedConfig
from ptmbench.models.layers.operations import shape
from ptmbench.models.objective import Batches, Objective, sampled
from ptmbench.models.objectives import masking, mlm
from ptmbench.models.objectives.sampling import Pairs
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary

NGRAMS = (0.6, 0.08, 0.08, 0.08, 0.08, 0.08)
"""p(n) for the number n of tokens in a block."""


@sampled()
def batches(corpus: Corpus, vocabulary: Vocabulary, batch: int, length: int) -> Batches:
    """Returns a function from (step, seed) to the arrays of `models.objectives.mlm.noise` for two texts of which the
    second follows the first, and ``order`` int32 [B, M]. The hidden tokens of one block have the same number, and
    blocks are predicted in the order of their numbers."""
    pairs = Pairs(corpus, vocabulary, length, random_second=0.0)

    def make(step: int, seed: int) -> dict[str, np.ndarray]:
        rows, rng = pairs(step, batch, seed)
        del rows["next"]
        tokens = rows["tokens"]
        chosen = masking.choose(tokens, np.ones(tokens.shape, bool), rng, vocabulary, NGRAMS)
        rows = mlm.hide(rows, chosen.positions, chosen.used, chosen.positions * 0.0, rng, vocabulary, mask=1.0)
        ranks = np.argsort(rng.random(tokens.shape), axis=1)  # a random order of all positions where blocks may begin
        return rows | {"order": np.take_along_axis(ranks, chosen.begins, axis=1).astype(np.int32)}

    return make


def visible(order: tf.Tensor, length: Any) -> tf.Tensor:
    """Returns the attention mask for ``length`` positions of text, M originals and M pseudo masks: bool
    [B, T + 2 M, T + 2 M], queries first, from ``order`` [B, M]."""
    rows, hidden = shape(order)
    kind = tf.concat([tf.fill([length], 0), tf.fill([hidden], 1), tf.fill([hidden], 2)], 0)
    place = tf.concat([tf.zeros([rows, length], order.dtype), order, order], axis=1)  # [B, T + 2 M]
    query, key = kind[:, None], kind[None, :]
    earlier, same = place[:, None, :] < place[:, :, None], tf.equal(place[:, None, :], place[:, :, None])
    original = tf.equal(key, 1) & (tf.equal(query, 1) & (earlier | same) | tf.equal(query, 2) & earlier)
    return tf.equal(key, 0) | original | tf.equal(key, 2) & tf.equal(query, 2) & same


class PseudoMaskedLm(Objective, keras.layers.Layer):
    """The ``loss`` of a `models.layers.masked.MaskedEncoder` with distances. One MLM head serves both parts."""

    reports = ("mlm_loss", "mlm_accuracy", "par_loss", "par_accuracy")

    def __init__(
        self, words: PseudoMaskedConfig, encoder: keras.layers.Layer, vocabulary: Vocabulary, name: str = "loss"
    ):
        super().__init__(name=name)
        self.encoder, self.pseudo = encoder, vocabulary.sentinels[0]
        self.mlm = built(words, encoder, name="mlm")
        self.built = True

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        return self.mlm.totals(batch)

    def logits(self, batch: dict[str, Any], seed: Any = None) -> tf.Tensor:
        """Scores [B, 2 M, V]: those of the [MASK]s, then those of the pseudo masks."""
        tokens, labels = batch["tokens"], tf.convert_to_tensor(batch["masked_labels"])
        positions = tf.convert_to_tensor(batch["masked_positions"])  # [B, M]
        (rows, length), hidden = shape(tokens), shape(positions)[1]
        pseudo = tf.where(tf.equal(labels, 0), 0, self.pseudo)  # unused slots are padding
        every = tf.concat([tokens, labels, pseudo], axis=1)  # [B, T + 2 M]
        text = tf.broadcast_to(tf.range(length), tf.shape(tokens))
        segments = tf.convert_to_tensor(batch["segments"])
        inside = tf.gather(segments, positions, batch_dims=1)  # [B, M]
        x = self.encoder.hidden(
            every,
            tf.concat([segments, inside, inside], axis=1),
            visible(tf.convert_to_tensor(batch["order"]), length),
            tf.concat([text, positions, positions], axis=1),
            seed,
        )[-1]  # [B * (T + 2 M), D]
        x = tf.reshape(x, [rows, -1, self.encoder.width])
        behind = tf.tile(tf.range(length + hidden, length + 2 * hidden)[None, :], [rows, 1])  # [B, M]
        scores = self.mlm.logits(x, tf.concat([positions, behind], axis=1))  # [B * 2 M, V]
        return tf.reshape(scores, [rows, 2 * hidden, scores.shape[-1]])

    def fill(self, batch: dict[str, Any]) -> tf.Tensor:
        """Scores [B, V] of every piece at ``places`` [B] of ``tokens`` [B, T], which hold [MASK], as for L_AE."""
        return self.mlm.fill(self.encoder(batch, seed=None), batch["places"])

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        totals = totals or self.totals(batch)
        logits = self.logits(batch, seed)
        hidden, size = shape(batch["masked_positions"])[1], logits.shape[-1]
        encoding, regressive = (
            self.mlm.score(tf.reshape(part, [-1, size]), batch, totals)
            for part in (logits[:, :hidden], logits[:, hidden:])
        )
        return {
            "loss": encoding["mlm_loss"] + regressive["mlm_loss"],
            **encoding,
            "par_loss": regressive["mlm_loss"],
            "par_accuracy": regressive["mlm_accuracy"],
        }
