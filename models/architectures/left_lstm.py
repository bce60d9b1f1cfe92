"""LSTM that reads from left to right: the network of LM-LSTM and SA-LSTM.

Source: Hochreiter and Schmidhuber (1997) with the forget gate of Gers et al. (2000), as Zaremba et al. (2014), section
3.1, write it. Per layer, from x [T, B, C']:

    [g i f o] = W x_t + U h_{t-1} + b         c_t = s(f) c_{t-1} + s(i) tanh(g)         h_t = s(o) tanh(c_t)

Dropout falls on what goes up, never on what goes on in time (section 3.2 there). W x + b of all steps is one product
before the loop, as in `models.architectures.lstm`, which tells what was measured; there is no projection here.
"""

from types import SimpleNamespace
from typing import Any

import keras
import tensorflow as tf

from ptmbench.models.architectures.lstm import remember
from ptmbench.models.architectures.parts import check_length, dense, dropout, shape
from ptmbench.models.card import Size
from ptmbench.models.pretrainable import Encoding

State = tuple[tf.Tensor, tf.Tensor]
"""h and c, [B, C] each."""


def cell(z: tf.Tensor, c: tf.Tensor) -> State:
    """One step: the sums ``z`` [B, 4 C] of the gates g, i, f, o and the cells ``c`` float32 [B, C] to (h, c)."""
    g, i, f, o = tf.split(tf.cast(z, tf.float32), 4, axis=-1)  # the cell adds up in float32
    c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
    return tf.cast(tf.sigmoid(o) * tf.tanh(c), z.dtype), c


def recur(inputs: tf.Tensor, recurrent: tf.Tensor, present: tf.Tensor | None = None) -> tuple[tf.Tensor, State]:
    """The part of an LSTM that has to go step by step, from states of zero: h [T, B, C], and the last state.

    ``inputs`` [T, B, 4 C] are W x + b of all steps; ``recurrent`` U [C, 4 C]. Where ``present`` bool [T, B, 1] is
    false, the state stays what it was.
    """
    steps, rows = shape(inputs)[:2]
    # A loop that reads variables is run, whoever needs it.
    recurrent = tf.convert_to_tensor(recurrent)
    cells = recurrent.shape[0]
    reader = tf.TensorArray(inputs.dtype, steps).unstack(inputs)
    writer = tf.TensorArray(inputs.dtype, steps, element_shape=[None, cells])
    holds = None if present is None else tf.TensorArray(tf.bool, steps).unstack(present)

    def step(t: tf.Tensor, h: tf.Tensor, c: tf.Tensor, outputs: tf.TensorArray) -> tuple:
        new_h, new_c = cell(reader.read(t) + tf.matmul(h, recurrent), c)
        if holds is not None:
            here = holds.read(t)
            new_h, new_c = tf.where(here, new_h, h), tf.where(here, new_c, c)
        return t + 1, new_h, new_c, outputs.write(t, new_h)

    start = (0, tf.zeros([rows, cells], inputs.dtype), tf.zeros([rows, cells]), writer)
    _, h, c, outputs = tf.while_loop(lambda t, *_: t < steps, step, start, maximum_iterations=steps)
    return outputs.stack(), (h, c)


