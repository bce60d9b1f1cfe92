"""Virtual concatenation of arrays from many files, with the few operations of NumPy's arrays that samplers use."""

from collections.abc import Callable
from typing import Any

import numpy as np


class Joined:
    """The arrays ``piece(0), piece(1), ...`` as one, with NumPy's ``len``, ``take`` and ``searchsorted``.

    ``sizes`` int64 [P] are the lengths of the pieces, none of them 0. With ``bases`` int64 [P + 1], the pieces are
    offsets: each begins at 0 and has one entry more than its size, its end. ``bases[p]`` is added to the offsets of
    piece p, and the array ends with ``bases[P]``. ``piece`` is called for every look-up and may cache open files.
    """

    def __init__(
        self, piece: Callable[[int], Any], sizes: np.ndarray, dtype: type, bases: np.ndarray | None = None
    ) -> None:
        self.dtype = np.dtype(dtype)
        self._piece, self._bases = piece, bases
        self._first = np.concatenate([[0], np.cumsum(sizes)])  # [P + 1] where each piece begins
        self._length = int(self._first[-1]) + (bases is not None)

    def __len__(self) -> int:
        return self._length

    def take(self, where: np.ndarray, mode: str = "wrap") -> np.ndarray:
        """Returns the entries at ``where``, in its shape. ``mode`` is NumPy's, and must be "wrap"."""
        if mode != "wrap":
            raise ValueError(f"Joined arrays are counted around their end (mode='wrap'), not with mode='{mode}'.")
        where = np.asarray(where)
        flat = where.ravel()
        if flat.size and (flat.min() < 0 or flat.max() >= len(self)):
            flat = flat % len(self)
        found = np.empty(flat.shape, self.dtype)
        # The last entry of joined offsets is the end of the last piece.
        parts = (self._first.searchsorted(flat, side="right") - 1).clip(max=len(self._first) - 2)
        for part, here in _groups(parts):
            values = self._piece(part)[flat[here] - self._first[part]]
            found[here] = values if self._bases is None else values + self._bases[part]
        return found.reshape(where.shape)

    def searchsorted(self, values: np.ndarray, side: str = "left") -> np.ndarray:
        """Returns the places of ``values`` [B] among these offsets, int64 [B], as ``numpy.searchsorted`` does."""
        values = np.asarray(values)
        found = np.empty(values.shape, np.int64)
        parts = (self._bases.searchsorted(values, side=side) - 1).clip(0, len(self._bases) - 2)
        for part, here in _groups(parts):
            piece = self._piece(part)
            local = (values[here] - self._bases[part]).astype(piece.dtype)  # another type would copy the piece
            found[here] = self._first[part] + piece.searchsorted(local, side=side)
        return found


class Bits:
    """Bits packed by ``numpy.packbits``. Indexing returns booleans."""

    def __init__(self, packed: np.ndarray) -> None:
        self._packed = packed

    def __getitem__(self, where: np.ndarray) -> np.ndarray:
        return (self._packed[where >> 3] >> (7 - (where & 7)).astype(np.uint8)) & 1 != 0


def _groups(parts: np.ndarray) -> list[tuple[int, Any]]:
    """Returns each number in ``parts`` [N] with its places."""
    if not parts.size:
        return []
    if (parts == parts[0]).all():
        return [(int(parts[0]), slice(None))]
    order = np.argsort(parts, kind="stable")
    ranked = parts[order]
    cuts = np.flatnonzero(np.diff(ranked)) + 1
    return [(int(ranked[begin]), order[begin:end]) for begin, end in zip([0, *cuts], [*cuts, None], strict=True)]
