"""Subword segmentation in a TensorFlow graph, where tensorflow-text has no operator with the same results.

`Merges` is BPE by ranks of pairs. tensorflow-text's SentencePiece ranks pieces instead, so it also merges a piece from
a pair that has no merge. `BestPieces` is the unigram model. tensorflow-text's SentencePiece adds scores as float32, the
`tokenizers` package as float64. So rounding decides between segmentations of equal probability, such as "▁..", "." and
"▁.", "..". `bench.runs.exports.tokenizing` uses both.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.bench.runs.exports.characters import decoded, shifted

_NONE = np.iinfo(np.int64).max
_PENALTY = 10.0
"""An unknown character scores this much below the lowest score, as in the packages tokenizers and sentencepiece."""


class Merges(tf.Module):
    """Byte-level BPE (Radford et al., 2019, section 2.2): words, strings [W], to ids int32 [W, (T)].

    ``symbols`` are the ids of the 256 bytes. ``pairs`` are the ids of the left, right and merged piece, by rank.
    """

    def __init__(self, symbols: Sequence[int], pairs: Sequence[tuple[int, int, int]], size: int):
        super().__init__()
        self.size, self.symbols = size, tf.constant(symbols, tf.int64)
        ranks = {left * size + right: rank << 32 | merged for rank, (left, right, merged) in enumerate(pairs)}
        self.ranks = _table(ranks or {-1: _NONE}, _NONE)

    def __call__(self, words: tf.Tensor) -> tf.RaggedTensor:
        count = tf.size(words, tf.int64)
        codes = tf.io.decode_raw(tf.strings.reduce_join(words), tf.uint8)
        symbols = tf.gather(self.symbols, tf.cast(codes, tf.int32))
        owners = tf.repeat(tf.range(count), tf.strings.length(words))

        def merge(symbols: tf.Tensor, owners: tf.Tensor, more: tf.Tensor) -> tuple[tf.Tensor, ...]:
            """Merges the leftmost pair of the lowest rank in every word."""
            ranks = self.ranks.lookup(symbols[:-1] * self.size + symbols[1:])
            ranks = tf.where(owners[:-1] == owners[1:], ranks, _NONE)
            best = tf.math.unsorted_segment_min(ranks, owners[:-1], count)
            chosen = (ranks < _NONE) & (ranks == tf.gather(best, owners[:-1]))
            places = tf.where(chosen, tf.range(tf.size(ranks, tf.int64)), _NONE)
            places = tf.math.unsorted_segment_min(places, owners[:-1], count)
            places = tf.boolean_mask(places, places < _NONE)
            new = tf.bitwise.bitwise_and(tf.gather(ranks, places), (1 << 32) - 1)
            symbols = tf.tensor_scatter_nd_update(symbols, places[:, None], new)
            gone = tf.scatter_nd(places[:, None] + 1, tf.ones_like(places), tf.shape(symbols, tf.int64))
            return tf.boolean_mask(symbols, gone == 0), tf.boolean_mask(owners, gone == 0), tf.size(places) > 0

        symbols, owners, _ = _while(lambda symbols, owners, more: more, merge, (symbols, owners, tf.constant(True)))
        return tf.RaggedTensor.from_value_rowids(tf.cast(symbols, tf.int32), owners, count, validate=False)


class BestPieces(tf.Module):
    """The most probable segmentation under a unigram language model (Kudo, 2018, section 3.1, equations 1 to 3), found
    by Viterbi's algorithm: words, strings [W], to ids int32 [W, (T)].

    ``pieces`` are (spelling, id, score), and ``lowest`` is the lowest score of the vocabulary. A run of unknown
    characters becomes a single id ``unknown``. Among equally good segmentations of a prefix, the one with the longest
    last piece is chosen.
    """

    def __init__(self, pieces: Sequence[tuple[str, int, float]], unknown: int, lowest: float):
        super().__init__()
        self.unknown, self.penalty = unknown, lowest - _PENALTY
        self.longest = max(len(piece) for piece, _, _ in pieces)
        children: dict[int, int] = {}
        ids, scores = [unknown, unknown], [-np.inf, -np.inf]  # entry 0 is for no node, entry 1 for the root
        for piece, number, score in pieces:
            node = 1
            for letter in piece:
                key = node << 21 | ord(letter)
                if key not in children:
                    children[key] = len(ids)
                    ids.append(unknown), scores.append(-np.inf)
                node = children[key]
            ids[node], scores[node] = number, score
        self.children = _table(children, 0)
        self.ids, self.scores = tf.constant(ids, tf.int32), tf.constant(scores, tf.float64)

    def __call__(self, words: tf.Tensor) -> tf.RaggedTensor:
        codes = decoded(words)
        ids, scores = self._found(codes)
        sizes = codes.row_lengths()
        order = tf.argsort(sizes, direction="DESCENDING", stable=True)
        starts, sizes = tf.gather(codes.row_starts(), order), tf.gather(sizes, order)
        most = tf.reduce_max(tf.concat([sizes, [0]], 0))
        lengths = tf.constant(np.arange(self.longest, 0, -1))  # longest first: argmax prefers longer pieces

        def step(end: tf.Tensor, best: tf.Tensor, chosen: tf.TensorArray) -> tuple[Any, ...]:
            """Extends the best segmentations to the first ``end`` characters.

            ``best``, float64 [A, K], has the scores of the prefixes that end K to 1 characters before ``end``. The A
            words that are long enough are the first in ``order``.
            """
            active = tf.math.count_nonzero(sizes >= end)
            places = (starts[:active, None] + end - lengths) * self.longest + lengths - 1  # [A, K]
            there = end >= lengths
            added = tf.gather(tf.reshape(scores, [-1]), tf.where(there, places, 0))
            sums = best[:active] + tf.where(there, added, -np.inf)
            chosen = chosen.write(tf.cast(end, tf.int32) - 1, tf.gather(lengths, tf.argmax(sums, 1)))
            best = tf.concat([best[:active, 1:], tf.reduce_max(sums, 1)[:, None]], 1)
            return end + 1, tf.ensure_shape(best, [None, self.longest]), chosen

        before = tf.fill([tf.size(sizes), self.longest - 1], tf.constant(-np.inf, tf.float64))
        best = tf.concat([before, tf.zeros_like(sizes, tf.float64)[:, None]], 1)
        chosen = tf.TensorArray(tf.int64, tf.cast(most, tf.int32), infer_shape=False, element_shape=[None])
        first = tf.constant(1, tf.int64)
        *_, chosen = tf.while_loop(
            lambda end, best, chosen: end <= most,
            step,
            (first, best, chosen),
            shape_invariants=(first.shape, tf.TensorShape([None, self.longest]), tf.TensorShape([])),
        )
        return self._backtrace(codes, ids, chosen.concat(), tf.argsort(order))

    def _found(self, codes: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the ids and scores of the pieces of 1 to K characters that begin at each of N characters, int32 and
        float64 [N, K]. The score is -inf if there is no such piece; a single unknown character has the penalty."""
        flat, rows = tf.cast(codes.flat_values, tf.int64), codes.value_rowids()
        node, found = tf.ones_like(flat), []
        for place in range(self.longest):
            letter, row = (shifted(flat, -place, 0), shifted(rows, -place, -1)) if place else (flat, rows)
            node = tf.where(row == rows, self.children.lookup(node * (1 << 21) + letter), 0)
            found.append(node)
        nodes = tf.stack(found, 1)
        scores = tf.gather(self.scores, nodes)
        alone = tf.where(tf.math.is_inf(scores[:, :1]), tf.constant(self.penalty, tf.float64), scores[:, :1])
        return tf.gather(self.ids, nodes), tf.concat([alone, scores[:, 1:]], 1)

    def _backtrace(
        self, codes: tf.RaggedTensor, ids: tf.Tensor, chosen: tf.Tensor, ranks: tf.Tensor
    ) -> tf.RaggedTensor:
        """Traces the best segmentations back and returns their ids.

        ``chosen`` is the length of the last piece of each prefix: of all prefixes of one character, then of two, and so
        on. Each group has the words that are long enough, in the order of ``ranks``.
        """
        sizes, starts = codes.row_lengths(), codes.row_starts()
        active = tf.math.bincount(tf.cast(sizes, tf.int32), dtype=tf.int64)  # number of words of each size
        active = tf.cumsum(active, reverse=True)  # number of words of at least each size
        offsets = tf.cumsum(active[1:], exclusive=True)
        numbers = tf.zeros(tf.shape(codes.flat_values), tf.int64)  # length of the piece that begins there

        def back(ends: tf.Tensor, owners: tf.Tensor, numbers: tf.Tensor) -> tuple[tf.Tensor, ...]:
            lengths = tf.gather(chosen, tf.gather(offsets, ends - 1) + tf.cast(tf.gather(ranks, owners), tf.int64))
            begins = ends - lengths
            places = tf.gather(starts, owners) + begins
            numbers = tf.tensor_scatter_nd_update(numbers, places[:, None], lengths)
            return tf.boolean_mask(begins, begins > 0), tf.boolean_mask(owners, begins > 0), numbers

        filled = tf.where(sizes > 0)[:, 0]
        *_, numbers = _while(
            lambda ends, owners, numbers: tf.size(ends) > 0, back, (tf.gather(sizes, filled), filled, numbers)
        )
        places = tf.where(numbers > 0)[:, 0]
        pieces = tf.gather_nd(ids, tf.stack([places, tf.gather(numbers, places) - 1], 1))
        owners = tf.gather(codes.value_rowids(), places)
        again = (shifted(owners, 1, -1) == owners) & (shifted(pieces, 1, -1) == self.unknown)
        kept = ~(again & (pieces == self.unknown))
        pieces, owners = tf.boolean_mask(pieces, kept), tf.boolean_mask(owners, kept)
        return tf.RaggedTensor.from_value_rowids(pieces, owners, codes.nrows(), validate=False)


def _while(condition: Any, body: Any, variables: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, ...]:
    """Runs a loop whose tensors may change their sizes."""
    shapes = tuple(tf.TensorShape([None] * one.shape.rank) for one in variables)
    return tf.while_loop(condition, body, variables, shape_invariants=shapes)


def _table(values: dict[int, int], default: int) -> tf.lookup.StaticHashTable:
    keys, found = list(values), list(values.values())
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, found, tf.int64, tf.int64), default)
