"""A translator made of LSTMs: the encoder whose states are CoVe, and the decoder that makes it learn them.

Source: McCann et al. (2017), sections 3 and 4, after Luong et al. (2015) and the input feeding there (section 3.3).
With the cell of `models.architectures.left_lstm`, word vectors e of width E, layers of C = E / 2 cells in each
direction in the encoder, which gives H [T, 2 C], and of 2 C in the decoder:

    h_t  = LSTM([e(y_{t-1}); a_{t-1}], h_{t-1})                      a_t = tanh(W_2 [H^T w_t; h_t] + b_2)
    w_t  = softmax(H (W_1 h_t + b_1))                                p(y_t) = softmax(E a_t + b)

a is what the decoder knows after it has looked at the source, and what it goes on with. The decoder begins with states
of zero: it learns of the source from H alone. One table of word vectors serves source, target and output here, where
the paper has GloVe's for the source and learns others for the target.

A row may hold several texts, each of which begins with [CLS]: no state and no look goes from one into another. So the
training rows of `models.objectives.translation` and single texts are read in the same way.
"""

from types import SimpleNamespace
from typing import Any

import keras
import tensorflow as tf

from ptmbench.models.architectures.left_lstm import State, cell
from ptmbench.models.architectures.lstm import remember
from ptmbench.models.architectures.parts import HIDDEN, attention, check_length, dense, dropout, shape
from ptmbench.models.architectures.products import product
from ptmbench.models.card import Size
from ptmbench.models.pretrainable import Encoding


def recur(inputs: tf.Tensor, recurrent: tf.Tensor, fresh: tf.Tensor) -> tf.Tensor:
    """The part of a layer that has to go step by step: h [T, B, C] of ``inputs`` [T, B, 4 C], which are W x + b of all
    steps, and ``recurrent`` U [C, 4 C]. Before a step that is ``fresh`` bool [T, B, 1] the state is zero."""
    steps, rows = shape(inputs)[:2]
    # A loop that reads variables is run, whoever needs it.
    recurrent = tf.convert_to_tensor(recurrent)
    cells = recurrent.shape[0]
    reader = tf.TensorArray(inputs.dtype, steps).unstack(inputs)
    begins = tf.TensorArray(tf.bool, steps).unstack(fresh)
    writer = tf.TensorArray(inputs.dtype, steps, element_shape=[None, cells])

    def step(t: tf.Tensor, h: tf.Tensor, c: tf.Tensor, outputs: tf.TensorArray) -> tuple:
        h, c = _kept((h, c), begins.read(t))
        h, c = cell(reader.read(t) + tf.matmul(h, recurrent), c)
        return t + 1, h, c, outputs.write(t, h)

    start = (0, tf.zeros([rows, cells], inputs.dtype), tf.zeros([rows, cells]), writer)
    *_, outputs = tf.while_loop(lambda t, *_: t < steps, step, start, maximum_iterations=steps)
    return outputs.stack()


def _kept(states: tuple, begins: tf.Tensor) -> list[tf.Tensor]:
    """``states`` [B, C], zero in the rows where a text ``begins``, bool [B, 1]."""
    return [tf.where(begins, tf.zeros_like(state), state) for state in states]


def _layer(owner: keras.layers.Layer, name: str, width: int, cells: int) -> SimpleNamespace:
    return SimpleNamespace(
        input=owner.add_weight((width, 4 * cells), "glorot_uniform", name=f"{name}_input"),
        bias=owner.add_weight((4 * cells,), remember, name=f"{name}_bias"),
        recurrent=owner.add_weight((cells, 4 * cells), "glorot_uniform", name=f"{name}_recurrent"),
    )


