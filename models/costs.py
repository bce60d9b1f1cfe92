"""The costs of a model: parameters and FLOPs, computed from its configurations.

``describe(size, vocabulary)`` in a model's file returns a subclass of `Model`, from which the harness takes all costs.
FLOPs are counted as in `models.layers.config`. A training step costs three times its forward pass, since the gradient
takes two products for each product of the forward pass (Kaplan et al., 2020, section 2.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ptmbench.models.layers.config import CausalConfig, Config, DecoderConfig, Parameters
from ptmbench.models.layers.heads import HeadConfig
from ptmbench.models.layers.recurrent_config import AttendingConfig, BidirectionalConfig, LeftToRightConfig
from ptmbench.models.layers.region_config import RegionEncoderConfig
from ptmbench.models.layers.vector_heads import BiLmConfig


@dataclass(frozen=True, kw_only=True)
class Model:
    """A network, described by its configurations. Subclasses define what a forward pass computes.

    Check ``writes``, ``tells_likelihood``, ``fills`` and ``fills_gaps`` before asking for the FLOPs of an operation.
    For an operation that the network lacks, the method may raise `NotImplementedError`.
    """

    encoder: Config
    writes: bool = False
    """Whether the network has a `Pretrainable.decode`."""
    reads_again: bool = False
    """Whether it has no `Pretrainable.writer`, and needs a complete ``decode`` for each token that it generates."""
    tells_likelihood: bool = False
    """Whether it has a `Pretrainable.log_likelihood`."""

    @property
    def fills(self) -> bool:
        """Whether it has a `Pretrainable.fill`."""
        return self.tells_likelihood

    @property
    def tells_originals(self) -> bool:
        """Whether it has a `Pretrainable.originality`."""
        return False

    @property
    def fills_gaps(self) -> bool:
        """Whether it has a `Pretrainable.gap_likelihood`."""
        return False

    @property
    def layers(self) -> tuple[Config, ...]:
        """Configurations of all parts of the network."""
        return (self.encoder,)

    def parameters(self) -> Parameters:
        """Returns the number of all weights of encoder and heads, and of those in lookup tables."""
        found = Parameters()
        for layer in self.layers:
            found = found.plus(layer.parameters())
        return found

    def encoder_flops(self, length: float) -> float:
        """FLOPs of the encoder's forward pass over a row of ``length``."""
        return float(self.encoder.flops(length))

    def embedding_flops(self, length: float) -> float:
        """FLOPs of the token vectors of a row of ``length``, without the layers above; 0 if they are looked up."""
        return self.encoder.embedding_flops(length)

    def media_flops(self, length: float, counts: Mapping[str, float]) -> float:
        """FLOPs that pictures and sounds add to the encoder's forward pass over a row of ``length``. ``counts`` are the
        numbers of vectors by channel. 0 if the encoder reads no pictures and sounds."""
        return 0.0

    def forward_flops(self, length: float) -> float:
        """FLOPs of the complete forward pass of pre-training for a row of ``length``."""
        raise NotImplementedError

    def training_flops(self, length: float) -> float:
        """FLOPs of a training step for one row of ``length``: three times the forward pass, except for computations of
        the encoder that occur in pre-training only (``encoder.training_flops``)."""
        forward, encoder = self.forward_flops(length), self.encoder.flops(length)
        return float(3 * forward + self.encoder.training_flops(length) - 3 * encoder)

    def step_flops(self, rows: int, length: int) -> float:
        """FLOPs of a training step for ``rows`` rows of ``length``."""
        return rows * self.training_flops(length)

    def likelihood_flops(self, length: float) -> float:
        """FLOPs of `Pretrainable.log_likelihood` of a row of ``length``."""
        raise NotImplementedError

    def fill_flops(self, length: float) -> float:
        """FLOPs of `Pretrainable.fill` for a row of ``length``, without the output layer."""
        return self.encoder_flops(length)

    def gap_flops(self, length: float) -> float:
        """FLOPs of `Pretrainable.gap_likelihood` of a row of ``length``."""
        raise NotImplementedError

    def decode_flops(self, length: float, targets: float) -> float:
        """FLOPs of `Pretrainable.decode` for one row of ``length`` and ``targets`` tokens."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class EncoderModel(Model):
    """An encoder and the heads of its objectives."""

    heads: tuple[HeadConfig, ...]

    @property
    def fills(self) -> bool:
        return any(head.fills for head in self.heads)

    @property
    def tells_originals(self) -> bool:
        return any(head.tells_originals for head in self.heads)

    @property
    def layers(self) -> tuple[Config, ...]:
        return (self.encoder, *self.heads)

    def forward_flops(self, length: float) -> float:
        """FLOPs of a forward pass of encoder and heads for a row of ``length``."""
        return self.encoder.flops(length) + sum(head.row_flops(length) for head in self.heads)


@dataclass(frozen=True, kw_only=True)
class RegionModel(EncoderModel):
    """An encoder that reads image regions after the tokens, and its heads."""

    encoder: RegionEncoderConfig

    def media_flops(self, length: float, counts: Mapping[str, float]) -> float:
        """FLOPs that regions add to the encoder's forward pass over a row of ``length``."""
        return float(self.encoder.row_flops(length, counts.get("regions", 0)) - self.encoder.flops(length))


