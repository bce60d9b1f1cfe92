"""The optimizers of the recipe, as tf.distribute needs them here."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf


class _Summed:
    """Takes gradients that are summed over replicas already.

    Keras sums them itself, after clipping. A global norm is the norm of the sum, so the step sums first. Summing twice
    would double the communication.
    """

    def _all_reduce_sum_gradients(self, grads_and_vars: Any) -> list:
        return list(grads_and_vars)


class AdamW(_Summed, keras.optimizers.AdamW):
    """Loshchilov & Hutter (2019), with TensorFlow's own operation for Adam's part.

    One operation per weight, where Keras takes a dozen that each walk through memory: for BERT-mini an update takes 0.6
    of the time, and tracing it half. After t gradients, a weight moves by

        rate * m^ / (sqrt(v^) + epsilon)      m^ = m / (1 - beta1^t),  v^ = v / (1 - beta2^t)

    (Kingma & Ba, 2015, algorithm 1). TensorFlow's operation adds its epsilon to sqrt(v), so it is given epsilon times
    sqrt(1 - beta2^t). Without ``bias_correction`` m and v stand for m^ and v^, as in BERT's code.
    """

    bias_correction = True

    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        # Once a step and not for each weight, which made updates of BERT-mini slower by some hundredths.
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

    Of a table only the rows that have a gradient are read and written. That is no approximation: a gradient of zero
    changes nothing here, where Adam's moments would decay. Sparse gradients hold each row once (`summed`).
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
"""Optimizers that take the gradient of a table as the rows that have one."""


def summed(gradient: Any) -> Any:
    """A sparse ``gradient`` with each row once, as the sum of what lookups of that row have given."""
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
    """The optimizer called ``name`` ("adamw", "lamb", "adagrad"), built for ``variables``; decay spares biases and
    gains. Adagrad has none of ``beta1``, ``beta2`` and ``epsilon``, and only AdamW can do without
    ``bias_correction``."""
    if name == "adagrad":
        # From sums of 0: losses are means, and any other beginning would be large compared with their gradients.
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
    """Whether weight decay is for ``variable``: it spares biases and gains."""
    # Biases of attention have a row for each head (Dai et al., 2019, section 3.3; Keras's own).
    return len(variable.shape) >= 2 and not variable.path.endswith("bias")
