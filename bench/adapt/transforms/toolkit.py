"""Imports the TensorFlow Model Optimization Toolkit without a change of the environment."""

import os
from typing import Any

import tensorflow as tf


def toolkit() -> Any:
    """The TensorFlow Model Optimization Toolkit (`tensorflow_model_optimization`).

    Its import sets an environment variable that selects Keras 2. TensorFlow reads the variable at the first use of
    `tf.keras`, so this function uses it before the import. Child processes would read the variable too, so it is unset.
    """
    version, before = tf.keras.__version__, os.environ.get("TF_USE_LEGACY_KERAS")
    import tensorflow_model_optimization as tfmot

    if before is None and version.startswith("3."):
        os.environ.pop("TF_USE_LEGACY_KERAS", None)
    return tfmot
