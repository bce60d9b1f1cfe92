"""Sequence-to-sequence masked language modelling (Seq2Seq MLM): span corruption.

Source: Raffel et al. (2020), sections 3.1.4 and 3.3.4.

    L = - 1/S sum_s ln p(y_s | y_{<s}, x with spans hidden)

15 % of the tokens are hidden in spans of 3 on average. In the input, each span is replaced by one sentinel. The target
lists the sentinels, each followed by the span that it replaces. So the decoder generates a fifth of the text instead of
all of it.

A blank is filled with the token that the decoder predicts after the first sentinel, which replaces the blank:
p(y_1 | [CLS] <0>, x with <0> in the place of the blank). A span may be longer than the blank, so this is the
probability of the beginning of the hidden span.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptmbench.models.objective import Batches, Objective, sampled
from ptmbench.models.objectives import _absent
from ptmbench.models.objectives.sampling import TokenRuns, generator
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary

RATE, SPAN = 0.15, 3.0


def plan(length: int) -> tuple[int, int, int]:
    """Returns (tokens of raw text, hidden tokens, spans) for an input of at most ``length`` tokens, [CLS] and [SEP]
    included. Raises `ValueError` if ``length`` is less than 4."""
    for raw in range(2 * length, 1, -1):
        noise = max(1, round(RATE * raw))
        spans = min(max(1, round(noise / SPAN)), raw - noise)
        if raw - noise + spans + 2 <= length:
            return raw, noise, spans
    raise ValueError(f"Inputs of {length} tokens are too short for span corruption: use at least 4.")


def pieces(rng: np.random.Generator, rows: int, total: int, count: int) -> np.ndarray:
    """Draws the sizes >= 1 of ``count`` pieces that add up to ``total``, all divisions equally likely: int64
    [rows, count]."""
    cuts = np.sort(np.argsort(rng.random((rows, total - 1)), axis=1)[:, : count - 1], axis=1) + 1
    edges = np.concatenate([np.zeros((rows, 1), np.int64), cuts, np.full((rows, 1), total)], axis=1)
    return np.diff(edges, axis=1)


def corrupt(
    text: np.ndarray, noise: int, spans: int, rng: np.random.Generator, vocabulary: Vocabulary
) -> tuple[np.ndarray, np.ndarray]:
    """Returns inputs and targets of ``text`` [B, L]: int32 [B, L - noise + spans + 2] and [B, noise + spans + 2].

    Kept and hidden spans alternate, a kept one first. Both rows begin with [CLS] and end with [SEP]. Sentinels count up
    from the first.
    """
    rows, length = text.shape
    kept, hidden = pieces(rng, rows, length - noise, spans), pieces(rng, rows, noise, spans)
    sizes = np.stack([kept, hidden], axis=2).reshape(-1)  # kept, hidden, kept, hidden, ... row after row
    span = np.repeat(np.tile(np.arange(2 * spans), rows), sizes).reshape(rows, length)  # the piece of each token
    masked = span % 2 == 1
    opens = masked & (np.diff(span, axis=1, prepend=0) != 0)
    sentinel = np.asarray(vocabulary.sentinels, np.int32)
    edge = np.full((rows, 1), vocabulary.cls), np.full((rows, 1), vocabulary.sep)
    source = np.where(opens, sentinel[span // 2], text)[~masked | opens].reshape(rows, -1)
    target = np.empty((rows, noise + spans), np.int32)
    row = np.arange(rows)[:, None]
    heads = np.cumsum(hidden, axis=1) - hidden + np.arange(spans)  # positions of the sentinels
    is_head = np.zeros(target.shape, bool)
    is_head[row, heads] = True
    target[is_head] = np.tile(sentinel[:spans], rows)
    target[~is_head] = text[masked]
    return tuple(np.concatenate([edge[0], part, edge[1]], axis=1).astype(np.int32) for part in (source, target))


@sampled()
def batches(corpus: Corpus, vocabulary: Vocabulary, batch: int, length: int) -> Batches:
    """Returns a function from (step, seed) to ``tokens`` [B, T] and ``targets`` [B, S]. The text continues across
    document boundaries. Raises `ValueError` if the vocabulary has too few sentinels for ``length``."""
    raw, noise, spans = plan(length)
    if spans > len(vocabulary.sentinels):
        raise ValueError(
            f"Inputs of {length} tokens need {spans} sentinels and the vocabulary has {len(vocabulary.sentinels)}: "
            "use shorter inputs."
        )
    runs = TokenRuns(corpus.ids, raw)

    def make(step: int, seed: int) -> dict[str, np.ndarray]:
        source, target = corrupt(runs(step, batch, seed), noise, spans, generator(seed, step), vocabulary)
        return {"tokens": np.pad(source, [(0, 0), (0, length - source.shape[1])]), "targets": target}

    return make


class Seq2SeqLm(Objective, keras.layers.Layer):
    """The ``loss`` of an encoder-decoder: the negative log-likelihood of the target per token, with teacher forcing.
    The ids ``absent`` have no probability and are not predicted (see `models.objectives._absent`)."""

    def __init__(
        self,
        encoder: keras.layers.Layer,
        decoder: keras.layers.Layer,
        absent: tuple[int, ...] = (),
        name: str = "loss",
    ):
        super().__init__(name=name)
        self.encoder, self.decoder, self.absent = encoder, decoder, absent
        self.built = True

    def decode(self, batch: dict[str, Any], seed: Any = None) -> tf.Tensor:
        """Next-token logits [B, S, V] after each of ``targets`` [B, S], given ``tokens`` [B, T] and the other channels
        that the encoder reads."""
        tokens = tf.convert_to_tensor(batch["tokens"], tf.int32)
        memory = self.encoder({**batch, "tokens": tokens}, seed=seed).tokens  # [B, T, D]
        logits = self.decoder(tf.convert_to_tensor(batch["targets"], tf.int32), memory, tokens, seed=seed)
        return _absent.mask_logits(logits, self.absent)

    def begin(self, tokens: Any, **channels: Any) -> tuple[Any, Any]:
        """Encodes ``tokens`` [B, T] and their ``channels`` (see `models.pretrainable.Writer`)."""
        tokens = tf.convert_to_tensor(tokens, tf.int32)
        return self.decoder.begin(self.encoder({**channels, "tokens": tokens}).tokens, tokens)

    def step(self, memory: Any, past: Any, written: tf.Tensor, seen: tf.Tensor) -> tuple[tf.Tensor, Any]:
        """Returns logits [B, K, V] after ``written`` [B, K, S], and the past for the next step."""
        logits, past = self.decoder.step(memory, past, written, seen)
        return _absent.mask_logits(logits, self.absent), past

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        predicted = _absent.are_targets(tf.convert_to_tensor(batch["targets"])[:, 1:], self.absent)
        return {"targets": tf.math.count_nonzero(predicted, dtype=tf.int32)}

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        totals = totals or self.totals(batch)
        targets = batch["targets"]
        logits = self.decode({"tokens": batch["tokens"], "targets": targets[:, :-1]}, seed)
        following = targets[:, 1:]  # [B, S - 1]
        nll = tf.nn.sparse_softmax_cross_entropy_with_logits(following, tf.cast(logits, tf.float32))
        nll = tf.where(_absent.are_targets(following, self.absent), nll, 0.0)
        return {"loss": tf.reduce_sum(nll) / tf.cast(tf.maximum(totals["targets"], 1), tf.float32)}


class SpanLm(Seq2SeqLm):
    """The ``loss`` of an encoder-decoder that replaces hidden spans by sentinels, and can therefore fill blanks."""

    def __init__(self, encoder: keras.layers.Layer, decoder: keras.layers.Layer, vocabulary: Vocabulary):
        super().__init__(encoder, decoder, vocabulary.absent)
        self.mask, self.start = vocabulary.mask, (vocabulary.cls, vocabulary.sentinels[0])

    def fill(self, batch: dict[str, Any]) -> tf.Tensor:
        """Scores [B, V] of every piece at ``places`` [B] of ``tokens`` [B, T], whatever token is there. The [MASK]s
        directly after it belong to the same span: one sentinel replaces all of them."""
        tokens = collapse_masks(batch["tokens"], batch["places"], self.mask, self.start[1])
        targets = tf.tile(tf.constant([self.start]), [tf.shape(tokens)[0], 1])  # [B, 2]
        return tf.cast(self.decode({"tokens": tokens, "targets": targets})[:, 1], tf.float32)


def collapse_masks(tokens: Any, places: Any, mask: int, symbol: int) -> tf.Tensor:
    """Returns ``tokens`` int32 [B, T] with ``symbol`` at ``places`` [B] and without the ``mask``s directly after it.
    The rest moves to the left."""
    tokens, places = tf.convert_to_tensor(tokens, tf.int32), tf.convert_to_tensor(places, tf.int32)[:, None]
    column = tf.range(tf.shape(tokens)[1])[None]
    behind = column > places  # [B, T]
    run = behind & (tf.math.cumprod(tf.where(behind, tf.cast(tf.equal(tokens, mask), tf.int32), 1), axis=1) > 0)
    tokens = tf.where(tf.equal(column, places), symbol, tf.where(run, 0, tokens))
    return tf.gather(tokens, tf.argsort(tf.cast(run, tf.int32), axis=1, stable=True), batch_dims=1)
