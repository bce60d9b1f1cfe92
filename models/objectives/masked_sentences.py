"""Masked sentences: hide whole sentences of a document and generate them from the others. Zhang et al. (2019), section
3.2.

    L = - 1/S sum_{k in K} sum_j ln p(w_j of sentence k | w_1 ... w_{j-1}, d_k)

K are 15 % of the sentences. Of these 80 % have every word replaced by [MASK], 10 % stay, and 10 % become another
sentence. The decoder is given the words before and one vector d_k, which contains only the length and the position of a
masked sentence.

The authors cut documents to 30 sentences of 50 words and pad. Here a row is filled with consecutive sentences, each
followed by [SEP], across document boundaries. The sentences to generate are concatenated in a row that has room for
20 % of the text, and are cut at its end. The other sentence is read on or cut to the length of the one that it
replaces, so that all other tokens keep their positions.

The probability of a single sentence is that of the masked sentence in a document that has no other. It is given the
length of the sentence.
"""

import math
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptmbench.models.architectures.hierarchical_transformer import places
from ptmbench.models.objective import Batches, Objective, sampled
from ptmbench.models.objectives.sampling import TokenRuns, generator, take
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary

RATE, MASK, KEEP = 0.15, 0.8, 0.1
ROOM = 0.2
"""The decoder's share of a row: more than `RATE`, since sentences differ in length."""


def slots(length: int) -> int:
    """The maximal number of tokens that the decoder generates per row of ``length`` tokens."""
    return math.ceil(ROOM * length)


