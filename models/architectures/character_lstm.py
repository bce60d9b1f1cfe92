"""Bidirectional LSTM with projection over words that are read letter by letter: the network of ELMo, whole.

Source: Peters et al. (2018), section 3.4, after Jozefowicz et al. (2016). A word's vector is made from its letters as
Kim et al. (2016), sections 2.2 and 2.3, have it: filters of widths w = 1 ... 7 over the vectors of its letters, of each
filter the largest value, two highway layers, a projection:

    y_f = relu(max_p sum_{k < w} F_f,k . z_{p+k} + b_f)
    y   = s(G y + b_G) * relu(H y + b_H) + (1 - s(G y + b_G)) * y          twice
    x   = P y + b_P

Above stand L layers in each direction as in `models.architectures.lstm`; what is new is that cells and projections are
held within 3, as in the authors' code:

    c_t = clip(s(f) c_{t-1} + s(i) tanh(g))         h_t = clip(R (s(o) tanh(c_t)))

A word is 50 symbols: the bytes of its UTF-8 form between two marks, then padding, which filters see like any other
symbol. Special tokens are one symbol each between the marks. What a vocabulary of pieces cuts off a word is spelled
without the mark of a beginning; what one of words does not know is [UNK], whatever its letters.

Of one step of 1024 words at D 256 on one thread the filters take 0.39 s as convolutions, and 0.62 s as products with
copied windows.
"""

from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptmbench.models.architectures.lstm import remember
from ptmbench.models.architectures.parts import HIDDEN, check_length, dense, dropout, shape
from ptmbench.models.card import Size
from ptmbench.models.pretrainable import Encoding
from ptmbench.models.tokenizers import Vocabulary

LETTERS, LETTER_WIDTH = 50, 16
"""Symbols of a word, and the width of a symbol's vector, in every size."""
CLIP = 3.0


def symbols(vocabulary: Vocabulary) -> np.ndarray:
    """The symbols of every word, int32 [V, 50]: bytes, one for each special token, then the marks of beginning and end
    and the padding. Where only the number of words is known, they are spelled by their ids."""
    begin = 256 + vocabulary.first
    end, padding = begin + 1, begin + 2
    pieces = vocabulary.pieces or [str(number) for number in range(vocabulary.size)]
    longer = [piece for piece in pieces[vocabulary.first :] if len(piece) > 1]
    marker = next((mark for mark in "▁Ġ" if sum(piece.startswith(mark) for piece in longer) > len(longer) / 10), None)
    table = np.full((vocabulary.size, LETTERS), padding, np.int32)
    for number, piece in enumerate(pieces):
        opens = piece.startswith(marker or "##") == bool(marker)
        inner = list(piece.removeprefix(marker or "##").encode())
        if number < vocabulary.first:
            inner, opens = [256 + number], True
        spelled = [*([begin] if opens else []), *inner[: LETTERS - 2], end]
        table[number, : len(spelled)] = spelled
    return table


def recur(inputs: tf.Tensor, recurrent: tf.Tensor, project: tf.Tensor) -> tf.Tensor:
    """As `models.architectures.lstm.recur`, with cells and projections held within `CLIP`."""
    steps, rows = shape(inputs)[:2]
    # A loop that reads variables is run, whoever needs it.
    recurrent, project = map(tf.convert_to_tensor, (recurrent, project))
    cells, width = project.shape
    reader = tf.TensorArray(inputs.dtype, steps).unstack(inputs)
    writer = tf.TensorArray(inputs.dtype, steps, element_shape=[None, width])

    def step(t, h, c, outputs):
        z = tf.cast(reader.read(t) + tf.matmul(h, recurrent), tf.float32)  # [B, 4C]; the cell adds up in float32
        g, i, f, o = tf.split(z, 4, axis=1)
        c = tf.clip_by_value(tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g), -CLIP, CLIP)  # [B, C]
        h = tf.matmul(tf.cast(tf.sigmoid(o) * tf.tanh(c), inputs.dtype), project)
        h = tf.clip_by_value(h, -CLIP, CLIP)  # [B, P]
        return t + 1, h, c, outputs.write(t, h)

    start = (0, tf.zeros([rows, width], inputs.dtype), tf.zeros([rows, cells]), writer)
    *_, outputs = tf.while_loop(lambda t, *_: t < steps, step, start, maximum_iterations=steps)
    return outputs.stack()


