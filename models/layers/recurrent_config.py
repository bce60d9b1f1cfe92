"""Configurations of recurrent layers and of the networks that are made of them.

The Keras layers are in `models.layers.recurrent` (cells and stacks), `models.layers.recurrent_networks` (whole
networks) and `models.layers.translator` (an encoder and a decoder of LSTMs). FLOPs are counted as in
`models.layers.config`: element-wise products cost nothing, so a layer costs the same for each token.

Letters besides the usual ones: I inputs, C cells, P width of a projected state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from ptmbench.models.layers.config import GLOROT, Config, LinearConfig, Shape, Start, TableConfig, uniform

ORTHOGONAL = Start(kind="orthogonal", deviations=())


@dataclass(frozen=True, kw_only=True)
class KernelConfig(LinearConfig):
    """A kernel [I, O] that is read whole, by a loop over tokens or for some of its columns, and a bias.

    ``begins`` are the initial biases: one number for all, or one for each of several equal blocks.
    """

    bias: bool = False
    start: Start = GLOROT
    begins: tuple[float, ...] = (0.0,)


@dataclass(frozen=True, kw_only=True)
class GatesConfig(KernelConfig):
    """The product that computes the inputs' part of all gates of a layer, side by side, before the loop: a kernel
    [I, G * C] and a bias."""

    bias: bool = True


@dataclass(frozen=True, kw_only=True)
class LstmConfig(Config):
    """An LSTM layer (Hochreiter and Schmidhuber, 1997) with forget gates (Gers et al., 2000) and without peepholes.

    ``projection`` is the width of the projected state; 0 means a state of C numbers without a projection (Sak et al.,
    2014, section 2). Cells and projections are clipped to -``clip`` ... ``clip`` unless it is 0. The forget gates'
    biases begin with 1, so that an untrained cell keeps its value (Jozefowicz et al., 2015).
    """

    GATES: ClassVar = GatesConfig

    inputs: int
    cells: int
    projection: int = 0
    clip: float = 0.0

    @property
    def width(self) -> int:
        """Numbers in the layer's output."""
        return self.projection or self.cells

    def parts(self) -> Iterator[tuple[str, Config]]:
        sums = 4 * self.cells
        yield "gates", self.GATES(inputs=self.inputs, outputs=sums, bias=True, begins=(0.0, 0.0, 1.0, 0.0))
        yield "recurrent", KernelConfig(inputs=self.width, outputs=sums)
        if self.projection:
            yield "projection", KernelConfig(inputs=self.cells, outputs=self.projection)


@dataclass(frozen=True, kw_only=True)
class InnerLstmConfig(LstmConfig):
    """An LSTM layer that runs inside the loop of another layer, including the product with its gates' kernel."""

    GATES: ClassVar = KernelConfig


@dataclass(frozen=True, kw_only=True)
class GruConfig(Config):
    """A GRU layer without biases (Kiros et al., 2015, equations 1 to 8). If ``conditioned``, each step also reads a
    vector of C numbers besides the input."""

    inputs: int
    cells: int
    conditioned: bool = False

    @property
    def width(self) -> int:
        """Numbers in the layer's output."""
        return self.cells

    def parts(self) -> Iterator[tuple[str, Config]]:
        C = self.cells
        yield "gates", GatesConfig(inputs=self.inputs, outputs=3 * C, bias=False)
        yield "recurrent", KernelConfig(inputs=C, outputs=2 * C, start=ORTHOGONAL)
        yield "candidate", KernelConfig(inputs=C, outputs=C, start=ORTHOGONAL)
        if self.conditioned:
            yield "condition", LinearConfig(inputs=C, outputs=3 * C, bias=False, start=GLOROT)


@dataclass(frozen=True, kw_only=True)
class QrnnConfig(Config):
    """A quasi-recurrent layer with fo-pooling (Bradbury et al., 2017, section 2.1), whose gates read the last
    ``window`` tokens."""

    inputs: int
    cells: int
    window: int = 1

    @property
    def width(self) -> int:
        """Numbers in the layer's output."""
        return self.cells

    def parts(self) -> Iterator[tuple[str, Config]]:
        yield "gates", GatesConfig(inputs=self.window * self.inputs, outputs=3 * self.cells)


