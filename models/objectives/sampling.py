"""Which text a training step sees: stateless samplers over a corpus. No TensorFlow.

A sampler maps (step, batch size, seed) to rows of ids, so that any step of any run can be made again, in any
process, in any order. An epoch is a permutation of equal windows, drawn anew for each (seed, epoch), and the
windows start at another offset each time: the cuts between windows differ from epoch to epoch. Windows are filled
to the last token; there is no padding. Neither the permutation nor the corpus is ever held in memory: the one is
computed where it is asked, the other looked up.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.joined import Joined
from ptmbench.models.text.mixing import mixed
from ptmbench.models.text.pieces import CorpusUnfit
from ptmbench.models.text.tokenizers import Vocabulary

_ROUNDS = 10
_REACH = 64  # documents of one sentence that are passed over in search of one with two
_BLOCK = 1024  # rows whose places are computed together: a step costs a thirtieth of that


def generator(seed: int, index: int) -> np.random.Generator:
    """Random numbers that follow from (seed, index): Philox (Salmon et al., 2011) with the pair as its key."""
    # As a list, a key of which one number needs 64 bits and the other does not would be rounded to floats.
    return np.random.Generator(np.random.Philox(key=np.array([seed % 2**64, index], np.uint64)))


def shuffled(slots: np.ndarray, count: int, keys: np.ndarray) -> np.ndarray:
    """Where a permutation of ``count`` numbers takes ``slots`` int64 [N]; ``keys`` uint64 [N] choose the permutation.

    A Feistel network over pairs of numbers, that is walked until it ends inside: Black & Rogaway (2002), section 4.
    """
    left = np.uint64(math.isqrt(count - 1) + 1)
    right = np.uint64(-(-count // int(left)))
    result, outside = slots.astype(np.uint64), np.arange(len(slots))
    while len(outside):
        a, b = np.divmod(result[outside], right)
        for turn in range(_ROUNDS):
            key = keys[outside] ^ np.uint64(turn << 56)
            if turn % 2:
                a = (a + (mixed(b ^ key) >> np.uint64(32))) % left
            else:
                b = (b + (mixed(a ^ key) >> np.uint64(32))) % right
        result[outside] = a * right + b
        outside = outside[result[outside] >= count]
    return result.astype(np.int64)


@lru_cache(maxsize=64)
def _places(count: int, length: int, seed: int, block: int) -> np.ndarray:
    """Where the rows of ``block`` begin, int64 [_BLOCK]: ``count`` windows of ``length`` tokens make an epoch."""
    epochs, slots = np.divmod(np.arange(block * _BLOCK, (block + 1) * _BLOCK), count)
    keys = mixed(mixed(np.uint64([seed % 2**64])) + epochs.astype(np.uint64))
    offsets = np.where(epochs, (mixed(keys ^ np.uint64(1)) % np.uint64(length)).astype(np.int64), 0)
    return shuffled(slots, count, keys) * length + offsets


class Runs:
    """Equal runs of a flat array of ids, each once per epoch."""

    def __init__(self, ids: "np.ndarray | Joined | Marked", length: int):
        if not len(ids):
            raise ValueError("The corpus is empty: there is nothing to pre-train on. Give at least one file with text.")
        self.ids, self.length = ids, length
        self.count = max(1, len(ids) // length)

    def starts(self, step: int, batch: int, seed: int) -> np.ndarray:
        """Where the ``batch`` windows of ``step`` begin, int64 [B]."""
        return self.at(step * batch, batch, seed)

    def at(self, number: int, count: int, seed: int) -> np.ndarray:
        """Where ``count`` windows begin from the one with this ``number`` on, int64 [count]."""
        first, last = number // _BLOCK, max(number, number + count - 1) // _BLOCK
        blocks = [_places(self.count, self.length, seed, block) for block in range(first, last + 1)]
        begin = number - first * _BLOCK
        return np.concatenate(blocks)[begin : begin + count]

    def __call__(self, step: int, batch: int, seed: int) -> np.ndarray:
        """The rows of ``step``, int32 [B, length]; the last run of an epoch goes on at the beginning of the corpus."""
        return take(self.ids, self.starts(step, batch, seed)[:, None] + np.arange(self.length))


def take(ids: "np.ndarray | Joined | Marked", where: np.ndarray) -> np.ndarray:
    """``ids`` at ``where``, counted around the end of the array: int32."""
    return ids.take(where, mode="wrap").astype(np.int32, copy=False)


class Marked:
    """A corpus as one array that is nowhere: [CLS] document [SEP] [CLS] document [SEP] ..., N + 2 D ids."""

    def __init__(self, corpus: Corpus, vocabulary: Vocabulary):
        self.corpus, self.vocabulary = corpus, vocabulary

    def __len__(self) -> int:
        return len(self.corpus.ids) + 2 * (len(self.corpus.documents) - 1)

    def take(self, where: np.ndarray, mode: str = "wrap") -> np.ndarray:
        """The ids at ``where``, counted around the end: int32 in its shape."""
        where = where % len(self)
        openings = self.corpus.openings
        document = openings.searchsorted(where.ravel(), side="right").reshape(where.shape) - 1
        ids = self.corpus.ids.take(where - 2 * document - 1, mode=mode).astype(np.int32)
        ids[where == openings.take(document, mode=mode)] = self.vocabulary.cls
        ids[where == openings.take(document + 1, mode=mode) - 1] = self.vocabulary.sep
        return ids


def stream(corpus: Corpus, vocabulary: Vocabulary) -> np.ndarray | Marked:
    """The whole corpus with marks around its documents; spelled out, int32 [N + 2 D], where the corpus is one array."""
    marked = Marked(corpus, vocabulary)
    return marked.take(np.arange(len(marked))) if isinstance(corpus.ids, np.ndarray) else marked


def laid(
    corpus: Corpus, vocabulary: Vocabulary, length: int, first: np.ndarray, size: np.ndarray, second: np.ndarray
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Rows [CLS] A [SEP] B [SEP]: A is the ``size`` [B] tokens from ``first`` [B] on, B fills the row from ``second``.

    ``tokens`` and ``segments`` int32 [B, T], and where each token stands in the corpus, int64 [B, T], -1 for marks.
    """
    column, inside = np.arange(length)[None], size[:, None]
    where = np.where(column <= inside, first[:, None] + column - 1, second[:, None] + column - inside - 2)
    tokens = take(corpus.ids, where)
    row = np.arange(len(first))
    for place, mark in ((0, vocabulary.cls), (length - 1, vocabulary.sep), (size + 1, vocabulary.sep)):
        tokens[row, place], where[row, place] = mark, -1
    return {"tokens": tokens, "segments": (column > inside + 1).astype(np.int32)}, where


