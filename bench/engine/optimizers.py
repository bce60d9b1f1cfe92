"""The optimizers of the recipe, for gradients that are already summed over replicas."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf


class _Summed:
    """Takes gradients that are already summed over replicas.

    Keras would sum them itself, after clipping. Clipping needs the norm of the sum, so the training step sums first. A
    second sum would double the communication.
    """

    def _all_reduce_sum_gradients(self, grads_and_vars: Any) -> list:
        return list(grads_and_vars)


class AdamW(_Summed, keras.optimizers.AdamW):
    """Loshchilov & Hutter (2019), with TensorFlow's own operation for Adam's part.

    It takes one operation per weight, where Keras takes a dozen that each go through memory. For BERT-mini, an update
    takes 0.6 of the time, and tracing it takes half. After t gradients, a weight moves by

        rate * m^ / (sqrt(v^) + epsilon)      m^ = m / (1 - beta1^t),  v^ = v / (1 - beta2^t)

    (Kingma & Ba, 2015, algorithm 1). TensorFlow's operation adds its epsilon to sqrt(v), so it is given epsilon times
    sqrt(1 - beta2^t). Without ``bias_correction``, m and v are used in place of m^ and v^, as in BERT's code.
    """

    bias_correction = True

    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        # Computed once per step. For each weight, it made updates of BERT-mini slower by a few per cent.
        steps, betas = tf.cast(self.iterations + 1, tf.float32), (self.beta_1, self.beta_2)
        self._powers = [tf.pow(beta, steps) if self.bias_correction else tf.zeros([]) for beta in betas]
        self._term = self.epsilon * tf.sqrt(1.0 - self._powers[1])
        return super().apply(grads, trainable_variables)

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        index = self._get_variable_index(variable)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[index].value.handle,
            v=self._velocities[index].value.handle,
            beta1_power=self._powers[0],
            beta2_power=self._powers[1],
            lr=tf.cast(learning_rate, tf.float32),
            beta1=self.beta_1,
            beta2=self.beta_2,
            epsilon=self._term,
            grad=gradient,
        )


class Lamb(_Summed, keras.optimizers.Lamb):
    """You et al. (2020), with decoupled decay in place of decay inside the trust ratio."""


class Adagrad(_Summed, keras.optimizers.Adagrad):
    """Duchi et al. (2011), with TensorFlow's own operations.

    Only the rows of an embedding table that have a gradient are read and written. This is exact: a gradient of zero
    changes nothing in Adagrad, while Adam's moments would decay. Sparse gradients must have each row once (`summed`).
    """

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        index = self._get_variable_index(variable)
        shared = {
            "var": variable.handle,
            "accum": self._accumulators[index].value.handle,
            "lr": tf.cast(learning_rate, tf.float32),
            "epsilon": self.epsilon,
        }
        if isinstance(gradient, tf.IndexedSlices):
            tf.raw_ops.ResourceSparseApplyAdagradV2(grad=gradient.values, indices=gradient.indices, **shared)
        else:
            tf.raw_ops.ResourceApplyAdagradV2(grad=gradient, **shared)


SPARSE = ("adagrad",)
"""Optimizers that take the gradient of an embedding table in sparse form: only the rows that have one."""


def summed(gradient: Any) -> Any:
    """Returns a sparse ``gradient`` with each row once, summed over its lookups. Dense ones stay as they are."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    rows, places = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(rows))
    return tf.IndexedSlices(values, rows, gradient.dense_shape)


def optimizer(
    name: str,
    variables: Sequence[Any],
    *,
    weight_decay: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    bias_correction: bool = True,
) -> keras.optimizers.Optimizer:
    """Returns the optimizer called ``name`` ("adamw", "lamb", "adagrad"), built for ``variables``. Weight decay leaves
    out biases and gains. Adagrad ignores ``beta1``, ``beta2`` and ``epsilon``. Only AdamW can turn off
    ``bias_correction``."""
    if name == "adagrad":
        # The sums begin at 0. Losses are means, so any other value would be large compared with their gradients.
        options = {"initial_accumulator_value": 0.0, "epsilon": 1e-10}
        made = Adagrad(learning_rate=0.0, weight_decay=weight_decay or None, **options)
    else:
        cls = {"adamw": AdamW, "lamb": Lamb}[name]
        made = cls(learning_rate=0.0, weight_decay=weight_decay, beta_1=beta1, beta_2=beta2, epsilon=epsilon)
        made.bias_correction = bias_correction
    made.exclude_from_weight_decay(var_list=[v for v in variables if not decays(v)])
    made.build(variables)
    return made


def decays(variable: Any) -> bool:
    """Whether weight decay applies to ``variable``. It leaves out biases and gains."""
    # Biases of attention have a row for each head (Dai et al., 2019, section 3.3; also in Keras).
    return len(variable.shape) >= 2 and not variable.path.endswith("bias")
