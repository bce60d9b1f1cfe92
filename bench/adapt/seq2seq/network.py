"""The new decoder in TensorFlow, and the learning rates of encoder and decoder."""

from typing import Any

import keras
import numpy as np

from ptmbench.bench.adapt import parts
from ptmbench.bench.adapt.rated import RatedStep
from ptmbench.bench.adapt.seq2seq import Own, second_stage_start, topped_flops
from ptmbench.bench.engine.rates import rate_at
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.architectures.encoder_decoders import bart
from ptmbench.models.card import Size
from ptmbench.models.costs import Model
from ptmbench.models.layers.blocks import Block, Stack
from ptmbench.models.layers.config import BERT
from ptmbench.models.layers.core import initializer, sinusoids
from ptmbench.models.layers.transformers import built
from ptmbench.models.objectives.seq2seq_mlm import Seq2SeqLm
from ptmbench.models.text.tokenizers import Vocabulary


class Table(keras.layers.Layer):
    """The token vectors [V, D], which are the output layer too, and the dropout rate of a decoder. Decoders of other
    models take both from their encoder."""

    def __init__(self, vocabulary: int, width: int, rate: float):
        super().__init__(name="decoder_table")
        self.dropout = rate
        self.token_embedding = self.add_weight((vocabulary, width), initializer(BERT), name="tokens")
        self.built = True


class Decoding(parts.NewDecoding):
    """``decode`` and ``writer``, as in `Pretrainable`, for the encoder of ``network`` with a new decoder. ``own`` are
    the new weights."""

    def __init__(self, network: Any, vocabulary: Vocabulary, settings: Any):
        encoder = self.encoder = network.encoder
        D, self.warms = encoder.width, bool(settings.warm_decoder)
        heads = getattr(encoder, "heads", None) or max(1, D // 64)
        heads = next(n for n in range(heads, 0, -1) if D % n == 0)
        self.size = Size(
            layers=settings.decoder_layers or max(1, encoder.depth),
            width=D,
            heads=heads,
            inner=_inner(encoder) or 4 * D,
            length=encoder.length,
        )
        self.table = Table(vocabulary.size, D, settings.dropout)
        self.decoder = built(bart(self.size, vocabulary.size)[1], self.table, name="decoder")
        self.own = self.decoder.trainable_variables  # includes the variables of the table
        if self.warms:
            self._copies()  # raises `NotApplicable` before any training
        self.writer = Seq2SeqLm(encoder, self.decoder)
        self.decode = self.writer.decode

    def begin(self) -> None:
        """Sets the new weights that do not start from random values: positions to sinusoids, token vectors to the
        encoder's if their shapes are equal, and layers to the encoder's if ``warm_decoder`` is 1."""
        positions = self.decoder.embeddings.positions.table
        positions.assign(sinusoids(tuple(positions.shape)))
        found = parts.token_table(self.encoder)
        if found is not None and tuple(found.shape) == tuple(self.table.token_embedding.shape):
            self.table.token_embedding.assign(found)
        for new, old in self._copies() if self.warms else ():
            new.assign(old)

    def _copies(self) -> list[tuple[Any, Any]]:
        """Pairs of a decoder weight and the encoder weight that it starts from. Raises `NotApplicable` if the encoder
        lacks one of them; cross-attention has none."""
        pairs, same = [], 0
        theirs = [_weights(block) for block in _blocks(self.encoder)]
        for index, block in enumerate(self.decoder.stack):
            ours = {name: weight for name, weight in _weights(block).items() if not name.startswith("cross")}
            same += len(ours)
            for name, weight in ours.items():
                old = theirs[index].get(name) if index < len(theirs) else None
                if old is not None and tuple(old.shape) == tuple(weight.shape):
                    pairs.append((weight, old))
        if len(pairs) != same:
            raise NotApplicable(
                "no-warm-decoder", "because the decoder's layers cannot start from the layers of this encoder."
            )
        return pairs

    def decode_flops(self, model: Model, length: int, targets: float) -> float:
        """FLOPs of ``decode`` for one row of ``length`` encoder tokens and ``targets`` decoder tokens."""
        return topped_flops(model, self.table.token_embedding.shape[0], self.size, length, targets)


def rate(step: RatedStep, number: int, steps: int, settings: Own) -> float:
    """Returns the decoder's rate at step ``number`` of ``steps``, and sets the encoder's rate as a share of it."""
    ours = rate_at(number, steps, peak=settings.learning_rate, warmup=settings.warmup, schedule="inverse_sqrt")
    second_start = second_stage_start(steps, settings)
    theirs = 0.0
    if number >= second_start:
        course = {"peak": settings.encoder_rate, "warmup": settings.encoder_warmup, "schedule": "inverse_sqrt"}
        theirs = rate_at(number - second_start, steps - second_start, **course)
    inside = [not variable.path.startswith("decoder") for variable in step.variables]
    step.shares.assign(np.where(inside, theirs / ours if ours else 0.0, 1.0).astype(np.float32))
    return ours


def _blocks(encoder: Any) -> list[Block]:
    """The Transformer layers of ``encoder``; [] if it has none."""
    stack = getattr(encoder, "stack", None)
    return list(stack) if isinstance(stack, Stack) else []


def _weights(block: Block) -> dict[str, Any]:
    """The weights of one layer, by their paths relative to it."""
    return {weight.path.split(f"/{block.name}/", 1)[1]: weight for weight in block.weights}


def _inner(encoder: Any) -> int:
    """The inner width of the encoder's feed-forward layers; 0 if it has none."""
    return next((block.config.feed_forward.inner for block in _blocks(encoder)), 0)