class SentenceRows:
    """[CLS] sentence [SEP] sentence [SEP] ... of exactly ``length`` tokens. The first sentence is complete; the last
    one is cut at the end of the row."""

    def __init__(self, corpus: Corpus, vocabulary: Vocabulary, length: int):
        if length < 8:
            raise ValueError(f"Rows of {length} tokens are too short to hold sentences: use at least 8.")
        self.corpus, self.vocabulary, self.length = corpus, vocabulary, length
        self.runs = TokenRuns(corpus.ids, length - 1)

    def __call__(self, step: int, batch: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the rows of ``step``, int32 [B, T], and the positions of the [SEP] after each sentence, int64 [B, N]:
        T or more for sentences that do not end in the row."""
        bounds, room = self.corpus.sentences, self.length - 1
        count = len(bounds) - 1
        first = bounds.searchsorted(self.runs.starts(step, batch, seed) % self.corpus.tokens) % count  # [B]
        begin = bounds.take(first)
        most = np.arange(room // 2 + 1)  # every sentence has at least a token and a [SEP]
        rounds, index = np.divmod(first[:, None] + most, count)
        ends = bounds.take(index + 1) + rounds * self.corpus.tokens - begin[:, None] + most  # [SEP]s shift the rest
        mark = np.zeros((batch, room), bool)
        row, _ = np.nonzero(ends < room)
        mark[row, ends[ends < room]] = True
        where = begin[:, None] + np.arange(room) - np.cumsum(mark, axis=1)
        tokens = np.where(mark, self.vocabulary.sep, take(self.corpus.ids, where)).astype(np.int32)
        return np.pad(tokens, [(0, 0), (1, 0)], constant_values=self.vocabulary.cls), ends + 1


def choose_sentences(whole: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draws the sentences to hide among the first ``whole`` [B] of each row. Returns their numbers int64 [B, K] in
    random order, and which of the K are used. The share is `RATE`, rounded, and at least one sentence."""
    order = rng.random((len(whole), whole.max()))
    order[np.arange(whole.max()) >= whole[:, None]] = 2.0
    count = np.maximum(np.rint(RATE * whole), 1)
    numbers = np.argsort(order, axis=1)[:, : int(count.max())]
    return numbers, np.arange(numbers.shape[1]) < count[:, None]


def make_decoder_arrays(
    tokens: np.ndarray, begin: np.ndarray, end: np.ndarray, numbers: np.ndarray, room: int, vocabulary: Vocabulary
) -> dict[str, np.ndarray]:
    """Returns the inputs and outputs of the decoder, int32 [B, ``room``] each: the concatenated sentences from
    ``begin`` to ``end`` inclusive, [B, K] each, of ``tokens`` [B, T]. A sentence whose end is before its beginning is
    empty.

    The arrays are ``targets`` (0 if unused); ``previous``, the token before or [CLS]; ``places``, the position of a
    target in its sentence; and ``sentences``, the number of its sentence, from ``numbers`` [B, K].
    """
    row, column = np.arange(len(tokens))[:, None], np.arange(room)
    sizes = np.maximum(end - begin + 1, 0)
    after = np.cumsum(sizes, axis=1)  # [B, K]
    which = np.minimum((column[None, :, None] >= after[:, None, :]).sum(axis=2), sizes.shape[1] - 1)  # [B, room]
    place = column - (after - sizes)[row, which]
    used = place < sizes[row, which]
    place = np.where(used, place, 0)
    where = np.where(used, begin[row, which] + place, 0)
    found = {
        "targets": np.where(used, tokens[row, where], vocabulary.pad),
        "previous": np.where(place > 0, tokens[row, where - 1], vocabulary.cls),
        "places": place,
        "sentences": numbers[row, which],
    }
    return {key: value.astype(np.int32) for key, value in found.items()}


@sampled()
def batches(corpus: Corpus, vocabulary: Vocabulary, batch: int, length: int) -> Batches:
    """Returns a function from (step, seed) to ``tokens`` int32 [B, T] with sentences hidden, and the arrays of
    `make_decoder_arrays`."""
    rows, row = SentenceRows(corpus, vocabulary, length), np.arange(batch)[:, None]
    most, column = places(length) - 1, np.arange(length)  # the last place may have several sentences

    def make(step: int, seed: int) -> dict[str, np.ndarray]:
        rng = generator(seed, step)
        tokens, ends = rows(step, batch, seed)
        # The sentences that end in the row, or the one that fills it.
        whole = np.clip((ends < length).sum(axis=1), 1, most)  # [B]
        begins = np.concatenate([np.ones((batch, 1), np.int64), ends[:, :-1] + 1], axis=1)
        ends = np.minimum(ends, length - 1)
        numbers, used = choose_sentences(whole, rng)
        end = np.where(used, ends[row, numbers], 0)
        given = make_decoder_arrays(tokens, begins[row, numbers], end, numbers, slots(length), vocabulary)
        draw = np.full((batch, ends.shape[1]), KEEP / 2 + MASK)  # of each sentence; this value keeps it unchanged
        draw[np.broadcast_to(row, numbers.shape)[used], numbers[used]] = rng.random(used.shape)[used]
        other = corpus.sentences.take(rng.integers(0, len(corpus.sentences) - 1, draw.shape))
        mark = tokens == vocabulary.sep
        number = np.minimum(np.cumsum(mark, axis=1) - mark, draw.shape[1] - 1)  # [B, T]
        words = (column > 0) & ~mark
        elsewhere = take(corpus.ids, other[row, number] + column - begins[row, number])
        draw = np.where(words, draw[row, number], MASK)  # [B, T]
        hidden = np.where(draw < MASK, vocabulary.mask, np.where(draw < MASK + KEEP, tokens, elsewhere))
        return {"tokens": hidden.astype(np.int32), **given}

    return make


class MaskedSentencesLm(Objective, keras.layers.Layer):
    """The ``loss`` of `models.layers.hierarchical`: the negative log-likelihood of the hidden sentences per token,
    [SEP] included."""

    def __init__(
        self, encoder: keras.layers.Layer, decoder: keras.layers.Layer, vocabulary: Vocabulary, name: str = "loss"
    ):
        super().__init__(name=name)
        self.encoder, self.decoder, self.mask, self.end = encoder, decoder, vocabulary.mask, vocabulary.sep
        self.built = True

    def gap_likelihood(self, batch: dict[str, Any]) -> tf.Tensor:
        """ln p(token t | tokens before t, a masked sentence of the same length) of ``tokens`` [B, T] that begin with
        [CLS], float [B, T]; 0 at t = 0 and at padding."""
        tokens = tf.pad(tf.convert_to_tensor(batch["tokens"], tf.int32), [[0, 0], [0, 1]])
        column = tf.range(tf.shape(tokens)[1])
        size = tf.math.count_nonzero(tokens, axis=1, dtype=tf.int32)[:, None]
        hidden = tf.where((column > 0) & (column < size), self.mask, tokens)
        one = {"tokens": tf.where(tf.equal(column, size), self.end, hidden), "previous": tokens[:, :-2]}
        one["places"] = tf.broadcast_to(column[:-2], tf.shape(one["previous"]))
        logits = tf.cast(self.logits({**one, "sentences": one["places"] * 0}), tf.float32)
        following = tokens[:, 1:-1]
        nll = tf.nn.sparse_softmax_cross_entropy_with_logits(following, logits)
        return tf.pad(tf.where(tf.equal(following, 0), 0.0, -nll), [[0, 0], [1, 0]])

    def logits(self, batch: dict[str, Any], seed: Any = None) -> tf.Tensor:
        """Scores [B, S, V] of every word for each of ``targets``."""
        _, sentences, _ = self.encoder.hidden(batch["tokens"], seed)
        return self.decoder(batch["previous"], batch["places"], batch["sentences"], sentences[-1], seed)

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"targets": tf.math.count_nonzero(batch["targets"], dtype=tf.int32)}

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        totals = totals or self.totals(batch)
        targets = batch["targets"]  # [B, S]
        nll = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, tf.cast(self.logits(batch, seed), tf.float32))
        nll *= tf.cast(tf.not_equal(targets, 0), tf.float32)
        return {"loss": tf.reduce_sum(nll) / tf.cast(tf.maximum(totals["targets"], 1), tf.float32)}
