"""Configurations of convolutional cells: graphs of operations over the tokens of a row, and a stack of such cells.

Letters: D width, W window, N intermediate nodes, K cells. Source: Chen et al. (2020), "AdaBERT". `models.layers.cells`
has the equations. An edge of a finished network has one operation. During a search it has several, which are weighted.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ptmbench.models.layers.config import Config, LinearConfig, NormConfig, Shape
from ptmbench.models.layers.convolution_config import HE

CONVOLUTIONS = ("conv3", "conv5", "conv7", "dilated3", "dilated5", "dilated7")
"""Convolutions with their windows. A dilated window leaves out one token between each two of its tokens."""
OPERATIONS = (*CONVOLUTIONS, "max3", "mean3", "skip", "zero")
"""All operations: convolutions, pooling over three tokens, the identity, and zeros."""
Edge = tuple[int, int, tuple[str, ...]]
"""Source node, target node, and operations of an edge. Nodes 0 and 1 are the inputs of a cell."""


@dataclass(frozen=True, kw_only=True)
class OperationConfig(Config):
    """One of `OPERATIONS` over vectors of ``width``. A convolution has filters and a layer-norm."""

    width: int
    kind: str

    def parts(self) -> Iterator[tuple[str, Config]]:
        if self.kind in CONVOLUTIONS:
            yield "filters", LinearConfig(inputs=int(self.kind[-1]) * self.width, outputs=self.width, start=HE)
            yield "norm", NormConfig(width=self.width)


@dataclass(frozen=True, kw_only=True)
class EdgeConfig(Config):
    """The operations of an edge, all over the same vectors of ``width``."""

    width: int
    operations: tuple[str, ...]

    def parts(self) -> Iterator[tuple[str, Config]]:
        for kind in self.operations:
            yield kind, OperationConfig(width=self.width, kind=kind)


@dataclass(frozen=True, kw_only=True)
class CellConfig(Config):
    """A graph of ``nodes`` intermediate nodes. ``mix`` has the weights of these nodes in the result, before the
    softmax."""

    width: int
    nodes: int
    edges: tuple[Edge, ...]

    def weights(self) -> Mapping[str, Shape]:
        return {"mix": (self.nodes,)}

    def parts(self) -> Iterator[tuple[str, Config]]:
        for source, target, operations in self.edges:
            yield f"edge_{source}_{target}", EdgeConfig(width=self.width, operations=operations)


@dataclass(frozen=True, kw_only=True)
class CellStackConfig(Config):
    """``layers`` cells of the same graph, with separate weights. ``mix_k`` has the weights of the embeddings and the
    first k cells in a result of depth k, before the softmax."""

    width: int
    layers: int
    nodes: int
    edges: tuple[Edge, ...]

    @property
    def dims(self) -> tuple[int, int, int]:
        """Width, depth and heads of an encoder with this stack. The mix of all cells counts as one more layer."""
        return self.width, self.layers + 1, 1

    def weights(self) -> Mapping[str, Shape]:
        return {f"mix_{depth}": (depth + 1,) for depth in range(1, self.layers + 1)}

    def parts(self) -> Iterator[tuple[str, Config]]:
        for index in range(self.layers):
            yield f"cell_{index}", CellConfig(width=self.width, nodes=self.nodes, edges=self.edges)
