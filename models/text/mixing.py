"""A hash function for integers that gives the same values on every machine."""

import numpy as np


def hash_integers(x: np.ndarray) -> np.ndarray:
    """Hashes uint64 to uint64 with the finalizer of SplitMix64 (Steele et al., 2014).

    The hash is one-to-one, and each bit of it depends on all bits of ``x``.
    """
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
