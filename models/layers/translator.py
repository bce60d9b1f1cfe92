"""An encoder and a decoder of LSTMs over rows that may hold several texts: a translator (McCann et al., 2017).

Each text of a row begins with [CLS]. Neither states nor attention go from one text into another, so the training rows
of `models.objectives.translation` and single texts are read in the same way. With word vectors e of width E, the
encoder has layers of C = E / 2 cells in each direction and returns H [T, 2 C]. The decoder's layers have 2 C cells:

    h_t  = LSTM([e(y_{t-1}); a_{t-1}], h_{t-1})                      a_t = tanh(W_2 [H^T w_t; h_t] + b_2)
    w_t  = softmax(H (W_1 h_t + b_1))                                p(y_t) = softmax(E a_t + b)

a is the decoder's vector after attention to the source, and an input of the next step. The decoder begins with states
of zero: it reads the source through H alone.
"""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from ptmbench.models.layers.core import Drop, Layer, built, made_from
from ptmbench.models.layers.encoding import EncodingLayer, largest
from ptmbench.models.layers.operations import HIDDEN, attention, check_length, dropout, shape
from ptmbench.models.layers.products import product
from ptmbench.models.layers.recurrent import State, loop, reset_at_beginnings
from ptmbench.models.layers.recurrent_config import AttendingConfig, TextsEncoderConfig
from ptmbench.models.layers.recurrent_networks import by_rows, parents
from ptmbench.models.pretrainable import Encoding

__all__ = ["Attending", "TextsEncoder", "built"]


