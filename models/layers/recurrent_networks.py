"""Networks of recurrent layers: left to right, in both directions, and one GRU over sentences.

Recurrent networks have no longest input; their ``length`` bounds memory. Inside, tensors have the shape [T, B, C].
"""

from typing import Any

import keras
import tensorflow as tf

from ptmbench.models.layers import spelling  # noqa: F401  the layers that configurations name
from ptmbench.models.layers.core import Drop, built, made_from
from ptmbench.models.layers.encoding import EncodingLayer, largest
from ptmbench.models.layers.operations import check_length, dropout, shape
from ptmbench.models.layers.recurrent import State, locked_dropout, reverse_rows
from ptmbench.models.layers.recurrent_config import (
    AwdConfig,
    BidirectionalConfig,
    LeftToRightConfig,
    SentenceGruConfig,
    StringConfig,
)
from ptmbench.models.layers.spelling import openings
from ptmbench.models.pretrainable import Encoding

__all__ = ["Awd", "Bidirectional", "LeftToRight", "SentenceGru", "Strings", "built"]


def by_rows(x: tf.Tensor) -> tf.Tensor:
    """[T, B, C] to [B, T, C], and back."""
    return tf.transpose(x, [1, 0, 2])


@made_from(LeftToRightConfig)
class LeftToRight(EncodingLayer):
    """Batch to `Encoding`. ``pooled`` is the state at the last token (Dai and Le, 2015, section 2).

    `models.objectives.lm.CausalLm` needs ``hidden``, ``begin`` and ``step``.
    """

    causal = True
    recurrent = True

    def __init__(self, config: LeftToRightConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.width, self.depth, self.length = config.tokens.width, len(config.stack.layers), config.length

    @property
    def token_embedding(self) -> keras.Variable:
        """[V, D]. Objectives tie their output layer to it."""
        return self.tokens.table

    def run(self, tokens: tf.Tensor, seed: Any, present: tf.Tensor | None) -> tuple[list[tf.Tensor], list[State]]:
        """The L + 1 tensors [T, B, C] for ``tokens`` [T, B], embeddings and each layer, and the layers' last states.
        Where ``present`` bool [T, B, 1] is false, states do not change."""
        return self.stack(self.tokens(tokens), drop=Drop(self.dropout, seed, 0), present=present)

    def hidden(
        self, tokens: tf.Tensor, seed: Any = None, gaps: bool = False, documents: tf.Tensor | None = None
    ) -> list[tf.Tensor]:
        """The layers [B * T, C] for ``tokens`` [B, T]. With ``gaps`` there may be padding between tokens, over which
        the state is carried. ``documents`` are ignored: the state passes from one text of a row to the next."""
        present = tf.not_equal(tf.transpose(tokens), 0)[:, :, None] if gaps else None
        layers, _ = self.run(tf.transpose(tokens), seed, present)
        return [tf.reshape(by_rows(x), [-1, x.shape[-1]]) for x in layers]

    def begin(self, tokens: tf.Tensor) -> tuple[Any, Any]:
        """The states after ``tokens`` [B, T], and an empty past: states without a column (see
        `models.pretrainable.Writer`)."""
        _, states = self.run(tf.transpose(tokens), None, tf.not_equal(tf.transpose(tokens), 0)[:, :, None])
        return states, tf.nest.map_structure(lambda x: x[:, None, None][:, :, :0], states)  # [B, 1, 0, C]

    def step(self, memory: Any, past: Any, written: tf.Tensor, seen: tf.Tensor) -> tuple[tf.Tensor, Any]:
        """Vectors [B * K, D] after ``written`` [B, K, S], and ``past`` with this step's states (see
        `models.pretrainable.Writer`). A hypothesis continues from the last column that it has seen."""
        batch, beam, _ = shape(written)
        parent = parents(seen, beam)  # [B, K]; 0: only the source
        x = tf.reshape(self.tokens(written[:, :, -1]), [-1, self.width])  # [B * K, D]
        grown = []
        for index, (layer, source, states) in enumerate(zip(self.stack, memory, past, strict=True)):
            state = tuple(
                tf.reshape(
                    tf.gather(tf.concat([first[:, None], columns[:, 0]], axis=1), parent, batch_dims=1),
                    [batch * beam, first.shape[-1]],
                )
                for first, columns in zip(source, states, strict=True)
            )
            state = layer.step(x, state)  # [B * K, C]
            x = self.stack.through("between", state[0], index=index)
            new = (tf.reshape(value, [batch, 1, beam, value.shape[-1]]) for value in state)
            grown.append(tuple(tf.concat(pair, axis=2) for pair in zip(states, new, strict=True)))
        return x, grown

    def call(self, batch: dict[str, Any], seed: Any = None) -> Encoding:
        tokens = batch["tokens"]
        rows, length = shape(tokens)
        check_length(length, self.length, "encoder")
        flat = self.hidden(tokens, seed)
        count = tf.reduce_sum(tf.cast(tf.not_equal(tokens, 0), tf.int32), axis=1)  # [B]
        last = tf.range(rows) * length + tf.maximum(count - 1, 0)
        layers = tuple(tf.reshape(x, [rows, length, self.width]) for x in flat)
        return Encoding(tokens=layers[-1], pooled=tf.gather(flat[-1], last), layers=layers)


def parents(seen: tf.Tensor, beam: Any) -> tf.Tensor:
    """The last column that each hypothesis has ``seen`` before this step (see `models.pretrainable.Writer`), counted
    from 1, int32 [B, K]; 0 where it has seen none."""
    before = seen[:, :, :-beam]  # [B, K, U]
    numbers = tf.range(1, tf.shape(before)[2] + 1)
    return tf.maximum(tf.reduce_max(tf.where(before, numbers, 0), axis=2), 0)


@made_from(AwdConfig)
class Awd(LeftToRight):
    """`LeftToRight` with the dropout of AWD-LSTM (Merity et al., 2018, sections 2, 4.2 and 4.3):

        weights      entries of recurrent kernels, the same ones in all steps and rows of a batch
        embedding    whole words: all occurrences in a batch
        input        entries of token vectors, the same ones in all steps of a row
        hidden       entries between layers, in the same way
        output       entries of the last layer, in the same way; only in `outputs`, because the objective needs both

    ``layers`` are the embeddings and the last layer. The layers between have another width, so no task could mix them
    with these.
    """

    def __init__(self, config: AwdConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.depth = 1

    def run(self, tokens: tf.Tensor, seed: Any, present: tf.Tensor | None) -> tuple[list[tf.Tensor], list[State]]:
        """The embeddings and the last layer, [T, B, D] for ``tokens`` [T, B], and the layers' last states. A QRNN takes
        no ``present``, so its padding must be at the end."""
        first = self.embedded(tokens, seed)
        masks = {} if present is None else {"present": present}
        hidden, weights = self.drop("hidden", seed, 10), self.drop("weights", seed, 100)
        layers, states = self.stack(first, hidden=hidden, weights=weights, **masks)
        return [first, layers[-1]], states

    def embedded(self, tokens: tf.Tensor, seed: Any) -> tf.Tensor:
        """The vectors [T, B, D] of ``tokens`` [T, B], after both kinds of dropout that apply to them."""
        x, words = self.tokens(tokens), self.drop("embedding", seed, 0)
        if seed is not None:
            kept = words(tf.ones([self.config.tokens.rows], x.dtype))  # [V]
            x *= tf.gather(kept, tokens)[:, :, None]
        return locked_dropout(x, self.drop("input", seed, 1), axis=0)

    def outputs(self, tokens: tf.Tensor, seed: Any = None) -> tuple[tf.Tensor, tf.Tensor]:
        """The last layer [B, T, D] for ``tokens`` [B, T], without and with dropout on it."""
        raw = by_rows(self.run(tf.transpose(tokens), seed, None)[0][-1])
        return raw, locked_dropout(raw, self.drop("output", seed, 2), axis=1)

    def drop(self, what: str, seed: Any, place: int) -> Drop:
        """The dropout of the kind ``what``. Its rate is 0.9 at most, for any ``dropout``."""
        return Drop(min(0.9, getattr(self.config, f"{what}_rate") * self.dropout), seed, place)


@made_from(BidirectionalConfig)
class Bidirectional(EncodingLayer):
    """Batch to `Encoding`: ``layers`` are [x; x] of the words' vectors x, then [forward; backward] of each layer.

    ``pooled`` is the maximum over the tokens of the last layer (Conneau et al., 2017, found it better than the mean for
    such networks). The backward direction reads each row reversed up to its own length, so padding at the right end
    never reaches a real token. Each direction is ``state`` numbers wide.
    """

    recurrent = True

    def __init__(self, config: BidirectionalConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.state = config.embeddings.width
        self.width, self.depth, self.length = 2 * self.state, len(config.stack.layers), config.length

    @property
    def token_embedding(self) -> keras.Variable:
        """[V, D / 2]. Objectives tie their output layer to it."""
        return self.embeddings.table

    def embedded(self, tokens: tf.Tensor) -> tf.Tensor:
        """The vectors x [T, B, D / 2] of ``tokens`` [B, T]."""
        check_length(shape(tokens)[1], self.length, "encoder")
        return self.embeddings(tf.transpose(tokens))

    def forward(self, tokens: tf.Tensor, seed: Any = None) -> list[tf.Tensor]:
        """The L + 1 tensors [T, B, D / 2] of the forward direction: x, then each layer."""
        return self.forward_stack(self.embedded(tokens), drop=Drop(self.dropout, seed, 0))[0]

    def both(self, tokens: tf.Tensor, seed: Any = None) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """`forward`, and the same tensors of the backward direction, in the order of the tokens."""
        x, lengths = self.embedded(tokens), tf.math.count_nonzero(tokens, axis=1, dtype=tf.int32)  # [B]
        ahead, _ = self.forward_stack(x, drop=Drop(self.dropout, seed, 0))
        back, _ = self.backward_stack(reverse_rows(x, lengths), drop=Drop(self.dropout, seed, 100))
        return ahead, [reverse_rows(layer, lengths) for layer in back]

    def layers_of(self, tokens: tf.Tensor, seed: Any) -> list[tf.Tensor]:
        """The L + 1 tensors [B, T, D]."""
        return [by_rows(tf.concat(pair, axis=-1)) for pair in zip(*self.both(tokens, seed), strict=True)]

    def call(self, batch: dict[str, Any], seed: Any = None) -> Encoding:
        tokens = tf.convert_to_tensor(batch["tokens"], tf.int32)
        layers = tuple(self.layers_of(tokens, seed))
        return Encoding(tokens=layers[-1], pooled=largest(layers[-1], tokens), layers=layers)


@made_from(StringConfig)
class Strings(Bidirectional):
    """`Bidirectional` over characters, read where words begin and end (Akbik et al., 2018, sections 2.1 and 2.2).

    A word from character a to character z has the vector [forward_z; backward_a]. forward_z has read everything up to
    the word's last character, and backward_a everything from the end of the row down to its first. All tokens of a word
    get its vector, so a head can read any of them. ``layers`` are [x; x] of the tokens themselves, then the words'
    vectors of each layer.
    """

    def __init__(self, config: StringConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self._opens, self._marks = openings(config.pieces, config.embeddings.rows, config.first, config.unknown)

    def places(self, tokens: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Positions of the first and of the last character of each token's word, int32 [B, T] each."""
        opens = tf.cast(tf.gather(self._opens, tokens), tf.int32)  # [B, T]
        closes = tf.concat([opens[:, 1:], tf.ones_like(opens[:, :1])], axis=1)
        length = shape(tokens)[1]
        first = running_maximum(tf.range(length) * opens, self.length)
        last = length - 1 - tf.reverse(running_maximum(tf.range(length) * tf.reverse(closes, [1]), self.length), [1])
        marked = tf.cast(tf.gather(self._marks, tf.gather(tokens, first, batch_dims=1)), tf.int32)
        return tf.minimum(first + marked, last), last

    def layers_of(self, tokens: tf.Tensor, seed: Any) -> list[tf.Tensor]:
        first, last = self.places(tokens)
        ahead, back = ([by_rows(x) for x in layers] for layers in self.both(tokens, seed))  # [B, T, D / 2]
        layers = [tf.concat([ahead[0], back[0]], axis=2)]  # [B, T, D]
        for one, other in zip(ahead[1:], back[1:], strict=True):
            ends = tf.gather(one, last, batch_dims=1), tf.gather(other, first, batch_dims=1)
            layers.append(tf.concat(ends, axis=2))
        return layers


def running_maximum(x: tf.Tensor, longest: int) -> tf.Tensor:
    """The largest value up to each place of the rows of ``x`` >= 0, int32 [B, T], where T is at most ``longest``. After
    step n, the value at a place is the maximum of 2^n values. LiteRT and ONNX have these operators."""
    for step in (2**n for n in range((longest - 1).bit_length())):
        x = tf.maximum(x, tf.pad(x, [[0, 0], [step, 0]])[:, : shape(x)[1]])
    return x


@made_from(SentenceGruConfig)
class SentenceGru(EncodingLayer):
    """Batch to `Encoding` of depth 1. ``pooled`` is the last state.

    The state does not change at padding and at special tokens except [UNK]. Dropout applies to embeddings.
    """

    causal = True
    recurrent = True
    depth = 1

    def __init__(self, config: SentenceGruConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.width, self.length = config.tokens.width, config.length

    @property
    def token_embedding(self) -> keras.Variable:
        """[V, D]."""
        return self.tokens.table

    def embed(self, tokens: tf.Tensor, seed: Any, salt: int) -> tf.Tensor:
        """Vectors [B, T, D] of ``tokens`` [B, T]."""
        return dropout(self.tokens(tokens), self.dropout, seed, salt)

    def states(self, tokens: tf.Tensor, fresh: tf.Tensor, seed: Any) -> tuple[tf.Tensor, tf.Tensor]:
        """Embeddings and states, [B, T, D] each. Where ``fresh`` bool [B, T] is true, the state begins anew."""
        words = self.embed(tokens, seed, 0)
        present = (tokens >= self.config.first) | (tokens == self.config.unknown)
        return words, over_rows(self.gru, words, fresh, present)

    def call(self, batch: dict[str, Any], seed: Any = None) -> Encoding:
        tokens = tf.convert_to_tensor(batch["tokens"])
        check_length(shape(tokens)[1], self.length, "encoder")
        words, states = self.states(tokens, tf.zeros_like(tokens, tf.bool), seed)
        return Encoding(tokens=states, pooled=states[:, -1], layers=(words, states))


def over_rows(gru: Any, x: tf.Tensor, fresh: tf.Tensor, present: tf.Tensor, condition: Any = None) -> tf.Tensor:
    """The states [B, T, D] of a `models.layers.recurrent.Gru` over x [B, T, D], with ``fresh`` and ``present`` bool
    [B, T], and with a ``condition`` [B, T, D] if it is conditioned."""
    fresh, present = (tf.transpose(mask)[:, :, None] for mask in (fresh, present))
    condition = None if condition is None else by_rows(condition)
    return by_rows(gru(by_rows(x), fresh, present, condition))
