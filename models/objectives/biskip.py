"""Bilingual skip-gram: distinguish the words around a word, and around its position in the translation, from random
words.

Luong, Pham and Manning (2015): skip-gram within both languages and from each into the other, at equal weights,

    L = - mean over pairs (w, c) of  ln s(u_c . v_w) + k E_{n ~ p_c} ln s(- u_n . v_w)

where c is near w in its own text, or near the position in the other text that w is aligned with, and p_c is the noise
distribution of the language of c. The rest is in `models.objectives.skipgram`. Both alignments of the paper are
supported: that of an aligner, if the corpus has the layer ``word_alignments``, and otherwise one without an aligner, in
which word i of S is aligned with position i T / S of T. A word without a link from the aligner has no context in the
other text. A word with several links has the middle one, while the authors' program takes all. As in that program, the
word at the aligned position is not a context itself, and windows are formed after frequent words have been dropped.

The corpus has pairs, as in `models.objectives.translation`. A row interleaves the two texts of a pair in the order of
i / S. Neighbours in both languages are then within one band of W' tokens on either side, and a block takes one product.
Two kinds of contexts are lost: the farthest ones if one text is over three times as long as the other, and those of
words that an aligner links over more than about half the band.
"""

import math
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.models.channels import ALIGNED
from ptmbench.models.layers.core import made_from
from ptmbench.models.layers.vector_heads import BAND, SHARED, WINDOW, BiSkipConfig
from ptmbench.models.objective import PAIRS, Batches, sampled
from ptmbench.models.objectives.sampling import TokenRuns, generator, take
from ptmbench.models.objectives.skipgram import FAR, NEGATIVES, SkipGram, blocks, subsampling
from ptmbench.models.objectives.translation import check
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.tokenizers import Vocabulary

_BLOCK = 1 << 20  # tokens that are counted in one pass


