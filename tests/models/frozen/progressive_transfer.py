"""Computes our losses of progressive knowledge transfer (MobileBERT) on random tensors that are equal on both sides."""

from collections.abc import Callable

import numpy as np

from tests.models.frozen import Frozen

ROWS, LENGTH, WIDTH, HEADS, WORDS = 2, 5, 6, 2, 11
LENGTHS = (5, 3)
"""Number of tokens of each row, without padding."""


def drawn() -> dict[str, np.ndarray]:
    """Returns random tensors of student ("own") and teacher ("other"), and labels.

    vectors  [B, T, D]
    scores   attention scores [B, H, T, T]
    words    logits of masked tokens [N, V]
    labels   the masked tokens [N]
    """
    rng = np.random.default_rng(11)
    shapes = {"vectors": (ROWS, LENGTH, WIDTH), "scores": (ROWS, HEADS, LENGTH, LENGTH), "words": (3, WORDS)}
    made = {
        f"{side}_{name}": rng.normal(0.3, 1.5, shape) for side in ("own", "other") for name, shape in shapes.items()
    }
    return {name: array.astype(np.float32) for name, array in made.items()} | {"labels": np.array([4, 0, 9], np.int32)}


def losses(frozen: Frozen) -> dict[str, np.ndarray]:
    """Computes the losses of a layer, the gradients of their sum, and the gradient of the loss of predictions."""
    import tensorflow as tf

    from ptmbench.models.layers.operations import HIDDEN, AttentionTensors
    from ptmbench.models.objectives.distillation import divergence
    from ptmbench.models.objectives.progressive_transfer import GOLD, layer_losses

    given = {name: tf.constant(array) for name, array in drawn().items()}
    present = np.arange(LENGTH) < np.array(LENGTHS)[:, None]
    mask = tf.constant(np.where(present, 0.0, HIDDEN)[:, None, None], tf.float32)
    share = tf.constant(present / present.sum(), tf.float32)
    vectors, scores, words = (given[f"own_{name}"] for name in ("vectors", "scores", "words"))
    with tf.GradientTape() as tape:
        tape.watch([vectors, scores])
        own, other = (AttentionTensors(*[None] * 3, x + mask, None) for x in (scores, given["other_scores"]))
        layer_values = layer_losses(vectors, given["other_vectors"], own, other, share)
        total = sum(layer_values.values())
    gradients = dict(zip(("vectors_gradient", "scores_gradient"), tape.gradient(total, [vectors, scores]), strict=True))
    with tf.GradientTape() as tape:
        tape.watch(words)
        gold = tf.nn.sparse_softmax_cross_entropy_with_logits(given["labels"], words)
        loss = tf.reduce_mean(GOLD * gold + (1 - GOLD) * divergence(given["other_words"], words, 1.0))
    gradients["words_gradient"] = tape.gradient(loss, words)
    return {name: np.asarray(value) for name, value in (layer_values | gradients).items()}


OURS: dict[str, Callable[[Frozen], dict[str, np.ndarray]]] = {"progressive_transfer": losses}
