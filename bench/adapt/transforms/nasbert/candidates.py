"""The search space of NAS-BERT in NumPy: candidates of blocks, their bins, and the choice of an architecture."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ptmbench.bench.adapt.shapes import StackShape
from ptmbench.bench.adapt.transforms import elastic
from ptmbench.bench.adapt.transforms.elastic import Subnetwork, Width
from ptmbench.bench.errors import NotApplicable

MOST = 20_000
"""The maximum number of candidates of a block."""
LEFT = 2
"""The minimum number of candidates that a bin keeps."""


@dataclass(frozen=True)
class Block:
    """Consecutive layers that are searched together."""

    begin: int
    end: int
    paths: tuple[Subnetwork, ...]
    """Its candidates: the widths of its layers."""
    parameters: np.ndarray
    """The number of parameters of each candidate."""
    flops: np.ndarray
    """The FLOPs of each candidate per text, as a mean."""

    def bins(self, count: int) -> np.ndarray:
        """The bin of each candidate, of ``count`` bins that are equally wide in parameters."""
        return np.minimum(self.parameters * count // max(1, self.parameters.max()), count - 1).astype(int)


def choices(shape: StackShape, shares: Sequence[float]) -> list[list[Width | None]]:
    """The options of each layer of a stack of ``shape``; None is the identity. Shares that round to the same width
    count once."""
    found = []
    for heads, inner in zip(shape.heads, shape.inner, strict=True):
        every = [elastic.scaled(StackShape(layers=1, heads=(heads,), inner=(inner,)), share)[0] for share in shares]
        pairs = itertools.product(sorted({one.heads for one in every}), sorted({one.inner for one in every}))
        found.append([None, *(Width(*pair) for pair in pairs)])
    return found


def check_count(options: Sequence[Sequence[Width | None]], count: int) -> None:
    """Raises `NotApplicable` if ``count`` blocks of layers with these ``options`` are more than there are layers, or if
    one of them has too many candidates."""
    if count > len(options):
        raise NotApplicable(
            "few-layers", f"because the model has {len(options)} layers, which do not form {count} blocks."
        )
    for layers in np.array_split(np.arange(len(options)), count):
        if (many := math.prod(len(options[layer]) for layer in layers)) > MOST:
            raise NotApplicable(
                "many-candidates",
                f"because a block of {len(layers)} layers has {many} candidates, and {MOST} are searched at most. Set "
                "more blocks or fewer shares.",
            )


def blocks_of(
    options: Sequence[Sequence[Width | None]], count: int, parameters: dict[Width, float], flops: dict[Width, float]
) -> list[Block]:
    """Divides the layers with these ``options`` into ``count`` blocks, with all candidates. See `check_count` first."""
    found = []
    for layers in np.array_split(np.arange(len(options)), count):
        paths = tuple(itertools.product(*(options[layer] for layer in layers)))
        sizes = [
            np.array([sum(costs[one] for one in path if one is not None) for path in paths], float)
            for costs in (parameters, flops)
        ]
        found.append(Block(int(layers[0]), int(layers[-1]) + 1, paths, *sizes))
    return found


def shrunk(losses: np.ndarray, bins: np.ndarray, alive: np.ndarray) -> np.ndarray:
    """Returns which of the C candidates are kept, bool [C]. Of the candidates that are ``alive``, each of the ``bins``
    keeps the half with the lower ``losses``, rounded up, and at least `LEFT`."""
    left = np.zeros_like(alive)
    for number in np.unique(bins):
        inside = np.flatnonzero(alive & (bins == number))
        best = inside[np.argsort(losses[inside], kind="stable")]
        left[best[: max(LEFT, -(-len(best) // 2))]] = True
    return left


def selected(
    blocks: Sequence[Block], losses: Sequence[np.ndarray], alive: Sequence[np.ndarray], limits: tuple[float, float]
) -> Subnetwork:
    """The architecture with the lowest sum of the ``losses`` of its blocks, among all combinations of candidates that
    are ``alive``. It is within the ``limits`` of parameters and FLOPs and has at least one layer. Raises
    `NotApplicable` if there is none.

    Combinations are built block by block. A combination is dropped if another one is at least as good in loss,
    parameters and FLOPs, because further blocks cannot change that.
    """
    found = [(0.0, 0.0, 0.0, ())]
    for block, loss, left in zip(blocks, losses, alive, strict=True):
        grown = []
        for at in np.flatnonzero(left):
            own = (float(loss[at]), float(block.parameters[at]), float(block.flops[at]))
            for *before, path in found:
                sums = [a + b for a, b in zip(before, own, strict=True)]
                if sums[1] <= limits[0] and sums[2] <= limits[1]:
                    grown.append((*sums, (*path, *block.paths[at])))
        found = _undominated(grown)
    best = [one for *_, one in sorted(found, key=lambda one: one[:3]) if any(one)]
    if not best:
        raise NotApplicable(
            "no-architecture", "because no architecture is small enough. Set parameters or flops higher."
        )
    return best[0]


def drawn(
    options: Sequence[Sequence[Width | None]],
    parameters: dict[Width, float],
    flops: dict[Width, float],
    limits: tuple[float, float],
    seed: int,
) -> Subnetwork:
    """Draws an architecture within the ``limits`` by ``seed``, with at least 90 % of the allowed parameters. Raises
    `NotApplicable` if none was drawn."""
    rng = np.random.default_rng([seed, 10])
    for _ in range(20_000):
        path = tuple(one[rng.integers(len(one))] for one in options)
        size, spent = (sum(costs[one] for one in path if one is not None) for costs in (parameters, flops))
        if 0.9 * limits[0] <= size <= limits[0] and spent <= limits[1]:
            return path
    raise NotApplicable(
        "no-architecture",
        "because no drawn architecture has 90 to 100 % of the allowed parameters and at most the allowed FLOPs. Set "
        "parameters lower or flops higher, or choose other shares.",
    )


def _undominated(found: list[tuple]) -> list[tuple]:
    kept: list[tuple] = []
    for one in sorted(found, key=lambda one: one[:3]):
        if not any(other[1] <= one[1] and other[2] <= one[2] and any(other[3]) for other in kept):
            kept.append(one)
    return kept
