"""Outputs of reference implementations for tiny networks, stored as small arrays. Comparing needs no reference.

Each comparison has one file, NAME.npz, with

    about      the packages that computed it, with their versions, and the command that writes the file
    weights    the names and shapes of the weights, as JSON. The weights are not stored: both sides draw each of them
               with its name in the reference as the seed (`weight`)
    deviation  the standard deviation of the weights
    tolerance  the largest difference that `compare` allows
    given/     inputs that do not follow from a seed, such as masks that the reference drew
    expected/  the outputs of the reference

The modules of this package compute the same outputs with our networks. Their ``OURS`` maps file names to functions.
`tests.models.test_frozen` compares these outputs with the files. The tests in `tests/models/references` compare them
with the reference itself, and write the files if pytest has the option ``--freeze``.
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
"""Differences of correct networks in float32 are below this, those of wrong ones above."""


def weight(name: str, shape: tuple[int, ...], deviation: float = 0.1) -> np.ndarray:
    """Returns the weight called ``name`` in the reference.

    It is normally distributed around 0, or around 1 for scales of norms.
    """
    drawn = np.random.default_rng(zlib.crc32(name.encode())).normal(0.0, deviation, shape)
    scale = name.endswith("weight") or re.search(r"norm\w*/vars/0$", name)  # in torch, in Keras
    return (drawn + bool(len(shape) == 1 and scale)).astype(np.float32)


@dataclass(frozen=True)
class Frozen:
    """One comparison: the inputs of our side, and the outputs of the reference."""

    about: str
    shapes: Mapping[str, tuple[int, ...]]
    given: Mapping[str, np.ndarray]
    expected: Mapping[str, np.ndarray]
    deviation: float = 0.1
    tolerance: float = TOLERANCE

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """The reference's weights by their names in the reference."""
        return {name: weight(name, tuple(shape), self.deviation) for name, shape in self.shapes.items()}


def names() -> list[str]:
    """Returns the names of the stored comparisons, sorted."""
    return sorted(file.stem for file in FOLDER.glob("*.npz"))


def read(name: str) -> Frozen:
    """Reads the comparison ``name`` from its file."""
    with np.load(FOLDER / f"{name}.npz") as file:
        arrays = dict(file)
    parts = {
        part: {key.partition("/")[2]: value for key, value in arrays.items() if key.startswith(f"{part}/")}
        for part in ("given", "expected")
    }
    numbers = {name: float(arrays[name]) for name in ("deviation", "tolerance")}
    return Frozen(str(arrays["about"]), json.loads(str(arrays["weights"])), **parts, **numbers)


def write(name: str, frozen: Frozen) -> None:
    """Writes ``frozen`` to the file of the comparison ``name``."""
    arrays = {"about": np.array(frozen.about), "weights": np.array(json.dumps(dict(frozen.shapes)))}
    arrays |= {name: np.array(getattr(frozen, name)) for name in ("deviation", "tolerance")}
    for part in ("given", "expected"):
        arrays |= {f"{part}/{key}": value for key, value in getattr(frozen, part).items()}
    np.savez_compressed(FOLDER / f"{name}.npz", **arrays)


def compare(found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray], tolerance: float = TOLERANCE) -> float:
    """Returns the largest difference between arrays of the same names and shapes. It must be below ``tolerance``.

    Integers must be equal. Differences are absolute, or relative to the largest value if that exceeds 1. They are
    always relative if the tolerance is looser than `TOLERANCE`, because then the reference itself is imprecise.
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
