"""Quasi-recurrent network with the dropout of AWD-LSTM: the network of MultiFiT.

Source: Bradbury, Merity, Xiong and Socher (2017), sections 2 and 2.1, with fo-pooling; dropout in its places as Merity
et al. (2018) have it (`models.architectures.awd_lstm`). Per layer, from x [T, B, C'], in the first layer with the token
before:

    [z f o] = W [x_{t-1}; x_t] + b          c_t = s(f) c_{t-1} + (1 - s(f)) tanh(z)          h_t = s(o) c_t

No product waits for the step before: there is one over the whole row, and the loop multiplies element by element. What
an LSTM drops of its recurrent weights is dropped of W here.
"""

from types import SimpleNamespace
from typing import Any

import tensorflow as tf

from ptmbench.models.architectures.awd_lstm import AwdLstm
from ptmbench.models.architectures.parts import dense, dropout, shape


def pool(z: tf.Tensor, forget: tf.Tensor) -> tf.Tensor:
    """c_t = f_t c_{t-1} + (1 - f_t) z_t over [T, B, C], from zeros."""

    def step(c: tf.Tensor, now: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        return now[0] + now[1] * c

    return tf.scan(step, ((1.0 - forget) * z, forget), tf.zeros_like(z[0]))


class Qrnn(AwdLstm):
    """Batch to `Encoding`, as `AwdLstm` with other layers; it reads texts, and does not write them."""

    def _layer(self, name: str, width: int, cells: int) -> SimpleNamespace:
        window = 2 if name == "layer_0" else 1
        return SimpleNamespace(
            kernel=self.add_weight((window * width, 3 * cells), "glorot_uniform", name=f"{name}_kernel"),
            bias=self.add_weight((3 * cells,), "zeros", name=f"{name}_bias"),
        )

    def run(self, tokens: tf.Tensor, seed: Any, present: None) -> tuple[list[tf.Tensor], list]:
        """The embeddings and the last layer, [T, B, D] for ``tokens`` [T, B], whose padding is at the end."""
        x = first = self.embedded(tokens, seed)
        for index, layer in enumerate(self.stack):
            if index:
                x = self.locked(x, "hidden", seed, 10 + index, axis=0)
            else:
                x = tf.concat([tf.pad(x[:-1], [[1, 0], [0, 0], [0, 0]]), x], axis=2)  # [T, B, 2 D]
            kernel = dropout(layer.kernel.value, self.rate("weights"), seed, 100 + index)
            steps, rows, width = shape(x)
            gates = dense(tf.reshape(x, [-1, width]), kernel, layer.bias)  # [T * B, 3C]
            gates = tf.cast(tf.reshape(gates, [steps, rows, gates.shape[-1]]), tf.float32)
            z, f, o = tf.split(gates, 3, axis=2)
            x = tf.cast(tf.sigmoid(o) * pool(tf.tanh(z), tf.sigmoid(f)), x.dtype)  # [T, B, C]
        return [first, x], []
