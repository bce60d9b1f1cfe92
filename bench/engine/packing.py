"""Stores the arrays of compressed networks without their zeros, or as int8 codes. Unpacking restores every bit.

A packed array NAME is stored as several arrays:

    NAME#mask, NAME#values, NAME#shape    one bit for each entry, the non-zero entries, the shape
    NAME#codes, NAME#scales               int8 codes [R, D], and float32 scales [P, Q] of blocks of R/P x D/Q codes
    NAME#levels, NAME#lowest,             codes of 1 to 8 bits, minus the lowest code of their block; the lowest codes
    NAME#layout, NAME#steps               int16 [P, Q]; the number of bits, R and D; the value of a code of 1 per block

Other arrays keep their names. The codes of a pruned table lack their zeros too, as NAME#codes#mask and so on.
`bench.runs.answers` packs the weights of transformed models, and `bench.adapt.predictor` unpacks them.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

Arrays = Mapping[str, np.ndarray]
_MASK, _VALUES, _SHAPE, _CODES, _SCALES = "#mask", "#values", "#shape", "#codes", "#scales"
_LEVELS, _LOWEST, _LAYOUT, _STEPS = "#levels", "#lowest", "#layout", "#steps"
_SCALE = "_scale"


class Size(NamedTuple):
    """The size of a stored array, or of several together."""

    entries: int
    zeros: int
    bits: float
    """Bits of each stored entry; of several arrays, the mean over their entries."""


def sparse(name: str, array: np.ndarray) -> dict[str, np.ndarray]:
    """Packs ``array`` without its zeros, or returns it unpacked if that is smaller. -0.0 is not a zero: it has a bit
    set."""
    flat = np.ascontiguousarray(array).reshape(-1)
    there = flat.view(f"u{array.itemsize}") != 0
    if np.count_nonzero(there) * array.itemsize + array.size / 8 >= array.nbytes:
        return {name: array}
    shape = np.array(array.shape, np.int64)
    return {name + _MASK: np.packbits(there), name + _VALUES: flat[there], name + _SHAPE: shape}


def present(arrays: Arrays, names: Iterable[str]) -> tuple[str, ...]:
    """Those of ``names`` whose arrays are among the stored ``arrays``, in any format; each once."""
    found = dict.fromkeys(names)
    return tuple(name for name in found if any(name + end in arrays for end in ("", _CODES, _LEVELS)))


def without_zeros(arrays: Arrays, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Packs those of ``arrays`` called ``names`` with `sparse`. Packs the codes of int8 matrices, and keeps levels."""
    packed = {name + _CODES if name + _CODES in arrays else name for name in names if name + _LEVELS not in arrays}
    found = {name: array for name, array in arrays.items() if name not in packed}
    for name in sorted(packed):
        found |= sparse(name, arrays[name])
    return found


def as_codes(name: str, codes: np.ndarray, scales: np.ndarray) -> dict[str, np.ndarray]:
    """Packs a matrix of values ``codes / scales``: int8 ``codes`` [R, D], float32 ``scales`` [P, Q], each for a block
    of R/P x D/Q codes."""
    return {name + _CODES: codes, name + _SCALES: scales}


