"""Functions as TensorFlow graphs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.bench.engine.cost import Traced


def as_graph(function: Callable, *examples: Any) -> Traced:
    """``function`` as one graph. Its arguments are tensors, or nests of tensors, with the types and numbers of axes of
    ``examples`` (tensors or arrays); the axes may have any length."""
    specs = tf.nest.map_structure(lambda one: tf.TensorSpec([None] * np.ndim(one), one.dtype), examples)
    return Traced(lambda: tf.function(function, autograph=False).get_concrete_function(*specs))
