"""Multi-task learning: beside a shared network, each task has a recurrent layer and a head of its own; all learn in
turns.

Liu, Qiu and Huang (2016), the shared-layer architecture (model III). With x_t the lowest layer of the encoder, the
vectors of the tokens, s_t its top layer, and h_t, c_t the state of task m's own layer, whose weights are all m's:

    g_t = s(W_g x_t + U_g h_{t-1})                        how much of its own past comes in
    v_t = s(W_g x_t + V_g s_t)                            how much of the shared layer does
    a_t = tanh(W_a x_t + g_t * U_a h_{t-1} + v_t * V_a s_t)
    c_t = s(W_f x_t + U_f h_{t-1}) * c_{t-1} + s(W_i x_t + U_i h_{t-1}) * a_t
    h_t = s(W_o x_t + U_o h_{t-1}) * tanh(c_t)

and the head of m reads h_t after the last token. A batch has texts of one task, and the tasks come in random order,
each in proportion to its training set (``joint_epochs``). Then the cell's own task goes on alone, the paper's
fine-tuning, from what was best for it; only that one is scored. Of the paper's three architectures it is this one whose
shared layer can be pre-trained: LM-LSTM and SA-LSTM make its "+ LM" row, their random twins the one without. Without
``beside`` the same network learns a single task by as many passes over its texts.

Differences: the shared layer is whatever encoder the model has, from left to right with an LSTM language model, where
the paper's reads both ways (ELMo's does); all tasks share the vectors of tokens; the cells have biases, and no
connections to the gates; the optimizer is that of every adaptation, AdamW, under which the layer of a task still moves
a little, by its momentum, in the steps of another.
"""

from types import SimpleNamespace
from typing import Any

import keras
import tensorflow as tf

from ptmbench.bench.adapt import NotApplicable
from ptmbench.bench.adapt.settings.multitask import Own
from ptmbench.models.architectures.parts import dense, shape
from ptmbench.models.layers.recurrent import cell, remember
from ptmbench.tasks.forms import Form

SUMMARY = "a recurrent layer and a head for each task beside a shared network; tasks learn in turns, then one alone"
HEADS = {Form.CLASSIFICATION: "multitask"}


class Reading(keras.layers.Layer):
    """The state of a task's own layer after the last token, [B, D], as ``pooled``, and all of its states [B, T, D] as
    ``tokens``. ``task`` int32 [B] of the batch is one number: 0 for the cell's own task, then those beside it."""

    def __init__(self, encoder: Any, settings: Own):
        super().__init__(name="multitask")
        if encoder.depth == 0:
            raise NotApplicable("no-context", "because this model's vectors know of no context: no layer is shared.")
        self.tasks = [self._task(encoder.width, f"task_{number}") for number in range(1 + len(settings.others))]
        self.glorot = [weight for task in self.tasks for weight in vars(task).values()]
        self.flops_per_token = settings.layer_flops(encoder.width)

    def _task(self, width: int, name: str) -> SimpleNamespace:
        return SimpleNamespace(
            input=self.add_weight((width, 5 * width), "glorot_uniform", name=f"{name}_input"),
            bias=self.add_weight((5 * width,), _begin, name=f"{name}_bias"),
            recurrent=self.add_weight((width, 5 * width), "glorot_uniform", name=f"{name}_recurrent"),
            shared=self.add_weight((width, 2 * width), "glorot_uniform", name=f"{name}_shared"),
        )

    def call(self, encoding: Any, batch: dict[str, Any]) -> Any:
        weights = self._chosen(batch["task"][0])
        x, s = (tf.transpose(layer, [1, 0, 2]) for layer in (encoding.layers[0], encoding.tokens))  # [T, B, D]
        steps, rows, width = shape(x)
        own = dense(tf.reshape(x, [-1, width]), weights.input, weights.bias)  # [T * B, 5 D]: a i f o g
        content, others, gate = tf.split(own, [width, 3 * width, width], axis=1)
        shared, let = tf.split(tf.matmul(tf.reshape(s, [-1, width]), weights.shared), 2, axis=1)
        sums = tf.concat([content + tf.sigmoid(gate + let) * shared, others, gate], axis=1)
        states = recur(tf.reshape(sums, [steps, rows, 5 * width]), weights.recurrent)  # [T, B, D]
        count = tf.math.count_nonzero(batch["tokens"], axis=1, dtype=tf.int32)  # [B]
        pooled = tf.gather_nd(states, tf.stack([tf.maximum(count - 1, 0), tf.range(rows)], axis=1))
        return encoding._replace(tokens=tf.transpose(states, [1, 0, 2]), pooled=pooled)

    def _chosen(self, task: tf.Tensor) -> SimpleNamespace:
        """The weights of one task. Tracing a loop for each would take minutes; copying a few matrices takes none."""
        names = vars(self.tasks[0])
        return SimpleNamespace(**{n: tf.stack([getattr(w, n).value for w in self.tasks])[task] for n in names})


def recur(sums: tf.Tensor, recurrent: tf.Tensor) -> tf.Tensor:
    """The part that goes step by step, from states of zero: h [T, B, D] from what the tokens and the shared layer add
    to a, i, f, o and g, ``sums`` [T, B, 5 D], and the matrices U side by side, ``recurrent`` [D, 5 D]."""
    steps, rows, _ = shape(sums)
    width = recurrent.shape[0]
    reader = tf.TensorArray(sums.dtype, steps).unstack(sums)
    writer = tf.TensorArray(sums.dtype, steps, element_shape=[None, width])

    def step(t: tf.Tensor, h: tf.Tensor, c: tf.Tensor, outputs: tf.TensorArray) -> tuple:
        a, gates, g = tf.split(reader.read(t), [width, 3 * width, width], axis=1)
        past, past_gates, past_g = tf.split(tf.matmul(h, recurrent), [width, 3 * width, width], axis=1)
        h, c = cell(tf.concat([a + tf.sigmoid(g + past_g) * past, gates + past_gates], axis=1), c)
        return t + 1, h, c, outputs.write(t, h)

    start = (0, tf.zeros([rows, width], sums.dtype), tf.zeros([rows, width]), writer)
    *_, outputs = tf.while_loop(lambda t, *_: t < steps, step, start, maximum_iterations=steps)
    return outputs.stack()


def _begin(dims: tuple[int, ...], dtype: Any = None) -> tf.Tensor:
    """Biases of the four sums of an LSTM, and of 0 for the gates on what comes in."""
    width = dims[0] // 5
    return tf.concat([remember((4 * width,), dtype), tf.zeros(width, dtype)], 0)
