"""Early exit for adaptations with classifiers between layers: FastBERT and PABEE.

Such an adaptation computes logits at every layer, and decides after which layer a text exits. The layers above are not
computed for that text.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ptmbench.bench.adapt.heads import InputRow
from ptmbench.models.layers.core import Rows
from ptmbench.models.layers.operations import shape

LayerClassifier = Callable[[int, tf.Tensor, tf.Tensor], tf.Tensor]
"""(index of the layer, its vectors [B, T, D], tokens [B, T]) to the logits [B, C] of its classifier."""
StayRule = Callable[[tf.Tensor, tf.Tensor, Any], tuple[tf.Tensor, Any]]
"""(logits [B, C], their ``unused`` [B, C], memory) to which rows go on, bool [B], and the memory for the next layer: a
nest of tensors with the rows as their first axis, or () for none. At the first layer, the memory is None."""


def exit_logits(adapted: Any, batch: Mapping[str, tf.Tensor], read: LayerClassifier, stay: StayRule) -> tf.Tensor:
    """The logits of each row at its exit layer, and the number of that layer: [B, C + 1].

    Rows that have left are removed from the batch of the next layer. All rows leave after the last layer.
    """
    encoder = adapted.network.encoder
    tokens, unused = batch["tokens"], adapted.head.unused(batch)
    count, length = shape(tokens)
    x, bias = encoder.entered(adapted.channels(batch))
    here, found, memory = tf.range(count), tf.zeros([count, adapted.head.outputs + 1]), None
    for index in range(encoder.depth):
        x = encoder.stack.step(index, x, bias, Rows(shape(tokens)[0], length))
        last = index == encoder.depth - 1
        x = tf.reshape(encoder.ended(x) if last else x, [-1, length, encoder.width])  # [B', T, D]
        logits = read(index, x, tokens) + unused  # [B', C]
        found = tf.tensor_scatter_nd_update(found, here[:, None], with_layer_number(logits, index + 1))
        if not last:
            goes_on, memory = stay(logits, unused, memory)
            left = tf.where(goes_on)[:, 0]
            x, tokens, unused, here = (tf.gather(one, left) for one in (x, tokens, unused, here))
            memory = tf.nest.map_structure(lambda one, left=left: tf.gather(one, left), memory)
            bias = bias if bias.shape[0] == 1 else tf.gather(bias, left)
            x = tf.reshape(x, [-1, encoder.width])
    return found


def with_layer_number(logits: Any, layer: int) -> Any:
    """``logits`` [B, C], then the number of the ``layer`` that they are from: [B, C + 1]."""
    return tf.pad(logits, [[0, 0], [0, 1]], constant_values=float(layer))


def flops(adapted: Any, row: InputRow, layer: int) -> float:
    """FLOPs of the encoder for ``row``, which exits after ``layer``, counted from 1. A pooler is always counted."""
    skipped = [block for _, block in _applied(adapted.network.encoder.config.stack)][layer:]
    return adapted.encoder_flops([row]) - sum(block.flops(row.tokens, row.tokens) for block in skipped)


def exit_costs(adapted: Any, rows: Sequence[InputRow], outputs: Sequence[Any]) -> Mapping[str, float]:
    """For the record: ``mean_exit_layer``, counted from 1, and ``mean_flops`` of a row."""
    if not outputs:
        return {}
    layers, spent = sum(float(output[-1]) for output in outputs), adapted.adaptation.flops(adapted, rows, outputs)
    return {"mean_exit_layer": layers / len(outputs), "mean_flops": spent / len(rows)}


def _applied(stack: Any) -> list[tuple[str, Any]]:
    """The configurations of the blocks of ``stack`` in the order in which they are applied."""
    parts = list(stack.parts())
    return parts * stack.layers if stack.shared else parts
