"""A recurrent layer for each task in TensorFlow."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import tensorflow as tf

from ptmbench.bench.adapt import parts
from ptmbench.bench.adapt.heads import InputRow
from ptmbench.bench.adapt.multitask import Own
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.layers.operations import dense, shape
from ptmbench.models.layers.recurrent import State, cell, loop, lstm_bias_initializer


class Reading(parts.Reading):
    """Returns the states [B, T, D] of the layer of a task as ``tokens``, and the state [B, D] after the last token as
    ``pooled``. All values of ``task`` int32 [B] in a batch are equal: 0 for the cell's own task, then the auxiliary
    tasks."""

    def __init__(self, encoder: Any, settings: Own):
        super().__init__(name="multitask")
        if encoder.depth == 0:
            raise NotApplicable(
                "no-context", "because this model's vectors do not depend on context: it has no layers to share."
            )
        self.tasks = [self._task(encoder.width, f"task_{number}") for number in range(1 + len(settings.others))]
        self.glorot = [weight for task in self.tasks for weight in vars(task).values()]
        self.flops_per_token = settings.layer_flops(encoder.width)

    def _task(self, width: int, name: str) -> SimpleNamespace:
        return SimpleNamespace(
            input=self.add_weight((width, 5 * width), "glorot_uniform", name=f"{name}_input"),
            bias=self.add_weight((5 * width,), _initial_bias, name=f"{name}_bias"),
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

    def flops(self, rows: Sequence[InputRow]) -> float:
        return self.flops_per_token * sum(row.tokens for row in rows)

    def _chosen(self, task: tf.Tensor) -> SimpleNamespace:
        """The weights of one task. Copying a few matrices is cheap; tracing a loop for each task would take minutes."""
        names = vars(self.tasks[0])
        return SimpleNamespace(**{n: tf.stack([vars(w)[n].value for w in self.tasks])[task] for n in names})


def recur(sums: tf.Tensor, recurrent: tf.Tensor) -> tf.Tensor:
    """Runs the recurrence from zero states and returns h [T, B, D]. ``sums`` [T, B, 5 D] are the parts of a, i, f, o
    and g that come from the tokens and the shared layer. ``recurrent`` [D, 5 D] has the matrices U side by side."""
    rows, width = shape(sums)[1], recurrent.shape[0]
    sizes = [width, 3 * width, width]

    def step(state: State, now: tf.Tensor) -> tuple[tf.Tensor, State]:
        h, c = state
        a, gates, g = tf.split(now, sizes, axis=1)
        past, past_gates, past_g = tf.split(tf.matmul(h, recurrent), sizes, axis=1)
        h, c = cell(tf.concat([a + tf.sigmoid(g + past_g) * past, gates + past_gates], axis=1), c)
        return h, (h, c)

    start = tf.zeros([rows, width], sums.dtype), tf.zeros([rows, width])
    return loop(step, [sums], start, width, sums.dtype)[0]


def _initial_bias(dims: tuple[int, ...], dtype: Any = None) -> tf.Tensor:
    """Initial biases: those of an LSTM for a, i, f and o, and 0 for g."""
    width = dims[0] // 5
    return tf.concat([lstm_bias_initializer((4 * width,), dtype), tf.zeros(width, dtype)], 0)
