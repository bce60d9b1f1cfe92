"""Translation language modelling (TLM): recover hidden tokens of a sentence and of its translation in one row.

Lample and Conneau (2019), sections 3.2 and 3.3.

    L_TLM = - 1/|M| sum_{t in M} ln p(x_t | x and y with M hidden),  M among the tokens of both

To predict a hidden English word, the network can use the English words around it or their French translation. This
aligns the representations of the two languages. The positions of the translation begin at 0 again, and each token has
its language.

Rows alternate: one in a single language (MLM), then one of translations. The single languages alternate too, as in the
authors' code (facebookresearch/XLM, where every objective has one step in turn). A row in a single language is a stream
of sentences. The authors fill batches with pairs of equal lengths. Here a row of translations has as many pairs as fit,
and no token sees another pair, which is equivalent but needs no padding.
"""

from collections.abc import Iterator

import numpy as np

from ptmbench.models.objective import PAIRS, Batch, Batches, sampled
from ptmbench.models.objectives import mlm
from ptmbench.models.objectives.sampling import TokenRuns, check_layers, generator, locate_columns, make_text_rows
from ptmbench.models.text.corpus import Corpus
from ptmbench.models.text.pieces import CorpusUnfit
from ptmbench.models.text.tokenizers import Vocabulary

_BLOCK = 1 << 20  # sentences that are read at once


