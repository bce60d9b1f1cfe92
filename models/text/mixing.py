"""A hash of numbers that is the same everywhere. No TensorFlow."""

import numpy as np


def mixed(x: np.ndarray) -> np.ndarray:
    """uint64 to uint64, one to one, every bit dependent on all: the end of SplitMix64 (Steele et al., 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
