"""Features of the pictures and sounds of a corpus, by document.

The sidecar of a text (`models.text.sidecars`) may name a file of NumPy arrays (.npz) and assign lines of the text to
its pictures. The file has P pictures with N regions in total:

    ids      unicode [P]       unique names
    ends     int64 [P]         end of each picture's regions, which is the start of the next picture's regions
    regions  float32 [N, F]    features
    boxes    float32 [N, 4]    left, top, right and bottom as shares of the picture: left < right, top < bottom

A file of sounds has ``frames`` [N, F] instead of regions and boxes. A document has at most one picture. A tokenised
corpus stores the features in the order of its documents, as a `Media`.
"""

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ptmbench.models.channels import CHANNELS, WIDTHS, media
from ptmbench.models.text.joined import Joined
from ptmbench.models.text.pieces import CorpusError


@dataclass(frozen=True)
class Media:
    """The pictures of the D documents of a corpus.

    ``offsets`` int64 [D + 1] is the first region of each document, ``arrays`` are float32 [N * W] for each channel, and
    ``widths`` are the W of the channels.
    """

    offsets: np.ndarray | Joined
    arrays: Mapping[str, np.ndarray | Joined]
    widths: Mapping[str, int]

    def counts(self) -> np.ndarray:
        """Returns the number of regions of each document, int64 [D]."""
        return np.diff(self.offsets.take(np.arange(len(self.offsets)), mode="wrap").astype(np.int64))

    def of(self, documents: np.ndarray, room: int) -> dict[str, np.ndarray]:
        """Returns the channels of ``documents`` [B], each float32 [B, room, W]: the first ``room`` regions of each.

        Missing regions are zeros.
        """
        begin, end = (self.offsets.take(documents + shift, mode="wrap").astype(np.int64) for shift in (0, 1))
        place = begin[:, None] + np.arange(room)  # [B, room]
        present = place < end[:, None]
        found = {}
        for name, width in self.widths.items():
            filled = found[name] = np.zeros((*place.shape, width), np.float32)
            filled[present] = self.arrays[name].take(place[present][:, None] * width + np.arange(width), mode="wrap")
        return found


@dataclass(frozen=True)
class Pictures:
    """A file of pictures.

    ``numbers`` is the index of each picture by name, ``offsets`` [P + 1] the first region of each picture, and
    ``arrays`` are [N, W] by channel.
    """

    path: Path
    numbers: Mapping[str, int]
    offsets: np.ndarray
    arrays: Mapping[str, np.ndarray]

    @property
    def widths(self) -> dict[str, int]:
        """The number of features of each channel."""
        return {name: array.shape[1] for name, array in self.arrays.items() if name in WIDTHS}

    def of(self, name: str | None) -> dict[str, np.ndarray]:
        """Returns the arrays [R, W] of the picture ``name``, by channel. R is 0 if ``name`` is None."""
        begin, end = (0, 0) if name is None else self.offsets[self.numbers[name] :][:2]
        return {channel: array[begin:end] for channel, array in self.arrays.items()}


def pictures(path: Path) -> Pictures:
    """Reads the file of pictures or sounds at ``path``. Raises `CorpusError` if it is not in the format."""
    try:
        status = path.stat()
    except OSError as error:
        raise CorpusError(f"Cannot read {path}, a file of pictures: {error.strerror or error}.") from error
    return _pictures(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=2)
def _pictures(path: Path, changed: int, size: int) -> Pictures:
    arrays = _arrays(path)
    ids, ends = arrays.pop("ids", None), arrays.pop("ends", None)
    if ids is None or ids.ndim != 1 or ids.dtype.kind != "U" or len(set(ids.tolist())) != len(ids):
        raise CorpusError(f'{path}: "ids" must be the names of the pictures, different texts in one dimension.')
    if ends is None or ends.shape != ids.shape or ends.dtype.kind not in "iu" or (np.diff(ends, prepend=0) < 0).any():
        raise CorpusError(f'{path}: "ends" must say where the regions of each of {len(ids)} names end, in order.')
    wide = [name for name in arrays if name in WIDTHS]
    if len(wide) != 1 or set(arrays) != set(media(wide[0])):
        wanted = " or ".join(" and ".join(media(name)) for name in WIDTHS)
        raise CorpusError(f"{path} has the arrays {', '.join(sorted(arrays)) or 'none'}. Expected ids, ends, {wanted}.")
    total = int(ends[-1]) if len(ends) else 0
    found = {}
    for name, array in arrays.items():
        wanted = CHANNELS[name].axes[2]
        fits = array.ndim == 2 and array.dtype.kind == "f" and len(array) == total and array.shape[1] > 0
        if not fits or (wanted.isdigit() and array.shape[1] != int(wanted)):
            raise CorpusError(
                f'{path}: "{name}" is an array of decimal numbers of shape [{total}, {wanted}], not {array.dtype} of '
                f"shape {list(array.shape)}."
            )
        found[name] = array.astype(np.float32)
        if len(bad := np.flatnonzero(~np.isfinite(found[name]).all(axis=1))):
            raise CorpusError(f'{path}: row {bad[0]} of "{name}" holds a number that is not finite in 32 bits.')
    if "boxes" in found and len(bad := np.flatnonzero(~are_valid_boxes(found["boxes"]))):
        raise CorpusError(
            f'{path}: row {bad[0]} of "boxes" is {found["boxes"][bad[0]].tolist()}. Expected left, top, right and '
            "bottom between 0 and 1, left before right and top before bottom."
        )
    return Pictures(path, {str(name): n for n, name in enumerate(ids)}, np.concatenate([[0], ends]), found)


def are_valid_boxes(boxes: np.ndarray) -> np.ndarray:
    """Returns whether each of ``boxes`` [N, 4] is not empty and lies inside its picture: bool [N]."""
    inside = ((boxes >= 0) & (boxes <= 1)).all(axis=1)
    return inside & (boxes[:, 0] < boxes[:, 2]) & (boxes[:, 1] < boxes[:, 3])


def _arrays(path: Path) -> dict[str, Any]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, KeyError, AttributeError, zipfile.BadZipFile, zipfile.LargeZipFile) as error:
        raise CorpusError(f"{path} is damaged, or no .npz file of NumPy arrays: {error}.") from error


def shard_arrays(found: Sequence[Mapping[str, np.ndarray]], names: Sequence[str]) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the arrays of a shard for the pictures ``found`` of its documents.

    These are ``offsets``, uint32 [D + 1], and the flattened channels ``names``.
    """
    sizes = [len(one[names[0]]) for one in found]
    yield "offsets", np.concatenate([[0], np.cumsum(sizes)]).astype(np.uint32)
    for name in names:
        flat = [one[name].ravel() for one in found]
        yield name, np.concatenate(flat).astype(np.float32) if flat else np.zeros(0, np.float32)