class Encoder(keras.layers.Layer):
    """L layers in both directions, each over the states of both: batch to `Encoding`.

    Word vectors have E = D / 2 columns, a direction C = D / 4 cells. ``layers`` are [e; e], then [e; h] of each layer:
    the last one is [word vector; CoVe], which is what the paper's tasks read (section 4). ``pooled`` is its maximum
    over the tokens. Networks of this kind have no longest input; ``length`` bounds memory. ``dropout`` is read when a
    graph is traced.
    """

    causal = False
    recurrent = True

    def __init__(self, size: Size, vocabulary: int, cls: int, name: str = "encoder"):
        super().__init__(name=name)
        if size.width % 4:
            raise ValueError(
                f"This encoder needs a width that 4 divides, not {size.width}: half of it are word vectors."
            )
        self.width, self.depth, self.length, self.dropout = size.width, size.layers, size.length, 0.1
        self.words, self.cells, self.cls = size.width // 2, size.width // 4, cls
        start = keras.initializers.RandomNormal(stddev=2 * self.words**-0.5)
        self.token_embedding = self.add_weight((vocabulary, self.words), start, name="tokens")
        self.stack = [
            tuple(_layer(self, f"layer_{index}_{way}", self.words, self.cells) for way in ("forward", "backward"))
            for index in range(size.layers)
        ]
        self.built = True

    def call(self, batch: dict[str, Any], seed: Any = None) -> Encoding:
        tokens = tf.convert_to_tensor(batch["tokens"])
        check_length(shape(tokens)[1], self.length, "encoder")
        embedded = tf.gather(self.token_embedding.value, tokens)  # [B, T, E]
        states = [embedded]
        for index, ways in enumerate(self.stack):
            states.append(self._both(dropout(states[-1], self.dropout, seed, index), ways, tokens))
        states[-1] = dropout(states[-1], self.dropout, seed, self.depth)
        layers = tuple(tf.concat([embedded, x], axis=-1) for x in states)  # [B, T, D]
        hidden = tf.where(tf.equal(tokens, 0), HIDDEN, 0.0)[:, :, None]  # [B, T, 1]
        pooled = tf.reduce_max(layers[-1] + tf.cast(hidden, layers[-1].dtype), axis=1)
        return Encoding(tokens=layers[-1], pooled=pooled, layers=layers)

    def _both(self, x: tf.Tensor, ways: tuple, tokens: tf.Tensor) -> tf.Tensor:
        """Both directions of a layer over x [B, T, E], [B, T, 2 C]. Going back, a text begins behind the [CLS] of the
        next one."""
        lengths = tf.math.count_nonzero(tokens, axis=1, dtype=tf.int32)  # [B]
        begins = tf.equal(tokens, self.cls)
        ends = tf.roll(begins, -1, axis=1)
        ahead = self._way(x, ways[0], begins)
        back = self._way(_turned(x, lengths), ways[1], _turned(ends, lengths))
        return tf.concat([ahead, _turned(back, lengths)], axis=2)

    def _way(self, x: tf.Tensor, way: SimpleNamespace, fresh: tf.Tensor) -> tf.Tensor:
        rows, steps, width = shape(x)
        x = tf.reshape(tf.transpose(x, [1, 0, 2]), [-1, width])
        inputs = tf.reshape(dense(x, way.input, way.bias), [steps, rows, 4 * self.cells])
        states = recur(inputs, way.recurrent.value, tf.transpose(fresh)[:, :, None])
        return tf.transpose(states, [1, 0, 2])  # [B, T, C]