class Streams:
    """[CLS] sentence [SEP] sentence [SEP] ... in one language, cut at the end of the row."""

    def __init__(self, corpus: Corpus, vocabulary: Vocabulary, length: int, sentences: np.ndarray):
        """``sentences`` int64 [S] are the numbers of the language's sentences in ``corpus``."""
        self.corpus, self.vocabulary, self.length, self.sentences = corpus, vocabulary, length, sentences
        self.runs = TokenRuns(sentences, _in_a_row(corpus, sentences, length - 1, marks=1))

    def __call__(self, first: int, count: int, seed: int) -> np.ndarray:
        """Returns ``count`` rows of the language from number ``first`` on, int32 [count, T]."""
        corpus, room = self.corpus, self.length - 1
        begin = self.runs.at(first, count, seed)[:, None]
        chosen = self.sentences.take(begin + np.arange(-(-room // 2)), mode="wrap")  # each has at least 2 with [SEP]
        begins = corpus.sentences.take(chosen)
        sizes = corpus.sentences.take(chosen + 1) - begins + 1
        _, begin, size, inside = locate_columns(room, begins, sizes)
        tokens = corpus.ids.take(begin + inside, mode="wrap").astype(np.int32)
        tokens[inside == size - 1] = self.vocabulary.sep
        return np.pad(tokens, ((0, 0), (1, 0)), constant_values=self.vocabulary.cls)


class Translations:
    """[CLS] x [SEP] [CLS] y [SEP] [CLS] x' [SEP] [CLS] y' [SEP] ...: as many pairs as fit into a row."""

    def __init__(self, corpus: Corpus, vocabulary: Vocabulary, length: int, pairs: np.ndarray, languages: np.ndarray):
        """``pairs`` int64 [P] are the numbers of the pairs' first sentences in ``corpus``, ``languages`` int32 [S] the
        numbers of the sentences' languages."""
        self.corpus, self.vocabulary, self.length = corpus, vocabulary, length
        self.pairs, self.languages = pairs, languages
        self.runs = TokenRuns(pairs, _in_a_row(corpus, np.concatenate([pairs, pairs + 1]), length // 2, marks=2))

    def __call__(self, first: int, count: int, seed: int) -> Batch:
        """Returns ``count`` rows from number ``first`` on: ``tokens``, ``languages``, ``positions``, and ``documents``,
        the number of each token's pair, int32 [count, T] each."""
        corpus, begin = self.corpus, self.runs.at(first, count, seed)[:, None]
        chosen = self.pairs.take(begin + np.arange(max(1, self.length // 6)), mode="wrap")  # each has at least 6 tokens
        chosen = (chosen[:, :, None] + np.arange(2)).reshape(count, -1)  # [count, 2 K] sentences
        begins = corpus.sentences.take(chosen)
        sizes = corpus.sentences.take(chosen + 1) - begins + 2
        sizes[:, :2] = np.minimum(sizes[:, :2], self.length // 2)  # a first pair that is too long is cut
        fits = np.cumsum(sizes, axis=1)[:, 1::2] <= self.length  # [count, K]
        sizes *= np.repeat(fits, 2, axis=1)
        tokens, which, inside = make_text_rows(corpus, self.vocabulary, self.length, begins, sizes)
        real = tokens != self.vocabulary.pad
        spoken = np.pad(self.languages.take(chosen), ((0, 0), (0, 1)))  # [count, 2 K + 1]
        return {
            "tokens": tokens,
            "languages": np.take_along_axis(spoken, which, axis=1).astype(np.int32),
            "positions": np.where(real, inside, 0).astype(np.int32),
            "documents": np.where(real, which // 2 + 1, 0).astype(np.int32),
        }


@sampled("languages", PAIRS)
def batches(corpus: Corpus, vocabulary: Vocabulary, batch: int, length: int) -> Batches:
    """Returns a function from (step, seed) to the channels of the encoder, with hidden tokens as in
    `models.objectives.mlm`.

    Raises `CorpusUnfit` if the corpus lacks the layer ``languages``, or translations: documents of two sentences in two
    languages. Raises `ValueError` if ``length`` is less than 8.
    """
    if length < 8:
        raise ValueError(f"Rows of {length} tokens are too short to hold two texts between marks: use at least 8.")
    check_layers(corpus, ("languages",))
    languages = np.concatenate(list(_languages(corpus)))  # [S]
    bounds = corpus.documents.take(np.arange(len(corpus.documents)))
    pairs = bounds[:-1][np.diff(bounds) == 2]
    two = (languages[pairs] != languages[pairs + 1]) & (languages[pairs] > 0) & (languages[pairs + 1] > 0)
    if not two.any():
        raise CorpusUnfit(
            "This model learns from translations too, and no document of the corpus is a pair of sentences in two "
            "languages. Give a file NAME.pairs.tsv with a text, a tab and its translation in each line, and a sidecar "
            "that names the languages."
        )
    translations = Translations(corpus, vocabulary, length, pairs[two], languages)
    spoken = [number for number in np.unique(languages) if number]
    streams = [Streams(corpus, vocabulary, length, np.flatnonzero(languages == number)) for number in spoken]

    def make(step: int, seed: int) -> Batch:
        rows = step * batch + np.arange(batch)
        alone, turns = rows % 2 == 0, rows // 2
        made = {name: np.zeros((batch, length), np.int32) for name in ("tokens", "languages", "positions", "documents")}
        made["positions"][:] = np.arange(length)
        made["documents"][:] = 1
        for place, (number, stream) in enumerate(zip(spoken, streams, strict=True)):
            here = np.flatnonzero(alone & (turns % len(streams) == place))
            if len(here):
                made["tokens"][here] = stream(int(turns[here[0]] // len(streams)), len(here), seed)
                made["languages"][here] = number
        here = np.flatnonzero(~alone)
        if len(here):
            for name, values in translations(int(turns[here[0]]), len(here), seed).items():
                made[name][here] = values
        return mlm.noise(made, generator(seed, step), vocabulary)

    return make


def _languages(corpus: Corpus) -> Iterator[np.ndarray]:
    """Yields the language numbers of the sentences, int32 [S] in blocks: that of each sentence's first token."""
    count = len(corpus.sentences) - 1
    for begin in range(0, count, _BLOCK):
        first = corpus.sentences.take(np.arange(begin, min(begin + _BLOCK, count)))
        yield np.abs(corpus.layers["languages"].take(first, mode="wrap"))


def _in_a_row(corpus: Corpus, sentences: np.ndarray, room: int, marks: int) -> int:
    """Returns how many of ``sentences`` fill ``room`` tokens on average, with ``marks`` special tokens for each; at
    least 1."""
    some = sentences[:: max(1, len(sentences) // 10_000)]
    mean = float((corpus.sentences.take(some + 1) - corpus.sentences.take(some)).mean()) + marks
    return max(1, min(len(sentences), round(room / mean)))
