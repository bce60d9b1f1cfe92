"""What a model costs: parameters and FLOPs, read off the configurations that it is made of.

A model's file describes itself once, in ``describe(size, vocabulary)``, as one of the kinds of `Model`, and takes the
functions that the harness asks for from `encoder_costs`, `causal_costs` or `sequence_costs`. FLOPs are counted as in
`models.layers.config`; a training step costs three times its forward pass, since the gradient takes two products for
each one (Kaplan et al., 2020, section 2.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ptmbench.models.card import Size
from ptmbench.models.layers.config import CausalConfig, Config, DecoderConfig, Parameters
from ptmbench.models.layers.heads import HeadConfig
from ptmbench.models.layers.recurrent_config import AttendingConfig, BidirectionalConfig, LeftToRightConfig
from ptmbench.models.layers.vector_heads import BiLmConfig
from ptmbench.models.text.tokenizers import Vocabulary

_NO_WORDS = Vocabulary(size=1)
"""For costs that do not depend on the vocabulary."""


@dataclass(frozen=True, kw_only=True)
class Model:
    """A network as its configurations describe it. Kinds of models say what their forward pass computes."""

    encoder: Config

    @property
    def layers(self) -> tuple[Config, ...]:
        """Configurations of all parts of the network."""
        return (self.encoder,)

    def encoder_flops(self, length: int) -> float:
        """FLOPs of the encoder's forward pass over a row of ``length``."""
        return self.encoder.flops(length)

    def forward_flops(self, length: int) -> float:
        """FLOPs of a forward pass of all that pre-training computes for a row of ``length``."""
        raise NotImplementedError

    def training_flops(self, length: int) -> float:
        """FLOPs of a training step for one row of ``length``: three times the forward pass, apart from what the encoder
        computes in pre-training alone."""
        return 3 * self.forward_flops(length) + self.encoder.training_flops(length) - 3 * self.encoder.flops(length)


@dataclass(frozen=True, kw_only=True)
class EncoderModel(Model):
    """An encoder and the heads that objectives put on it."""

    heads: tuple[HeadConfig, ...]

    @property
    def layers(self) -> tuple[Config, ...]:
        return (self.encoder, *self.heads)

    def forward_flops(self, length: int) -> float:
        """FLOPs of a forward pass of encoder and heads for a row of ``length``."""
        return self.encoder.flops(length) + sum(head.row_flops(length) for head in self.heads)


@dataclass(frozen=True, kw_only=True)
class CausalModel(Model):
    """A left-to-right language model. ``output_bias`` says whether the output layer has one."""

    encoder: CausalConfig
    vocabulary: int
    output_bias: bool = False

    @property
    def layers(self) -> tuple[Config, ...]:
        return (self.encoder, HeadConfig(vocabulary=self.vocabulary)) if self.output_bias else (self.encoder,)

    def forward_flops(self, length: int) -> float:
        """FLOPs of asking how probable a row of ``length`` is."""
        return self.encoder.flops(length) + (length - 1) * self._word

    def likelihood_flops(self, length: int) -> float:
        """FLOPs of asking how probable a row of ``length`` is."""
        return self.forward_flops(length)

    def decode_flops(self, length: int, targets: float) -> float:
        """FLOPs of `Pretrainable.decode`: ``targets`` tokens after ``length``, the vocabulary only for them."""
        return self.encoder.flops(length + targets) + targets * self._word

    @property
    def _word(self) -> float:
        return 2 * self.encoder.stack.block.norm.width * self.vocabulary


@dataclass(frozen=True, kw_only=True)
class Written:
    """How many tokens a decoder writes for a row of pre-training: ``share`` tokens for each ``per`` tokens of the input
    without its ``marks`` ([CLS] and [SEP]), and at most ``most``."""

    share: float
    per: float = 1.0
    marks: int = 0
    most: float = math.inf

    def __call__(self, length: int) -> float:
        return min(self.share / self.per * (length - self.marks), self.most)


@dataclass(frozen=True, kw_only=True)
class SequenceModel(Model):
    """An encoder and a decoder. ``targets`` tells how many tokens the decoder writes for a row of pre-training."""

    decoder: DecoderConfig | AttendingConfig
    vocabulary: int
    targets: Callable[[int], float]

    @property
    def layers(self) -> tuple[Config, ...]:
        return (self.encoder, self.decoder)

    def forward_flops(self, length: int) -> float:
        """FLOPs of a forward pass of encoder and decoder for a row of pre-training."""
        return self.decode_flops(length, self.targets(length))

    def decode_flops(self, length: int, targets: float) -> float:
        """FLOPs of `Pretrainable.decode` for one row: ``targets`` tokens of the decoder over ``length``."""
        return self.encoder.flops(length) + self.decoder.decoding_flops(targets, length, self.vocabulary)


@dataclass(frozen=True, kw_only=True)
class StreamModel(SequenceModel):
    """An encoder, and a decoder all of whose predicting streams write in pre-training."""

    def forward_flops(self, length: int) -> float:
        """FLOPs of a forward pass of encoder and decoder for a row of pre-training."""
        targets, streams = self.targets(length), self.decoder.streams.rows
        return self.encoder.flops(length) + self.decoder.stream_flops(targets, length, self.vocabulary, streams)


