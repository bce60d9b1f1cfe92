"""Configurations of tables of word vectors and of whole texts; their layers are in `models.layers.vectors`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ptmbench.models.layers.config import Config, Shape, TableConfig, uniform

STEPS, NOISE = 10, 64
"""Gradient steps for a new text's vector, and the number of noise words that they use (see
`models.layers.vectors.Paragraphs`)."""


@dataclass(frozen=True, kw_only=True)
class WordVectorsConfig(Config):
    """A table of vectors, one for each token in any context. ``length`` is the longest input, to bound memory."""

    tokens: TableConfig
    length: int


@dataclass(frozen=True, kw_only=True)
class SummedVectorsConfig(WordVectorsConfig):
    """Two tables whose sum is a word's vector (Pennington et al., 2014, section 4.2): ``tokens`` has the vectors of
    centre words, ``contexts`` the vectors of context words."""

    contexts: TableConfig


@dataclass(frozen=True, kw_only=True)
class SubwordVectorsConfig(WordVectorsConfig):
    """A table of words, and one of the character n-grams that they are spelled with (Bojanowski et al., 2017).

    ``pieces`` spell the words; without any, words are spelled by their ids. Ids below ``first`` are special tokens,
    which have no n-grams.
    """

    ngrams: TableConfig
    first: int
    pieces: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ParagraphsConfig(Config):
    """Tables of vectors of whole texts, ``documents``, and of the words that they predict, ``answers`` (Le and Mikolov,
    2014). The weight ``noise`` has the logits of the words' frequencies. Ids below ``first`` except ``unknown`` are not
    words."""

    documents: TableConfig
    answers: TableConfig
    length: int
    first: int
    unknown: int

    def weights(self) -> Mapping[str, Shape]:
        return {"noise": (self.answers.rows,)}

    def flops(self, tokens: float, seen: float = 0) -> float:
        """FLOPs of computing the vector of a text of ``tokens``. Each step computes its scores with the words of the
        text and with the noise words, and their gradient."""
        return STEPS * 2 * 2 * self.answers.width * (tokens + NOISE)


@dataclass(frozen=True, kw_only=True)
class ParagraphsInContextConfig(ParagraphsConfig):
    """`ParagraphsConfig` with separate vectors, ``tokens``, for the words around the predicted word."""

    tokens: TableConfig

    def flops(self, tokens: float, seen: float = 0) -> float:
        """Besides the steps, the words around each token are multiplied with it and with the noise words once."""
        return super().flops(tokens) + 2 * self.answers.width * (1 + NOISE) * tokens


def table(rows: int, width: int) -> TableConfig:
    """A table [rows, width] of vectors with uniform initial values. Products of two of them are near 0.

    The authors' program of word2vec begins with far smaller values, and with zeros for contexts. Then the gradients of
    each table are tiny until the other one has grown, which takes too long for a small budget.
    """
    return TableConfig(rows=rows, width=width, start=uniform(width**-0.5))