@dataclass(frozen=True, kw_only=True)
class BothWaysConfig(Config):
    """An LSTM layer in each direction over the same input."""

    inputs: int
    cells: int

    def parts(self) -> Iterator[tuple[str, Config]]:
        for way in ("forward", "backward"):
            yield f"{way}_lstm", LstmConfig(inputs=self.inputs, cells=self.cells)


@dataclass(frozen=True, kw_only=True)
class RecurrentStackConfig(Config):
    """``layers`` one after the other. Dropout applies to the input of each layer, and with ``ended`` to the output of
    the last one.

    With ``residual`` each layer from the second one on adds its input to its output.
    """

    layers: tuple[LstmConfig | QrnnConfig | BothWaysConfig, ...]
    residual: bool = False
    ended: bool = True

    def parts(self) -> Iterator[tuple[str, Config]]:
        for index, layer in enumerate(self.layers):
            yield f"layer_{index}", layer


@dataclass(frozen=True, kw_only=True)
class AwdStackConfig(RecurrentStackConfig):
    """``layers`` with the dropout of AWD-LSTM (Merity et al., 2018, sections 2 and 4.2) on entries of recurrent
    kernels, and on entries between layers, with one mask for all tokens of a row."""

    ended: bool = False


@dataclass(frozen=True, kw_only=True)
class LeftToRightConfig(Config):
    """Token vectors and a stack over them, from left to right. ``length`` is the longest input, to bound memory."""

    tokens: TableConfig
    stack: RecurrentStackConfig
    length: int


@dataclass(frozen=True, kw_only=True)
class AwdConfig(LeftToRightConfig):
    """`LeftToRightConfig` with the dropout of AWD-LSTM, which also applies to whole words and to token vectors.

    Rates are multiples of the network's ``dropout``. The defaults have the proportions of ULMFiT (Howard and Ruder,
    2018, section 4.1): dropout 0.4 gives 0.5 for entries of recurrent weights, 0.05 for words, 0.4 for entries of token
    vectors, 0.3 between layers and 0.4 for the last one.
    """

    stack: AwdStackConfig
    weights_rate: float = 1.25
    embedding_rate: float = 0.125
    input_rate: float = 1.0
    hidden_rate: float = 0.75
    output_rate: float = 1.0


@dataclass(frozen=True, kw_only=True)
class SentenceGruConfig(Config):
    """Token vectors and one GRU, whose state does not change at special tokens. ``first`` is the lowest id of a word,
    and ``unknown`` the id of [UNK], which is a word too."""

    tokens: TableConfig
    gru: GruConfig
    length: int
    first: int
    unknown: int


@dataclass(frozen=True, kw_only=True)
class FilterConfig(Config):
    """A convolution with max-pooling: ``outputs`` filters over windows of ``window`` vectors, among ``places`` vectors
    of width ``inputs``. The largest value of each filter is kept."""

    window: int
    inputs: int
    outputs: int
    places: int

    def weights(self) -> Mapping[str, Shape]:
        return {"kernel": (self.window, self.inputs, self.outputs), "bias": (self.outputs,)}

    def flops(self, tokens: float, seen: float = 0) -> float:
        return 2 * tokens * (self.places - self.window + 1) * self.window * self.inputs * self.outputs


@dataclass(frozen=True, kw_only=True)
class HighwayConfig(Config):
    """A highway layer (Srivastava et al., 2015): for each number, a gate chooses between a new value and the old one.
    The gates' biases begin with -2, so that an untrained layer passes its input on (Kim et al., 2016)."""

    width: int

    def parts(self) -> Iterator[tuple[str, Config]]:
        yield "gates", GatesConfig(inputs=self.width, outputs=2 * self.width, begins=(-2.0, 0.0))


