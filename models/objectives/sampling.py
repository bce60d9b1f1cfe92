"""Stateless samplers over a corpus, which choose the text of each training step.

A sampler maps (step, batch size, seed) to rows of ids. Any step of any run can be repeated, in any process and in any
order. An epoch is a permutation of windows of equal length, drawn again for each (seed, epoch). The windows start at a
different offset in each epoch, so the boundaries between windows differ. Windows are full and have no padding. Neither
the permutation nor the corpus is held in memory: the permutation is computed on demand, and the corpus is looked up.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.joined import Joined
from ptmbench.models.text.mixing import hash_integers
from ptmbench.models.text.pieces import CorpusUnfit
from ptmbench.models.text.tokenizers import Vocabulary

_ROUNDS = 10
_REACH = 64  # documents of one sentence that are skipped in search of one with two
_BLOCK = 1024  # rows whose positions are computed together; a step pays about a thirtieth of their cost


def generator(seed: int, index: int) -> np.random.Generator:
    """Returns the random generator of (seed, index): Philox (Salmon et al., 2011) with the pair as its key."""
    # NumPy would convert a list to floats if only one of its numbers needs 64 bits.
    return np.random.Generator(np.random.Philox(key=np.array([seed % 2**64, index], np.uint64)))


def permute_slots(slots: np.ndarray, count: int, keys: np.ndarray) -> np.ndarray:
    """Maps ``slots`` int64 [N] by a permutation of ``count`` numbers, which ``keys`` uint64 [N] choose.

    The permutation is a Feistel network over pairs of numbers, repeated until the result is below ``count``: Black &
    Rogaway (2002), section 4.
    """
    left = np.uint64(math.isqrt(count - 1) + 1)
    right = np.uint64(-(-count // int(left)))
    result, outside = slots.astype(np.uint64), np.arange(len(slots))
    while len(outside):
        a, b = np.divmod(result[outside], right)
        for turn in range(_ROUNDS):
            key = keys[outside] ^ np.uint64(turn << 56)
            if turn % 2:
                a = (a + (hash_integers(b ^ key) >> np.uint64(32))) % left
            else:
                b = (b + (hash_integers(a ^ key) >> np.uint64(32))) % right
        result[outside] = a * right + b
        outside = outside[result[outside] >= count]
    return result.astype(np.int64)


@lru_cache(maxsize=64)
def _places(count: int, length: int, seed: int, block: int) -> np.ndarray:
    """Returns the beginnings of the rows of ``block``, int64 [_BLOCK]. An epoch has ``count`` windows of ``length``
    tokens."""
    epochs, slots = np.divmod(np.arange(block * _BLOCK, (block + 1) * _BLOCK), count)
    keys = hash_integers(hash_integers(np.uint64([seed % 2**64])) + epochs.astype(np.uint64))
    offsets = np.where(epochs, (hash_integers(keys ^ np.uint64(1)) % np.uint64(length)).astype(np.int64), 0)
    return permute_slots(slots, count, keys) * length + offsets


class TokenRuns:
    """Runs of equal length of a flat array of ids, each once per epoch."""

    def __init__(self, ids: "np.ndarray | Joined | MarkedCorpus", length: int):
        if not len(ids):
            raise ValueError("The corpus is empty: there is nothing to pre-train on. Give at least one file with text.")
        self.ids, self.length = ids, length
        self.count = max(1, len(ids) // length)

    def starts(self, step: int, batch: int, seed: int) -> np.ndarray:
        """Returns the beginnings of the ``batch`` windows of ``step``, int64 [B]."""
        return self.at(step * batch, batch, seed)

    def at(self, number: int, count: int, seed: int) -> np.ndarray:
        """Returns the beginnings of ``count`` windows, the first of which has this ``number``, int64 [count]."""
        first, last = number // _BLOCK, max(number, number + count - 1) // _BLOCK
        blocks = [_places(self.count, self.length, seed, block) for block in range(first, last + 1)]
        begin = number - first * _BLOCK
        return np.concatenate(blocks)[begin : begin + count]

    def __call__(self, step: int, batch: int, seed: int) -> np.ndarray:
        """Returns the rows of ``step``, int32 [B, length]. The last run of an epoch continues at the beginning of the
        corpus."""
        return take(self.ids, self.starts(step, batch, seed)[:, None] + np.arange(self.length))


def take(ids: "np.ndarray | Joined | MarkedCorpus", where: np.ndarray) -> np.ndarray:
    """Returns ``ids`` at ``where``, int32. Positions beyond the end continue at the beginning."""
    return ids.take(where, mode="wrap").astype(np.int32, copy=False)


class MarkedCorpus:
    """A corpus as one virtual array: [CLS] document [SEP] [CLS] document [SEP] ..., N + 2 D ids."""

    def __init__(self, corpus: Corpus, vocabulary: Vocabulary):
        self.corpus, self.vocabulary = corpus, vocabulary

    def __len__(self) -> int:
        return len(self.corpus.ids) + 2 * (len(self.corpus.documents) - 1)

    def take(self, where: np.ndarray, mode: str = "wrap") -> np.ndarray:
        """Returns the ids at ``where``, int32 in its shape. Positions beyond the end continue at the beginning."""
        where = where % len(self)
        openings = self.corpus.openings
        document = openings.searchsorted(where.ravel(), side="right").reshape(where.shape) - 1
        ids = self.corpus.ids.take(where - 2 * document - 1, mode=mode).astype(np.int32)
        ids[where == openings.take(document, mode=mode)] = self.vocabulary.cls
        ids[where == openings.take(document + 1, mode=mode) - 1] = self.vocabulary.sep
        return ids


def stream(corpus: Corpus, vocabulary: Vocabulary) -> np.ndarray | MarkedCorpus:
    """Returns the whole corpus with [CLS] and [SEP] around its documents: an array int32 [N + 2 D] if the ids of the
    corpus are one array, and otherwise a `MarkedCorpus`."""
    marked = MarkedCorpus(corpus, vocabulary)
    return marked.take(np.arange(len(marked))) if isinstance(corpus.ids, np.ndarray) else marked


def make_pair_rows(
    corpus: Corpus, vocabulary: Vocabulary, length: int, first: np.ndarray, size: np.ndarray, second: np.ndarray
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Makes rows [CLS] A [SEP] B [SEP]. A is the ``size`` [B] tokens from ``first`` [B] on; B fills the row from
    ``second``.

    Returns ``tokens`` and ``segments`` int32 [B, T], and the position of each token in the corpus, int64 [B, T], -1 for
    special tokens.
    """
    column, inside = np.arange(length)[None], size[:, None]
    where = np.where(column <= inside, first[:, None] + column - 1, second[:, None] + column - inside - 2)
    tokens = take(corpus.ids, where)
    row = np.arange(len(first))
    for place, mark in ((0, vocabulary.cls), (length - 1, vocabulary.sep), (size + 1, vocabulary.sep)):
        tokens[row, place], where[row, place] = mark, -1
    return {"tokens": tokens, "segments": (column > inside + 1).astype(np.int32)}, where


