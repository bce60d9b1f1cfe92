"""One weight in two layouts: ours, and the layout of a published checkpoint."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Weight:
    """The names and the layout of the variable ``ours`` of ``Pretrainable.loss`` in a checkpoint.

    ``theirs`` are its names there, including the prefix. Several arrays, such as queries, keys and values, are
    concatenated along our last axis. Reading slices, reshapes and transposes each of them, in this order. Writing
    reverses these steps.
    """

    ours: str
    theirs: tuple[str, ...]
    skipped: int = 0
    """Number of unused rows at the start of their array, which ours does not have (the positions of BART)."""
    transposed: bool = False
    """Whether their array is [out, in], as in torch's Linear."""
    reshaped: tuple[int, ...] = ()
    """The shape of each of their arrays, if it is neither ours nor its transpose (an extra axis for the heads)."""
    vocabulary: bool = False
    """Whether their first axis has the ids of the vocabulary, which have other numbers here."""
    copies: tuple[str, ...] = ()
    """Further names of their array, because it is used twice (an output layer that is tied to the embedding)."""
    otherwise: str = ""
    """The array to read if the only name in ``theirs`` is missing: the embedding, for an output layer that is tied to
    it in some checkpoints."""
    head: bool = False
    """Whether it belongs to the objective. A checkpoint without it still has a whole encoder."""
    reversed: bool = False
    """Whether our last axis has the reverse order (the two classes of next-sentence prediction)."""

    def read(self, arrays: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
        """Returns our array, of ``shape``. Raises `KeyError` if a name is missing, `ValueError` for another shape."""
        found = [arrays[name][self.skipped :] for name in self.theirs]
        part = (*shape[:-1], shape[-1] // len(found)) if shape else shape
        lying = part[::-1] if self.transposed else part
        # The shapes are compared, because a transposed array has as many numbers.
        if any(array.shape != (self.reshaped or lying) for array in found):
            raise ValueError(f"They have the shapes {[array.shape for array in found]}.")
        if not shape:
            return found[0].reshape(shape)
        found = [array.reshape(lying) for array in found]
        joined = np.concatenate([array.T if self.transposed else array for array in found], axis=-1)
        return joined[..., ::-1] if self.reversed else joined

    def write(self, array: np.ndarray) -> dict[str, np.ndarray]:
        """Returns their arrays by name, including the copies. Skipped rows are zeros."""
        written, array = {}, array[..., ::-1] if self.reversed else array
        for name, part in zip(self.theirs, np.split(array, len(self.theirs), axis=-1), strict=True):
            part = part.T if self.transposed else part
            part = part.reshape(self.reshaped) if self.reshaped else part
            if self.skipped:
                part = np.concatenate([np.zeros((self.skipped, *part.shape[1:]), part.dtype), part])
            written[name] = np.ascontiguousarray(part)
        return written | {copy: written[self.theirs[0]] for copy in self.copies}
