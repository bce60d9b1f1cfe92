"""The three usual networks of Transformers: an encoder, a left-to-right decoder, and the decoder of an encoder-decoder.

Sources: Devlin et al. (2019), section 3; Radford et al. (2018), section 3.1; Vaswani et al. (2017), section 3. Models
differ in their configurations alone: places of norms, activations, kinds of positions, shared blocks. Dropout places
are numbered from 0 in encoders and left-to-right decoders, and from 1000 in decoders of encoder-decoders.
"""

from typing import Any

import keras
import tensorflow as tf

from ptmbench.models.layers import embeddings  # noqa: F401  the layers that configurations name
from ptmbench.models.layers.blocks import Stack  # noqa: F401
from ptmbench.models.layers.cells_config import CellStackConfig
from ptmbench.models.layers.config import CausalConfig, Config, DecoderConfig, EncoderConfig, TableConfig
from ptmbench.models.layers.core import NO_DROP, Drop, Layer, Rows, built, made_from, recomputed
from ptmbench.models.layers.embeddings import future_bias, padding_bias
from ptmbench.models.layers.encoding import EncodingLayer, mean
from ptmbench.models.layers.operations import HIDDEN, check_length, shape
from ptmbench.models.layers.products import product
from ptmbench.models.pretrainable import Encoding

__all__ = ["CausalTransformer", "Decoder", "Encoder", "built"]