@sampled(PAIRS)
def batches(corpus: Corpus, vocabulary: Vocabulary, batch: int, length: int) -> Batches:
    """Returns a function from (step, seed) to ``tokens``, ``languages``, ``windows`` int32 [B, T], ``places``
    int32 [B, T, 2] and ``noise`` int32 [B, 2, K].

    ``languages`` are 0 in first and 1 in second texts. ``places`` are the position of a token among the tokens of
    either language: its own position in its language, and its aligned position in the other. ``windows`` are as for
    skip-gram. Raises `CorpusUnfit` unless every document of the corpus is a pair.
    """
    check(corpus)
    links = corpus.layers.get(ALIGNED)
    counts = _counts(corpus, vocabulary.size)  # [2, V]
    kept_of, shares = zip(*map(subsampling, counts), strict=True)
    keep, share = np.stack(kept_of), float(np.average(shares, weights=counts.sum(axis=1)))
    span = round(length / share)
    runs = TokenRuns(corpus.ids, span)
    reach = span + math.ceil(5 * math.sqrt(span * (1 - share) / share))  # a margin of five standard deviations
    noise = np.cumsum(counts**0.75, axis=1)
    noise /= noise[:, -1:]

    def make(step: int, seed: int) -> dict[str, np.ndarray]:
        rng = generator(seed, step)
        where = runs.starts(step, batch, seed)[:, None] + np.arange(reach)  # [B, R]
        text = take(corpus.ids, where)
        rounds, inside = np.divmod(where, corpus.tokens)
        sentence = corpus.sentences.searchsorted(inside, side="right") - 1
        language = sentence % 2
        kept = rng.random(text.shape, np.float32) < keep[language, text]
        count = np.cumsum(kept, axis=1)
        kept &= count <= length
        begin, size, other, others = _bounds(corpus, sentence)
        place = (inside - begin) * others // size  # position in the other text, [B, R]
        if links is not None:
            known = take(links, where)
            place = np.where(known > 0, known - 1, place)
        aligned = other + place - inside + np.arange(reach)  # columns, [B, R]
        there = np.clip(aligned, 0, reach - 1)
        linked = (there == aligned) & np.take_along_axis(kept, there, axis=1)
        if links is not None:
            linked &= known >= 0
        beside = np.where(linked, np.take_along_axis(count, there, axis=1), -FAR // 2)  # far from every token
        document = sentence // 2 + rounds * (len(corpus.sentences) // 2)
        document -= document[:, :1]
        places = np.where(language[..., None] == [0, 1], count[..., None], beside[..., None])  # [B, R, 2]
        places += FAR * document[..., None]
        # Interleaved: by document, then by relative position in the text. Dropped tokens go to the end.
        order = np.where(kept, document + (inside - begin + 0.5) / size, np.inf).argsort(axis=1, kind="stable")
        order = order[:, :length]
        here = np.take_along_axis(kept, order, axis=1)
        return {
            "tokens": np.where(here, np.take_along_axis(text, order, axis=1), 0).astype(np.int32),
            "languages": np.take_along_axis(language, order, axis=1).astype(np.int32),
            "places": np.take_along_axis(places, order[..., None], axis=1).astype(np.int32),
            "windows": (rng.integers(1, WINDOW + 1, here.shape) * here).astype(np.int32),
            "noise": _drawn(noise, rng.random((batch, 2, SHARED))),
        }

    return make


def _bounds(corpus: Corpus, sentence: np.ndarray) -> tuple[np.ndarray, ...]:
    """Returns the beginning and the size of each ``sentence``, and those of its translation."""
    begins = [corpus.sentences.take(sentence), corpus.sentences.take(sentence ^ 1)]
    ends = [corpus.sentences.take(sentence + 1), corpus.sentences.take((sentence ^ 1) + 1)]
    return begins[0], ends[0] - begins[0], begins[1], ends[1] - begins[1]


def _counts(corpus: Corpus, vocabulary: int) -> np.ndarray:
    """Counts how often each id occurs in first and in second texts, float64 [2, V]. Reads the corpus once."""
    counts = np.zeros(2 * vocabulary)
    for begin in range(0, corpus.tokens, _BLOCK):
        where = np.arange(begin, min(begin + _BLOCK, corpus.tokens))
        language = (corpus.sentences.searchsorted(where, side="right") - 1) % 2
        counts += np.bincount(take(corpus.ids, where) + vocabulary * language, minlength=2 * vocabulary)
    return counts.reshape(2, vocabulary)


def _drawn(cumulative: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Returns the ids [B, 2, K] of the noise words of each language."""
    found = [np.searchsorted(each, uniform[:, language]) for language, each in enumerate(cumulative)]
    return np.stack(found, axis=1).astype(np.int32)


@made_from(BiSkipConfig)
class BiSkip(SkipGram):
    """The ``loss`` of a table of word vectors. It owns the second table of skip-gram, with the vectors of words as
    contexts."""

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"pairs": tf.math.count_nonzero(contexts_of(batch), dtype=tf.int32)}

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        totals = totals or self.totals(batch)
        pairs = tf.cast(contexts_of(batch), tf.float32)  # [B, N, S, R]
        centres = self.encoder(batch, seed=seed).tokens  # [B, T, D]
        own, _ = blocks(centres, BAND)  # [B, N, S, D]
        _, around = blocks(self.contexts(batch["tokens"]), BAND)  # [B, N, R, D]
        near = tf.cast(tf.matmul(own, around, transpose_b=True), tf.float32)  # [B, N, S, R]
        total = tf.reduce_sum(tf.math.softplus(-near) * pairs)
        _, languages = blocks(tf.convert_to_tensor(batch["languages"]), BAND)  # [B, N, R]
        for language in (0, 1):
            noise = self.contexts(batch["noise"][:, language])  # [B, K, D]
            far = tf.cast(tf.matmul(centres, noise, transpose_b=True), tf.float32)  # [B, T, K]
            false, _ = blocks(tf.reduce_mean(tf.math.softplus(far), axis=2))  # [B, N, S]
            into = tf.cast(languages == language, tf.float32)[:, :, None]  # [B, N, 1, R]
            total += NEGATIVES * tf.reduce_sum(false * tf.reduce_sum(pairs * into, axis=3))
        return {"loss": total / tf.cast(tf.maximum(totals["pairs"], 1), tf.float32)}


def contexts_of(batch: dict[str, Any]) -> tf.Tensor:
    """Returns whether the second token is a context of the first, bool [B, N, S, R]. The first token is in a block, the
    second in the block or within the band on either side."""
    parts = (tf.convert_to_tensor(batch[name]) for name in ("places", "languages", "windows"))
    (centres, others), (_, languages), (reach, present) = (blocks(part, BAND) for part in parts)
    away = tf.abs(centres[:, :, :, None] - others[:, :, None])  # [B, N, S, R, 2]
    away = tf.where(languages[:, :, None] == 0, away[..., 0], away[..., 1])  # in the second token's language
    return (away <= reach[..., None]) & (away > 0) & (present > 0)[:, :, None]
