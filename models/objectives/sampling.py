"""Which text a training step sees: stateless samplers over a corpus. No TensorFlow.

A sampler maps (step, batch size, seed) to rows of ids, so that any step of any run can be made again, in any
process, in any order. An epoch is a permutation of equal windows, drawn anew for each (seed, epoch), and the
windows start at another offset each time: the cuts between windows differ from epoch to epoch. Windows are filled
to the last token; there is no padding.
"""

from functools import lru_cache

import numpy as np

from models.corpus import Corpus
from models.tokenizers import Vocabulary

_STEPS, _ORDERS, _OFFSETS = range(3)
"""Separate streams of random numbers: the highest word of the Philox counter."""


def generator(seed: int, index: int, stream: int = _STEPS) -> np.random.Generator:
    """Random numbers that follow from (seed, index): Philox (Salmon et al., 2011) with the pair as its key."""
    return np.random.Generator(np.random.Philox(key=[seed % 2**64, index], counter=[0, 0, 0, stream]))


@lru_cache(maxsize=8)
def _order(count: int, seed: int, epoch: int) -> np.ndarray:
    return generator(seed, epoch, _ORDERS).permutation(count)


def _offset(limit: int, seed: int, epoch: int) -> int:
    return int(generator(seed, epoch, _OFFSETS).integers(limit)) if epoch else 0


class Runs:
    """Equal runs of a flat array of ids, each once per epoch."""

    def __init__(self, ids: np.ndarray, length: int):
        if not len(ids):
            raise ValueError("The corpus is empty: there is nothing to pre-train on. Give at least one file with text.")
        self.ids, self.length = ids, length
        self.count = max(1, len(ids) // length)

    def starts(self, step: int, batch: int, seed: int) -> np.ndarray:
        """Where the ``batch`` windows of ``step`` begin, int64 [B]."""
        rows = np.arange(step * batch, (step + 1) * batch)
        epochs, slots = np.divmod(rows, self.count)
        starts = np.empty(batch, np.int64)
        for epoch in range(epochs[0], epochs[-1] + 1):
            here = epochs == epoch
            windows = _order(self.count, seed, epoch)[slots[here]]
            starts[here] = windows * self.length + _offset(self.length, seed, epoch)
        return starts

    def __call__(self, step: int, batch: int, seed: int) -> np.ndarray:
        """The rows of ``step``, int32 [B, length]; the last run of an epoch goes on at the beginning of the corpus."""
        return take(self.ids, self.starts(step, batch, seed)[:, None] + np.arange(self.length))


def take(ids: np.ndarray, where: np.ndarray) -> np.ndarray:
    """``ids`` at ``where``, counted around the end of the array."""
    return ids.take(where, mode="wrap")


def stream(corpus: Corpus, vocabulary: Vocabulary) -> np.ndarray:
    """The whole corpus as one array: [CLS] document [SEP] [CLS] document [SEP] ..., int32 [N + 2 D]."""
    bounds = corpus.sentences[corpus.documents]  # [D + 1] offsets into the ids
    count = len(bounds) - 1
    ids = np.empty(len(corpus.ids) + 2 * count, np.int32)
    opening = bounds[:-1] + 2 * np.arange(count)
    closing = bounds[1:] + 2 * np.arange(count) + 1
    text = np.ones(len(ids), bool)
    text[opening] = text[closing] = False
    ids[opening], ids[closing], ids[text] = vocabulary.cls, vocabulary.sep, corpus.ids
    return ids


class Pairs:
    """[CLS] A [SEP] B [SEP] of exactly ``length`` tokens (Devlin et al., 2019, appendix A.2).

    A begins and ends with a sentence. B is what follows A in its document or, in a share ``random_second`` of the
    rows, what follows a random sentence of another document. Where the authors pad a pair that reaches the end of
    its document, B runs on into the next document here, which keeps every row full; the half of a window that a
    random B displaces comes back in another epoch.
    """

    def __init__(self, corpus: Corpus, vocabulary: Vocabulary, length: int, random_second: float):
        if length < 8:
            raise ValueError(
                f"Pairs of {length} tokens are too short to hold two texts and three special tokens: use at least 8."
            )
        self.corpus, self.vocabulary, self.length, self.random_second = corpus, vocabulary, length, random_second
        self.runs = Runs(corpus.ids, length - 3)
        self.documents = np.unique(corpus.documents)  # without the empty ones
        self.ends = np.repeat(self.documents[1:], np.diff(self.documents))  # [S] the end of each sentence's document
        starts = np.arange(len(self.ends))
        self.starts = starts[self.ends - starts > 1]  # a sentence that another one follows in its document
        if not len(self.starts):  # documents of one sentence each: the corpus itself is the only document
            self.ends, self.starts = np.full_like(starts, len(starts)), starts

    def __call__(self, step: int, batch: int, seed: int) -> tuple[dict[str, np.ndarray], np.random.Generator]:
        """The rows of ``step``, and the generator to go on with.

        ``tokens`` and ``segments`` are int32 [B, T], ``next`` int32 [B]: 1 where B follows A.
        """
        rng = generator(seed, step)
        room, bounds = self.length - 3, self.corpus.sentences
        windows = self.runs.starts(step, batch, seed) % len(self.corpus.ids)
        # The sentence at which each window begins, [B]; past the last one that can begin a pair, that one.
        first = self.starts[np.searchsorted(bounds[self.starts], windows).clip(max=len(self.starts) - 1)]
        begin = bounds[first]
        # A ends after any sentence that leaves B its first sentence in the document and at least a token in the row.
        last = np.minimum(self.ends[first] - 1, np.searchsorted(bounds, begin + room - 1, side="right") - 1)
        last = np.maximum(last, first + 1)
        cut = bounds[first + 1 + (rng.random(batch) * (last - first)).astype(np.int64)]
        # A sentence that fills the row by itself is cut, so that B has something to follow.
        size = np.where(cut - begin < room, cut - begin, room // 2)
        follows = rng.random(batch) >= self.random_second
        second = np.where(follows, begin + size, bounds[self._elsewhere(first, rng)])
        column = np.arange(self.length)[None]
        inside = size[:, None]
        where = np.where(column <= inside, begin[:, None] + column - 1, second[:, None] + column - inside - 2)
        tokens = take(self.corpus.ids, where).astype(np.int32)
        tokens[:, 0] = self.vocabulary.cls
        tokens[:, -1] = self.vocabulary.sep
        tokens[np.arange(batch), size + 1] = self.vocabulary.sep
        segments = (column > inside + 1).astype(np.int32)
        return {"tokens": tokens, "segments": segments, "next": follows.astype(np.int32)}, rng

    def _elsewhere(self, first: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """For each sentence of ``first`` a random one of another document (of the same when it is the only one)."""
        count = len(self.documents) - 1
        own = np.searchsorted(self.documents, first, side="right") - 1
        other = (own + 1 + (rng.random(len(first)) * (count - 1)).astype(np.int64)) % count
        begin, end = self.documents[other], self.documents[other + 1]
        return begin + (rng.random(len(first)) * (end - begin)).astype(np.int64)