Describe = Callable[[Size, Vocabulary], Model]


def encoder_costs(describe: Describe) -> tuple[Callable, Callable, Callable]:
    """``parameters``, ``encoder_flops_per_token`` and ``flops_per_token`` of a model's file."""

    def parameters(size: Size, vocabulary: Vocabulary) -> tuple[int, int]:
        """Number of all weights of encoder and heads, and of those in lookup tables."""
        found = Parameters()
        for layer in describe(size, vocabulary).layers:
            found = found.plus(layer.parameters())
        return tuple(found)

    def encoder_flops_per_token(size: Size, length: int) -> float:
        """FLOPs of the encoder's forward pass per token of a row of ``length``."""
        return describe(size, _NO_WORDS).encoder_flops(length) / length

    def flops_per_token(size: Size, vocabulary: Vocabulary, length: int) -> float:
        """FLOPs of a training step per input token of rows of ``length``."""
        return describe(size, vocabulary).training_flops(length) / length

    return parameters, encoder_flops_per_token, flops_per_token


def widening_cost(describe: Describe) -> Callable:
    """``embedding_flops_per_token`` of a model whose token vectors may be narrower than its layers."""

    def embedding_flops_per_token(size: Size) -> float:
        """FLOPs per token of the product that widens narrow token vectors."""
        widening = describe(size, _NO_WORDS).encoder.widening
        return widening.flops(1) if widening is not None else 0

    return embedding_flops_per_token


def sequence_costs(describe: Describe) -> tuple[Callable, Callable, Callable, Callable]:
    """What `encoder_costs` gives, and ``decode_flops``."""

    def decode_flops(size: Size, vocabulary: Vocabulary, length: int, targets: float) -> float:
        """FLOPs of `Pretrainable.decode` for one row of ``length`` and ``targets`` tokens."""
        return describe(size, vocabulary).decode_flops(length, targets)

    return *encoder_costs(describe), decode_flops


def causal_costs(describe: Describe) -> tuple[Callable, Callable, Callable, Callable, Callable]:
    """What `sequence_costs` gives, and ``likelihood_flops_per_token``."""
    return *sequence_costs(describe), likelihood_costs(describe)[-1]


@dataclass(frozen=True, kw_only=True)
class RecurrentModel(CausalModel):
    """A left-to-right language model of recurrent layers."""

    encoder: LeftToRightConfig

    @property
    def _word(self) -> float:
        return 2 * self.encoder.tokens.width * self.vocabulary


@dataclass(frozen=True, kw_only=True)
class AutoencoderModel(RecurrentModel):
    """A network that reads a row and then writes it again, all of it but the mark that it begins with."""

    def forward_flops(self, length: int) -> float:
        """FLOPs of a forward pass of reading and writing a row."""
        return self.decode_flops(length, length - 1)


@dataclass(frozen=True, kw_only=True)
class BidirectionalModel(Model):
    """A language model in each direction over the same words."""

    encoder: BidirectionalConfig
    head: BiLmConfig

    @property
    def layers(self) -> tuple[Config, ...]:
        return (self.encoder, self.head)

    def forward_flops(self, length: int) -> float:
        """FLOPs of a forward pass of both directions with their predictions."""
        return self.encoder.flops(length) + 2 * self.head.row_flops(length)

    def likelihood_flops(self, length: int) -> float:
        """FLOPs of asking the forward direction how probable a row of ``length`` is."""
        return self.encoder.direction_flops(length) + self.head.row_flops(length)


@dataclass(frozen=True, kw_only=True)
class TablesModel(EncoderModel):
    """An encoder of which pre-training reads the tables alone, and not what it computes of them."""

    def forward_flops(self, length: int) -> float:
        """FLOPs of a forward pass of the heads."""
        return sum(head.row_flops(length) for head in self.heads)


@dataclass(frozen=True, kw_only=True)
class WindowModel(EncoderModel):
    """Word vectors and one head that predicts each word from those before it."""

    def likelihood_flops(self, length: int) -> float:
        """FLOPs of asking how probable a row of ``length`` is."""
        return self.forward_flops(length)


def likelihood_costs(describe: Callable) -> tuple[Callable, Callable, Callable, Callable]:
    """What `encoder_costs` gives, and ``likelihood_flops_per_token`` of a model that has ``likelihood_flops``."""

    def likelihood_flops_per_token(size: Size, vocabulary: Vocabulary, length: int) -> float:
        """FLOPs per token of asking how probable a row of ``length`` is."""
        return describe(size, vocabulary).likelihood_flops(length) / length

    return *encoder_costs(describe), likelihood_flops_per_token


def embedding_cost(describe: Callable) -> Callable:
    """``embedding_flops_per_token`` of a model whose word vectors are computed."""

    def embedding_flops_per_token(size: Size) -> float:
        """FLOPs per token of computing its vector."""
        return describe(size, _NO_WORDS).encoder.embeddings.flops(1)

    return embedding_flops_per_token
