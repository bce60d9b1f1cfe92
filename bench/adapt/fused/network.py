"""BERT-fused translation in TensorFlow: the translator, its decoding, and the learning rate of each stage."""

from typing import Any

import tensorflow as tf

from ptmbench.bench.adapt import parts
from ptmbench.bench.adapt.fused import Own, flops
from ptmbench.bench.adapt.seq2seq import second_stage_start
from ptmbench.bench.engine.rates import rate_at
from ptmbench.bench.engine.step import TrainStep
from ptmbench.models.architectures.encoder_decoders import fused
from ptmbench.models.costs import Model
from ptmbench.models.layers.core import sinusoids
from ptmbench.models.layers.fused import FusedDecoder, FusedEncoder, built
from ptmbench.models.text.tokenizers import Vocabulary


class Writer:
    """``decode`` and `models.pretrainable.Writer` of a translator that reads a frozen encoder without dropout."""

    def __init__(self, frozen: Any, encoder: FusedEncoder, decoder: FusedDecoder):
        self.frozen, self.encoder, self.decoder = frozen, encoder, decoder
        self.step = decoder.step

    def _read(self, tokens: tf.Tensor, channels: dict[str, Any], seed: Any) -> tuple[tf.Tensor, tf.Tensor]:
        """The translator's own vectors [B, T, D] of ``tokens`` [B, T], and the frozen encoder's [B, T, W], which reads
        ``channels`` too."""
        memory = tf.stop_gradient(self.frozen({**channels, "tokens": tokens}).tokens)
        return self.encoder({"tokens": tokens, "memory": memory}, seed=seed).tokens, memory

    def decode(self, batch: dict[str, Any], seed: Any = None) -> tf.Tensor:
        """Next-token logits [B, S, V] after each of ``targets`` [B, S], given ``tokens`` [B, T] and channels."""
        tokens = tf.convert_to_tensor(batch["tokens"], tf.int32)
        targets = tf.convert_to_tensor(batch["targets"], tf.int32)
        return self.decoder(targets, self._read(tokens, batch, seed), tokens, seed)

    def begin(self, tokens: Any, **channels: Any) -> tuple[Any, Any]:
        """Reads ``tokens`` [B, T], once, with both encoders."""
        tokens = tf.convert_to_tensor(tokens, tf.int32)
        return self.decoder.begin(self._read(tokens, channels, None), tokens)


class Decoding(parts.NewDecoding):
    """``decode`` and ``writer``, as in `Pretrainable`, of a translator that attends to the encoder of ``network``.
    ``own`` are the translator's weights."""

    def __init__(self, network: Any, vocabulary: Vocabulary, settings: Own):
        encoder = network.encoder
        self.memory, self.words = encoder.width, vocabulary.size
        self.size = settings.shape(encoder.width, encoder.depth, encoder.length)
        ours, theirs = fused(self.size, vocabulary.size, memory=self.memory, drop_net=settings.drop_net)
        self.encoder = built(ours, name="fused_encoder")
        self.encoder.dropout = settings.dropout
        self.decoder = built(theirs, self.encoder, name="fused_decoder")
        # ``fused``, which says whether the memory counts, is saved too: the best weights may be of the first stage.
        self.own = [*self.encoder.trainable_variables, *self.decoder.trainable_variables, self.encoder.fused]
        self.own = list({id(variable): variable for variable in self.own}.values())  # the two share variables
        self.writer = Writer(encoder, self.encoder, self.decoder)
        self.decode = self.writer.decode

    def begin(self) -> None:
        """Sets the position embeddings to sinusoids, after all weights have been drawn."""
        for part in (self.encoder, self.decoder):
            positions = part.embeddings.positions.table
            positions.assign(sinusoids(tuple(positions.shape)))

    def decode_flops(self, model: Model, length: int, targets: float) -> float:
        """FLOPs of ``decode`` for one row: ``targets`` tokens of the decoder, and ``length`` tokens of both
        encoders."""
        return model.encoder_flops(length) + flops(self.size, self.memory, self.words, length, targets)


def rate(step: TrainStep, number: int, steps: int, settings: Own) -> float:
    """The learning rate at step ``number`` of ``steps``. Its schedule starts again in the second stage. Also sets the
    variable ``fused``, which is 1 from the second stage on."""
    alone = second_stage_start(steps, settings)
    (fused,) = (variable for variable in step.variables if variable.path.endswith("/fused"))
    fused.assign(float(number >= alone))
    done, of = (number - alone, steps - alone) if number >= alone else (number, alone)
    return rate_at(done, of, peak=settings.learning_rate, warmup=settings.warmup, schedule="inverse_sqrt")