@dataclass(frozen=True, kw_only=True)
class SpelledConfig(Config):
    """Word vectors of ``width`` numbers that are computed from letters: filters, two highway layers and a projection
    (Kim et al., 2016, sections 2.2 and 2.3).

    ``pieces`` spell the ``words`` of the vocabulary; without any, words are spelled by their ids. Ids below ``first``
    are special tokens. A word has ``symbols`` symbols. ``filters`` are pairs of a window and a number of filters.
    """

    width: int
    words: int
    first: int
    filters: tuple[tuple[int, int], ...]
    pieces: tuple[str, ...] = ()
    symbols: int = 50
    symbol_width: int = 16

    def parts(self) -> Iterator[tuple[str, Config]]:
        found, letter = sum(count for _, count in self.filters), self.symbol_width
        bytes_and_marks = 256 + self.first + 3
        yield "letters", TableConfig(rows=bytes_and_marks, width=letter, start=uniform(1.0))
        for window, count in self.filters:
            filters = FilterConfig(window=window, inputs=letter, outputs=count, places=self.symbols)
            yield f"filters_{window}", filters
        for index in range(2):
            yield f"highway_{index}", HighwayConfig(width=found)
        yield "projection", LinearConfig(inputs=found, outputs=self.width, start=GLOROT)


@dataclass(frozen=True, kw_only=True)
class BidirectionalConfig(Config):
    """Word vectors, and a ``stack`` over them for each direction. The directions share only the word vectors."""

    embeddings: TableConfig | SpelledConfig
    stack: RecurrentStackConfig
    length: int

    def parts(self) -> Iterator[tuple[str, Config]]:
        yield "embeddings", self.embeddings
        yield "forward_stack", self.stack
        yield "backward_stack", self.stack

    def embedding_flops(self, tokens: float) -> float:
        """FLOPs of spelling ``tokens`` words; 0 if their vectors are looked up."""
        return self.embeddings.flops(tokens)

    def direction_flops(self, tokens: float) -> float:
        """FLOPs of one direction over a row of ``tokens``."""
        return self.embeddings.flops(tokens) + self.stack.flops(tokens)


@dataclass(frozen=True, kw_only=True)
class StringConfig(BidirectionalConfig):
    """`BidirectionalConfig` over characters, read where words begin and end. The vocabulary has ``pieces``, the
    spellings of its ids; ``first``, the lowest id of a piece of text; and ``unknown``, the id of [UNK]."""

    first: int
    unknown: int
    pieces: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TextsEncoderConfig(Config):
    """Token vectors, and bidirectional layers, each over the states of both directions. Each text of a row begins with
    [CLS], the id ``cls``."""

    tokens: TableConfig
    stack: RecurrentStackConfig
    length: int
    cls: int


@dataclass(frozen=True, kw_only=True)
class AttendingConfig(Config):
    """A decoder of LSTM layers whose last state attends to an encoding of the same width W. The result is an input of
    the next step (Luong et al., 2015, sections 3.1 and 3.3).

    Token vectors are the encoder's. With ``output_bias`` [V] they are the output layer too.
    """

    width: int
    depth: int
    vocabulary: int

    def weights(self) -> Mapping[str, Shape]:
        return {"output_bias": (self.vocabulary,)}

    def parts(self) -> Iterator[tuple[str, Config]]:
        W = self.width
        for index in range(self.depth):
            yield f"layer_{index}", InnerLstmConfig(inputs=W if index else 2 * W, cells=W)
        yield "query", KernelConfig(inputs=W, outputs=W, bias=True)
        yield "joint", KernelConfig(inputs=2 * W, outputs=W, bias=True)

    def flops(self, tokens: float, seen: float = 0) -> float:
        return super().flops(tokens) + 4 * tokens * seen * self.width

    def decoding_flops(self, targets: float, memory: float, vocabulary: int) -> float:
        """FLOPs of one row of ``targets`` over an encoding of ``memory`` tokens, with the logits of ``targets``."""
        return self.flops(targets, memory) + 2 * targets * self.width * vocabulary