@dataclass(frozen=True, kw_only=True)
class StudentModel(EncoderModel):
    """An encoder and its heads, which learn from the forward pass of a ``teacher``. The teacher's weights are not
    counted."""

    teacher: Model
    co_trained: bool = False
    """Whether a copy of the teacher is trained along with the student."""
    weight_flops: float = 0.0
    """FLOPs of the forward pass of a loss that compares weights and reads no rows: once per step."""

    def training_flops(self, length: int) -> float:
        """FLOPs of a training step for one row of ``length``: those of the student, plus the teacher's forward pass or,
        if ``co_trained``, the teacher's training step."""
        teacher = self.teacher.training_flops(length) if self.co_trained else self.teacher.forward_flops(length)
        return super().training_flops(length) + teacher

    def step_flops(self, rows: int, length: int) -> float:
        return super().step_flops(rows, length) + 3 * self.weight_flops


@dataclass(frozen=True, kw_only=True)
class CausalModel(Model):
    """A left-to-right language model. ``output_bias`` is whether the output layer has a bias."""

    encoder: CausalConfig
    vocabulary: int
    output_bias: bool = False
    writes: bool = True
    tells_likelihood: bool = True

    @property
    def layers(self) -> tuple[Config, ...]:
        return (self.encoder, HeadConfig(vocabulary=self.vocabulary)) if self.output_bias else (self.encoder,)

    def forward_flops(self, length: float) -> float:
        """FLOPs of the log-likelihood of a row of ``length``."""
        return self.encoder.flops(length) + (length - 1) * self._word

    def likelihood_flops(self, length: float) -> float:
        """FLOPs of the log-likelihood of a row of ``length``."""
        return self.forward_flops(length)

    def decode_flops(self, length: float, targets: float) -> float:
        """FLOPs of `Pretrainable.decode`: ``targets`` tokens after ``length`` tokens. Only the targets reach the output
        layer."""
        return self.encoder.flops(length + targets) + targets * self._word

    @property
    def _word(self) -> float:
        return 2 * self.encoder.stack.block.norm.width * self.vocabulary


@dataclass(frozen=True, kw_only=True)
class TargetLength:
    """The number of tokens that a decoder generates for a row of pre-training: ``share`` tokens for each ``per`` tokens
    of the input without its ``marks`` ([CLS] and [SEP]), and at most ``most``."""

    share: float
    per: float = 1.0
    marks: int = 0
    most: float = math.inf

    def __call__(self, length: float) -> float:
        return min(self.share / self.per * (length - self.marks), self.most)


