"""Configurations of tables of word vectors and of whole texts; their layers are in `models.layers.vectors`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ptmbench.models.layers.config import Config, Shape, TableConfig, uniform

STEPS, NOISE = 10, 64
"""Steps of the descent for a new text's vector, and the noise words that it meets (see
`models.layers.vectors.Paragraphs`)."""


@dataclass(frozen=True, kw_only=True)
class WordVectorsConfig(Config):
    """A table of vectors, one for each token whatever stands around it. ``length`` bounds inputs, for the sake of
    memory."""

    tokens: TableConfig
    length: int


@dataclass(frozen=True, kw_only=True)
class SummedVectorsConfig(WordVectorsConfig):
    """Two tables whose sum is a word's vector (Pennington et al., 2014, section 4.2): ``tokens`` has the vectors of
    words in the middle, ``contexts`` the vectors of words around it."""

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
    """Tables of whole texts, ``documents``, and of the words that they predict, ``answers`` (Le and Mikolov, 2014); and
    ``noise``, how often words are. Ids below ``first`` other than ``unknown`` are no words."""

    documents: TableConfig
    answers: TableConfig
    length: int
    first: int
    unknown: int

    def weights(self) -> Mapping[str, Shape]:
        return {"noise": (self.answers.rows,)}

    def flops(self, tokens: float, seen: float = 0) -> float:
        """FLOPs of finding the vector of a text of ``tokens``: in each step its scores with the words of the text and
        with the noise words, and the way back."""
        return STEPS * 2 * 2 * self.answers.width * (tokens + NOISE)


@dataclass(frozen=True, kw_only=True)
class ParagraphsInContextConfig(ParagraphsConfig):
    """The same with vectors of their own, ``tokens``, for the words around the one that is predicted."""

    tokens: TableConfig

    def flops(self, tokens: float, seen: float = 0) -> float:
        """Besides the steps, the words around each token meet it and the noise words once."""
        return super().flops(tokens) + 2 * self.answers.width * (1 + NOISE) * tokens


def table(rows: int, width: int) -> TableConfig:
    """A table [rows, width] of vectors that begin uniform, with products of two of them near 0.

    The authors' program of word2vec starts far smaller, and with zeros for contexts: neither table then has a gradient
    to speak of until the other has grown, and a small budget cannot wait for that.
    """
    return TableConfig(rows=rows, width=width, start=uniform(width**-0.5))
