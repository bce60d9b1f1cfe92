"""Two-layer bidirectional LSTM with projection: the network of ELMo.

Source: Peters et al. (2018), section 3.4, after Jozefowicz et al. (2016); the cell is that of Sak et al. (2014),
section 2 without peepholes. Per layer and direction, from x [T, B, P]:

    [i f g o] = W x_t + U h_{t-1} + b         c_t = s(f + 1) c_{t-1} + s(i) tanh(g)         h_t = R (s(o) tanh(c_t))

with the state h of width P = D / 2, projected by R from C cells. Forward and backward direction share nothing but the
embeddings; the second layer adds its input to its output. The backward direction reads each row reversed up to its
own length, so padding at the right end never reaches a real token.
"""

from typing import Any

import tensorflow as tf


@tf.custom_gradient
def recur(inputs: tf.Tensor, recurrent: tf.Tensor, project: tf.Tensor) -> tuple[tf.Tensor, Any]:
    """The part of an LSTM that has to go step by step.

    ``inputs`` [T, B, 4 C] are W x + b of all steps with the gates in the order g, i, f, o; ``recurrent`` U [P, 4 C];
    ``project`` R [C, P]. Gives h [T, B, P], from states of zero.
    """
    steps, rows = tf.shape(inputs)[0], tf.shape(inputs)[1]
    cells, width = project.shape

    def array(size: int) -> tf.TensorArray:
        return tf.TensorArray(tf.float32, steps, element_shape=[None, size], clear_after_read=False)

    def step(t, h, c, outputs, gates, states):
        z = tf.gather(inputs, t) + tf.matmul(h, recurrent)  # [B, 4C]
        g, ifo = tf.tanh(z[:, :cells]), tf.sigmoid(z[:, cells:])
        i, f, o = tf.split(ifo, 3, axis=1)
        c = f * c + i * g  # [B, C]
        h = tf.matmul(o * tf.tanh(c), project)  # [B, P]
        return t + 1, h, c, outputs.write(t, h), gates.write(t, tf.concat([g, ifo], 1)), states.write(t + 1, c)

    zero_h, zero_c = tf.zeros([rows, width]), tf.zeros([rows, cells])
    states = tf.TensorArray(tf.float32, steps + 1, element_shape=[None, cells], clear_after_read=False)
    start = (0, zero_h, zero_c, array(width), array(4 * cells), states.write(0, zero_c))
    *_, outputs, gates, states = tf.while_loop(lambda t, *_: t < steps, step, start, maximum_iterations=steps)
    hidden = outputs.stack()  # [T, B, P]

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        def back(t, dh, dc, before_gates, before_project):
            g, i, f, o = tf.split(gates.read(t), 4, axis=1)
            squashed = tf.tanh(states.read(t + 1))
            dh += tf.gather(upstream, t)
            dm = tf.matmul(dh, project, transpose_b=True)  # [B, C]
            dc += dm * o * (1.0 - squashed * squashed)
            dz = tf.concat(
                [
                    dc * i * (1.0 - g * g),
                    dc * g * i * (1.0 - i),
                    dc * states.read(t) * f * (1.0 - f),
                    dm * squashed * o * (1.0 - o),
                ],
                axis=1,
            )  # [B, 4C]
            previous = tf.matmul(dz, recurrent, transpose_b=True)
            return t - 1, previous, dc * f, before_gates.write(t, dz), before_project.write(t, dh)

        last = (steps - 1, zero_h, zero_c, array(4 * cells), array(width))
        *_, dz, dh = tf.while_loop(lambda t, *_: t >= 0, back, last, maximum_iterations=steps)
        dz, dh = dz.stack(), dh.stack()  # [T, B, 4C], [T, B, P]
        earlier = tf.concat([zero_h[None], hidden[:-1]], 0)  # [T, B, P]
        mixed = gates.stack()[..., 3 * cells :] * tf.tanh(states.stack()[1:])  # [T, B, C]
        return dz, _outer(earlier, dz), _outer(mixed, dh)

    return hidden, gradient


def _outer(left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
    """[T, B, I] and [T, B, O] to the gradient [I, O] of the kernel between them, as one product over all steps."""
    return tf.matmul(tf.reshape(left, [-1, left.shape[-1]]), tf.reshape(right, [-1, right.shape[-1]]), transpose_a=True)
