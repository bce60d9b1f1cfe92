"""Two-layer bidirectional LSTM with projection: the network of ELMo.

Source: Peters et al. (2018), section 3.4, after Jozefowicz et al. (2016); the cell is that of Sak et al. (2014),
section 2 without peepholes. Per layer and direction, from x [T, B, P]:

    [g i f o] = W x_t + U h_{t-1} + b         c_t = s(f) c_{t-1} + s(i) tanh(g)         h_t = R (s(o) tanh(c_t))

with the state h of width P = D / 2, projected by R from C cells. Forward and backward direction share nothing but the
embeddings; the second layer adds its input to its output. The backward direction reads each row reversed up to its
own length, so padding at the right end never reaches a real token.

W x + b of all steps is one product before the loop; inside remains one product with U and one with R. One loop per
direction, so that TensorFlow can run both at once. Processor time of a training step of one layer (both directions,
B 32, T 128, P 128, C 640: 36 GFLOP; one thread): 1.02 s. In comparison, unrolled it takes 0.92 s, but 7 times as long
to trace and one length per trace; with a gradient written by hand 1.04 s; with both directions stacked in one loop
1.77 s (their arrays have to be transposed); with ``inputs[t]`` instead of an array of steps 10.6 s (its gradient adds
up T arrays of zeros); ``keras.layers.LSTM``, which has no projection, 3.0 s for as many cells.
"""

from types import SimpleNamespace
from typing import Any

import keras
import tensorflow as tf

from ptmbench.models.architectures.parts import HIDDEN, check_length, dense, dropout, shape
from ptmbench.models.card import Size
from ptmbench.models.pretrainable import Encoding


def recur(inputs: tf.Tensor, recurrent: tf.Tensor, project: tf.Tensor) -> tf.Tensor:
    """The part of an LSTM that has to go step by step: one direction, from states of zero.

    ``inputs`` [T, B, 4 C] are W x + b of all steps with the gates in the order g, i, f, o; ``recurrent`` U [P, 4 C];
    ``project`` R [C, P]. Gives h [T, B, P].
    """
    steps, rows = shape(inputs)[:2]
    # A loop that reads variables is run, whoever needs it.
    recurrent, project = map(tf.convert_to_tensor, (recurrent, project))
    cells, width = project.shape
    reader = tf.TensorArray(inputs.dtype, steps).unstack(inputs)
    writer = tf.TensorArray(inputs.dtype, steps, element_shape=[None, width])

    def step(t, h, c, outputs):
        z = tf.cast(reader.read(t) + tf.matmul(h, recurrent), tf.float32)  # [B, 4C]; the cell adds up in float32
        g, i, f, o = tf.split(z, 4, axis=1)
        c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)  # [B, C]
        h = tf.matmul(tf.cast(tf.sigmoid(o) * tf.tanh(c), inputs.dtype), project)  # [B, P]
        return t + 1, h, c, outputs.write(t, h)

    start = (0, tf.zeros([rows, width], inputs.dtype), tf.zeros([rows, cells]), writer)
    *_, outputs = tf.while_loop(lambda t, *_: t < steps, step, start, maximum_iterations=steps)
    return outputs.stack()


class BidirectionalLstm(keras.layers.Layer):
    """L layers in both directions over subword embeddings: batch to `Encoding`.

    The tokens' vectors are looked up in a table [V, D / 2] that both directions share; the paper computes them from
    characters instead. ``Encoding.layers`` are [e; e], then [forward; backward] of each layer; ``pooled`` is the
    maximum over the tokens of the last one (Conneau et al., 2017, found it better than the mean for such networks).
    Networks of this kind have no longest input; ``length`` bounds memory. ``dropout`` is read when a graph is traced.
    """

    causal = False
    recurrent = True

    def __init__(self, size: Size, vocabulary: int, name: str = "encoder"):
        super().__init__(name=name)
        if size.width % 2:
            raise ValueError(
                f"A bidirectional LSTM needs an even width, not {size.width}: each direction has half of it."
            )
        self.width, self.depth, self.length, self.dropout = size.width, size.layers, size.length, 0.1
        self.state, self.cells = size.width // 2, size.inner
        self.token_embedding = self.add_weight(
            (vocabulary, self.state), keras.initializers.RandomNormal(stddev=self.state**-0.5), name="tokens"
        )
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

    def forward(self, tokens: tf.Tensor, seed: Any = None) -> list[tf.Tensor]:
        """The L + 1 tensors [T, B, P] of the forward direction: the embeddings, then each layer."""
        return self._run(tf.transpose(tokens), self.forward_layers, seed, salt=0)

    def backward(self, tokens: tf.Tensor, seed: Any = None) -> list[tf.Tensor]:
        """As `forward`, from right to left: the tensors stand at the tokens' own places again."""
        lengths = tf.reduce_sum(tf.cast(tf.not_equal(tokens, 0), tf.int32), axis=1)  # [B]
        reversed_tokens = tf.transpose(tf.reverse_sequence(tokens, lengths, seq_axis=1, batch_axis=0))  # [T, B]
        layers = self._run(reversed_tokens, self.backward_layers, seed, salt=100)
        return [tf.reverse_sequence(x, lengths, seq_axis=0, batch_axis=1) for x in layers]

    def _run(self, tokens: tf.Tensor, weights: list[SimpleNamespace], seed: Any, salt: int) -> list[tf.Tensor]:
        steps, rows = shape(tokens)
        check_length(steps, self.length, "encoder")
        x = tf.gather(self.token_embedding.value, tokens)  # [T, B, P]
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
        tokens = batch["tokens"]
        both = zip(self.forward(tokens, seed), self.backward(tokens, seed), strict=True)
        layers = tuple(tf.transpose(tf.concat(pair, axis=-1), [1, 0, 2]) for pair in both)  # [B, T, D]
        hidden = tf.cast(tf.where(tf.equal(tokens, 0), HIDDEN, 0.0), layers[-1].dtype)[:, :, None]  # [B, T, 1]
        return Encoding(tokens=layers[-1], pooled=tf.reduce_max(layers[-1] + hidden, axis=1), layers=layers)


def remember(dims: tuple[int, ...], dtype: Any = None) -> tf.Tensor:
    """Biases of 0, and of 1 for the forget gate: a fresh cell keeps what it holds (Jozefowicz et al., 2015)."""
    cells = dims[0] // 4
    return tf.concat([tf.zeros(2 * cells, dtype), tf.ones(cells, dtype), tf.zeros(cells, dtype)], 0)
