"""Masked language modelling (MLM): recover hidden tokens from both sides. Devlin et al. (2019), section 3.1 and
appendix A.1.

    L_MLM = - 1/|M| sum_{t in M} ln p(x_t | x with M hidden)

Of the 15 % of tokens in M, 80 % become [MASK], 10 % a random token, and 10 % stay, so that the encoder cannot tell
which tokens are in M. Only the positions in M reach the output layer. Their number per row is fixed, which saves 85 %
of the output layer.
"""

import math
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptmbench.models.layers.blocks import ACTIVATIONS
from ptmbench.models.layers.core import Layer, made_from
from ptmbench.models.layers.heads import MaskedLmConfig, PseudoMaskedConfig, TiedLmConfig, WidenedLmConfig
from ptmbench.models.layers.products import product
from ptmbench.models.objective import Part
from ptmbench.models.objectives import _absent
from ptmbench.models.text.tokenizers import Vocabulary

RATE = 0.15


def slots(length: int, rate: float = RATE) -> int:
    """Returns the number of masked positions per row of ``length`` tokens: the share ``rate`` of them, rounded up."""
    return math.ceil(rate * length)


def noise(
    batch: dict[str, np.ndarray],
    rng: np.random.Generator,
    vocabulary: Vocabulary,
    *,
    rate: float = RATE,
    mask: float = 0.8,
    random: float = 0.1,
    readily: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """Returns ``batch`` with ``tokens`` [B, T] corrupted, and ``masked_positions``, ``masked_labels`` int32 and
    ``masked_weights`` float32 [B, M].

    A share ``rate`` of each row's text (rounded, at least one token) is drawn without replacement. Special tokens are
    never drawn. Of these a share ``mask`` becomes [MASK] and a share ``random`` a random piece. Unused slots have
    weight 0. Pieces are drawn in proportion to ``readily`` [V], or uniformly if it is None.
    """
    tokens = batch["tokens"]
    _, length = tokens.shape
    order = rng.random(tokens.shape, dtype=np.float32)
    if readily is not None:  # weighted sampling without replacement (Efraimidis and Spirakis, 2006)
        order = -np.log1p(-order) / readily[tokens]
    special = (tokens == vocabulary.pad) | (tokens == vocabulary.cls) | (tokens == vocabulary.sep)
    order[special] = np.inf
    count = slots(length, rate)
    positions = np.argsort(order, axis=1)[:, :count]  # [B, M]
    text = (~special).sum(axis=1)
    chosen = np.minimum(np.maximum(np.rint(rate * text), 1), text)[:, None]  # [B, 1]
    used = np.arange(count) < chosen
    positions = np.where(used, positions, 0)
    draw = rng.random(positions.shape, dtype=np.float32)
    return hide(batch, positions, used, draw, rng, vocabulary, mask=mask, random=random)


def hide(
    batch: dict[str, np.ndarray],
    positions: np.ndarray,
    used: np.ndarray,
    draw: np.ndarray,
    rng: np.random.Generator,
    vocabulary: Vocabulary,
    *,
    mask: float = 0.8,
    random: float = 0.1,
) -> dict[str, np.ndarray]:
    """Does the same as `noise` at given ``positions`` [B, M], of which only those that are ``used`` count.

    ``draw`` [B, M], uniform in [0, 1), decides about each: [MASK] if below ``mask``, a random piece if below
    ``mask`` + ``random``, and otherwise unchanged.
    """
    tokens = batch["tokens"]
    row, _ = np.broadcast_arrays(np.arange(len(tokens))[:, None], positions)
    labels = np.where(used, tokens[row, positions], vocabulary.pad)
    replacement = np.where(
        draw < mask,
        vocabulary.mask,
        np.where(draw < mask + random, rng.integers(vocabulary.first, vocabulary.size, positions.shape), labels),
    )
    corrupted = tokens.copy()
    corrupted[row[used], positions[used]] = replacement[used]
    return batch | {
        "tokens": corrupted,
        "masked_positions": positions.astype(np.int32),
        "masked_labels": labels.astype(np.int32),
        "masked_weights": used.astype(np.float32),
    }


def gather(tokens: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    """Returns the vectors of tokens [B, T, D] at positions [B, M], as [B * M, D]."""
    rows, length = tf.shape(tokens)[0], tf.shape(tokens)[1]
    flat = tf.reshape(tf.range(rows)[:, None] * length + positions, [-1])
    return tf.gather(tf.reshape(tokens, [-1, tokens.shape[-1]]), flat)


@made_from(PseudoMaskedConfig)
@made_from(MaskedLmConfig)
class MaskedLm(Part, Layer):
    """The head: a product, an activation, layer-norm, then the token embedding [V, E] as the output layer, with a bias
    of its own. ``owner`` is the layer whose ``token_embedding`` is tied. The ids ``config.absent`` have no probability
    (see `models.objectives._absent`)."""

    reports = ("mlm_loss", "mlm_accuracy")
    OTHERS = ("owner",)

    def __init__(self, config: MaskedLmConfig, owner: keras.layers.Layer, name: str = "mlm", **kwargs: Any):
        super().__init__(config, name=name, **kwargs)
        self.owner = owner

    def logits(self, tokens: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
        """Scores [B * M, V] of every piece at ``positions`` [B, M] of ``tokens`` [B, T, D]."""
        return self.logits_of(gather(tokens, positions))

    def logits_of(self, vectors: tf.Tensor) -> tf.Tensor:
        """Scores [N, V] of every piece from ``vectors`` [N, D]."""
        x = ACTIVATIONS[self.config.activation](self.transform(vectors))
        x = self.norm(x)  # [N, E]
        logits = tf.nn.bias_add(product(x, self.output_table(), transposed=True), self.output_bias)
        return _absent.mask_logits(tf.cast(logits, tf.float32), self.config.absent)

    def output_table(self) -> Any:
        """The kernel of the output layer, [V, E]."""
        return self.owner.token_embedding

    def fill(self, encoding: Any, places: tf.Tensor) -> tf.Tensor:
        """Scores [B, V] of every piece at one position [B] of each row."""
        return self.logits(encoding.tokens, places[:, None])

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"masked": tf.math.count_nonzero(batch["masked_weights"], dtype=tf.int32)}

    def score(self, logits: tf.Tensor, batch: dict[str, Any], totals: dict[str, Any]) -> dict[str, Any]:
        """Loss and accuracy over the masked positions, from logits [B * M, V]."""
        labels = tf.reshape(batch["masked_labels"], [-1])  # [B * M]
        weights = tf.cast(tf.reshape(batch["masked_weights"], [-1]), tf.float32)
        total = tf.cast(tf.maximum(totals["masked"], 1), tf.float32)
        nll = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)  # [B * M]
        hit = tf.cast(tf.equal(tf.argmax(logits, -1, output_type=tf.int32), labels), tf.float32)
        return {
            "mlm_loss": tf.reduce_sum(nll * weights) / total,
            "mlm_accuracy": tf.reduce_sum(hit * weights) / total,
        }

    def call(self, encoding: Any, batch: dict[str, Any], totals: dict[str, Any]) -> dict[str, Any]:
        return self.score(self.logits(encoding.tokens, batch["masked_positions"]), batch, totals)


@made_from(WidenedLmConfig)
class WidenedLm(MaskedLm):
    """A head whose output layer has the token embedding [V, E] and further columns of its own."""

    def output_table(self) -> tf.Tensor:
        """The kernel of the output layer, [V, I]."""
        return tf.concat([tf.convert_to_tensor(self.owner.token_embedding), self.extra.whole()], axis=1)


@made_from(TiedLmConfig)
class TiedLm(MaskedLm):
    """A head with only the token embedding [V, E] as the output layer, and a bias."""

    def logits_of(self, vectors: tf.Tensor) -> tf.Tensor:
        """Scores [N, V] of every piece from ``vectors`` [N, D]."""
        logits = product(vectors, self.owner.token_embedding, transposed=True)
        return _absent.mask_logits(tf.cast(tf.nn.bias_add(logits, self.output_bias), tf.float32), self.config.absent)
