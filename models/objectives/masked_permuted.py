"""Masked and permuted language modelling: MLM whose predictions are made one after the other, in random order.
Song et al. (2020), sections 2.2 and 2.3, equation 4.

    L = - 1/|M| sum_{t > c} ln p(x_{z_t} | x_{z_<t}, M_{z_>c})

The last 15 % of a random order z are predicted. A prediction sees the tokens before it in that order, and a mask at
every position that is still to be predicted, its own included. Unlike in PLM, the length of the text is known. Unlike
in MLM, the other hidden tokens are known once they have been predicted.

Whole words are hidden (section 3.1), and their pieces are then predicted in any order, as in the authors' code. Of the
masks 80 % are [MASK], 10 % random pieces, and 10 % the token itself. Rows are full sentences without segments.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptmbench.models.layers.core import built
from ptmbench.models.layers.heads import MaskedLmConfig
from ptmbench.models.objective import Batches, Objective, sampled
from ptmbench.models.objectives import masking
from ptmbench.models.objectives.sampling import FullSentences, generator, heads
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary

SLOTS = ("masked_positions", "masked_labels", "masked_weights")


def shuffle(batch: dict[str, np.ndarray], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Returns ``batch`` with its masked slots [B, M] in a random order, the order of prediction. Unused slots stay
    last."""
    drawn = np.where(batch["masked_weights"] > 0, rng.random(batch["masked_weights"].shape), 2.0)
    order = np.argsort(drawn, axis=1, kind="stable")
    return batch | {name: np.take_along_axis(batch[name], order, axis=1) for name in SLOTS}


@sampled()
def batches(corpus: Corpus, vocabulary: Vocabulary, batch: int, length: int) -> Batches:
    """Returns a function from (step, seed) to the arrays of `models.objectives.mlm.noise`, with slots in the order of
    prediction."""
    texts = FullSentences(corpus, vocabulary, length)

    def make(step: int, seed: int) -> dict[str, np.ndarray]:
        rows, where = texts(step, batch, seed)
        rng = generator(seed, step)
        return shuffle(masking.whole_words(rows, heads(corpus, where), rng, vocabulary), rng)

    return make


class MaskedPermutedLm(Objective, keras.layers.Layer):
    """The ``loss`` of a `models.layers.compensated.PositionCompensated`: the MLM head over its queries."""

    reports = ("accuracy",)

    def __init__(self, words: MaskedLmConfig, encoder: keras.layers.Layer, name: str = "loss"):
        super().__init__(name=name)
        self.encoder, self.mlm = encoder, built(words, encoder, name="mlm")
        self.built = True

    def logits(self, batch: dict[str, Any], seed: Any = None) -> tf.Tensor:
        """Scores [B * M, V] of every piece for each slot."""
        queries = self.encoder.predict(batch, seed)  # [B, M, D]
        slot = tf.zeros_like(batch["masked_positions"]) + tf.range(tf.shape(queries)[1])
        return self.mlm.logits(queries, slot)

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        return self.mlm.totals(batch)

    def fill(self, batch: dict[str, Any]) -> tf.Tensor:
        """Scores [B, V] of every piece at ``places`` [B] of ``tokens`` [B, T], which hold [MASK]. The row's own vectors
        are used, since the query of a single mask sees the same tokens."""
        return self.mlm.fill(self.encoder(batch, seed=None), batch["places"])

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        values = self.mlm.score(self.logits(batch, seed), batch, totals or self.totals(batch))
        return {"loss": values["mlm_loss"], "accuracy": values["mlm_accuracy"]}
