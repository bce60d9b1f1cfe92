"""The updates of `bench.engine.optimizers` as functions of tensors, which DTensor can split.

TensorFlow's own operation for Adam changes a variable in place and reads each weight once. These formulas read it
several times. They give the same numbers, up to rounding. Norms are those of the whole weight, however it is split.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ptmbench.bench.engine.optimizers import AdamW, Lamb

Update = Callable[..., tuple[tf.Tensor, tf.Tensor, tf.Tensor]]
"""Maps (weight, gradient, m, v) to the new weight, m and v."""


def update_of(optimizer: Any, step: tf.Tensor, rate: tf.Tensor) -> Update:
    """The update of ``optimizer``, an `AdamW` or `Lamb`, after ``step`` gradients with the learning ``rate``."""
    return {AdamW: _adamw, Lamb: _lamb}[type(optimizer)](optimizer, step, rate)


def _adamw(optimizer: AdamW, step: tf.Tensor, rate: tf.Tensor) -> Update:
    """`bench.engine.optimizers.AdamW` (Kingma & Ba, 2015, algorithm 1)."""
    powers = [tf.pow(beta, step) if optimizer.bias_correction else 0.0 for beta in (optimizer.beta_1, optimizer.beta_2)]
    root = tf.sqrt(1.0 - powers[1])
    scaled, term = rate * root / (1.0 - powers[0]), optimizer.epsilon * root

    def update(weight: tf.Tensor, gradient: tf.Tensor, m: tf.Tensor, v: tf.Tensor) -> tuple[tf.Tensor, ...]:
        m, v = _moments(optimizer, gradient, m, v)
        return weight - m * scaled / (tf.sqrt(v) + term), m, v

    return update


def _lamb(optimizer: Lamb, step: tf.Tensor, rate: tf.Tensor) -> Update:
    """`keras.optimizers.Lamb` (You et al., 2020, algorithm 2)."""
    powers = [tf.pow(beta, step) for beta in (optimizer.beta_1, optimizer.beta_2)]

    def update(weight: tf.Tensor, gradient: tf.Tensor, m: tf.Tensor, v: tf.Tensor) -> tuple[tf.Tensor, ...]:
        m, v = _moments(optimizer, gradient, m, v)
        change = m / (1.0 - powers[0]) / (tf.sqrt(v / (1.0 - powers[1])) + optimizer.epsilon)
        norms = [tf.sqrt(tf.reduce_sum(tf.square(x))) for x in (weight, change)]
        both = (norms[0] > 0.0) & (norms[1] > 0.0)
        ratio = tf.where(both, norms[0] / tf.where(both, norms[1], 1.0), 1.0)
        return weight - ratio * rate * change, m, v

    return update


def _moments(optimizer: Any, gradient: tf.Tensor, m: tf.Tensor, v: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    m = m + (gradient - m) * (1.0 - optimizer.beta_1)
    return m, v + (tf.square(gradient) - v) * (1.0 - optimizer.beta_2)
