"""The network of two language models in TensorFlow, and the FLOPs of their own losses."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from ptmbench.bench.adapt import parts
from ptmbench.bench.adapt.heads import InputRow
from ptmbench.bench.adapt.lm_seq2seq import Own, flops
from ptmbench.bench.adapt.lm_seq2seq.head import NextTokenLogits
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.architectures import recurrent_decoders
from ptmbench.models.card import Size
from ptmbench.models.costs import Model
from ptmbench.models.layers.operations import HIDDEN, attention, dense, dropout, fold, shape
from ptmbench.models.layers.products import product
from ptmbench.models.layers.recurrent_config import LstmConfig
from ptmbench.models.layers.recurrent_networks import LeftToRight, built
from ptmbench.models.text.tokenizers import Vocabulary


class Joined(keras.layers.Layer):
    """The new layers outside of the decoder: those above the encoder's, and W and b."""

    def __init__(self, width: int, upper: int):
        super().__init__(name="joined")
        layer = LstmConfig(inputs=width, cells=width)
        self.stack = [built(layer, name=f"upper_{index}") for index in range(upper)]
        self.kernel = self.add_weight((3 * width, width), "glorot_uniform", name="kernel")
        self.bias = self.add_weight((width,), "zeros", name="bias")
        self.own = [*(weight for layer in self.stack for weight in layer.weights), self.kernel, self.bias]
        self.built = True


class Writer:
    """``decode``, and `models.pretrainable.Writer`, of the whole network."""

    def __init__(self, encoder: LeftToRight, decoder: LeftToRight, joined: Joined, lm_weight: float):
        self.encoder, self.decoder, self.joined, self.lm_weight = encoder, decoder, joined, lm_weight
        self.width, self.lower = encoder.width, len(encoder.stack)

    def decode(self, batch: dict[str, Any], seed: Any = None) -> NextTokenLogits:
        """Logits after each of ``targets`` [B, S], given ``tokens`` [B, T]; with a ``seed``, also those of the language
        models."""
        tokens, targets = (tf.convert_to_tensor(batch[name], tf.int32) for name in ("tokens", "targets"))
        (rows, steps), length = shape(targets), shape(tokens)[1]
        h, top = self._read(tokens, seed)
        layers, _ = self.decoder.run(tf.transpose(targets), fold(seed, 1000), None)
        g, G = (tf.transpose(x, [1, 0, 2]) for x in (layers[self.lower], layers[-1]))  # [B, S, D]
        inputs = self._output_layer_input(g, G[:, None], h, top, tokens)
        logits = self._logits(self.decoder, inputs, rows, steps)
        if seed is None or not self.lm_weight:
            return NextTokenLogits(logits)
        source, target = self._logits(self.encoder, h, rows, length), self._logits(self.decoder, g, rows, steps)
        return NextTokenLogits(logits, source, target, self.lm_weight)

    def begin(self, tokens: Any) -> tuple[Any, Any]:
        """Reads ``tokens`` [B, T], once."""
        tokens = tf.convert_to_tensor(tokens, tf.int32)
        h, top = self._read(tokens, None)
        nothing = tf.zeros([shape(tokens)[0], self.width], h.dtype)
        states = [(nothing, tf.cast(nothing, tf.float32)) for _ in self.decoder.stack]
        return (tokens, h, top, states), tf.nest.map_structure(lambda x: x[:, None, None][:, :, :0], states)

    def step(self, memory: Any, past: Any, written: tf.Tensor, seen: tf.Tensor) -> tuple[tf.Tensor, Any]:
        """Logits [B, K, V] after ``written`` [B, K, S], and the past for the next step."""
        (tokens, h, top, states), (rows, beam, _) = memory, shape(written)
        G, grown = self.decoder.step(states, past, written, seen)  # [B * K, D]
        g = grown[self.lower - 1][0][:, 0, -beam:]  # [B, K, D]
        inputs = self._output_layer_input(g, tf.reshape(G, [rows, 1, beam, self.width]), h, top, tokens)
        return self._logits(self.decoder, inputs, rows, beam), grown

    def _read(self, tokens: tf.Tensor, seed: Any) -> tuple[tf.Tensor, tf.Tensor]:
        """h and H [B, T, D] of ``tokens`` [B, T]."""
        x = lower = self.encoder.run(tf.transpose(tokens), seed, None)[0][-1]
        for index, layer in enumerate(self.joined.stack):
            x, _ = layer(x)
            x = dropout(x, self.encoder.dropout, seed, 100 + index)
        return tf.transpose(lower, [1, 0, 2]), tf.transpose(x, [1, 0, 2])

    def _output_layer_input(
        self, g: tf.Tensor, G: tf.Tensor, h: tf.Tensor, top: tf.Tensor, tokens: tf.Tensor
    ) -> tf.Tensor:
        """The input [B * S, D] of the output layer, from g [B, S, D] and G [B, 1, S, D]."""
        absent = tf.where(tf.equal(tokens, 0), HIDDEN, 0.0)[:, None, None]  # [B, 1, 1, T]
        keys = top[:, None]
        looks = [attention(G, keys, values, absent, 0.0, None, 0) for values in (h[:, None], keys)]  # [B * S, D] twice
        joint = tf.concat([*looks, tf.reshape(G, [-1, self.width])], axis=1)
        return tf.reshape(g, [-1, self.width]) + tf.tanh(dense(joint, self.joined.kernel, self.joined.bias))

    def _logits(self, side: LeftToRight, x: tf.Tensor, rows: Any, steps: Any) -> tf.Tensor:
        """Maps x, D numbers for each of S ``steps`` of B ``rows``, to [B, S, V] with the word vectors of one
        ``side``."""
        logits = product(tf.reshape(x, [-1, self.width]), side.token_embedding, transposed=True)
        return tf.cast(tf.reshape(logits, [rows, steps, logits.shape[-1]]), tf.float32)