def _turned(x: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """``x`` [B, T, ...], each row reversed up to its own length."""
    return tf.reverse_sequence(x, lengths, seq_axis=1, batch_axis=0)


class Decoder(keras.layers.Layer):
    """Next-token logits over what ``encoder`` gives: L layers of 2 C cells with attention to its states."""

    def __init__(self, size: Size, encoder: Encoder, name: str = "decoder"):
        super().__init__(name=name)
        self.encoder, self.width = encoder, encoder.words
        W, add = encoder.words, self.add_weight
        self.stack = [_layer(self, f"layer_{index}", W if index else 2 * W, W) for index in range(size.layers)]
        self.query_kernel = add((W, W), "glorot_uniform", name="query_kernel")
        self.query_bias = add((W,), "zeros", name="query_bias")
        self.joint_kernel = add((2 * W, W), "glorot_uniform", name="joint_kernel")
        self.joint_bias = add((W,), "zeros", name="joint_bias")
        self.output_bias = add((encoder.token_embedding.shape[0],), "zeros", name="output_bias")
        self.built = True

    def call(self, targets: tf.Tensor, memory: tf.Tensor, tokens: tf.Tensor, seed: Any = None) -> tf.Tensor:
        """Logits [B, S, V] after each of ``targets`` [B, S], given ``memory`` [B, T, D], the encoding of ``tokens``
        [B, T]. Places for dropout are numbered from 1000."""
        (rows, steps), rate = shape(targets), self.encoder.dropout
        first = self.stack[0]
        x = dropout(self._embedded(targets), rate, seed, 1000)  # [B, S, E]
        spoken = product(tf.reshape(tf.transpose(x, [1, 0, 2]), [-1, self.width]), first.input[: self.width])
        inputs = tf.nn.bias_add(spoken, first.bias)  # [S * B, 8 C]: all of a step that does not wait for the one before
        begins = tf.transpose(tf.equal(targets, self.encoder.cls))[:, :, None]  # [S, B, 1]
        bias = _own_text(tokens, targets, self.encoder.cls)  # [S, B, 1, 1, T]
        masks = [tf.ones([steps, rows, self.width], x.dtype) for _ in self.stack]
        masks = tf.stack([dropout(m, rate, seed, 1001 + i) for i, m in enumerate(masks)], axis=1)  # [S, L, B, 2 C]
        arrays = (tf.reshape(inputs, [steps, rows, 4 * self.width]), begins, bias, masks)
        readers = [tf.TensorArray(value.dtype, steps).unstack(value) for value in arrays]
        writer = tf.TensorArray(x.dtype, steps, element_shape=[None, self.width])
        keys = self._keys(memory)

        def step(t: tf.Tensor, states: list[State], a: tf.Tensor, outputs: tf.TensorArray) -> tuple:
            z, begin, near, kept = (reader.read(t) for reader in readers)
            (a,) = _kept((a,), begin)
            states = [tuple(_kept(state, begin)) for state in states]
            a, states = self._step(z, states, a, keys, near, tf.unstack(kept, len(self.stack)))
            return t + 1, states, a, outputs.write(t, a)

        start = (0, [self._none([rows], x.dtype) for _ in self.stack], tf.zeros([rows, self.width], x.dtype), writer)
        *_, outputs = tf.while_loop(lambda t, *_: t < steps, step, start, maximum_iterations=steps)
        a = tf.reshape(tf.transpose(outputs.stack(), [1, 0, 2]), [-1, self.width])  # [B * S, 2 C]
        logits = self._logits(dropout(a, rate, seed, 1100))
        return tf.reshape(logits, [rows, steps, logits.shape[-1]])

    def _embedded(self, tokens: tf.Tensor) -> tf.Tensor:
        return tf.gather(self.encoder.token_embedding.value, tokens)

    def _keys(self, memory: tf.Tensor) -> tf.Tensor:
        """H as the keys and values of one head, [B, 1, T, 2 C]."""
        return memory[:, None, :, self.width :]

    def _none(self, dims: list[Any], dtype: Any) -> State:
        """States of zero; the cells are float32."""
        return tf.zeros([*dims, self.width], dtype), tf.zeros([*dims, self.width])

    def _step(
        self, z: tf.Tensor, states: list[State], a: tf.Tensor, keys: tf.Tensor, bias: tf.Tensor, masks: list[Any] | None
    ) -> tuple[tf.Tensor, list[State]]:
        """a and the states of a step, for N = B * K hypotheses. ``z`` [N, 8 C] is what the last token gives to the
        first layer, ``a`` [N, 2 C] what was said before; ``masks`` fall on what goes up."""
        grown, x = [], a
        for index, (layer, (h, c)) in enumerate(zip(self.stack, states, strict=True)):
            own = z + tf.matmul(x, layer.input[self.width :]) if not index else dense(x, layer.input, layer.bias)
            h, c = cell(own + tf.matmul(h, layer.recurrent), c)
            x = h if masks is None else h * masks[index]
            grown.append((h, c))
        query = dense(x, self.query_kernel, self.query_bias)
        rows = shape(keys)[0]
        context = attention(tf.reshape(query, [rows, 1, -1, self.width]), keys, keys, bias, 0.0, None, 0)  # [N, 2 C]
        return tf.tanh(dense(tf.concat([context, x], axis=1), self.joint_kernel, self.joint_bias)), grown

    def _logits(self, a: tf.Tensor) -> tf.Tensor:
        """[N, 2 C] to [N, V]."""
        return tf.nn.bias_add(product(a, self.encoder.token_embedding, transposed=True), self.output_bias)

    def begin(self, memory: tf.Tensor, tokens: tf.Tensor) -> tuple[Any, Any]:
        """What `step` looks at in ``memory`` [B, T, D], the encoding of ``tokens`` [B, T], each row one text; and a
        past without a column (see `models.pretrainable.Writer`): h and c of each layer, and a."""
        rows, keys = shape(tokens)[0], self._keys(memory)
        past = [self._none([rows, 1, 0], keys.dtype) for _ in self.stack]
        return (tf.where(tf.equal(tokens, 0), HIDDEN, 0.0)[:, None, None], keys), (past, past[0][0])

    def step(self, memory: Any, past: Any, written: tf.Tensor, seen: tf.Tensor) -> tuple[tf.Tensor, Any]:
        """Logits [B, K, V] after ``written`` [B, K, S], and ``past`` with this step's states (see
        `models.pretrainable.Writer`). What a hypothesis goes on from is the last column that it has seen."""
        batch, beam, _ = shape(written)
        before = seen[:, :, :-beam]  # [B, K, U]
        numbers = tf.range(1, tf.shape(before)[2] + 1)
        parent = tf.maximum(tf.reduce_max(tf.where(before, numbers, 0), axis=2), 0)  # [B, K]; 0: nothing yet

        def last(columns: tf.Tensor) -> tf.Tensor:
            values = tf.pad(columns[:, 0], [[0, 0], [1, 0], [0, 0]])  # [B, 1 + U, 2 C], of zero in front
            return tf.reshape(tf.gather(values, parent, batch_dims=1), [batch * beam, self.width])

        def longer(columns: tf.Tensor, new: tf.Tensor) -> tf.Tensor:
            return tf.concat([columns, tf.reshape(new, [batch, 1, beam, self.width])], axis=2)

        (bias, keys), (states, a), first = memory, past, self.stack[0]
        x = tf.reshape(self._embedded(written[:, :, -1]), [-1, self.width])  # [B * K, E]
        z = dense(x, first.input[: self.width], first.bias)
        said, grown = self._step(z, [(last(h), last(c)) for h, c in states], last(a), keys, bias, None)
        grown = [tuple(map(longer, old, new)) for old, new in zip(states, grown, strict=True)]
        logits = self._logits(said)
        return tf.reshape(logits, [batch, beam, logits.shape[-1]]), (grown, longer(a, said))


def _own_text(tokens: tf.Tensor, targets: tf.Tensor, cls: int) -> tf.Tensor:
    """[S, B, 1, 1, T]: hides from each of ``targets`` [B, S] the ``tokens`` [B, T] that are of another text of the row,
    by the number of [CLS] up to them, and padding."""
    theirs = tf.where(tf.equal(tokens, 0), -1, tf.cumsum(tf.cast(tf.equal(tokens, cls), tf.int32), axis=1))
    ours = tf.cumsum(tf.cast(tf.equal(targets, cls), tf.int32), axis=1)  # [B, S]
    same = tf.equal(tf.transpose(ours)[:, :, None], theirs[None])  # [S, B, T]
    return tf.where(same, 0.0, HIDDEN)[:, :, None, None]