def bracketed(
    corpus: Corpus, vocabulary: Vocabulary, length: int, begins: np.ndarray, sizes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows [CLS] text [SEP] [CLS] text [SEP] ... of texts that begin at ``begins`` [B, K] of the corpus and have
    ``sizes`` [B, K] with both marks, 0 for none.

    The tokens int32 [B, T], which are 0 behind the last text; the number of each token's text, int64 [B, T], K behind
    the last one; and its place in the text, int64 [B, T], 0 for [CLS].
    """
    which, begin, size, inside = columns(length, begins, sizes)
    tokens = take(corpus.ids, begin + inside - 1)
    tokens[inside == 0], tokens[inside == size - 1] = vocabulary.cls, vocabulary.sep
    return np.where(which < sizes.shape[1], tokens, 0).astype(np.int32), which, inside


def columns(length: int, begins: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, ...]:
    """For each column of rows in which texts of ``sizes`` [B, K] that begin at ``begins`` [B, K] follow each other:
    the number of its text, K behind the last one; where that begins; its size; and the place in it. int64 [B, T] each.
    """
    ends, column = np.cumsum(sizes, axis=1), np.arange(length)
    which = (ends[:, :, None] <= column).sum(axis=1)  # [B, T]
    inner = np.minimum(which, sizes.shape[1] - 1)
    begin, size, end = (np.take_along_axis(values, inner, axis=1) for values in (begins, sizes, ends))
    return which, begin, size, column - end + size


def annotations(corpus: Corpus, where: np.ndarray, layers: Sequence[str]) -> dict[str, np.ndarray]:
    """The values of annotation ``layers`` in the rows that ``where`` [B, T] describes: int32 [B, T] each, 0 for marks.

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
    """Which tokens of the rows that ``where`` [B, T] describes begin a word: bool [B, T], false for marks.

    The text after a mark begins a word, whatever it was cut from.
    """
    begins = corpus.heads.take(where, mode="wrap").astype(bool)
    begins[:, 1:] |= where[:, :-1] < 0
    return begins & (where >= 0)


class FullSentences:
    """[CLS] text [SEP] of exactly ``length`` tokens: full sentences, on over the ends of documents, with a [SEP]
    between two (Liu et al., 2019, section 4.2, "full-sentences").

    A row begins with a sentence. Where the authors leave out a last sentence that does not fit, it is cut here, which
    keeps every row full; what was cut off comes back in another epoch.
    """

    def __init__(self, corpus: Corpus, vocabulary: Vocabulary, length: int):
        if length < 4:
            raise ValueError(f"Rows of {length} tokens are too short to hold text between two marks: use at least 4.")
        self.corpus, self.vocabulary, self.length = corpus, vocabulary, length
        self.runs = Runs(corpus.ids, length - 2)

    def __call__(self, step: int, batch: int, seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """``tokens`` int32 [B, T], and where each stands in the corpus, int64 [B, T], -1 for marks."""
        corpus, room = self.corpus, self.length - 2
        sentences, documents = corpus.sentences, corpus.documents
        count = len(documents) - 1
        first = sentences.searchsorted(self.runs.starts(step, batch, seed) % corpus.tokens) % (len(sentences) - 1)
        begin = sentences.take(first)
        # Every document has a token, so that no more than half of the places are marks between documents.
        ends = documents.searchsorted(first, side="right")[:, None] + np.arange(room // 2 + 1)  # [B, K]
        rounds, ends = np.divmod(ends - 1, count)
        ends = sentences.take(documents.take(ends + 1)) + rounds * corpus.tokens - begin[:, None]
        marks = ends + np.arange(room // 2 + 1)  # each mark moves what follows by one
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

    A begins and ends with a sentence. B is what follows A in its document or, in a share ``random_second`` of the
    rows, what follows a random sentence of another document. Where the authors pad a pair that reaches the end of
    its document, B runs on into the next document here, which keeps every row full; the half of a window that a
    random B displaces comes back in another epoch. The values of annotation ``layers`` come with the tokens.
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
        self.layers, self.runs = layers, Runs(corpus.ids, length - 3)

    def __call__(self, step: int, batch: int, seed: int) -> tuple[dict[str, np.ndarray], np.random.Generator]:
        """The rows of ``step``, and the generator to go on with.

        ``tokens``, ``segments`` and the layers are int32 [B, T], ``next`` int32 [B]: 1 where B follows A.
        """
        begin, size, first, rng = self.drawn(step, batch, seed)
        follows = rng.random(batch) >= self.random_second
        unrelated = self.corpus.sentences.take(self.elsewhere(first, rng))
        second = np.where(follows, begin + size, unrelated)
        rows, where = laid(self.corpus, self.vocabulary, self.length, begin, size, second)
        return rows | annotations(self.corpus, where, self.layers) | {"next": follows.astype(np.int32)}, rng

    def drawn(self, step: int, batch: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.random.Generator]:
        """Where each A begins and how many tokens it has, the sentence that it begins with, all int64 [B], and the
        generator to go on with. What follows A fills the row."""
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

    def either_way(self, begin: np.ndarray, size: np.ndarray, first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How many tokens A and B of what was `drawn` have, int64 [B] twice, if either may come first in the row.

        The one that comes second is cut where the row ends, whichever it is: were it always B, a first text that ends
        within a sentence would be B. So B goes up to the end of its last sentence, and A is longer than what is too
        much then: one that is not takes in more sentences. Where its document has none B ends within a sentence.
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
        """The next sentence after each of ``places`` [B] that another one of its document follows, and the end of
        the document: int64 [B] twice.

        Where `_REACH` documents have one sentence each, a pair runs on over their ends.
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
        """For each sentence of ``first`` a random one of another document (of the same when it is the only one)."""
        documents = self.corpus.documents
        count = len(documents) - 1
        own = documents.searchsorted(first, side="right") - 1
        other = (own + 1 + (rng.random(len(first)) * (count - 1)).astype(np.int64)) % count
        begin, end = documents.take(other), documents.take(other + 1)
        return begin + (rng.random(len(first)) * (end - begin)).astype(np.int64)


class Sentences:
    """Full rows of text that begin with a sentence, and where its sentences and documents are."""

    def __init__(self, corpus: Corpus, length: int):
        self.corpus, self.length = corpus, length
        self.runs = Runs(corpus.ids, length)

    def __call__(self, step: int, batch: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The rows of ``step`` int32 [B, length], and the numbers of each token's sentence and document, int64 [B,
        length] twice: they count up from the beginning of the corpus, and on where a row runs over its end.

        A window of `Runs` opens with its first sentence; the last one of a row is cut off where the row ends.
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
