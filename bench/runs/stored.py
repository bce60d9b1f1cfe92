"""Reads the arrays of checkpoints, once per process, and measures stored arrays."""

import zlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ptmbench.bench.engine import checkpoint
from ptmbench.bench.engine.checkpoint import Checkpoint

Stored = Mapping[str, Mapping[str, np.ndarray]]
"""The arrays of a checkpoint by file and name."""


def weights_of(found: Checkpoint) -> dict[str, np.ndarray]:
    """The weights of a checkpoint, read once per process."""
    return _weights(found.folder, found.weights_sha256)


@lru_cache(maxsize=4)
def _weights(folder: Path, sha256: str) -> dict[str, np.ndarray]:
    return checkpoint.read(folder).arrays()


def bytes_of(found: Checkpoint) -> int:
    """Size in bytes of the array files of a checkpoint."""
    return sum(found.path(name).stat().st_size for name in found.files if name.endswith(".safetensors"))


def measured(stored: Stored, compress: bool) -> dict[str, Any]:
    """Returns the mean bits of a weight in ``stored``, the fraction of zeros, and the bytes of its files. With
    ``compress``, also the bytes after compression, which takes a second for 25 MB."""
    from ptmbench.bench.engine.packing import size_of_all

    sizes = [size_of_all(arrays) for arrays in stored.values()]
    entries = sum(size.entries for size in sizes)
    files = [checkpoint.content_of(arrays) for arrays in stored.values()]
    found = {
        "bits_per_weight": sum(size.entries * size.bits for size in sizes) / entries,
        "zero_weights": sum(size.zeros for size in sizes) / entries,
        "disk_bytes": sum(map(len, files)),
    }
    if compress:
        found["disk_bytes_compressed"] = sum(len(zlib.compress(file)) for file in files)
    return found