class Network(EncodingLayer):
    """Base class of encoders and left-to-right decoders: ``width`` D, ``depth`` L, ``heads`` H, and the ``length`` of
    the longest input. Their configurations have ``embeddings``.

    A ``stepwise`` network can be computed one layer at a time, as early exit does. `entered` returns the input of the
    first block, ``stack.step`` the output of each block, and `ended` computes ``Encoding.layers[-1]`` from the last
    output. Between two steps, examples may leave the batch. A subclass with layers besides its stack is not stepwise.
    """

    stepwise = False

    def __init__(self, config: Config, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.length = config.embeddings.rows
        self.width, self.depth, self.heads = self.dims(config)

    @staticmethod
    def dims(config: Any) -> tuple[int, int, int]:
        """Width, depth and heads of the network of ``config``."""
        if isinstance(config.stack, CellStackConfig):
            return config.stack.dims
        block = config.stack.block
        return block.norm.width, config.stack.layers, block.attention.heads

    @property
    def token_embedding(self) -> keras.Variable:
        """[V, E]. Objectives tie their output layer to it."""
        return self.embeddings.tokens.table


@made_from(EncoderConfig)
class Encoder(Network):
    """Batch to `Encoding`. Every token attends to every token that is not padding, unless the channels ``documents``
    and ``attention`` of the batch forbid it. ``positions`` are 0 to T - 1 by default."""

    causal = False
    stepwise = True

    def embedded(self, batch: dict[str, Any], drop: Drop) -> tf.Tensor:
        """The vectors [B * T, E] that go into the stack, before they are widened."""
        given = {"positions": batch.get("positions"), "segments": batch.get("segments")}
        return self.embeddings(batch["tokens"], **given, drop=drop, batch=self._with_channels(batch))

    def _with_channels(self, batch: dict[str, Any]) -> dict[str, Any]:
        """``batch`` with zeros for the channels of further vectors that it lacks."""
        missing = [name for name, _ in self.config.embeddings.channels if name not in batch]
        return batch | {name: tf.zeros_like(batch["tokens"]) for name in missing}

    def bias(self, batch: dict[str, Any]) -> tf.Tensor:
        """The bias of the attention scores, [B, 1, 1 or T, T], which masks keys."""
        bias = padding_bias(batch["tokens"])  # [B, 1, 1, T]
        if (documents := batch.get("documents")) is not None:
            same = tf.equal(documents[:, None, :, None], documents[:, None, None, :])  # [B, 1, T, T]
            bias = tf.minimum(bias, tf.where(same, 0.0, HIDDEN))
        if (attention := batch.get("attention")) is not None:
            bias = tf.minimum(bias, tf.where(tf.equal(attention, 1), 0.0, HIDDEN)[:, None, :, :])
        return bias

    def deeper(self, x: tf.Tensor, bias: tf.Tensor, batch: dict[str, Any], rows: Rows, drop: Drop) -> list[tf.Tensor]:
        """The L + 1 tensors [B * T, D]: ``x``, then the output of each layer."""
        return self.stack(x, bias, rows=rows, drop=drop)

    def entered(self, batch: dict[str, Any], drop: Drop = NO_DROP) -> tuple[tf.Tensor, tf.Tensor]:
        """The vectors [B * T, D] that the first block reads, and the bias [B, 1 or H, 1 or T, T] of all blocks."""
        length = shape(batch["tokens"])[1]
        check_length(length, self.length, "encoder")
        x = self.embedded(batch, drop)  # [B * T, E]
        if self.config.widening is not None:
            x = self.widening(x)  # [B * T, D]
        bias = self.bias(batch)
        if self.config.distances is not None:
            bias = self.distances(length=length) + bias  # [B, H, T, T]
        return x, bias

    def ended(self, x: tf.Tensor, drop: Drop = NO_DROP) -> tf.Tensor:
        """The last layer's vectors [N, D], computed from the output of the last block."""
        if self.config.norm is not None:
            x = self.norm(x)
        return drop(x, 1) if self.config.norm_dropout else x

    def call(self, batch: dict[str, Any], seed: Any = None) -> Encoding:
        tokens, config = batch["tokens"], self.config
        rows, drop = shape(tokens), Drop(self.dropout, seed, 0)
        x, bias = self.entered(batch, drop)
        flat = self.deeper(x, bias, batch, Rows(*rows), drop)
        flat[-1] = self.ended(flat[-1], drop)
        layers = tuple(tf.reshape(x, [*rows, self.width]) for x in flat)
        if config.pooled == "mean":
            return Encoding(tokens=layers[-1], pooled=mean(layers[-1], tokens), layers=layers)
        pooled = layers[-1][:, 0]  # [B, D]
        if config.pooler is not None:
            pooled = tf.tanh(self.pooler(pooled))
        return Encoding(tokens=layers[-1], pooled=pooled, layers=layers)


class LeftToRight(Network):
    """Batch to `Encoding`. Each token attends to itself and to the tokens before it. The pooled vector is that of the
    last token, the only one that has read the whole text. Subclasses have ``hidden(tokens, seed)``, the vectors
    [B * T, D] of each layer."""

    causal = True

    def call(self, batch: dict[str, Any], seed: Any = None) -> Encoding:
        tokens = batch["tokens"]
        rows, length = shape(tokens)
        flat = self.hidden(tokens, seed)
        count = tf.reduce_sum(tf.cast(tf.not_equal(tokens, 0), tf.int32), axis=1)  # [B]
        last = tf.range(rows) * length + tf.maximum(count - 1, 0)
        layers = tuple(tf.reshape(x, [rows, length, self.width]) for x in flat)
        return Encoding(tokens=layers[-1], pooled=tf.gather(flat[-1], last), layers=layers)


@made_from(CausalConfig)
class CausalTransformer(LeftToRight):
    """A stack of blocks over the embeddings. The table of token vectors is the output layer too."""

    stepwise = True

    def entered(self, batch: dict[str, Any], drop: Drop = NO_DROP) -> tuple[tf.Tensor, tf.Tensor]:
        """The vectors [B * T, D] that the first block reads, and the bias [1, 1, T, T] of all blocks."""
        tokens = batch["tokens"]
        length = shape(tokens)[1]
        check_length(length, self.length, "decoder")
        return self.embeddings(tokens, drop=drop), future_bias(length)

    def ended(self, x: tf.Tensor, drop: Drop = NO_DROP) -> tf.Tensor:
        """The last layer's vectors [N, D], computed from the output of the last block."""
        return x if self.config.norm is None else self.norm(x)

    def hidden(
        self, tokens: tf.Tensor, seed: Any = None, gaps: bool = False, documents: tf.Tensor | None = None
    ) -> list[tf.Tensor]:
        """The L + 1 tensors [B * T, D] for tokens [B, T]: embeddings, then each layer.

        Padding at the right end needs no mask, because no token before it attends to it. With ``gaps`` there may be
        padding between tokens: it is masked and takes up no position. A token attends only to tokens with its number in
        ``documents`` [B, T].
        """
        rows, drop, positions = shape(tokens), Drop(self.dropout, seed, 0), None
        check_length(rows[1], self.length, "decoder")
        bias = future_bias(rows[1])
        if gaps:
            present = tf.not_equal(tokens, 0)
            positions = tf.maximum(tf.cumsum(tf.cast(present, tf.int32), axis=1) - 1, 0)  # [B, T]
            bias = tf.minimum(bias, tf.where(present, 0.0, HIDDEN)[:, None, None, :])  # [B, 1, T, T]
        if documents is not None:
            together = tf.equal(documents[:, :, None], documents[:, None, :])[:, None, :, :]  # [B, 1, T, T]
            bias = tf.minimum(bias, tf.where(together, 0.0, HIDDEN))
        x = self.embeddings(tokens, positions=positions, drop=drop)  # [B * T, D]
        layers = self.stack(x, bias, rows=Rows(*rows), drop=drop)
        return [*layers[:-1], self.ended(layers[-1])]

    def begin(self, tokens: tf.Tensor) -> tuple[Any, Any]:
        """The counts and mask of ``tokens`` [B, T] for `step`, and each layer's keys and values as the past (see
        `models.pretrainable.Writer`)."""
        rows = shape(tokens)
        check_length(rows[1], self.length, "decoder")
        x, past = self.embeddings(tokens), []  # [B * T, D]
        for index, block in enumerate(self.stack):
            x, kept = block(x, future_bias(rows[1]), rows=Rows(*rows))
            x = self.stack.through("between", x, index=index)
            past.append(kept)
        present = tf.not_equal(tokens, 0)  # [B, T]
        count = tf.reduce_sum(tf.cast(present, tf.int32), axis=1)  # [B]
        return (count, tf.where(present, 0.0, HIDDEN)[:, None, None]), past

    def step(self, memory: Any, past: Any, written: tf.Tensor, seen: tf.Tensor) -> tuple[tf.Tensor, Any]:
        """Vectors [B * K, D] after ``written`` [B, K, S], and ``past`` extended by this step's keys and values (see
        `models.pretrainable.Writer`)."""
        (count, absent), (batch, beam, length) = memory, shape(written)
        place = count + length - 1  # [B]
        check_length(tf.reduce_max(place) + 1, self.length, "decoder")
        absent = tf.repeat(absent, beam, axis=2)  # [B, 1, K, T]
        bias, grown = tf.concat([absent, tf.where(seen, 0.0, HIDDEN)[:, None]], axis=3), []  # [B, 1, K, T + U]
        x = self.embeddings(written[:, :, -1], positions=place[:, None])  # [B * K, D]
        for index, (block, before) in enumerate(zip(self.stack, past, strict=True)):
            x, kept = block(x, bias, rows=Rows(batch, beam), past=before)
            x = self.stack.through("between", x, index=index)
            grown.append(kept)
        return self.ended(x), grown


@made_from(DecoderConfig)
class Decoder(Layer):
    """Next-token logits over the output of ``encoder``. Token vectors and dropout are the encoder's."""

    OTHERS = ("encoder",)

    def __init__(self, config: DecoderConfig, encoder: Encoder, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.encoder, self.width, self.length = encoder, config.stack.block.norm.width, config.embeddings.rows

    @property
    def dropout(self) -> float:
        return self.encoder.dropout

    @property
    def token_embedding(self) -> keras.Variable:
        return self.encoder.token_embedding

    def _ended(self, x: tf.Tensor, drop: Drop | None = None) -> tf.Tensor:
        x = x if self.config.norm is None else self.norm(x)
        return drop(x, 1) if drop and self.config.norm_dropout else x

    def _check_length(self, length: Any) -> None:
        """Checks the length for learned positions only. Computed positions and distances have no limit."""
        if isinstance(self.config.embeddings.positions, TableConfig):
            check_length(length, self.length, "decoder")

    def _logits(self, x: tf.Tensor, rows: list[Any]) -> tf.Tensor:
        if self.config.logits_scale != 1.0:
            x *= self.config.logits_scale
        table = self.token_embedding if self.config.logits is None else self.logits.whole()
        logits = product(x, table, transposed=True)
        return tf.reshape(logits, [*rows, logits.shape[-1]])

    def _flat(self, memory: Any) -> tuple[tf.Tensor, ...]:
        """Each ``memory`` [B, T, W] that blocks attend to, as vectors [B * T, W]. Here there is one."""
        return (tf.reshape(memory, [-1, self.width]),)

    def _read(self, block: Any, flat: tuple[tf.Tensor, ...], rows: Rows) -> Any:
        """The keys and values of ``block`` for the vectors from `_flat`, with (B, T) = ``rows``."""
        return block.cross.read(*flat, rows)

    def _looking(self, read: Any) -> dict[str, Any]:
        """The arguments of a block for the keys and values from `_read`."""
        return {"memory": read}

    def hidden(
        self, targets: tf.Tensor, memory: tf.Tensor, tokens: tf.Tensor, seed: Any = None, first: Any = None
    ) -> list[tf.Tensor]:
        """The L + 1 tensors [B * S, D] for ``targets`` [B, S], given ``memory`` [B, T, D], the encoding of ``tokens``
        [B, T]: embeddings, then each layer.

        ``first`` int32 [B] are the positions of the first targets, 0 when not given.
        """
        rows, source, drop = shape(targets), shape(tokens), Drop(self.dropout, seed, 1000)
        self._check_length(rows[1])
        bias = future_bias(rows[1]) if self.config.distances is None else self.distances(length=rows[1])
        positions = None if first is None else first[:, None] + tf.range(rows[1])  # [B, S]
        flat = self._flat(memory)
        absent = padding_bias(tokens)  # [B, 1, 1, T]
        x = self.embeddings(targets, positions=positions, table=self.token_embedding.value, drop=drop)  # [B * S, D]
        layers = [x]
        for index, block in enumerate(self.stack):

            def apply(x: tf.Tensor, bias: tf.Tensor, *flat: tf.Tensor, block: Any = block, index: int = index) -> Any:
                read, place = self._read(block, flat, Rows(*source)), drop.at(10 * (index + 1))
                return block(x, bias, rows=Rows(*rows), drop=place, absent=absent, **self._looking(read))[0]

            x = recomputed(apply, layers[-1], bias, *flat)
            layers.append(self.stack.through("between", x, index=index))
        return [*layers[:-1], self._ended(layers[-1], drop)]

    def call(
        self, targets: tf.Tensor, memory: tf.Tensor, tokens: tf.Tensor, seed: Any = None, first: Any = None
    ) -> tf.Tensor:
        """Logits [B, S, V] after each of ``targets``; the arguments are those of `hidden`."""
        return self._logits(self.hidden(targets, memory, tokens, seed, first)[-1], shape(targets))

    def after(self, places: tf.Tensor, targets: tf.Tensor, memory: tf.Tensor, tokens: tf.Tensor) -> tf.Tensor:
        """Logits [B, V] after the target at ``places`` [B] of each row, without dropout. Only these are computed."""
        rows, length = shape(targets)
        x = tf.gather(self.hidden(targets, memory, tokens)[-1], tf.range(rows) * length + places)  # [B, D]
        return self._logits(x, [rows])

    def begin(self, memory: tf.Tensor, tokens: tf.Tensor) -> tuple[Any, Any]:
        """The mask of ``tokens`` [B, T] and each layer's keys and values of their encoding ``memory`` [B, T, D], for
        `step`; and an empty past (see `models.pretrainable.Writer`)."""
        batch, source = shape(tokens)
        flat, heads = self._flat(memory), self.config.stack.block.attention.heads
        read = [self._read(block, flat, Rows(batch, source)) for block in self.stack]
        none = tf.zeros([batch, heads, 0, self.width // heads], flat[0].dtype)
        return (padding_bias(tokens), read), [(none, none) for _ in read]

    def step(self, memory: Any, past: Any, written: tf.Tensor, seen: tf.Tensor) -> tuple[tf.Tensor, Any]:
        """Logits [B, K, V] after ``written`` [B, K, S], and ``past`` extended by this step's keys and values (see
        `models.pretrainable.Writer`)."""
        (absent, cross), (batch, beam, length) = memory, shape(written)
        self._check_length(length)
        if self.config.distances is None:
            bias = tf.where(seen, 0.0, HIDDEN)[:, None]  # [B, 1, K, U]
        else:
            near = tf.repeat(self.distances.last(length), beam, axis=3)  # [1, H, 1, U]
            bias = tf.where(seen[:, None], near, HIDDEN)  # [B, H, K, U]
        place = tf.fill([1, 1], length - 1)
        x, grown = self.embeddings(written[:, :, -1], positions=place, table=self.token_embedding.value), []
        for index, (block, read, before) in enumerate(zip(self.stack, cross, past, strict=True)):
            given = self._looking(read)
            x, kept = block(x, bias, rows=Rows(batch, beam), absent=absent, past=before, **given)
            x = self.stack.through("between", x, index=index)
            grown.append(kept)
        return self._logits(self._ended(x), [batch, beam]), grown
