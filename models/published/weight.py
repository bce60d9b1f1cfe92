"""One weight in two layouts: ours, and that of a published checkpoint. No TensorFlow."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Weight:
    """Where the variable ``ours`` of ``Pretrainable.loss`` lies in a checkpoint, and how it is turned there.

    ``theirs`` are its names, the prefix included; several are laid side by side along our last axis (queries, keys and
    values, say). Each is sliced, reshaped and turned in this order, and back in the other.
    """

    ours: str
    theirs: tuple[str, ...]
    skipped: int = 0
    """Rows at the front of theirs that no input reaches, and that ours is without (the positions of BART)."""
    transposed: bool = False
    """Theirs is [out, in], as torch's Linear keeps it."""
    reshaped: tuple[int, ...] = ()
    """The shape of each of theirs, where it is neither ours nor ours turned (heads as an axis of their own)."""
    vocabulary: bool = False
    """The first axis of theirs counts the ids of the vocabulary, which are numbered otherwise here."""
    copies: tuple[str, ...] = ()
    """Further names that theirs goes by, because it is used twice (the output layer that is the embedding)."""
    otherwise: str = ""
    """What is read where the only name of ``theirs`` is missing: the embedding, for an output layer that is tied to
    it there."""
    head: bool = False
    """Belongs to the objective: a checkpoint without it still encodes."""
    reversed: bool = False
    """Our last axis runs the other way (the two classes of next-sentence prediction)."""

    def read(self, arrays: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
        """Our array, of ``shape``; `KeyError` where a name is missing, `ValueError` where the sizes differ."""
        found = [arrays[name][self.skipped :] for name in self.theirs]
        part = (*shape[:-1], shape[-1] // len(found)) if shape else shape
        lying = part[::-1] if self.transposed else part
        # As many numbers may lie the other way round.
        if any(array.shape != (self.reshaped or lying) for array in found):
            raise ValueError(f"They have the shapes {[array.shape for array in found]}.")
        if not shape:
            return found[0].reshape(shape)
        found = [array.reshape(lying) for array in found]
        joined = np.concatenate([array.T if self.transposed else array for array in found], axis=-1)
        return joined[..., ::-1] if self.reversed else joined

    def write(self, array: np.ndarray) -> dict[str, np.ndarray]:
        """Their arrays by name, the copies included; rows that were skipped are zeros."""
        written, array = {}, array[..., ::-1] if self.reversed else array
        for name, part in zip(self.theirs, np.split(array, len(self.theirs), axis=-1), strict=True):
            part = part.T if self.transposed else part
            part = part.reshape(self.reshaped) if self.reshaped else part
            if self.skipped:
                part = np.concatenate([np.zeros((self.skipped, *part.shape[1:]), part.dtype), part])
            written[name] = np.ascontiguousarray(part)
        return written | {copy: written[self.theirs[0]] for copy in self.copies}
