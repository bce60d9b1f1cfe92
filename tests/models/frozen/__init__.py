"""What other implementations compute for tiny networks, kept as small arrays: the comparison needs none of them.

One file for each comparison, NAME.npz, with

    about      the packages that computed it with their versions, and the test that writes it
    weights    the names and shapes of the weights, as JSON. The weights are not kept: both sides draw each of them
               from a seed that is its name in the reference (`weight`), with the deviation ``deviation``
    tolerance  the largest difference that `compare` allows
    given/     inputs that no seed gives, such as masks that the reference drew
    expected/  what the reference computed

Each module of this package has functions that compute the same with our networks, as ``OURS`` by the files' names.
`tests.models.test_frozen` compares them with the files. The tests in `tests/models/references` compare them with the
reference itself, and write the files when pytest has ``--freeze``.
"""

import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent
TOLERANCE = 2e-5
"""2e-5 in float32 separates right from wrong."""


def weight(name: str, shape: tuple[int, ...], deviation: float = 0.1) -> np.ndarray:
    """The weight called ``name`` in the reference: normal, scales of norms around 1."""
    drawn = np.random.default_rng(zlib.crc32(name.encode())).normal(0.0, deviation, shape)
    scale = name.endswith("weight") or re.search(r"norm\w*/vars/0$", name)  # in torch; in Keras
    return (drawn + bool(len(shape) == 1 and scale)).astype(np.float32)


@dataclass(frozen=True)
class Frozen:
    """One comparison: what our side needs to compute, and what the reference computed."""

    about: str
    shapes: Mapping[str, tuple[int, ...]]
    given: Mapping[str, np.ndarray]
    expected: Mapping[str, np.ndarray]
    deviation: float = 0.1
    tolerance: float = TOLERANCE

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """The reference's weights by their names there."""
        return {name: weight(name, tuple(shape), self.deviation) for name, shape in self.shapes.items()}


def names() -> list[str]:
    """The comparisons that are kept."""
    return sorted(file.stem for file in FOLDER.glob("*.npz"))


def read(name: str) -> Frozen:
    """The comparison that is kept under ``name``."""
    with np.load(FOLDER / f"{name}.npz") as file:
        arrays = dict(file)
    parts = {
        part: {key.partition("/")[2]: value for key, value in arrays.items() if key.startswith(f"{part}/")}
        for part in ("given", "expected")
    }
    numbers = {name: float(arrays[name]) for name in ("deviation", "tolerance")}
    return Frozen(str(arrays["about"]), json.loads(str(arrays["weights"])), **parts, **numbers)


def write(name: str, frozen: Frozen) -> None:
    """Keep ``frozen`` under ``name``."""
    arrays = {"about": np.array(frozen.about), "weights": np.array(json.dumps(dict(frozen.shapes)))}
    arrays |= {name: np.array(getattr(frozen, name)) for name in ("deviation", "tolerance")}
    for part in ("given", "expected"):
        arrays |= {f"{part}/{key}": value for key, value in getattr(frozen, part).items()}
    np.savez_compressed(FOLDER / f"{name}.npz", **arrays)


def compare(found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray], tolerance: float = TOLERANCE) -> float:
    """The largest difference between arrays of the same names and shapes, which has to be below ``tolerance``.

    Integers have to be equal. Differences are absolute; where values exceed 1, relative to the largest one, and so they
    always are where the tolerance is looser than `TOLERANCE`, because the reference itself is rough.
    """
    assert set(found) == set(expected), (sorted(found), sorted(expected))
    gaps = {}
    for key, wanted in expected.items():
        ours = np.asarray(found[key])
        assert ours.shape == wanted.shape, f"{key} has the shape {ours.shape} here, {wanted.shape} there"
        if wanted.dtype.kind in "iub":
            assert np.array_equal(ours, wanted), f"{key} is {ours.tolist()} here, {wanted.tolist()} there"
        else:
            largest = np.abs(wanted).max()
            gaps[key] = float(np.abs(ours - wanted).max() / (largest if tolerance > TOLERANCE else max(1.0, largest)))
    assert not gaps or max(gaps.values()) < tolerance, gaps
    return max(gaps.values(), default=0.0)