class LeftLstm(keras.layers.Layer):
    """L layers of D cells over embeddings of width D: batch to `Encoding`.

    ``pooled`` is the state at the last token (Dai & Le, 2015, section 2). Networks of this kind have no longest input;
    ``length`` bounds the memory that an `Encoding` takes. ``dropout`` is read when a graph is traced. ``hidden``,
    ``begin`` and ``step`` are what `models.objectives.lm.CausalLm` asks for.
    """

    causal = True
    recurrent = True

    def __init__(self, size: Size, vocabulary: int, name: str = "encoder"):
        super().__init__(name=name)
        self.width, self.depth, self.length, self.dropout = size.width, size.layers, size.length, 0.1
        # Vectors large enough to move the gates: at D 32, a language of short sentences that count upwards has a loss
        # of 1.0 after 120 steps, and of 2.1 with a quarter of the deviation.
        start = keras.initializers.RandomNormal(stddev=4 * size.width**-0.5)
        self.token_embedding = self.add_weight((vocabulary, size.width), start, name="tokens")
        cells = self.cells(size)
        pairs = zip([size.width, *cells[:-1]], cells, strict=True)
        self.stack = [self._layer(f"layer_{index}", *pair) for index, pair in enumerate(pairs)]
        self.built = True

    @staticmethod
    def cells(size: Size) -> list[int]:
        """How many cells each layer has; the last one as many as a token's vector is wide, the output layer."""
        return [size.width] * size.layers

    def _layer(self, name: str, width: int, cells: int) -> SimpleNamespace:
        return SimpleNamespace(
            input=self.add_weight((width, 4 * cells), "glorot_uniform", name=f"{name}_input"),
            bias=self.add_weight((4 * cells,), remember, name=f"{name}_bias"),
            recurrent=self.add_weight((cells, 4 * cells), "glorot_uniform", name=f"{name}_recurrent"),
        )

    def run(self, tokens: tf.Tensor, seed: Any, present: tf.Tensor | None) -> tuple[list[tf.Tensor], list[State]]:
        """The L + 1 tensors [T, B, C] for ``tokens`` [T, B], embeddings and each layer, and the layers' last states."""
        layers, states = [tf.gather(self.token_embedding.value, tokens)], []  # [T, B, D]
        for index, layer in enumerate(self.stack):
            new, state = over(dropout(layers[-1], self.dropout, seed, index), layer, layer.recurrent.value, present)
            layers.append(new)
            states.append(state)
        layers[-1] = dropout(layers[-1], self.dropout, seed, len(self.stack))
        return layers, states

    def hidden(
        self, tokens: tf.Tensor, seed: Any = None, gaps: bool = False, documents: tf.Tensor | None = None
    ) -> list[tf.Tensor]:
        """The layers [B * T, C] for ``tokens`` [B, T]. With ``gaps`` there may be padding between tokens, over which
        the state is carried. What ``documents`` a row has does not matter: a text goes on where another ended."""
        present = tf.not_equal(tf.transpose(tokens), 0)[:, :, None] if gaps else None
        layers, _ = self.run(tf.transpose(tokens), seed, present)
        return [tf.reshape(tf.transpose(x, [1, 0, 2]), [-1, x.shape[-1]]) for x in layers]

    def begin(self, tokens: tf.Tensor) -> tuple[Any, Any]:
        """The states after ``tokens`` [B, T], and the states of no column as the past (see
        `models.pretrainable.Writer`)."""
        _, states = self.run(tf.transpose(tokens), None, tf.not_equal(tf.transpose(tokens), 0)[:, :, None])
        return states, tf.nest.map_structure(lambda x: x[:, None, None][:, :, :0], states)  # [B, 1, 0, C]

    def step(self, memory: Any, past: Any, written: tf.Tensor, seen: tf.Tensor) -> tuple[tf.Tensor, Any]:
        """Vectors [B * K, D] after ``written`` [B, K, S], and ``past`` with this step's states (see
        `models.pretrainable.Writer`). What a hypothesis goes on from is the last column that it has seen."""
        batch, beam, _ = shape(written)
        before = seen[:, :, :-beam]  # [B, K, U]
        numbers = tf.range(1, tf.shape(before)[2] + 1)
        parent = tf.maximum(tf.reduce_max(tf.where(before, numbers, 0), axis=2), 0)  # [B, K]; 0: none but the source
        x = tf.reshape(tf.gather(self.token_embedding.value, written[:, :, -1]), [-1, self.width])  # [B * K, D]
        grown = []
        for layer, source, states in zip(self.stack, memory, past, strict=True):
            h, c = (
                tf.reshape(
                    tf.gather(tf.concat([first[:, None], columns[:, 0]], axis=1), parent, batch_dims=1),
                    [batch * beam, first.shape[-1]],
                )
                for first, columns in zip(source, states, strict=True)
            )
            x, c = cell(dense(x, layer.input, layer.bias) + tf.matmul(h, layer.recurrent), c)  # [B * K, C]
            new = (tf.reshape(value, [batch, 1, beam, value.shape[-1]]) for value in (x, c))
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


def over(x: tf.Tensor, layer: SimpleNamespace, recurrent: tf.Tensor, present: tf.Tensor | None) -> tuple[Any, State]:
    """One layer over x [T, B, C'], with ``recurrent`` for its matrix U: as `recur`."""
    steps, rows, width = shape(x)
    inputs = dense(tf.reshape(x, [-1, width]), layer.input, layer.bias)  # [T * B, 4C]
    return recur(tf.reshape(inputs, [steps, rows, inputs.shape[-1]]), recurrent, present)
