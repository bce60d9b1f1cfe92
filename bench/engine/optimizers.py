"""The optimizers of the recipe, as tf.distribute needs them here."""

from collections.abc import Sequence
from typing import Any

import keras


class _Summed:
    """Takes gradients that are summed over replicas already.

    Keras sums them itself, after clipping. A global norm is that of the sum, so the step sums first; to sum twice would
    cost as much again on the wire.
    """

    def _all_reduce_sum_gradients(self, grads_and_vars: Any) -> list:
        return list(grads_and_vars)


class AdamW(_Summed, keras.optimizers.AdamW):
    """Loshchilov & Hutter (2019)."""


class Lamb(_Summed, keras.optimizers.Lamb):
    """You et al. (2020), with decoupled decay in place of decay inside the trust ratio."""


def optimizer(name: str, variables: Sequence[Any], *, weight_decay: float, beta_2: float) -> keras.optimizers.Optimizer:
    """The optimizer called ``name`` ("adamw", "lamb"), built for ``variables``; decay spares biases and gains."""
    cls = {"adamw": AdamW, "lamb": Lamb}[name]
    made = cls(learning_rate=0.0, weight_decay=weight_decay, beta_2=beta_2, epsilon=1e-6)
    made.exclude_from_weight_decay(var_list=[v for v in variables if len(v.shape) < 2])
    made.build(variables)
    return made
