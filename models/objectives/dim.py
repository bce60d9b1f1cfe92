"""Deep InfoMax (DIM): which n-gram is missing from this text? Kong et al. (2020), section 4.

    L_DIM = - ln [exp(s(x_ij)) / sum_{y in S} exp(s(y))]        s(y) = g(x^)' g(y) / sqrt(D)

x^ is the text with the n-gram x_ij hidden. g(.) is the encoder's vector of the first token, [CLS], for a text or for an
n-gram alone. S contains x_ij and random n-grams. InfoNCE is a lower bound on the mutual information of a text and its
parts. The length of n-grams is normal with mean 5 and deviation 1, clipped to 1 ... 10.

The paper's score has no sqrt(D). Layer normalisation gives vectors of length sqrt(D), so inner products can be as large
as D, where the softmax is saturated. Without the division, an encoder of width 256 gave all tokens nearly the same
vector after 1e14 FLOPs (an effective rank of 6 of 256), and learned neither objective.

Negatives belong to a row. They come from anywhere in the corpus outside of the row, and not from the other rows of the
batch. So a row's loss does not depend on how a batch is divided among replicas and accumulated parts. There are T / 16
candidates per row (at least 4), all as long as the true one, since the number of [MASK]s reveals its length.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptmbench.models.layers.core import built
from ptmbench.models.layers.heads import MaskedLmConfig
from ptmbench.models.layers.operations import fold, shape
from ptmbench.models.objective import Batches, Objective, sampled
from ptmbench.models.objectives import mlm
from ptmbench.models.objectives.sampling import FullSentences, generator, take
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary

MEAN, DEVIATION, LONGEST = 5.0, 1.0, 10
ROOM = LONGEST + 2
"""The length of an n-gram with [CLS] and [SEP], at most."""
WEIGHT = 1.0
"""The weight of DIM relative to MLM, which the paper does not give."""


def candidates(length: int) -> int:
    """Returns the number of n-grams per row of ``length`` tokens, the true one included."""
    return max(4, length // 16)


def draw(free: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draws an n-gram for each row of ``free`` bool [B, T], which marks where n-grams may be. Returns the first
    position and the length, int64 [B] each.

    All positions are equally likely. A row without room for the drawn length gets its longest n-gram.
    """
    rows, length = free.shape
    sizes = np.clip(np.rint(rng.normal(MEAN, DEVIATION, rows)), 1, LONGEST).astype(np.int64)
    ends = np.minimum.accumulate(np.where(free, length, np.arange(length))[:, ::-1], axis=1)[:, ::-1]
    room = np.minimum(ends - np.arange(length), sizes[:, None])  # [B, T], 0 where no n-gram can begin
    first = np.argmax(room + rng.random(free.shape), axis=1)
    return first, room[np.arange(rows), first]


@sampled()
def batches(corpus: Corpus, vocabulary: Vocabulary, batch: int, length: int) -> Batches:
    """Returns a function from (step, seed) to the arrays of `mlm.noise`, with an n-gram hidden in addition, and
    ``ngrams`` int32 [B, C, 12]: the true one first, each between [CLS] and [SEP].

    Positions inside the n-gram that MLM had drawn are hidden too, and are still predicted.
    """
    texts = FullSentences(corpus, vocabulary, length)
    count = candidates(length)

    def make(step: int, seed: int) -> dict[str, np.ndarray]:
        rows, where = texts(step, batch, seed)
        rng = generator(seed, step)
        first, size = draw(where >= 0, rng)
        begin = where[np.arange(batch), first]
        # Anywhere outside the row, around the end of the corpus; inside the row if the corpus has no other text.
        others = max(1, corpus.tokens - length - LONGEST)
        begins = where.max(axis=1)[:, None] + 1 + rng.integers(others, size=(batch, count))
        begins[:, 0] = begin
        rows = mlm.noise(rows, rng, vocabulary)
        inside = np.arange(length) - first[:, None]
        rows["tokens"][(inside >= 0) & (inside < size[:, None])] = vocabulary.mask
        place, size = np.arange(ROOM), size[:, None, None]
        ngrams = take(corpus.ids, begins[:, :, None] + place - 1)  # [B, C, 12]
        ngrams = np.where(place > size, np.where(place == size + 1, vocabulary.sep, vocabulary.pad), ngrams)
        ngrams[:, :, 0] = vocabulary.cls
        return rows | {"ngrams": ngrams.astype(np.int32)}

    return make


class DeepInfoMax(Objective, keras.layers.Layer):
    """The ``loss``: MLM and DIM over one forward pass of ``encoder`` for the texts, and one for their n-grams."""

    reports = ("mlm_loss", "mlm_accuracy", "dim_loss", "dim_accuracy")

    def __init__(self, config: MaskedLmConfig, encoder: keras.layers.Layer, name: str = "dim"):
        super().__init__(name=name)
        self.encoder = encoder
        self.mlm = built(config, encoder, name="mlm")
        self.built = True

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        return self.mlm.totals(batch) | {"rows": tf.shape(batch["ngrams"])[0]}

    def fill(self, batch: dict[str, Any]) -> tf.Tensor:
        """Scores [B, V] of every piece at ``places`` [B] of ``tokens`` [B, T], which hold [MASK]."""
        return self.mlm.fill(self.encoder(batch, seed=None), batch["places"])

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        totals = totals or self.totals(batch)
        rows, count, room = shape(batch["ngrams"])
        encoding = self.encoder(batch, seed=seed)
        ngrams = tf.reshape(batch["ngrams"], [rows * count, room])
        parts = self.encoder({"tokens": ngrams}, seed=fold(seed, 2000)).tokens[:, 0]  # [B * C, D]
        parts = tf.cast(tf.reshape(parts, [rows, count, self.encoder.width]), tf.float32)
        whole = tf.cast(encoding.tokens[:, 0], tf.float32)  # [B, D]
        scores = tf.linalg.matvec(parts, whole) * self.encoder.width**-0.5  # [B, C]
        values = self.mlm(encoding, batch, totals)
        total = tf.cast(totals["rows"], tf.float32)
        nll = tf.reduce_logsumexp(scores, axis=1) - scores[:, 0]  # [B]
        hit = tf.cast(tf.equal(tf.argmax(scores, -1), 0), tf.float32)
        dim_loss = tf.reduce_sum(nll) / total
        return {
            "loss": values["mlm_loss"] + WEIGHT * dim_loss,
            **values,
            "dim_loss": dim_loss,
            "dim_accuracy": tf.reduce_sum(hit) / total,
        }
