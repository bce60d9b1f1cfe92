"""Permuted language modelling (PLM): predict tokens in a random order, each from those before it in that order.
Yang et al. (2019), sections 2.2 and 2.3.

    L_PLM = - 1/S sum_{s = 1 ... S} ln p(x_{z_s} | x_{z_1} ... x_{z_{s-1}}, context, memory)

Only the last part of the order is predicted, one token in K = 6, since earlier tokens have too little context (section
2.3, partial prediction). Targets are spans of 1 to 5 tokens, each at a random place in K times as much text (section
3.1). Their order is random. All other tokens, special tokens included, are context for all targets. Their own order is
left open, as in the authors' code: context tokens see each other but no target. Nothing is masked.

Rows are two texts. The second follows the first in one half of the rows and is random in the other (section 2.5), but
this is not predicted. A row has a memory of the M tokens before it in the same document. The authors keep the hidden
states from step to step. Here they are computed again in each step (see `models.objectives.segment_lm`), and all memory
tokens see each other. M is half a row, the distance between the authors' consecutive rows. They also read half of the
rows backwards, with the text after a row as its memory (section 3.1). Here the memory is always the text before.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptmbench.models.layers.products import product
from ptmbench.models.objective import Batches, Objective, sampled
from ptmbench.models.objectives import _absent
from ptmbench.models.objectives.nsp import RANDOM_SECOND
from ptmbench.models.objectives.sampling import Pairs, take
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary

K, LONGEST = 6, 5
"""One token in K is predicted, in spans of 1 ... LONGEST tokens."""


def slots(length: int) -> int:
    """Returns the number of predicted positions per row of ``length`` tokens: one in K, rounded up."""
    return -(-length // K)


def spans(count: np.ndarray, width: int, rng: np.random.Generator) -> np.ndarray:
    """Draws the targets among the first ``count`` [B] of ``width`` positions: bool [B, width].

    Lengths are uniform in 1 ... LONGEST (the authors' code draws n with probability proportional to 1 / n). A span of
    length n is at a random place in a window of K n positions, and windows follow each other. The last span is cut, so
    that exactly round(count / K) positions, at least one, are targets.
    """
    rows = len(count)
    wanted = np.maximum(np.rint(count / K).astype(np.int64), 1)[:, None]  # [B, 1]
    size = rng.integers(1, LONGEST + 1, (rows, slots(width)))
    end = np.minimum(np.cumsum(size, axis=1), wanted)
    size = np.diff(end, axis=1, prepend=0)  # 0 after the last span
    left = count[:, None] - K * wanted  # -K / 2 ... K / 2: positions that windows do not cover, or exceed
    shift = (rng.random((rows, 1)) * (np.maximum(left, 0) + 1)).astype(np.int64)
    window = K * (end - size) + shift
    room = np.minimum(window + K * size, count[:, None]) - window - size
    begin = window + (rng.random(size.shape) * (room + 1)).astype(np.int64)
    place = np.arange(width)
    inside = (place >= begin[:, :, None]) & (place < (begin + size)[:, :, None])  # [B, spans, width]
    return inside.any(axis=1)


def add_prediction_order(
    batch: dict[str, np.ndarray], rng: np.random.Generator, vocabulary: Vocabulary
) -> dict[str, np.ndarray]:
    """Returns ``batch`` with ``ranks`` int32 [B, T], 0 for context and 1 ... S for targets in the order of prediction,
    and ``predicted_positions``, ``predicted_labels`` int32 and ``predicted_weights`` float32 [B, S]. Unused slots have
    weight 0."""
    tokens = batch["tokens"]
    rows, length = tokens.shape
    text = (tokens != vocabulary.pad) & (tokens != vocabulary.cls) & (tokens != vocabulary.sep)
    count = text.sum(axis=1)
    chosen = spans(count, length, rng) & (np.arange(length) < count[:, None])
    target = np.zeros(tokens.shape, bool)
    target[text] = chosen[np.arange(length) < count[:, None]]  # places count text only, without special tokens
    drawn = np.where(target, rng.random(tokens.shape), 2.0)
    ranks = np.zeros(tokens.shape, np.int32)
    np.put_along_axis(ranks, np.argsort(drawn, axis=1), np.arange(1, length + 1, dtype=np.int32)[None], axis=1)
    positions = np.argsort(~target, axis=1, kind="stable")[:, : slots(length)]  # from left to right
    used = np.arange(slots(length)) < target.sum(axis=1)[:, None]
    positions = np.where(used, positions, 0)
    return batch | {
        "ranks": np.where(target, ranks, 0).astype(np.int32),
        "predicted_positions": positions.astype(np.int32),
        "predicted_labels": np.where(used, np.take_along_axis(tokens, positions, axis=1), 0).astype(np.int32),
        "predicted_weights": used.astype(np.float32),
    }


@sampled()
def batches(corpus: Corpus, vocabulary: Vocabulary, batch: int, length: int) -> Batches:
    """Returns a function from (step, seed) to ``tokens`` and ``segments`` int32 [B, T], the arrays of
    `add_prediction_order`, and ``memory`` int32 [B, T / 2]: the tokens before the first text in its document, 0 before
    the document begins."""
    pairs = Pairs(corpus, vocabulary, length, RANDOM_SECOND)

    def make(step: int, seed: int) -> dict[str, np.ndarray]:
        rows, rng = pairs(step, batch, seed)
        begin, _, first, _ = pairs.draw_first_texts(step, batch, seed)
        own = corpus.documents.searchsorted(first, side="right") - 1
        opening = corpus.sentences.take(corpus.documents.take(own))[:, None]  # [B, 1] where the document begins
        where = begin[:, None] + np.arange(-(length // 2), 0)
        memory = np.where(where < opening, vocabulary.pad, take(corpus.ids, where)).astype(np.int32)
        del rows["next"]
        return add_prediction_order(rows, rng, vocabulary) | {"memory": memory}

    return make


class PermutedLm(Objective, keras.layers.Layer):
    """The ``loss`` of a `models.layers.two_stream.TwoStream`: its queries, multiplied by the transposed table of token
    vectors, and a bias of its own. The ids ``absent`` have no probability (see `models.objectives._absent`)."""

    reports = ("plm_accuracy",)

    def __init__(self, encoder: keras.layers.Layer, absent: tuple[int, ...] = (), name: str = "plm"):
        super().__init__(name=name)
        self.encoder, self.absent = encoder, absent
        self.bias = self.add_weight((encoder.token_embedding.shape[0],), "zeros", name="output_bias")
        self.built = True

    def logits(self, batch: dict[str, Any], seed: Any = None) -> tf.Tensor:
        """Scores [B * S, V] of every piece at the predicted positions."""
        _, queries = self.encoder.predict(batch, seed)
        logits = product(queries[-1], self.encoder.token_embedding, transposed=True)
        return _absent.mask_logits(tf.cast(tf.nn.bias_add(logits, self.bias), tf.float32), self.absent)

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"predicted": tf.math.count_nonzero(batch["predicted_weights"], dtype=tf.int32)}

    def fill(self, batch: dict[str, Any]) -> tf.Tensor:
        """Scores [B, V] of every piece at ``places`` [B] of ``tokens`` [B, T], whatever token is there. All other
        tokens are context, and there is no memory."""
        tokens, places = (tf.convert_to_tensor(batch[name], tf.int32) for name in ("tokens", "places"))
        asked = {
            "tokens": tokens,
            "segments": batch.get("segments", tf.zeros_like(tokens)),
            "ranks": tf.one_hot(places, tf.shape(tokens)[1], dtype=tf.int32),
            "predicted_positions": places[:, None],
            "memory": tf.zeros_like(tokens[:, :1]),
        }
        return self.logits(asked)

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        totals = totals or self.totals(batch)
        labels = tf.reshape(batch["predicted_labels"], [-1])  # [B * S]
        total = tf.cast(tf.maximum(totals["predicted"], 1), tf.float32)
        weights = tf.cast(tf.reshape(batch["predicted_weights"], [-1]), tf.float32) / total
        logits = self.logits(batch, seed)
        nll = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        hit = tf.cast(tf.equal(tf.argmax(logits, -1, output_type=tf.int32), labels), tf.float32)
        return {"loss": tf.reduce_sum(nll * weights), "plm_accuracy": tf.reduce_sum(hit * weights)}
