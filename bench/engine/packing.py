"""Arrays as compressed networks store them: without their zeros, or as int8 codes. Smaller, and read back bit for bit.

A packed array NAME stands as several arrays, whose names begin with it:

    NAME#mask, NAME#values, NAME#shape    one bit for each entry, the entries that are not zero, the shape
    NAME#codes, NAME#scales               int8 codes [R, D] and one scale for each row, float32 [R, 1]

Arrays that are not packed stand under their own names. `bench.adapt.predictor` unpacks what checkpoints hold.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

Arrays = Mapping[str, np.ndarray]
_MASK, _VALUES, _SHAPE, _CODES, _SCALES = "#mask", "#values", "#shape", "#codes", "#scales"


class Size(NamedTuple):
    """What an array amounts to as it is stored."""

    entries: int
    zeros: int
    bits: int
    """Of an entry that is stored."""


def sparse(name: str, array: np.ndarray) -> dict[str, np.ndarray]:
    """``array`` without its zeros; in one piece where that is not smaller. A zero has no bit set, so -0.0 is none."""
    flat = np.ascontiguousarray(array).reshape(-1)
    there = flat.view(f"u{array.itemsize}") != 0
    if np.count_nonzero(there) * array.itemsize + array.size / 8 >= array.nbytes:
        return {name: array}
    shape = np.array(array.shape, np.int64)
    return {name + _MASK: np.packbits(there), name + _VALUES: flat[there], name + _SHAPE: shape}


def rows_as_codes(name: str, codes: np.ndarray, scales: np.ndarray) -> dict[str, np.ndarray]:
    """A table [R, D] as int8 ``codes`` [R, D], each row divided by its own of the ``scales`` [R, 1]."""
    return {name + _CODES: codes, name + _SCALES: scales}


def unpacked(arrays: Arrays) -> dict[str, np.ndarray]:
    """The arrays that were packed as ``arrays``, by their own names."""
    found = {name: array for name, array in arrays.items() if "#" not in name}
    for name in arrays:
        if name.endswith(_MASK):
            own = name.removesuffix(_MASK)
            values, shape = arrays[own + _VALUES], tuple(arrays[own + _SHAPE])
            whole = np.zeros(int(np.prod(shape)), values.dtype)
            whole[np.unpackbits(arrays[name], count=whole.size).astype(bool)] = values
            found[own] = whole.reshape(shape)
        elif name.endswith(_CODES):
            own = name.removesuffix(_CODES)
            found[own] = arrays[name].astype(np.float32) / arrays[own + _SCALES]
    return found


def size_of(arrays: Arrays, name: str) -> Size:
    """What the array ``name`` amounts to among the stored ``arrays``."""
    if name + _MASK in arrays:
        values, entries = arrays[name + _VALUES], int(np.prod(arrays[name + _SHAPE]))
        return Size(entries, entries - values.size, 8 * values.itemsize)
    stored = arrays.get(name + _CODES, arrays.get(name))
    return Size(stored.size, stored.size - int(np.count_nonzero(stored)), 8 * stored.itemsize)
