"""The predictor that a transform makes, with its weights as they are stored, and its size.

The cells of a suite (`bench.runs.answers`) and `perf engines` call it.
"""

from dataclasses import replace

from ptmbench.bench.adapt.predictor import Trained
from ptmbench.bench.adapt.transforms.contract import Material, Transformed
from ptmbench.bench.engine import packing
from ptmbench.bench.engine.checkpoint import Checkpoint
from ptmbench.bench.engine.cost import phase
from ptmbench.bench.runs import stored


def predictor_of(material: Material, made: Transformed, found: Checkpoint) -> Trained:
    """The predictor with the weights of ``made``, which a transform made from ``material``, the predictor in the
    checkpoint ``found``. Arrays that were changed by an earlier transform and removed by this one are forgotten."""
    source = material.predictor
    changed = packing.present(made.weights, (*source.changed, *made.changed))
    of = source.source or {"weights_sha256": found.weights_sha256, "disk_bytes": stored.bytes_of(found)}
    with phase("build"):
        return replace(
            source,
            weights=packing.without_zeros(made.weights, changed),
            shape=made.shape or source.shape,
            chain=material.chain,
            changed=changed,
            source=of,
        )


def sizes(predictor: Trained, parameters: int) -> dict[str, int]:
    """Counts the entries of the changed arrays of the transformed ``predictor``, and those of its ``parameters`` that
    are not zero. The arrays of its head do not count as parameters."""
    found = {name: packing.size_of(predictor.weights, name) for name in predictor.changed}
    zeros = sum(size.zeros for name, size in found.items() if name not in predictor.learning.uncounted)
    return {
        "parameters_nonzero": parameters - zeros,
        "parameters_transformed": sum(size.entries for size in found.values()),
    }
