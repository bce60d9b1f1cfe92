"""The search space of AdaBERT in NumPy: its edges, the costs of operations, and the choice of an architecture."""

from collections.abc import Sequence

import numpy as np

from ptmbench.bench.adapt.shapes import CellShape
from ptmbench.bench.errors import NotApplicable
from ptmbench.models.layers.cells_config import (
    CONVOLUTIONS,
    OPERATIONS,
    CellStackConfig,
    Edge,
    OperationConfig,
)

INPUTS = 2
"""Edges that each node keeps."""
_DRAWS = 2000


def space(width: int, layers: int, nodes: int) -> CellShape:
    """The network of a search: every node has an edge from each node before it, with all `OPERATIONS`."""
    edges = tuple((source, target, OPERATIONS) for target in range(2, 2 + nodes) for source in range(target))
    return CellShape(width=width, layers=layers, nodes=nodes, edges=edges)


def costs(width: int) -> np.ndarray:
    """The cost c_o of each operation, float64 [O]. It is the softmax of the mean of two shares: its share in the
    parameters of all operations, and its share in their FLOPs."""
    every = [OperationConfig(width=width, kind=kind) for kind in OPERATIONS]
    counts = np.array([[one.parameters().total, one.flops(1)] for one in every], float)  # [O, 2]
    powers = np.exp((counts / counts.sum(0)).mean(1))
    return powers / powers.sum()


def derived(edges: np.ndarray, depths: np.ndarray, whole: CellShape) -> CellShape:
    """The architecture with the largest scores ``edges`` [E, O] and ``depths`` [K] in the search space ``whole``."""
    powers = np.exp(edges - edges.max(-1, keepdims=True))
    shares = powers / powers.sum(-1, keepdims=True)
    likeliest, kept = shares.max(-1), []
    for target in range(2, 2 + whole.nodes):
        places = np.array([place for place, edge in enumerate(whole.edges) if edge[1] == target])
        kept += sorted(places[np.argsort(-likeliest[places], kind="stable")[:INPUTS]])
    found = tuple((*whole.edges[at][:2], (OPERATIONS[int(shares[at].argmax())],)) for at in kept)
    return _shape(whole, int(depths.argmax()) + 1, found)


def drawn(whole: CellShape, size: int, seed: int) -> CellShape:
    """Draws an architecture of the search space ``whole`` by ``seed``: a depth, and for each node two edges with an
    operation each. Unless ``size`` is 0, its cells have that number of parameters, within 10 %. Raises `NotApplicable`
    if no such architecture was drawn."""
    rng = np.random.default_rng([seed, 11])
    for _ in range(_DRAWS):
        depth, found = int(rng.integers(whole.layers)) + 1, []
        for target in range(2, 2 + whole.nodes):
            for source in sorted(rng.choice(target, INPUTS, replace=False)):
                found.append((int(source), target, (OPERATIONS[rng.integers(len(OPERATIONS))],)))
        shape = _shape(whole, depth, tuple(found))
        if not size or 0.9 * size <= parameters(shape) <= 1.1 * size:
            return shape
    raise NotApplicable(
        "no-architecture",
        f"because no drawn architecture has {size} parameters in its cells, give or take a tenth. Set another size, or "
        "other layers or width.",
    )


def one_hot(shape: CellShape, whole: CellShape) -> tuple[np.ndarray, np.ndarray]:
    """The weights of candidates, float32 [E, O] and [K], with which the network of the search computes the same
    function as the architecture ``shape``. Edges that ``shape`` lacks have the operation "zero"."""
    kinds = {edge[:2]: edge[2][0] for edge in shape.edges}
    places = [OPERATIONS.index(kinds.get(edge[:2], "zero")) for edge in whole.edges]
    edges = np.eye(len(OPERATIONS), dtype=np.float32)[places]
    return edges, np.eye(whole.layers, dtype=np.float32)[shape.layers - 1]


def parameters(shape: CellShape) -> int:
    """The number of parameters in the cells of ``shape``."""
    return CellStackConfig(**vars(shape)).parameters().total


def convolutions(shape: CellShape) -> int:
    """The number of edges of a cell that are convolutions."""
    return sum(kinds[0] in CONVOLUTIONS for *_, kinds in shape.edges)


def _shape(whole: CellShape, depth: int, edges: Sequence[Edge]) -> CellShape:
    """The shape with these ``edges``, without those of the operation "zero", which add nothing."""
    left = tuple(edge for edge in edges if edge[2] != ("zero",))
    return CellShape(width=whole.width, layers=depth, nodes=whole.nodes, edges=left)