@dataclass(frozen=True, kw_only=True)
class SequenceModel(Model):
    """An encoder and a decoder. ``targets`` returns how many tokens the decoder generates for a row of pre-training."""

    decoder: DecoderConfig | AttendingConfig
    vocabulary: int
    targets: Callable[[float], float]
    writes: bool = True
    blank: int = 0
    """The maximal number of tokens of a row that the decoder reads to fill a blank."""
    gap: int = 0
    """The maximal number of tokens that the encoder reads for a sentence that is hidden as a whole."""

    @property
    def fills(self) -> bool:
        return self.blank > 0

    @property
    def fills_gaps(self) -> bool:
        return self.gap > 0

    @property
    def layers(self) -> tuple[Config, ...]:
        return (self.encoder, self.decoder)

    def forward_flops(self, length: float) -> float:
        """FLOPs of a forward pass of encoder and decoder for a row of pre-training."""
        return self.decode_flops(length, self.targets(length))

    def fill_flops(self, length: float) -> float:
        """FLOPs of `Pretrainable.fill` for a row of ``length``, without the output layer."""
        return self.encoder.flops(length) + self.decoder.decoding_flops(min(self.blank, length), length, 0)

    def gap_flops(self, length: float) -> float:
        """FLOPs of `Pretrainable.gap_likelihood` of a row of ``length``."""
        return self.decode_flops(min(self.gap, length + 1), length)

    def decode_flops(self, length: float, targets: float) -> float:
        """FLOPs of `Pretrainable.decode` for one row: ``targets`` tokens of the decoder, given ``length`` input
        tokens."""
        return self.encoder.flops(length) + self.decoder.decoding_flops(targets, length, self.vocabulary)


@dataclass(frozen=True, kw_only=True)
class StreamModel(SequenceModel):
    """An encoder, and a decoder with several predicting streams, which are all computed in pre-training."""

    def forward_flops(self, length: float) -> float:
        """FLOPs of a forward pass of encoder and decoder for a row of pre-training."""
        targets, streams = self.targets(length), self.decoder.streams.rows
        return self.encoder.flops(length) + self.decoder.stream_flops(targets, length, self.vocabulary, streams)


@dataclass(frozen=True, kw_only=True)
class RecurrentModel(CausalModel):
    """A left-to-right language model of recurrent layers."""

    encoder: LeftToRightConfig

    @property
    def _word(self) -> float:
        return 2 * self.encoder.tokens.width * self.vocabulary


@dataclass(frozen=True, kw_only=True)
class AutoencoderModel(RecurrentModel):
    """A network that reads a row and then generates it again, except for its first token."""

    tells_likelihood: bool = False

    def forward_flops(self, length: float) -> float:
        """FLOPs of a forward pass that reads and generates a row."""
        return self.decode_flops(length, length - 1)


@dataclass(frozen=True, kw_only=True)
class BidirectionalModel(Model):
    """Two language models over the same words, one in each direction."""

    encoder: BidirectionalConfig
    head: BiLmConfig
    tells_likelihood: bool = True

    @property
    def layers(self) -> tuple[Config, ...]:
        return (self.encoder, self.head)

    def forward_flops(self, length: float) -> float:
        """FLOPs of a forward pass of both directions with their predictions."""
        return self.encoder.flops(length) + 2 * self.head.row_flops(length)

    def likelihood_flops(self, length: float) -> float:
        """FLOPs of the log-likelihood of a row of ``length`` in the forward direction."""
        return self.encoder.direction_flops(length) + self.head.row_flops(length)


@dataclass(frozen=True, kw_only=True)
class TablesModel(EncoderModel):
    """An encoder whose pre-training reads its tables only, not the output of its layers."""

    def forward_flops(self, length: float) -> float:
        """FLOPs of a forward pass of the heads."""
        return sum(head.row_flops(length) for head in self.heads)


@dataclass(frozen=True, kw_only=True)
class WindowModel(EncoderModel):
    """Word vectors and one head that predicts each word from the words before it."""

    tells_likelihood: bool = True

    def likelihood_flops(self, length: float) -> float:
        """FLOPs of the log-likelihood of a row of ``length``."""
        return self.forward_flops(length)
