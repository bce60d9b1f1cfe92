"""Hierarchical softmax: the probability of a word is the product of the decisions on its path in a binary tree.

Morin and Bengio (2005); Mikolov, Sutskever et al. (2013), section 2.1, equation 3, with a Huffman tree:

    p(w | h) = prod over inner nodes n on the path to w of  s(+- u_n . h),        + if the path goes left

The probabilities of all words add up to one. One word costs about log2 V products, where a softmax costs V. h is the
vector of a neighbour (skip-gram, `HierarchicalSkipGram`) or the mean of all of them (CBOW, `HierarchicalCbow`). Words,
subsampling and windows are those of `models.objectives.skipgram`.

Frequent words have short paths, so paths are padded to one length. If the tree is deeper than
``longest_tree_path(V)``, the smallest counts are raised until it is not.
"""

import heapq
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.models.layers.core import made_from
from ptmbench.models.layers.operations import shape
from ptmbench.models.layers.vector_heads import MeansTreeConfig, TreeConfig, longest_tree_path
from ptmbench.models.objective import Batches, sampled
from ptmbench.models.objectives import skipgram
from ptmbench.models.objectives._loss import Loss
from ptmbench.models.objectives.cbow import context_means, words_with_context
from ptmbench.models.text.corpus import Corpus

SLOTS = 2 * skipgram.WINDOW
"""The maximal number of words whose windows contain a given word."""


def tree(counts: np.ndarray, deepest: int) -> np.ndarray:
    """Returns the paths to the words of a Huffman tree for ``counts`` int [V]: int32 [V, deepest].

    A path lists its inner nodes from the root: n + 1 where it goes left at node n, -(n + 1) where it goes right, and 0
    after its end. Words that never occur have no path.
    """
    words = np.flatnonzero(counts)
    floor = 1
    while True:
        ways = _huffman(np.maximum(counts[words], floor).tolist())
        if max(map(len, ways)) <= deepest:
            break
        floor *= 2
    paths = np.zeros((len(counts), deepest), np.int32)
    for word, way in zip(words, ways, strict=True):
        paths[word, : len(way)] = way
    return paths


def _huffman(counts: list[int]) -> list[list[int]]:
    """Returns the paths to the leaves: Huffman (1952). Ties go to the node that was created first."""
    leaves = len(counts)
    heap = [(count, number) for number, count in enumerate(counts)]
    heapq.heapify(heap)
    children = []
    for number in range(leaves, 2 * leaves - 1):
        (one, left), (other, right) = heapq.heappop(heap), heapq.heappop(heap)
        children.append((left, right))
        heapq.heappush(heap, (one + other, number))
    ways: list[list[int]] = [[] for _ in range(2 * leaves - 1)]
    for node in reversed(range(len(children))):  # parents are created after their children
        left, right = children[node]
        above = ways[leaves + node]
        ways[left], ways[right] = [*above, node + 1], [*above, -(node + 1)]
    return ways[:leaves]


@sampled()
def batches(corpus: Corpus, vocabulary: int, batch: int, length: int) -> Batches:
    """Returns a function from (step, seed) to the ``tokens``, ``places`` and ``windows`` int32 [B, T] of
    `models.objectives.skipgram`, with ``paths`` int32 [B, T, L], the path to each token, and ``centres``
    int32 [B, T, C] (see `find_centres`)."""
    make_rows = skipgram.batches(corpus, batch, length)
    paths = tree(corpus.counts(), longest_tree_path(vocabulary))

    def make(step: int, seed: int) -> dict[str, np.ndarray]:
        rows = make_rows(step, seed)
        del rows["noise"]
        return rows | {"paths": paths[rows["tokens"]], "centres": find_centres(rows["places"], rows["windows"])}

    return make


def find_centres(places: np.ndarray, windows: np.ndarray) -> np.ndarray:
    """Returns the columns of the tokens whose windows contain each token: int32 [B, T, C], -1 in unused slots."""
    rows, length = windows.shape
    kept = windows > 0
    order = np.argsort(~kept, axis=1, kind="stable")  # columns of the first, second ... kept token of a row
    rank, count = np.cumsum(kept, axis=1) - 1, kept.sum(axis=1)[:, None]
    found = np.full((rows, length, SLOTS), -1, np.int32)
    for slot, distance in enumerate([*range(-skipgram.WINDOW, 0), *range(1, skipgram.WINDOW + 1)]):
        other = rank + distance
        there = kept & (other >= 0) & (other < count)
        centre = np.take_along_axis(order, np.clip(other, 0, length - 1), axis=1)
        there &= np.take_along_axis(places, centre, axis=1) - places == distance  # in the same sentence
        there &= np.take_along_axis(windows, centre, axis=1) >= abs(distance)
        found[:, :, slot] = np.where(there, centre, -1)
    return found


class _Hierarchical(Loss):
    """Owns the vectors of the tree's inner nodes, V - 1 for a tree of V words."""

    over_vocabulary = False

    def negative_log_likelihood(self, paths: tf.Tensor, vectors: tf.Tensor) -> tf.Tensor:
        """- ln p(w | h) of the words with ``paths`` [B, T, L], each given its own ``vectors`` [B, T, C, D]:
        float32 [B, T, C]."""
        nodes = self.nodes(tf.maximum(tf.abs(paths) - 1, 0))  # [B, T, L, D]
        turns = tf.cast(tf.matmul(nodes, vectors, transpose_b=True), tf.float32)  # [B, T, L, C]
        signs = tf.cast(tf.sign(paths), tf.float32)[:, :, :, None]  # [B, T, L, 1]
        return tf.reduce_sum(tf.abs(signs) * tf.math.softplus(-signs * turns), axis=2)


@made_from(TreeConfig)
class HierarchicalSkipGram(_Hierarchical):
    """The ``loss`` that predicts each word from each neighbour."""

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"pairs": tf.math.count_nonzero(tf.convert_to_tensor(batch["centres"]) >= 0, dtype=tf.int32)}

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        totals = totals or self.totals(batch)
        centres = tf.convert_to_tensor(batch["centres"])  # [B, T, C]
        rows, length = shape(centres)[:2]
        vectors = tf.reshape(self.encoder(batch, seed=seed).tokens, [-1, self.encoder.width])  # [B * T, D]
        flat = tf.maximum(centres, 0) + length * tf.range(rows)[:, None, None]
        nll = self.negative_log_likelihood(tf.convert_to_tensor(batch["paths"]), tf.gather(vectors, flat))  # [B, T, C]
        total = tf.cast(tf.maximum(totals["pairs"], 1), tf.float32)
        return {"loss": tf.reduce_sum(nll * tf.cast(centres >= 0, tf.float32)) / total}


@made_from(MeansTreeConfig)
class HierarchicalCbow(_Hierarchical):
    """The ``loss`` that predicts each word from the mean of its neighbours."""

    def totals(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"words": words_with_context(batch)}

    def call(self, batch: dict[str, Any], seed: Any = None, totals: Any = None) -> dict[str, Any]:
        totals = totals or self.totals(batch)
        means, weights = context_means(self.encoder(batch, seed=seed).tokens, batch)  # [B, T, D], [B, T]
        nll = self.negative_log_likelihood(tf.convert_to_tensor(batch["paths"]), means[:, :, None])[:, :, 0]  # [B, T]
        return {"loss": tf.reduce_sum(nll * weights) / tf.cast(tf.maximum(totals["words"], 1), tf.float32)}
