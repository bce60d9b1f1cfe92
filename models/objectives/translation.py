"""Machine translation: generate the translation of a text. McCann et al. (2017), section 3.

    L_MT = - 1/S sum_s ln p(y_s | y_{<s}, x)

The corpus consists of texts with human translations (the layout "pairs" of `models.text.layouts`), each pair a document
of two sentences. A row has as many pairs as fit on both sides. The side of the language that needs fewer pieces is
padded: for the microworld's pairs in rows of 128 (a vocabulary of 1000), 54 % of the source and 92 % of the target are
text. The source row is [CLS] x [SEP] [CLS] x' [SEP] ..., the target row [CLS] y [SEP] [CLS] y' [SEP] ... in the same
order. A network that translates such rows must separate the pairs by their [CLS] (see `models.layers.translator`). The
beginning of a target is given: [CLS] is never predicted.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.models.objective import PAIRS, Batches, sampled
from ptmbench.models.objectives.sampling import TokenRuns, make_text_rows
from ptmbench.models.objectives.seq2seq_mlm import Seq2SeqLm
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.pieces import CorpusUnfit
from ptmbench.models.text.tokenizers import Vocabulary

_BLOCK = 1 << 20  # documents that are read at once


def check(corpus: Corpus) -> None:
    """Raises `CorpusUnfit` if a document of ``corpus`` is not a pair."""
    count = len(corpus.documents) - 1
    for begin in range(0, count, _BLOCK):
        sizes = np.diff(corpus.documents.take(np.arange(begin, min(begin + _BLOCK, count) + 1)))
        if (sizes != 2).any():
            wrong = int(np.argmax(sizes != 2))
            raise CorpusUnfit(
                "This model learns from texts beside their translations, and document "
                f"{begin + wrong + 1} of the corpus has not two texts but {sizes[wrong]}. "
                "Give a file NAME.pairs.tsv with a text, a tab and its translation in each line."
            )


class Packed:
    """Rows of complete pairs that follow each other in the corpus, as many as fit on both sides.

    A row begins with the first pair of a window of `models.objectives.sampling.TokenRuns`. Pairs of the window that do
    not fit are sampled in another epoch, whose windows begin elsewhere. A single pair that is too long for a row is
    cut.
    """

    def __init__(self, corpus: Corpus, vocabulary: Vocabulary, length: int):
        if length < 4:
            raise ValueError(f"Rows of {length} tokens are too short to hold text between two marks: use at least 4.")
        check(corpus)
        self.corpus, self.vocabulary, self.length = corpus, vocabulary, length
        self.runs = TokenRuns(corpus.ids, 2 * length)

    def __call__(self, step: int, batch: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns sources and targets of ``step``, int32 [B, T] each. Pair k of a row begins with the k-th [CLS] in
        both."""
        bounds, pairs = self.corpus.sentences, len(self.corpus.documents) - 1
        places = self.runs.starts(step, batch, seed) % self.corpus.tokens
        first = -(-bounds.searchsorted(places) // 2)  # the next pair, at this position or after it
        chosen = (first[:, None] + np.arange(self.length // 3)) % pairs  # [B, K]; a side has at least 3 tokens
        edges = np.stack([bounds.take(2 * chosen + part) for part in range(3)])  # [3, B, K]
        sizes = np.diff(edges, axis=0) + 2  # [2, B, K] with [CLS] and [SEP]
        sizes[:, :, 0] = np.minimum(sizes[:, :, 0], self.length)
        fits = (np.cumsum(sizes, axis=2) <= self.length).all(axis=0)  # [B, K]
        sizes *= fits
        sides = (make_text_rows(self.corpus, self.vocabulary, self.length, edges[n], sizes[n]) for n in range(2))
        source, target = (tokens for tokens, _, _ in sides)
        return source, target


@sampled(PAIRS)
def batches(corpus: Corpus, vocabulary: Vocabulary, batch: int, length: int) -> Batches:
    """Returns a function from (step, seed) to ``tokens`` and ``targets``, int32 [B, T] each. Raises `CorpusUnfit`
    unless every document of the corpus is a pair."""
    packed = Packed(corpus, vocabulary, length)

    def make(step: int, seed: int) -> dict[str, np.ndarray]:
        tokens, targets = packed(step, batch, seed)
        return {"tokens": tokens, "targets": targets}

    return make


class Translation(Seq2SeqLm):
    """The ``loss`` of an encoder-decoder that separates the pairs of a row: the negative log-likelihood of the target
    per token, without the [CLS] of each text."""

    def __init__(self, encoder: Any, decoder: Any, cls: int, name: str = "loss"):
        super().__init__(encoder, decoder, name=name)
        self.cls = cls

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"targets": tf.math.count_nonzero(self._wanted(batch), dtype=tf.int32)}

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        totals = totals or self.totals(batch)
        targets = tf.convert_to_tensor(batch["targets"], tf.int32)
        logits = self.decode({"tokens": batch["tokens"], "targets": targets[:, :-1]}, seed)  # [B, S - 1, V]
        nll = tf.nn.sparse_softmax_cross_entropy_with_logits(targets[:, 1:], tf.cast(logits, tf.float32))
        nll *= tf.cast(self._wanted(batch), tf.float32)
        return {"loss": tf.reduce_sum(nll) / tf.cast(tf.maximum(totals["targets"], 1), tf.float32)}

    def _wanted(self, batch: dict[str, Any]) -> tf.Tensor:
        """Which of ``targets`` after the first are predicted: bool [B, S - 1]."""
        following = tf.convert_to_tensor(batch["targets"], tf.int32)[:, 1:]
        return tf.not_equal(following, 0) & tf.not_equal(following, self.cls)
