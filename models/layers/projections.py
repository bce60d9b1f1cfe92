"""Projections of the weights of one BERT to the shapes of another one, shared by all layers."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from ptmbench.models.layers.config import Start
from ptmbench.models.layers.core import Layer, made_from
from ptmbench.models.layers.projections_config import ProjectionsConfig

_TABLES = ("tokens/table", "positions/table", "segments/table")
_JOINED = {"attention/query_key_value": 3}
"""Kernels that have several weights side by side, and how many."""


class WeightMatrix(NamedTuple):
    """A weight, and the kind of its number of rows and of columns: "width", "inner", or "" for rows of tables and of
    vectors."""

    value: tf.Tensor
    rows: str
    columns: str


def weights_of(encoder: keras.layers.Layer) -> dict[str, WeightMatrix]:
    """The weights of embeddings and layers of a BERT by their paths inside the encoder. Vectors [N] become matrices
    [1, N], and queries, keys and values get a matrix each."""
    found: dict[str, WeightMatrix] = {}
    for variable in encoder.variables:
        path, value = variable.path.partition("/")[2], tf.convert_to_tensor(variable)
        if value.shape.rank == 1:
            value = value[None]
        table, outer = path.endswith(_TABLES), "feed_forward/outer/" in path
        rows = "" if table or value.shape[0] == 1 else "inner" if outer else "width"
        columns = "inner" if "feed_forward/inner/" in path else "width"
        parts = next((count for name, count in _JOINED.items() if name in path), 1)
        for number, part in enumerate(tf.split(value, parts, axis=1)):
            found[f"{path}/{number}" if parts > 1 else path] = WeightMatrix(part, rows, columns)
    return found


@made_from(ProjectionsConfig)
class Projections(Layer):
    """U W V for weights W of a BERT. U and V depend on the widths of W, not on its layer. Tables and vectors have no
    U."""

    def starts(self) -> Mapping[str, Start]:
        """Random matrices that roughly keep the standard deviation of a weight."""
        D, F = self.config.source
        return {
            f"{side}_{name}": Start(kind="random_normal", deviations=(size**-0.5,))
            for side in ("rows", "columns")
            for name, size in (("width", D), ("inner", F))
        }

    def call(self, weight: WeightMatrix) -> tf.Tensor:
        value = weight.value
        if weight.rows:
            value = tf.matmul(getattr(self, f"rows_{weight.rows}"), value)
        return tf.matmul(value, getattr(self, f"columns_{weight.columns}"))

    def distances(
        self, source: Mapping[str, WeightMatrix], target: Mapping[str, WeightMatrix]
    ) -> Iterator[tuple[str, Any]]:
        """For each path, the squared difference [] between the weight of ``target`` and the projected weight of
        ``source``, summed over its numbers."""
        for path, weight in target.items():
            difference = tf.cast(self.call(source[path]) - weight.value, tf.float32)  # for a sum of many numbers
            yield path, tf.reduce_sum(tf.square(difference))
