"""Future n-gram prediction: predict the next n tokens at each step instead of one. Qi et al. (2020), sections 2.2 and
2.4.

    L = sum_{i < n} alpha_i / S sum_s - ln p_i(y_s | y_{< s - i}, x with spans hidden)        alpha_i = g^i / sum_j g^j

with n = 2 and g = 1. A model that sees the previous token relies on it too much. Predicting stream i has to predict
token s without the i tokens before it, and so learns to plan. Only the first stream is used for generation.

The text is hidden as in MASS, but in one span of 9 tokens out of each 64. The decoder generates the spans one after the
other. Each token is predicted from the one before it in the text, at its position in the text.

A blank is filled with the first token of a span that begins there, predicted by the stream that sees the token before
it.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptmbench.models.objective import Batches, Objective, sampled
from ptmbench.models.objectives import _absent, mlm
from ptmbench.models.objectives.sampling import TokenRuns, generator
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary

STREAMS, DECAY = 2, 1.0
"""n and g."""
BLOCK, RATE = 64, 0.15
"""Each block of 64 tokens has a hidden span of 15 % (9 tokens). Of its tokens 80 % become [MASK] and 10 % a random
token."""


def plan(length: int) -> list[tuple[int, int]]:
    """Returns (tokens, hidden tokens) of each block of a text of ``length`` tokens. The last block may be shorter. It
    has no span if it is too short for one, unless it is the only block."""
    sizes = [min(BLOCK, length - begin) for begin in range(0, length, BLOCK)]
    hidden = [int(RATE * size) for size in sizes]
    return list(zip(sizes, hidden if any(hidden) else [1, *hidden[1:]], strict=True))


def spans(rows: int, length: int, rng: np.random.Generator) -> np.ndarray:
    """Draws the hidden positions of texts of ``length`` tokens, int64 [B, S] in ascending order: one span in each
    block, with all positions inside it equally likely."""
    found, begin = [], 0
    for size, hidden in plan(length):
        first = begin + rng.integers(0, size - hidden + 1, (rows, 1))
        found.append(first + np.arange(hidden))
        begin += size
    return np.concatenate(found, axis=1)


@sampled()
def batches(corpus: Corpus, vocabulary: Vocabulary, batch: int, length: int) -> Batches:
    """Returns a function from (step, seed) to ``tokens`` int32 [B, T], [CLS] text [SEP] with spans hidden; ``targets``
    [B, S], the hidden tokens; ``previous`` [B, S], the token before each in the text; and ``positions`` [B, S], the
    position of that previous token. Raises `ValueError` if ``length`` is less than 4."""
    if length < 4:
        raise ValueError(f"Rows of {length} tokens are too short to hold a hidden token and another: use at least 4.")
    runs = TokenRuns(corpus.ids, length - 2)
    marks = ((0, 0), (vocabulary.cls, vocabulary.sep))

    def make(step: int, seed: int) -> dict[str, np.ndarray]:
        rng = generator(seed, step)
        whole = np.pad(runs(step, batch, seed), [(0, 0), (1, 1)], constant_values=marks)
        where = spans(batch, length - 2, rng) + 1  # places in the row, whose first token is [CLS]
        draw, used = rng.random(where.shape, dtype=np.float32), np.ones(where.shape, bool)
        hidden = mlm.hide({"tokens": whole}, where, used, draw, rng, vocabulary)
        return {
            "tokens": hidden["tokens"],
            "targets": hidden["masked_labels"],
            "previous": np.take_along_axis(whole, where - 1, axis=1),
            "positions": (where - 1).astype(np.int32),
        }

    return make


class FutureNgramLm(Objective, keras.layers.Layer):
    """The ``loss`` of an encoder-decoder whose decoder has predicting streams (`models.layers.streams`). The ids
    ``absent`` have no probability (see `models.objectives._absent`)."""

    reports = ("next_token_loss",)

    def __init__(
        self,
        encoder: keras.layers.Layer,
        decoder: keras.layers.Layer,
        vocabulary: Vocabulary,
        name: str = "loss",
    ):
        super().__init__(name=name)
        self.encoder, self.decoder, self.absent, self.start = encoder, decoder, vocabulary.absent, vocabulary.cls
        self.built = True

    def decode(self, batch: dict[str, Any], seed: Any = None) -> tf.Tensor:
        """Next-token logits [B, S, V] after each of ``targets`` [B, S], given ``tokens`` [B, T]. Only the first stream
        is computed."""
        tokens = tf.convert_to_tensor(batch["tokens"], tf.int32)
        memory = self.encoder({"tokens": tokens}, seed=seed).tokens  # [B, T, D]
        logits = self.decoder(tf.convert_to_tensor(batch["targets"], tf.int32), memory, tokens, seed, streams=1)
        return _absent.mask_logits(logits[:, 0], self.absent)

    def fill(self, batch: dict[str, Any]) -> tf.Tensor:
        """Scores [B, V] of every piece at ``places`` [B] of ``tokens`` [B, T], which hold [MASK]. For place 0, which
        has no token before it, the decoder reads [CLS] at position 0, as in generation."""
        tokens, places = (tf.convert_to_tensor(batch[name], tf.int32) for name in ("tokens", "places"))
        before = tf.maximum(places - 1, 0)[:, None]  # [B, 1]
        previous = tf.where(places[:, None] > 0, tf.gather(tokens, before, batch_dims=1), self.start)
        memory = self.encoder({"tokens": tokens}).tokens  # [B, T, D]
        logits = self.decoder(previous, memory, tokens, None, before, streams=1)  # [B, 1, 1, V]
        return tf.cast(_absent.mask_logits(logits[:, 0, 0], self.absent), tf.float32)

    def begin(self, tokens: Any) -> tuple[Any, Any]:
        """Encodes ``tokens`` [B, T] (see `models.pretrainable.Writer`)."""
        tokens = tf.convert_to_tensor(tokens, tf.int32)
        return self.decoder.begin(self.encoder({"tokens": tokens}).tokens, tokens)

    def step(self, memory: Any, past: Any, written: tf.Tensor, seen: tf.Tensor) -> tuple[tf.Tensor, Any]:
        """Returns logits [B, K, V] after ``written`` [B, K, S], and the past for the next step."""
        logits, past = self.decoder.step(memory, past, written, seen)
        return _absent.mask_logits(logits, self.absent), past

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"targets": tf.math.count_nonzero(batch["targets"], dtype=tf.int32)}

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        totals = totals or self.totals(batch)
        tokens = tf.convert_to_tensor(batch["tokens"], tf.int32)
        memory = self.encoder({"tokens": tokens}, seed=seed).tokens  # [B, T, D]
        logits = self.decoder(batch["previous"], memory, tokens, seed, batch["positions"])
        logits = _absent.mask_logits(logits, self.absent)  # [B, n, S, V]
        streams = logits.shape[1]
        targets = tf.repeat(batch["targets"][:, None, :], streams, axis=1)  # [B, n, S]
        nll = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, tf.cast(logits, tf.float32))
        nll *= tf.cast(tf.not_equal(targets, 0), tf.float32)
        each = tf.reduce_sum(nll, axis=[0, 2]) / tf.cast(tf.maximum(totals["targets"], 1), tf.float32)  # [n]
        alpha = np.float32(DECAY) ** np.arange(streams, dtype=np.float32)
        return {"loss": tf.reduce_sum(each * (alpha / alpha.sum())), "next_token_loss": each[0]}
