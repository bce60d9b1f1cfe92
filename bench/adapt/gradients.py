"""Gradients of the loss of an adapted network with respect to its token vectors."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from ptmbench.bench.adapt.adapted import Adapted
from ptmbench.bench.adapt.parts import token_table
from ptmbench.bench.errors import NotApplicable


def input_gradients(adapted: Adapted, batch: Mapping[str, np.ndarray]) -> np.ndarray:
    """The gradient of the loss on ``batch``, of one row, with respect to the vector of each of its tokens: float32 [T,
    E] or, for C texts in one row, [C, T, E]. Raises `NotApplicable` for a decoder, and if tokens are not looked up in a
    table or the network uses the table for more than that."""
    if token_table(adapted.network.encoder) is None or adapted.decoding:
        raise NotApplicable(
            "no-gradients", "because this network does more with token ids than look them up in a table."
        )
    values, indices = adapted.run(_looked_up, batch)
    tokens = batch["tokens"][0]
    if not np.array_equal(indices.ravel(), tokens.ravel()):
        raise NotApplicable("no-gradients", "because the network does not look every token up once, in their order.")
    return values.reshape(*tokens.shape, -1)


def _looked_up(adapted: Adapted, batch: Mapping[str, Any], number: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """The gradient of each row of the table that was looked up, and the index of that row."""
    table = token_table(adapted.network.encoder)
    with tf.GradientTape() as tape:
        loss = adapted.loss(batch)
    found = tape.gradient(loss, table.value)
    if not isinstance(found, tf.IndexedSlices):
        raise NotApplicable("no-gradients", "because the table of tokens is used for more than to look them up.")
    return tf.convert_to_tensor(found.values), tf.convert_to_tensor(found.indices)
