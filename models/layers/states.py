"""The hidden states and the attention of each layer of an encoder.

Called by the losses of students that learn from the inner layers of a teacher (`models.objectives.layer_distillation`,
`models.objectives.relation_distillation`), and by the adaptations that use these losses.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from ptmbench.models.layers.operations import AttentionTensors, collect_attention, rematerialising


class InnerStates(NamedTuple):
    """The hidden states and the attention of an encoder with L layers."""

    layers: tuple[tf.Tensor, ...]
    """L + 1 tensors [B, T, D]: the embeddings, then each layer (`models.pretrainable.Encoding.layers`)."""
    attentions: tuple[AttentionTensors, ...]
    """The attention of each layer: L of them."""


class NoInnerStates(ValueError):
    """An encoder does not have exactly one self-attention over all tokens in each layer."""


def inner_states(encoder: Any, batch: dict[str, Any], seed: Any = None) -> InnerStates:
    """Runs one forward pass with the dropout of ``seed`` and returns the `InnerStates` of ``encoder`` for ``batch``.

    The layers do not rematerialise here, because gradients have to reach their inner tensors. Raises `NoInnerStates`.
    """
    with collect_attention() as attentions, rematerialising(False):
        encoding = encoder(batch, seed=seed)
    square = all(attention.scores.shape[-1] == attention.scores.shape[-2] for attention in attentions)
    if len(attentions) != len(encoding.layers) - 1 or not attentions or not square:
        raise NoInnerStates(f"{type(encoder).__name__} has not one self-attention in each of its layers.")
    return InnerStates(encoding.layers, tuple(attentions))
