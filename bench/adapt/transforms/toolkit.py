"""The TensorFlow Model Optimization Toolkit, imported without a trace in the environment."""

import os
from typing import Any

import tensorflow as tf


def toolkit() -> Any:
    """The TensorFlow Model Optimization Toolkit (`tensorflow_model_optimization`).

    When it is imported it asks for Keras 2 by an environment variable. TensorFlow reads that when its own Keras is
    first used, so this is done before; child processes would read it too, so it is taken back.
    """
    version, before = tf.keras.__version__, os.environ.get("TF_USE_LEGACY_KERAS")
    import tensorflow_model_optimization as tfmot

    if before is None and version.startswith("3."):
        os.environ.pop("TF_USE_LEGACY_KERAS", None)
    return tfmot
