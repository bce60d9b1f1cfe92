"""Computes our distillation loss, with student and teacher weights of `transformers`."""

from dataclasses import replace

import numpy as np

from ptmbench import models
from tests.models.frozen import Frozen
from tests.models.frozen.networks import POSITIONS, SIZE, VOCABULARY, assign, inputs

TEACHER = replace(SIZE, layers=4)


def batch() -> dict[str, np.ndarray]:
    """Returns two rows. The second one is padded and has one masked token fewer."""
    given = inputs()
    noise = {"masked_positions": POSITIONS, "masked_labels": given["labels"]}
    return {"tokens": given["tokens"], **noise, "masked_weights": np.array([[1, 1], [1, 0]], np.float32)}


def losses(frozen: Frozen) -> dict[str, np.ndarray]:
    """Computes the three losses, their weighted sum, and its gradient. The gradient is that of the first kernel of the
    student's head."""
    import tensorflow as tf

    teacher = models.load("bert").build(TEACHER, VOCABULARY)
    built = models.load("distilbert").build(SIZE, VOCABULARY, teacher)
    assert not assign(built, "distilbert", frozen.weights)
    missing = assign(teacher, "bert", frozen.weights, TEACHER)
    assert all(path.startswith(("encoder/pooler/", "nsp/")) for path in missing), missing
    kernel = built.loss.heads[0].transform.kernel.value
    with tf.GradientTape() as tape:
        values = built.loss(batch())
    gradient = tape.gradient(values["loss"], kernel)
    names = ("loss", "mlm_loss", "soft_loss", "cosine_loss")
    return {name: np.asarray(values[name]) for name in names} | {"gradient": np.asarray(gradient)}


OURS = {"distillation": losses}