class Decoding(parts.NewDecoding):
    """``decode`` and ``writer``, as in `Pretrainable`, of a network whose two sides start as the encoder of
    ``network``. ``own`` are the new weights. Raises `NotApplicable` unless the encoder is an LSTM that reads from left
    to right."""

    def __init__(self, network: Any, vocabulary: Vocabulary, settings: Own):
        encoder = self.encoder = network.encoder
        if type(encoder) is not LeftToRight:
            raise NotApplicable(
                "no-lstm",
                "because encoder and decoder start from an LSTM that reads from left to right; see lm_lstm.",
            )
        self.warms, self.layers = bool(settings.warm_decoder), len(encoder.stack) + settings.upper
        size = Size(layers=self.layers, width=encoder.width, length=encoder.length)
        self.decoder = built(recurrent_decoders.lstm(size, vocabulary.size), name="decoder")
        self.decoder.dropout = settings.dropout
        self.joined = Joined(encoder.width, settings.upper)
        self.own = [*self.decoder.trainable_variables, *self.joined.own]
        self.writer = Writer(encoder, self.decoder, self.joined, settings.lm_weight)
        self.decode = self.writer.decode

    def begin(self) -> None:
        """Initialises the new weights after they have been drawn: scales matrices to the deviation of Glorot and Bengio
        (2010) and word vectors to 4 / sqrt(D), and copies the language model to the decoder unless ``warm_decoder`` is
        0."""
        for variable in self.own:
            if len(variable.shape) == 2 and variable is not self.decoder.token_embedding:
                variable.assign(variable * (2 / sum(variable.shape)) ** 0.5 / 0.02)
        self.decoder.token_embedding.assign(self.decoder.token_embedding * 4 * self.encoder.width**-0.5 / 0.02)
        for new, old in self._copies() if self.warms else ():
            new.assign(old)

    def _copies(self) -> list[tuple[Any, Any]]:
        """Pairs of the decoder's and the encoder's weights: word vectors and lower layers."""
        pairs = zip(self.decoder.stack, self.encoder.stack, strict=False)
        layers = [pair for new, old in pairs for pair in zip(new.weights, old.weights, strict=True)]
        return [(self.decoder.token_embedding, self.encoder.token_embedding), *layers]

    def decode_flops(self, model: Model, length: int, targets: float) -> float:
        """FLOPs of ``decode`` for one row, without the language models."""
        words = self.decoder.token_embedding.shape[0]
        return flops(self.encoder.width, self.layers, words, length, targets)


def make(
    adapted: Any, rows: Sequence[InputRow], settings: Own, seed: tuple[int, int]
) -> tuple[Sequence[InputRow], float]:
    """``rows`` unchanged, and the FLOPs of predicting both texts as language models."""
    words = sum(row.tokens + int((row.arrays["targets"] > 0).sum()) for row in rows)
    return rows, settings.lm_flops(adapted.network.encoder.width, adapted.vocabulary.size, words)
