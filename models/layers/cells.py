"""Convolutional cells, the layers of AdaBERT's students (Chen et al., 2020), and a stack of them.

A cell is a directed graph. Nodes 0 and 1 are the results of the two cells before it (the embeddings if there are none).
An intermediate node is the sum of the outputs of its edges:

    x_j = sum_(i, j) o_ij(x_i)                   o_ij: the operation of the edge, or a weighted sum of all candidates
    cell = sum_j softmax(mix)_j x_j              j: the intermediate nodes
    conv(x) = norm(filters * ReLU(x))            pooling also reads ReLU(x), the identity reads x

    h_k = sum_(l <= k) softmax(mix_k)_l cell_l   cell_0: the embeddings; the result of depth k

This is the graph of the authors' code (alibaba/EasyTransfer, ``modeling_adabert.py``), apart from three choices. Norms
are layer-norms; the code has batch-norms, whose statistics would depend on the batch. A dilated convolution is a real
one; the code calls TensorFlow's ``dilation2d``, a maximum of sums. Both inputs of the first cell are the embeddings of
the whole row; the code passes the two texts of a pair separately.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from ptmbench.models.layers.cells_config import CellConfig, CellStackConfig, EdgeConfig, OperationConfig
from ptmbench.models.layers.core import NO_DROP, Drop, Layer, Rows, made_from
from ptmbench.models.layers.operations import HIDDEN, shape


class Choice(NamedTuple):
    """The weights of a search's candidates."""

    edges: Any
    """[E, O]: the weight of each operation on each edge, in the order of the configuration."""
    depths: Any
    """[K]: the weights of the results of depth 1 to K."""


def shift_in_window(x: tf.Tensor, window: int, rate: int, fill: float) -> list[tf.Tensor]:
    """For each place of a ``window`` around each token, the vectors [B, T, D]. The places are ``rate`` tokens apart.
    Places beyond the ends of the row have the value ``fill``."""
    length, far = shape(x)[1], rate * (window // 2)
    padded = tf.pad(x, [[0, 0], [far, far], [0, 0]], constant_values=fill)
    return [padded[:, first * rate : first * rate + length] for first in range(window)]


@made_from(OperationConfig)
class Operation(Layer):
    """One operation of an edge, [B, T, D] to [B, T, D]. ``present`` [B, T, 1] is 1 for tokens and 0 for padding, which
    no token reads. The result has no meaning for padding."""

    def call(self, x: tf.Tensor, present: tf.Tensor) -> tf.Tensor:
        kind = self.config.kind
        if kind == "skip":
            return x
        if kind == "zero":
            return tf.zeros_like(x)
        x = tf.nn.relu(x) * present
        if kind == "max3":
            return tf.reduce_max(tf.stack(shift_in_window(x + (1 - present) * HIDDEN, 3, 1, HIDDEN)), axis=0)
        if kind == "mean3":
            return tf.add_n(shift_in_window(x, 3, 1, 0.0)) / tf.maximum(
                tf.add_n(shift_in_window(present, 3, 1, 0.0)), 1.0
            )
        rows, length, width = shape(x)
        window, rate = int(kind[-1]), 2 if kind.startswith("dilated") else 1
        windows = tf.concat(shift_in_window(x, window, rate, 0.0), axis=-1)  # [B, T, W D]
        found = self.norm(self.filters(tf.reshape(windows, [rows * length, window * width])))
        return tf.reshape(found, [rows, length, width])


@made_from(EdgeConfig)
class EdgeLayer(Layer):
    """The operation of an edge, or the sum of several, weighted by ``weights`` [O] (default: their mean)."""

    def call(self, x: tf.Tensor, present: tf.Tensor, weights: Any = None) -> tf.Tensor:
        kinds = self.config.operations
        if len(kinds) == 1:
            return getattr(self, kinds[0])(x, present)
        shares = [1 / len(kinds)] * len(kinds) if weights is None else tf.unstack(weights, len(kinds))
        return tf.add_n([one * getattr(self, kind)(x, present) for one, kind in zip(shares, kinds, strict=True)])


@made_from(CellConfig)
class Cell(Layer):
    """A graph of operations, two [B, T, D] to one."""

    def call(self, before: tf.Tensor, last: tf.Tensor, present: tf.Tensor, weights: Any = None) -> tf.Tensor:
        """``weights`` [E, O] are those of the operations of all edges."""
        nodes = [before, last]
        for target in range(2, 2 + self.config.nodes):
            found = []
            for number, (source, goal, _) in enumerate(self.config.edges):
                if goal == target:
                    edge = getattr(self, f"edge_{source}_{goal}")
                    found.append(edge(nodes[source], present, None if weights is None else weights[number]))
            nodes.append(tf.add_n(found) * present if found else tf.zeros_like(last))
        return weighted_sum(nodes[2:], tf.nn.softmax(self.mix))


@made_from(CellStackConfig)
class CellStack(Layer):
    """Cells one after the other, instead of a stack of Transformer blocks (`models.layers.blocks.Stack`)."""

    CASTS = False
    choice: Choice | None = None
    """The weights of candidates, which a search sets. Read when a graph is traced; not saved."""

    def call(self, x: tf.Tensor, bias: tf.Tensor, rows: Rows, drop: Drop = NO_DROP) -> list[tf.Tensor]:
        """The K + 2 tensors [N, D]: ``x``, the output of each cell, and the result. ``bias`` [B, 1, T or 1, T] marks
        padding. There is no dropout inside."""
        width, choice = self.config.width, self.choice
        present = tf.cast(tf.reduce_max(bias, axis=[1, 2]) > HIDDEN / 2, x.dtype)[:, :, None]  # [B, T, 1]
        layers = [tf.reshape(x, [rows.batch, rows.tokens, width])]
        for index in range(self.config.layers):
            cell = getattr(self, f"cell_{index}")
            layers.append(cell(layers[max(0, index - 1)], layers[-1], present, choice and choice.edges))
        if choice is None:
            layers.append(self.mixed(layers, self.config.layers))
        else:
            every = [self.mixed(layers, depth) for depth in range(1, self.config.layers + 1)]
            layers.append(weighted_sum(every, choice.depths))
        return [tf.reshape(one, [-1, width]) for one in layers]

    def mixed(self, layers: Sequence[tf.Tensor], depth: int) -> tf.Tensor:
        """The result of ``depth``, computed from ``layers``: the embeddings and the output of each cell."""
        return weighted_sum(layers[: depth + 1], tf.nn.softmax(getattr(self, f"mix_{depth}")))


def weighted_sum(tensors: Sequence[tf.Tensor], weights: tf.Tensor) -> tf.Tensor:
    """The sum of ``tensors``, weighted by ``weights`` [N]."""
    return tf.add_n([x * one for x, one in zip(tensors, tf.unstack(weights, len(tensors)), strict=True)])