def as_levels(name: str, codes: np.ndarray, steps: np.ndarray, bits: int) -> dict[str, np.ndarray]:
    """Packs a matrix of values ``codes * steps``, with ``bits`` bits for each code: ``codes`` [R, D], float32 ``steps``
    [P, Q] as the scales of `as_codes`. Raises `ValueError` if the codes of a block need more bits."""
    blocks = [(size, codes.shape[axis] // size) for axis, size in enumerate(steps.shape)]
    lowest = codes.reshape([size for pair in blocks for size in pair]).min((1, 3)).astype(np.int16)  # [P, Q]
    levels = codes - _spread(lowest, codes.shape)
    if levels.max() >= 2**bits:
        raise ValueError(f"{name} has codes that are {levels.max()} apart, which {bits} bits cannot hold.")
    each = np.unpackbits(levels.astype(np.uint8).reshape(-1, 1), axis=1)[:, 8 - bits :]
    layout = np.array([bits, *codes.shape], np.int64)
    packed = {name + _LEVELS: np.packbits(each), name + _LOWEST: lowest, name + _LAYOUT: layout}
    return packed | {name + _STEPS: steps}


def unpacked(arrays: Arrays) -> dict[str, np.ndarray]:
    """The original arrays of the stored ``arrays``, by name."""
    whole = {name: array for name, array in arrays.items() if not name.endswith((_MASK, _VALUES, _SHAPE))}
    for name in arrays:
        if name.endswith(_MASK):
            own = name.removesuffix(_MASK)
            values, shape = arrays[own + _VALUES], tuple(arrays[own + _SHAPE])
            filled = np.zeros(int(np.prod(shape)), values.dtype)
            filled[np.unpackbits(arrays[name], count=filled.size).astype(bool)] = values
            whole[own] = filled.reshape(shape)
    packed = (_CODES, _SCALES, _LEVELS, _LOWEST, _LAYOUT, _STEPS)
    found = {name: array for name, array in whole.items() if not name.endswith(packed)}
    for name, array in whole.items():
        if name.endswith(_CODES):
            own = name.removesuffix(_CODES)
            found[own] = array.astype(np.float32) / _spread(whole[own + _SCALES], array.shape)
        elif name.endswith(_LEVELS):
            own = name.removesuffix(_LEVELS)
            codes = _codes(whole, own)
            found[own] = codes.astype(np.float32) * _spread(whole[own + _STEPS], codes.shape)
    return found


def size_of(arrays: Arrays, name: str) -> Size:
    """The size of the array ``name`` in the stored ``arrays``."""
    if name + _CODES + _MASK in arrays:
        name += _CODES
    if name + _MASK in arrays:
        values, entries = arrays[name + _VALUES], int(np.prod(arrays[name + _SHAPE]))
        return Size(entries, entries - values.size, 8 * values.itemsize)
    if name + _LEVELS in arrays:
        codes = _codes(arrays, name)
        return Size(codes.size, codes.size - int(np.count_nonzero(codes)), int(arrays[name + _LAYOUT][0]))
    stored = arrays.get(name + _CODES, arrays.get(name))
    return Size(stored.size, stored.size - int(np.count_nonzero(stored)), 8 * stored.itemsize)


def size_of_all(arrays: Arrays) -> Size:
    """The size of all weights in the stored ``arrays`` together. The scales of codes do not count."""
    names = {name.partition("#")[0] for name in arrays}
    sizes = {name: size_of(arrays, name) for name in sorted(names)}
    found = [size for name, size in sizes.items() if not _is_scale(name, sizes)]
    entries = sum(size.entries for size in found)
    bits = sum(size.entries * size.bits for size in found) / max(1, entries)
    return Size(entries, sum(size.zeros for size in found), bits)


def _codes(arrays: Arrays, name: str) -> np.ndarray:
    """The codes int16 [R, D] that `as_levels` packed under ``name``."""
    bits, *shape = arrays[name + _LAYOUT].tolist()
    each = np.unpackbits(arrays[name + _LEVELS], count=bits * math.prod(shape)).reshape(-1, bits)
    levels = np.packbits(np.pad(each, ((0, 0), (8 - bits, 0))), axis=1).reshape(shape)
    return levels + _spread(arrays[name + _LOWEST], shape)


def _spread(of_blocks: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Repeats the numbers [P, Q] of blocks over their entries, to an array of ``shape``."""
    for axis, size in enumerate(shape):
        of_blocks = np.repeat(of_blocks, size // of_blocks.shape[axis], axis)
    return of_blocks


def _is_scale(name: str, sizes: Mapping[str, Size]) -> bool:
    """Whether ``name`` has the scales of an int8 kernel (as Keras names them)."""
    kernel = sizes.get(name.removesuffix(_SCALE)) if name.endswith(_SCALE) else None
    return kernel is not None and kernel.bits == 8