class CharacterLstm(keras.layers.Layer):
    """L layers in both directions over spelled words: batch to `Encoding`. ``filters`` are pairs of a width and of how
    many have it.

    ``Encoding.layers`` are [x; x], then [forward; backward] of each layer; ``pooled`` is the maximum over the tokens of
    the last one. Networks of this kind have no longest input; ``length`` bounds memory. ``dropout`` is read when a
    graph is traced.
    """

    causal = False
    recurrent = True

    def __init__(self, size: Size, vocabulary: Vocabulary, filters: list[tuple[int, int]], name: str = "encoder"):
        super().__init__(name=name)
        if size.width % 2:
            raise ValueError(
                f"A bidirectional LSTM needs an even width, not {size.width}: each direction has half of it."
            )
        self.width, self.depth, self.length, self.dropout = size.width, size.layers, size.length, 0.1
        self.state, self.cells = size.width // 2, size.inner
        self._symbols = symbols(vocabulary)  # [V, 50]
        count = 256 + vocabulary.first + 3
        self.letters = self.add_weight((count, LETTER_WIDTH), keras.initializers.RandomUniform(-1, 1), name="letters")
        self.filters = [
            SimpleNamespace(
                kernel=self.add_weight((wide, LETTER_WIDTH, number), "glorot_uniform", name=f"filter_{wide}"),
                bias=self.add_weight((number,), "zeros", name=f"filter_{wide}_bias"),
            )
            for wide, number in filters
        ]
        found = sum(number for _, number in filters)
        self.highways = [
            SimpleNamespace(
                kernel=self.add_weight((found, 2 * found), "glorot_uniform", name=f"highway_{index}"),
                bias=self.add_weight((2 * found,), carry, name=f"highway_{index}_bias"),
            )
            for index in range(2)
        ]
        self.project = self.add_weight((found, self.state), "glorot_uniform", name="project")
        self.project_bias = self.add_weight((self.state,), "zeros", name="project_bias")
        self.forward_layers = [self._direction(f"layer_{index}_forward") for index in range(size.layers)]
        self.backward_layers = [self._direction(f"layer_{index}_backward") for index in range(size.layers)]
        self.built = True

    def _direction(self, name: str) -> SimpleNamespace:
        width, cells = self.state, self.cells

        def weight(part: str, *dims: int, start: Any = "glorot_uniform") -> keras.Variable:
            return self.add_weight(dims, start, name=f"{name}_{part}")

        return SimpleNamespace(
            input=weight("input", width, 4 * cells),
            bias=weight("bias", 4 * cells, start=remember),
            recurrent=weight("recurrent", width, 4 * cells),
            project=weight("project", cells, width),
        )

    def spelled(self, tokens: tf.Tensor) -> tf.Tensor:
        """The vectors x [T, B, P] of ``tokens`` [B, T], from their letters."""
        rows, steps = shape(tokens)
        check_length(steps, self.length, "encoder")
        letters = tf.gather(self._symbols, tf.reshape(tf.transpose(tokens), [-1]))  # [T * B, 50]
        z = tf.gather(self.letters.value, letters)  # [T * B, 50, 16]
        found = [
            tf.reduce_max(tf.nn.conv1d(z, tf.convert_to_tensor(f.kernel), 1, "VALID"), axis=1) + f.bias
            for f in self.filters
        ]
        y = tf.nn.relu(tf.concat(found, axis=1))  # [T * B, F]
        for layer in self.highways:
            gate, new = tf.split(dense(y, layer.kernel, layer.bias), 2, axis=1)
            gate = tf.sigmoid(gate)
            y = gate * tf.nn.relu(new) + (1.0 - gate) * y
        return tf.reshape(dense(y, self.project, self.project_bias), [steps, rows, self.state])

    def forward(self, tokens: tf.Tensor, seed: Any = None) -> list[tf.Tensor]:
        """The L + 1 tensors [T, B, P] of the forward direction: x, then each layer."""
        return self._run(self.spelled(tokens), self.forward_layers, seed, salt=0)

    def both(self, tokens: tf.Tensor, seed: Any = None) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """`forward`, and the same from right to left, at the tokens' own places: words are spelled once for both."""
        x = self.spelled(tokens)
        lengths = tf.reduce_sum(tf.cast(tf.not_equal(tokens, 0), tf.int32), axis=1)  # [B]

        def turned(x: tf.Tensor) -> tf.Tensor:
            return tf.reverse_sequence(x, lengths, seq_axis=0, batch_axis=1)

        backward = self._run(turned(x), self.backward_layers, seed, salt=100)
        return self._run(x, self.forward_layers, seed, salt=0), [x, *map(turned, backward[1:])]

    def _run(self, x: tf.Tensor, weights: list[SimpleNamespace], seed: Any, salt: int) -> list[tf.Tensor]:
        steps, rows, _ = shape(x)
        layers = [x]
        for index, layer in enumerate(weights):
            read = dropout(x, self.dropout, seed, salt + index)
            inputs = dense(tf.reshape(read, [-1, self.state]), layer.input, layer.bias)  # [T * B, 4C]
            inputs = tf.reshape(inputs, [steps, rows, 4 * self.cells])
            new = recur(inputs, layer.recurrent.value, layer.project.value)
            x = new if index == 0 else new + x  # [T, B, P]
            layers.append(x)
        return layers

    def call(self, batch: dict[str, Any], seed: Any = None) -> Encoding:
        tokens = tf.convert_to_tensor(batch["tokens"])
        both = zip(*self.both(tokens, seed), strict=True)
        layers = tuple(tf.transpose(tf.concat(pair, axis=-1), [1, 0, 2]) for pair in both)  # [B, T, D]
        hidden = tf.cast(tf.where(tf.equal(tokens, 0), HIDDEN, 0.0), layers[-1].dtype)[:, :, None]  # [B, T, 1]
        return Encoding(tokens=layers[-1], pooled=tf.reduce_max(layers[-1] + hidden, axis=1), layers=layers)


def carry(dims: tuple[int, ...], dtype: Any = None) -> tf.Tensor:
    """Biases of -2 for the gates and of 0 for the rest: a fresh highway lets its input pass (Kim et al., 2016)."""
    half = tf.zeros(dims[0] // 2, dtype)
    return tf.concat([half - 2.0, half], 0)
