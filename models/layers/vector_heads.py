"""Configurations of the objectives of recurrent networks and word vectors: output layers, second tables, decoders.

As in `models.layers.heads`, ``row_flops`` are FLOPs of a forward pass for one row of pre-training. A training step
costs three times as much. A product with a factor that has no gradient costs only twice its forward pass, so two thirds
of it are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from ptmbench.models.layers.config import GLOROT, Config, LinearConfig, Shape, Start, TableConfig
from ptmbench.models.layers.heads import HeadConfig
from ptmbench.models.layers.recurrent_config import GruConfig, KernelConfig
from ptmbench.models.layers.vectors_config import table

WINDOW, SHARED = 5, 64
"""The most places on either side of a word, and the number of noise words that a row shares."""
BLOCK = 32
"""The most tokens that are multiplied with their neighbours at once. 16 and 64 take up to 1.3 times as long (rows of
512 tokens, width 100); without blocks a row of T tokens takes T / (32 + 2 * 5) times the products."""
BAND = 4 * WINDOW
"""Tokens on either side that can be neighbours in two languages (W' of `models.objectives.biskip`)."""
NO_GRADIENT = 2 / 3
"""The counted share of a product with a factor that has no gradient."""


def pair_count(length: int, beside: int) -> float:
    """The number of pairs of tokens that are multiplied in a row of ``length``: the tokens of each block with those of
    the block and with ``beside`` more on either side (see `models.objectives.skipgram.blocks`)."""
    blocks = -(-length // BLOCK)
    size = -(-length // blocks)
    return (size + 2 * min(beside, size)) * blocks * size


def longest_tree_path(words: int) -> int:
    """The most turns on the way to one of ``words`` in a binary tree: 8 more than in a balanced tree."""
    return max(1, (words - 1).bit_length()) + 8


@dataclass(frozen=True, kw_only=True)
class BiLmConfig(HeadConfig):
    """The output layer of a bidirectional language model whose directions are ``width`` numbers wide: the table of
    token vectors, and a bias of its own."""

    width: int

    def row_flops(self, length: int) -> float:
        """FLOPs of one direction: the vocabulary for all tokens of a row except one."""
        return 2 * (length - 1) * self.width * self.vocabulary


@dataclass(frozen=True, kw_only=True)
class SpelledBiLmConfig(BiLmConfig):
    """`BiLmConfig` with a separate output table, ``words``."""

    def parts(self) -> Iterator[tuple[str, Config]]:
        start = Start(kind="random_normal", deviations=(self.width**-0.5,))
        yield "words", TableConfig(rows=self.vocabulary, width=self.width, start=start)


@dataclass(frozen=True, kw_only=True)
class Context2VecConfig(HeadConfig):
    """Two products over the states of both directions at a place, and a table of the words to predict. The true word is
    told apart from ``noise`` other words. Rows have a mark at either end."""

    width: int
    words: int
    noise: int = SHARED

    def parts(self) -> Iterator[tuple[str, Config]]:
        D = self.width
        yield "inner", LinearConfig(inputs=D, outputs=D, start=GLOROT)
        yield "outer", LinearConfig(inputs=D, outputs=D, start=GLOROT)
        start = Start(kind="random_normal", deviations=(D**-0.5,))
        yield "targets", TableConfig(rows=self.words, width=D, start=start)

    def row_flops(self, length: int) -> float:
        predicted = length - 2
        return self.flops(predicted) + 2 * predicted * self.width * self.noise


@dataclass(frozen=True, kw_only=True)
class SkipThoughtConfig(HeadConfig):
    """Two GRUs, conditioned on a sentence's vector, which write the sentences before and after it, and their shared
    output layer. Their first input for a sentence is [CLS], the id ``cls``."""

    width: int
    words: int
    cls: int

    def parts(self) -> Iterator[tuple[str, Config]]:
        decoder = GruConfig(inputs=self.width, cells=self.width, conditioned=True)
        yield "from_before", decoder
        yield "from_after", decoder
        yield "logits", LinearConfig(inputs=self.width, outputs=self.words, bias=False, start=GLOROT)

    def row_flops(self, length: int) -> float:
        return self.flops(length) + dict(self.parts())["logits"].flops(length)  # once for each decoder


@dataclass(frozen=True, kw_only=True)
class NegativeSamplingConfig(HeadConfig):
    """A second table of vectors, ``contexts``, whose words are told apart from ``noise`` words that a row shares. Each
    token of a row is multiplied with its block and with ``beside`` tokens on either side of that (skip-gram)."""

    width: int
    words: int
    beside: int = WINDOW
    noise: int = SHARED

    def parts(self) -> Iterator[tuple[str, Config]]:
        yield "contexts", table(self.words, self.width)

    def row_flops(self, length: int) -> float:
        return 2 * self.width * (pair_count(length, self.beside) + length * self.noise)


@dataclass(frozen=True, kw_only=True)
class BiSkipConfig(NegativeSamplingConfig):
    """`NegativeSamplingConfig` for two languages, each with its own noise words."""

    beside: int = BAND
    noise: int = 2 * SHARED


@dataclass(frozen=True, kw_only=True)
class MeansConfig(HeadConfig):
    """Negative sampling with the mean of the vectors around a word in place of the word's own (CBOW). The second table,
    ``answers``, has the predicted words."""

    width: int
    words: int
    noise: int = SHARED

    def parts(self) -> Iterator[tuple[str, Config]]:
        yield "answers", table(self.words, self.width)

    def row_flops(self, length: int) -> float:
        return 2 * self.width * (NO_GRADIENT * pair_count(length, WINDOW) + length * self.noise)


@dataclass(frozen=True, kw_only=True)
class TreeConfig(HeadConfig):
    """A hierarchical softmax: the vectors of the inner ``nodes`` of a binary tree of ``words``. Each of ``neighbours``
    takes one path from the root to a word (skip-gram)."""

    width: int
    words: int
    neighbours: int = 10

    def parts(self) -> Iterator[tuple[str, Config]]:
        inner = self.words - 1
        yield "nodes", table(inner, self.width)

    def row_flops(self, length: int) -> float:
        return 2 * self.width * longest_tree_path(self.words) * self.neighbours * length


@dataclass(frozen=True, kw_only=True)
class MeansTreeConfig(TreeConfig):
    """`TreeConfig` for the mean of the vectors around a word (CBOW)."""

    neighbours: int = 1

    def row_flops(self, length: int) -> float:
        return super().row_flops(length) + 2 * self.width * NO_GRADIENT * pair_count(length, WINDOW)


@dataclass(frozen=True, kw_only=True)
class GloveConfig(HeadConfig):
    """Biases of centre words and of context words. A token is a pair of words here: one product of two vectors."""

    width: int
    words: int

    def weights(self) -> Mapping[str, Shape]:
        return {"bias": (self.words,), "context_bias": (self.words,)}

    def row_flops(self, length: int) -> float:
        return 2 * self.width * length


@dataclass(frozen=True, kw_only=True)
class WindowLmConfig(HeadConfig):
    """A network of ``inner`` units over the ``order`` words before a place, and the output layer.

    The parts of the first product for the last word, the word before it, and so on, are side by side. 4 words are n - 1
    of an n-gram of 5, as on the Brown corpus (Bengio et al., 2003, table 1); on AP News n is 6.
    """

    fills: ClassVar[bool] = True
    width: int
    inner: int
    words: int
    order: int = 4

    def weights(self) -> Mapping[str, Shape]:
        return {"bias": (self.inner,)}

    def parts(self) -> Iterator[tuple[str, Config]]:
        wide = self.order * self.inner
        yield "places", LinearConfig(inputs=self.width, outputs=wide, bias=False, start=GLOROT)
        yield "logits", LinearConfig(inputs=self.inner, outputs=self.words, start=GLOROT)

    def row_flops(self, length: int) -> float:
        parts = dict(self.parts())
        return parts["places"].flops(length) + parts["logits"].flops(length - 1)


@dataclass(frozen=True, kw_only=True)
class WindowRankingConfig(HeadConfig):
    """A network of ``inner`` units that scores windows of ``window`` words, once with the original word in the middle
    and once with another word. The parts of the first product for each place are side by side."""

    width: int
    inner: int
    window: int = 11

    def weights(self) -> Mapping[str, Shape]:
        return {"bias": (self.inner,)}

    def parts(self) -> Iterator[tuple[str, Config]]:
        # The units begin with a variance of 1. If they were small, HardTanh would be linear, and all words except the
        # middle one would cancel out of the loss.
        start = Start(kind="random_normal", deviations=((3 / self.window) ** 0.5,))
        yield "places", KernelConfig(inputs=self.width, outputs=self.window * self.inner, start=start)
        yield "score", LinearConfig(inputs=self.inner, outputs=1, bias=False, start=GLOROT)

    def row_flops(self, length: int) -> float:
        parts = dict(self.parts())
        other = 2 * length * self.width * self.inner
        return parts["places"].flops(length) + other + 2 * parts["score"].flops(length)


@dataclass(frozen=True, kw_only=True)
class NoiseWordsConfig(HeadConfig):
    """A head without weights: an encoder's own vectors are told apart from those of ``noise`` words that a row
    shares."""

    width: int
    noise: int = SHARED

    def row_flops(self, length: int) -> float:
        return 2 * self.width * self.noise * length
