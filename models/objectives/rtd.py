"""Replaced-token detection (RTD): which tokens are samples of a small generator? Clark et al. (2020), sections 2 and 3.

    L = L_MLM(generator) + 50 L_RTD        L_RTD = - 1/T sum_t ln p(token t is the original | x with samples put in)

The survey describes two stages. The authors train both networks jointly, from the first step, and so does this
objective. No gradient passes through the samples. 85 % of the drawn positions become [MASK] and the rest stay as they
are, as in the authors' code.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptmbench.models.layers.core import Drop, Rows, built
from ptmbench.models.layers.embeddings import padding_bias
from ptmbench.models.layers.heads import ReplacedTokensConfig
from ptmbench.models.layers.operations import fold, gelu, shape
from ptmbench.models.layers.transformers import Encoder
from ptmbench.models.objective import Batches, Objective, sampled
from ptmbench.models.objectives.mlm import noise
from ptmbench.models.objectives.sampling import Pairs
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary

WEIGHT = 50.0
MASK = 0.85
DRAWS = 1 << 24
"""Random numbers are passed as integers below this limit, which float32 can represent exactly. Keras would round floats
to bfloat16."""


@sampled()
def batches(corpus: Corpus, vocabulary: Vocabulary, batch: int, length: int) -> Batches:
    """Returns a function from (step, seed) to the arrays of `models.objectives.mlm.noise`, ``original`` int32 [B, T],
    and ``draws`` int32 [B, M], uniform below `DRAWS`. Second texts always follow the first."""
    pairs = Pairs(corpus, vocabulary, length, random_second=0.0)

    def make(step: int, seed: int) -> dict[str, np.ndarray]:
        rows, rng = pairs(step, batch, seed)
        original = rows["tokens"]
        del rows["next"]
        rows = noise(rows, rng, vocabulary, mask=MASK, random=0.0)
        draws = rng.integers(DRAWS, size=rows["masked_positions"].shape, dtype=np.int32)
        return rows | {"original": original, "draws": draws}

    return make


def sample(logits: tf.Tensor, draws: tf.Tensor | None) -> tf.Tensor:
    """Returns one id per row of ``logits`` [N, V], int32 [N]: drawn from the softmax, or the most likely one if
    ``draws`` int32 [N] is None.

    Padding, id 0, is never drawn, since the encoder would mask it. Its probability is distributed among the other ids.

    The inverse of the cumulative distribution needs one random number per row, where the Gumbel trick takes V numbers
    and two logarithms each. The random numbers are part of the batch, so a row has the same ones on any device.
    """
    if draws is None:
        return 1 + tf.argmax(logits[:, 1:], -1, output_type=tf.int32)
    cumulative = tf.cumsum(tf.nn.softmax(logits), axis=-1)  # [N, V]
    share = tf.cast(draws, tf.float32)[:, None] / DRAWS  # [N, 1]
    padding = cumulative[:, :1]
    below = cumulative <= padding + share * (cumulative[:, -1:] - padding)  # [N, V]
    chosen = tf.reduce_sum(tf.cast(below, tf.int32), axis=-1)  # [N]; DTensor has no search
    return tf.minimum(chosen, logits.shape[-1] - 1)


class ReplacedTokens(Objective, keras.layers.Layer):
    """The ``loss`` of ELECTRA: the generator, its samples, and the discriminator. The discriminator is the ``encoder``,
    which is kept after pre-training.

    The generator shares the encoder's embeddings through its own projection. The configuration of its head has the ids
    without a probability.
    """

    reports = ("mlm_loss", "mlm_accuracy", "rtd_loss", "rtd_accuracy", "rtd_replaced")

    def __init__(self, config: ReplacedTokensConfig, encoder: Encoder, name: str = "rtd"):
        super().__init__(name=name)
        self.config, self.encoder = config, encoder
        with keras.name_scope("generator"):
            self.generator = built(config.generator, name="stack")
            self.mlm = built(config.mlm, encoder, name="mlm")
        with keras.name_scope(name):
            self.projection = built(config.projection, name="projection")
            self.hidden = built(config.hidden, name="hidden")
            self.score = built(config.score, name="score")
        self.built = True

    def generate(self, batch: dict[str, Any], seed: Any = None) -> tf.Tensor:
        """Returns the generator's logits [B * M, V] at the masked positions."""
        tokens, drop = batch["tokens"], Drop(self.encoder.dropout, fold(seed, 2000), 0)
        rows, length = shape(tokens)
        x = self.projection(self.encoder.embedded(batch, drop))  # [B * T, G]
        x = self.generator(x, padding_bias(tokens), rows=Rows(rows, length), drop=drop)[-1]
        return self.mlm.logits(tf.reshape(x, [rows, length, x.shape[-1]]), batch["masked_positions"])

    def replacement_logits(self, encoding: Any) -> tf.Tensor:
        """Logits [B, T] that each token is a replacement."""
        rows, length = shape(encoding.tokens)[:2]
        x = tf.reshape(encoding.tokens, [-1, self.encoder.width])  # [B * T, D]
        return tf.reshape(tf.cast(self.score(gelu(self.hidden(x))), tf.float32), [rows, length])

    def originality(self, batch: dict[str, Any]) -> tf.Tensor:
        """ln p(token t is the original) [B, T], 0 at padding. This is the part of a sentence's energy that needs no
        samples of the generator (Clark et al., 2020, Electric, section 2, has the exact energy)."""
        scores = self.replacement_logits(self.encoder(batch))
        present = tf.cast(tf.not_equal(batch["tokens"], 0), tf.float32)
        return -tf.nn.softplus(scores) * present

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        return self.mlm.totals(batch) | {"tokens": tf.math.count_nonzero(batch["original"], dtype=tf.int32)}

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        totals = totals or self.totals(batch)
        original, positions = batch["original"], batch["masked_positions"]
        rows, length = shape(original)
        logits = self.generate(batch, seed)
        draws = None if seed is None else tf.reshape(batch["draws"], [-1])  # [B * M]
        drawn = tf.reshape(sample(logits, draws), tf.shape(positions))  # [B, M]
        used = tf.cast(batch["masked_weights"], tf.int32)
        where = tf.stack([tf.broadcast_to(tf.range(rows)[:, None], tf.shape(positions)), positions], -1)  # [B, M, 2]
        tokens = tf.tensor_scatter_nd_add(original, where, (drawn - batch["masked_labels"]) * used)  # [B, T]
        encoding = self.encoder({"tokens": tokens, "segments": batch["segments"]}, seed=seed)
        scores = self.replacement_logits(encoding)  # [B, T]
        replaced = tf.cast(tf.not_equal(tokens, original), tf.float32)
        present = tf.cast(tf.not_equal(original, 0), tf.float32)
        total = tf.cast(tf.maximum(totals["tokens"], 1), tf.float32)
        entropy = tf.nn.sigmoid_cross_entropy_with_logits(labels=replaced, logits=scores)
        hit = tf.cast(tf.equal(scores > 0, replaced > 0), tf.float32)
        parts = self.mlm.score(logits, batch, totals)
        rtd_loss = tf.reduce_sum(entropy * present) / total
        return {
            "loss": parts["mlm_loss"] + WEIGHT * rtd_loss,
            **parts,
            "rtd_loss": rtd_loss,
            "rtd_accuracy": tf.reduce_sum(hit * present) / total,
            "rtd_replaced": tf.reduce_sum(replaced * present) / total,
        }