def make_text_rows(
    corpus: Corpus, vocabulary: Vocabulary, length: int, begins: np.ndarray, sizes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Makes rows [CLS] text [SEP] [CLS] text [SEP] ... of texts that begin at ``begins`` [B, K] in the corpus.
    ``sizes`` [B, K] include [CLS] and [SEP]; a text of size 0 is left out.

    Returns the tokens int32 [B, T], 0 after the last text; the number of each token's text, int64 [B, T], K after the
    last one; and the token's position in its text, int64 [B, T], 0 for [CLS].
    """
    which, begin, size, inside = locate_columns(length, begins, sizes)
    tokens = take(corpus.ids, begin + inside - 1)
    tokens[inside == 0], tokens[inside == size - 1] = vocabulary.cls, vocabulary.sep
    return np.where(which < sizes.shape[1], tokens, 0).astype(np.int32), which, inside


def locate_columns(length: int, begins: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, ...]:
    """Locates the columns of rows that are a sequence of texts of ``sizes`` [B, K], which begin at ``begins`` [B, K].

    Returns for each column the number of its text, K after the last one; the beginning of the text; its size; and the
    position in it. int64 [B, T] each.
    """
    ends, column = np.cumsum(sizes, axis=1), np.arange(length)
    which = (ends[:, :, None] <= column).sum(axis=1)  # [B, T]
    inner = np.minimum(which, sizes.shape[1] - 1)
    begin, size, end = (np.take_along_axis(values, inner, axis=1) for values in (begins, sizes, ends))
    return which, begin, size, column - end + size


def annotations(corpus: Corpus, where: np.ndarray, layers: Sequence[str]) -> dict[str, np.ndarray]:
    """Returns the values of annotation ``layers`` at the corpus positions ``where`` [B, T]: int32 [B, T] each, 0 for
    special tokens.

    Raises `CorpusUnfit` if ``corpus`` lacks a layer.
    """
    check_layers(corpus, layers)
    inside = where >= 0
    return {name: take(corpus.layers[name], where) * inside for name in layers}


def check_layers(corpus: Corpus, layers: Sequence[str]) -> None:
    """Raises `CorpusUnfit` unless ``corpus`` has all annotation ``layers``."""
    if missing := [name for name in layers if name not in corpus.layers]:
        raise CorpusUnfit(
            f"This model learns from annotated text, and the corpus has no layer '{missing[0]}'. Write it into a "
            "sidecar file NAME.layers.jsonl for each text; models/text/sidecars.py shows the format."
        )


def heads(corpus: Corpus, where: np.ndarray) -> np.ndarray:
    """Returns which tokens begin a word, for rows with the corpus positions ``where`` [B, T]: bool [B, T], false for
    special tokens.

    The first token after a special token begins a word, even if the row was cut inside a word.
    """
    begins = corpus.heads.take(where, mode="wrap").astype(bool)
    begins[:, 1:] |= where[:, :-1] < 0
    return begins & (where >= 0)


class FullSentences:
    """[CLS] text [SEP] of exactly ``length`` tokens: full sentences across document boundaries, with a [SEP] between
    two documents (Liu et al., 2019, section 4.2, "full-sentences").

    A row begins with a sentence. The authors leave out a last sentence that does not fit. Here it is cut, which keeps
    every row full; its remainder is sampled in another epoch.
    """

    def __init__(self, corpus: Corpus, vocabulary: Vocabulary, length: int):
        if length < 4:
            raise ValueError(f"Rows of {length} tokens are too short to hold text between two marks: use at least 4.")
        self.corpus, self.vocabulary, self.length = corpus, vocabulary, length
        self.runs = TokenRuns(corpus.ids, length - 2)

    def __call__(self, step: int, batch: int, seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Returns ``tokens`` int32 [B, T], and their positions in the corpus, int64 [B, T], -1 for special tokens."""
        corpus, room = self.corpus, self.length - 2
        sentences, documents = corpus.sentences, corpus.documents
        count = len(documents) - 1
        first = sentences.searchsorted(self.runs.starts(step, batch, seed) % corpus.tokens) % (len(sentences) - 1)
        begin = sentences.take(first)
        # Every document has a token, so at most half of the positions are a [SEP] between documents.
        ends = documents.searchsorted(first, side="right")[:, None] + np.arange(room // 2 + 1)  # [B, K]
        rounds, ends = np.divmod(ends - 1, count)
        ends = sentences.take(documents.take(ends + 1)) + rounds * corpus.tokens - begin[:, None]
        marks = ends + np.arange(room // 2 + 1)  # each [SEP] shifts the rest by one
        is_mark = np.zeros((batch, room), bool)
        row, _ = np.nonzero(marks < room)
        is_mark[row, marks[marks < room]] = True
        where = np.full((batch, self.length), -1)
        where[:, 1:-1] = begin[:, None] + np.arange(room) - np.cumsum(is_mark, axis=1)
        where[:, 1:-1][is_mark] = -1
        tokens = np.where(where < 0, self.vocabulary.sep, take(corpus.ids, where)).astype(np.int32)
        tokens[:, 0] = self.vocabulary.cls
        return {"tokens": tokens}, where


class Pairs:
    """[CLS] A [SEP] B [SEP] of exactly ``length`` tokens (Devlin et al., 2019, appendix A.2).

    A begins and ends with a sentence. B is the text that follows A in its document or, in a share ``random_second`` of
    the rows, the text that follows a random sentence of another document. The authors pad a pair that reaches the end
    of its document. Here B continues into the next document, which keeps every row full. The part of a window that a
    random B displaces is sampled in another epoch. The values of annotation ``layers`` are added to the tokens.
    """

    def __init__(
        self, corpus: Corpus, vocabulary: Vocabulary, length: int, random_second: float, layers: Sequence[str] = ()
    ):
        if length < 8:
            raise ValueError(
                f"Pairs of {length} tokens are too short to hold two texts and three special tokens: use at least 8."
            )
        check_layers(corpus, layers)
        self.corpus, self.vocabulary, self.length, self.random_second = corpus, vocabulary, length, random_second
        self.layers, self.runs = layers, TokenRuns(corpus.ids, length - 3)

    def __call__(self, step: int, batch: int, seed: int) -> tuple[dict[str, np.ndarray], np.random.Generator]:
        """Returns the rows of ``step``, and the random generator for later draws.

        ``tokens``, ``segments`` and the layers are int32 [B, T], ``next`` int32 [B]: 1 where B follows A.
        """
        begin, size, first, rng = self.draw_first_texts(step, batch, seed)
        follows = rng.random(batch) >= self.random_second
        unrelated = self.corpus.sentences.take(self.elsewhere(first, rng))
        second = np.where(follows, begin + size, unrelated)
        rows, where = make_pair_rows(self.corpus, self.vocabulary, self.length, begin, size, second)
        return rows | annotations(self.corpus, where, self.layers) | {"next": follows.astype(np.int32)}, rng

    def draw_first_texts(
        self, step: int, batch: int, seed: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.random.Generator]:
        """Returns the beginning of each A, its number of tokens and its first sentence, all int64 [B], and the random
        generator for later draws. The text after A fills the row."""
        rng = generator(seed, step)
        room, bounds = self.length - 3, self.corpus.sentences
        first, end = self._opening(self.runs.starts(step, batch, seed) % len(self.corpus.ids))
        begin = bounds.take(first)
        # A ends after any sentence that leaves B its first sentence in the document and at least a token in the row.
        last = np.minimum(end - 1, bounds.searchsorted(begin + room - 1, side="right") - 1)
        last = np.maximum(last, first + 1)
        cut = bounds.take(first + 1 + (rng.random(batch) * (last - first)).astype(np.int64))
        # A sentence that fills the row by itself is cut, so that B has something to follow.
        return begin, np.where(cut - begin < room, cut - begin, room // 2), first, rng

    def sizes_for_any_order(
        self, begin: np.ndarray, size: np.ndarray, first: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the numbers of tokens of A and B from `draw_first_texts`, int64 [B] each, for rows in which either
        may come first.

        The second text of a row is cut at the end of the row. If that were always B, a first text that ends within a
        sentence would have to be B. So B extends to the end of its last sentence, and A must be longer than the excess.
        A shorter A takes in more sentences. If its document has none left, B ends within a sentence.
        """
        corpus, room, bounds = self.corpus, self.length - 3, self.corpus.sentences
        rounds, inside = np.divmod(begin + room, corpus.tokens)
        over = bounds.take(bounds.searchsorted(inside)) + rounds * corpus.tokens - begin - room  # [B]
        longer = bounds.searchsorted(np.minimum(begin + over, corpus.tokens - 1), side="right")  # the next sentence
        last = corpus.documents.take(corpus.documents.searchsorted(first, side="right")) - 1
        possible = (size > over) | (longer <= last) & (bounds.take(longer) - begin < room)
        size = np.where(possible & (size <= over), bounds.take(longer) - begin, size)
        return size, room - size + over * possible

    def _opening(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the next sentence after each of ``places`` [B] that is followed by another one in its document, and
        the end of the document: int64 [B] each.

        If the next `_REACH` documents have one sentence each, a pair continues across document boundaries.
        """
        documents = self.corpus.documents
        count = len(documents) - 1
        first = self.corpus.sentences.searchsorted(places) % (len(self.corpus.sentences) - 1)
        own = documents.searchsorted(first, side="right") - 1
        end = documents.take(own + 1)
        lone = np.flatnonzero(end - first < 2)
        if len(lone):
            onward = (own[lone, None] + np.arange(1, _REACH + 1)) % count
            begins, ends = documents.take(onward), documents.take(onward + 1)  # [.., _REACH]
            found = (ends - begins > 1).argmax(axis=1)[:, None]
            begins, ends = (np.take_along_axis(bounds, found, 1)[:, 0] for bounds in (begins, ends))
            none = ends - begins < 2
            first[lone] = np.where(none, first[lone], begins)
            end[lone] = np.where(none, len(self.corpus.sentences) - 1, ends)
        return first, end

    def elsewhere(self, first: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draws a random sentence of another document for each sentence of ``first`` (of the same document if it is the
        only one)."""
        documents = self.corpus.documents
        count = len(documents) - 1
        own = documents.searchsorted(first, side="right") - 1
        other = (own + 1 + (rng.random(len(first)) * (count - 1)).astype(np.int64)) % count
        begin, end = documents.take(other), documents.take(other + 1)
        return begin + (rng.random(len(first)) * (end - begin)).astype(np.int64)


class Sentences:
    """Full rows of text that begin with a sentence, with the sentence and document numbers of their tokens."""

    def __init__(self, corpus: Corpus, length: int):
        self.corpus, self.length = corpus, length
        self.runs = TokenRuns(corpus.ids, length)

    def __call__(self, step: int, batch: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the rows of ``step`` int32 [B, length], and the sentence and document numbers of each token, int64
        [B, length] each. Numbers count from the beginning of the corpus, and continue where a row wraps around its end.

        A row begins with the first sentence of a window of `TokenRuns`. Its last sentence is cut at the end of the row.
        """
        bounds, documents = self.corpus.sentences, self.corpus.documents
        count = len(bounds) - 1
        opening = bounds.searchsorted(self.runs.starts(step, batch, seed) % len(self.corpus.ids)) % count
        where = bounds.take(opening)[:, None] + np.arange(self.length)  # [B, L]
        rounds, inside = np.divmod(where, len(self.corpus.ids))
        sentence = bounds.searchsorted(inside.ravel(), side="right") - 1
        document = documents.searchsorted(sentence, side="right") - 1
        sentence, document = sentence.reshape(where.shape), document.reshape(where.shape)
        return take(self.corpus.ids, where), sentence + rounds * count, document + rounds * (len(documents) - 1)