@made_from(TextsEncoderConfig)
class TextsEncoder(EncodingLayer):
    """Batch to `Encoding`. ``layers`` are [e; e], then [e; h] of each layer: the last one is [word vector; CoVe], which
    is what the paper's tasks read (section 4). ``pooled`` is the maximum of the last layer over the tokens."""

    recurrent = True

    def __init__(self, config: TextsEncoderConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.words, self.cls = config.tokens.width, config.cls
        self.width, self.depth, self.length = 2 * self.words, len(config.stack.layers), config.length

    @property
    def token_embedding(self) -> keras.Variable:
        """[V, E]."""
        return self.tokens.table

    def call(self, batch: dict[str, Any], seed: Any = None) -> Encoding:
        tokens = tf.convert_to_tensor(batch["tokens"])
        check_length(shape(tokens)[1], self.length, "encoder")
        lengths = tf.math.count_nonzero(tokens, axis=1, dtype=tf.int32)  # [B]
        begins, drop = tf.transpose(tf.equal(tokens, self.cls)), Drop(self.dropout, seed, 0)
        states = [self.tokens(tokens)]  # [B, T, E]
        for index, layer in enumerate(self.stack):
            new = by_rows(layer(by_rows(drop(states[-1], index)), lengths=lengths, begins=begins))
            states.append(self.stack.through("between", new, index=index))
        states[-1] = drop(states[-1], self.depth)
        layers = tuple(tf.concat([states[0], x], axis=-1) for x in states)  # [B, T, D]
        return Encoding(tokens=layers[-1], pooled=largest(layers[-1], tokens), layers=layers)


@made_from(AttendingConfig)
class Attending(Layer):
    """Next-token logits over the output of ``encoder``. Token vectors and dropout are the encoder's.

    The loop over targets reads the kernels of its products once before it begins (`models.layers.recurrent.Kernel`).
    """

    OTHERS = ("encoder",)

    def __init__(self, config: AttendingConfig, encoder: TextsEncoder, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.encoder, self.width = encoder, config.width
        self.members = [getattr(self, f"layer_{index}") for index in range(config.depth)]

    def call(self, targets: tf.Tensor, memory: tf.Tensor, tokens: tf.Tensor, seed: Any = None) -> tf.Tensor:
        """Logits [B, S, V] after each of ``targets`` [B, S], given ``memory`` [B, T, D], the encoding of ``tokens``
        [B, T]. Dropout places are numbered from 1000."""
        (rows, steps), rate = shape(targets), self.encoder.dropout
        x = dropout(self.encoder.tokens(targets), rate, seed, 1000)  # [B, S, E]
        # [S, B, 8 C]: the part of each step that does not depend on the step before
        token_gates = tf.reshape(
            self._token_gates(tf.reshape(by_rows(x), [-1, self.width])), [steps, rows, 4 * self.width]
        )
        begins = tf.transpose(tf.equal(targets, self.encoder.cls))[:, :, None]  # [S, B, 1]
        bias = own_text_bias(tokens, targets, self.encoder.cls)  # [S, B, 1, 1, T]
        masks = [tf.ones([steps, rows, self.width], x.dtype) for _ in self.members]
        masks = tf.stack([dropout(m, rate, seed, 1001 + i) for i, m in enumerate(masks)], axis=1)  # [S, L, B, 2 C]
        turn = self._turn(self._keys(memory))

        def step(states: Any, z: tf.Tensor, begin: tf.Tensor, near: tf.Tensor, masked: tf.Tensor) -> tuple:
            states, a = reset_at_beginnings(states, begin)
            a, states = turn(z, states, a, near, tf.unstack(masked, len(self.members)))
            return a, (states, a)

        begin = [layer.begin([rows], x.dtype) for layer in self.members]
        start = (begin, tf.zeros([rows, self.width], x.dtype))
        outputs, _ = loop(step, [token_gates, begins, bias, masks], start, self.width, x.dtype)
        a = tf.reshape(by_rows(outputs), [-1, self.width])  # [B * S, 2 C]
        logits = self._logits(dropout(a, rate, seed, 1100))
        return tf.reshape(logits, [rows, steps, logits.shape[-1]])

    def _keys(self, memory: tf.Tensor) -> tf.Tensor:
        """H as the keys and values of one head, [B, 1, T, 2 C]."""
        return memory[:, None, :, self.width :]

    def _token_gates(self, x: tf.Tensor) -> tf.Tensor:
        """The part of the first layer's gates that is computed from the last token x [N, E]: [N, 8 C]."""
        gates = self.layer_0.gates
        return tf.nn.bias_add(product(x, gates.whole()[: self.width]), gates.bias)

    def _turn(self, keys: tf.Tensor) -> Callable:
        """Returns a function that computes a and the states of a step, for N = B * K hypotheses. The kernels are read
        here."""
        cells = [(layer.gates.whole(), layer.recurrent.whole(), layer.turn()) for layer in self.members]
        biases = [tf.convert_to_tensor(layer.gates.bias) for layer in self.members]
        query, joint = ((part.whole(), tf.convert_to_tensor(part.bias)) for part in (self.query, self.joint))
        rows = shape(keys)[0]

        def turn(
            z: tf.Tensor, states: list[State], a: tf.Tensor, bias: tf.Tensor, masks: list[Any] | None
        ) -> tuple[tf.Tensor, list[State]]:
            """``z`` [N, 8 C] is the last token's part of the first layer's gates, and ``a`` [N, 2 C] the a of the step
            before. ``masks`` apply to the outputs of the layers."""
            grown, x = [], a
            for index, ((gates, recurrent, after), (h, c)) in enumerate(zip(cells, states, strict=True)):
                if index:
                    own = tf.nn.bias_add(product(x, gates), biases[index])
                else:
                    own = z + tf.matmul(x, gates[self.width :])
                h, c = after(own + tf.matmul(h, recurrent), c)
                x = h if masks is None else h * masks[index]
                grown.append((h, c))
            asked = tf.nn.bias_add(product(x, query[0]), query[1])
            context = attention(
                tf.reshape(asked, [rows, 1, -1, self.width]), keys, keys, bias, 0.0, None, 0
            )  # [N, 2 C]
            both = tf.concat([context, x], axis=1)
            return tf.tanh(tf.nn.bias_add(product(both, joint[0]), joint[1])), grown

        return turn

    def _logits(self, a: tf.Tensor) -> tf.Tensor:
        """[N, 2 C] to [N, V]."""
        return tf.nn.bias_add(product(a, self.encoder.token_embedding, transposed=True), self.output_bias)

    def begin(self, memory: tf.Tensor, tokens: tf.Tensor) -> tuple[Any, Any]:
        """The mask and the keys that `step` needs for ``memory`` [B, T, D], the encoding of ``tokens`` [B, T], each row
        one text; and a past without a column (see `models.pretrainable.Writer`): h and c of each layer, and a."""
        rows, keys = shape(tokens)[0], self._keys(memory)
        past = [layer.begin([rows, 1, 0], keys.dtype) for layer in self.members]
        return (tf.where(tf.equal(tokens, 0), HIDDEN, 0.0)[:, None, None], keys), (past, past[0][0])

    def step(self, memory: Any, past: Any, written: tf.Tensor, seen: tf.Tensor) -> tuple[tf.Tensor, Any]:
        """Logits [B, K, V] after ``written`` [B, K, S], and ``past`` with this step's states (see
        `models.pretrainable.Writer`). A hypothesis continues from the last column that it has seen."""
        batch, beam, _ = shape(written)
        parent = parents(seen, beam)  # [B, K]; 0: nothing yet

        def last(columns: tf.Tensor) -> tf.Tensor:
            values = tf.pad(columns[:, 0], [[0, 0], [1, 0], [0, 0]])  # [B, 1 + U, 2 C], zeros first
            return tf.reshape(tf.gather(values, parent, batch_dims=1), [batch * beam, self.width])

        def longer(columns: tf.Tensor, new: tf.Tensor) -> tf.Tensor:
            return tf.concat([columns, tf.reshape(new, [batch, 1, beam, self.width])], axis=2)

        (bias, keys), (states, a) = memory, past
        token_gates = self._token_gates(
            tf.reshape(self.encoder.tokens(written[:, :, -1]), [-1, self.width])
        )  # [B * K, 8 C]
        said, grown = self._turn(keys)(token_gates, [(last(h), last(c)) for h, c in states], last(a), bias, None)
        grown = [tuple(map(longer, old, new)) for old, new in zip(states, grown, strict=True)]
        logits = self._logits(said)
        return tf.reshape(logits, [batch, beam, logits.shape[-1]]), (grown, longer(a, said))


def own_text_bias(tokens: tf.Tensor, targets: tf.Tensor, cls: int) -> tf.Tensor:
    """The bias [S, B, 1, 1, T] that masks for each of ``targets`` [B, S] the padding and the ``tokens`` [B, T] of other
    texts of the row. Texts are numbered by counting [CLS]."""
    theirs = tf.where(tf.equal(tokens, 0), -1, tf.cumsum(tf.cast(tf.equal(tokens, cls), tf.int32), axis=1))
    ours = tf.cumsum(tf.cast(tf.equal(targets, cls), tf.int32), axis=1)  # [B, S]
    same = tf.equal(tf.transpose(ours)[:, :, None], theirs[None])  # [S, B, T]
    return tf.where(same, 0.0, HIDDEN)[:, :, None, None]
