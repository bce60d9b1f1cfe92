"""Vectors of symbols, such as TransE embeddings of entities, which were learnt elsewhere from a knowledge graph.

A folder in the layout of OpenKE's and ERNIE's releases has two files:

    entity2id.txt    the number of entities, then for each one a line: its name, a tab, its index from 0
    entity2vec.vec   for each index a line of numbers, divided by tabs

The sidecars of annotated texts name such a folder (`models.text.sidecars`). A tokenised corpus keeps the vectors of the
symbols that its tokenizer knows: float32 [K + 1, W], row k for the k-th symbol from 1, zeros in row 0.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from ptmbench.models.text.pieces import VECTORS, CorpusError, readable
from ptmbench.models.text.shards import replace

FILE = "vectors.safetensors"
"""The file of a tokenised corpus with its vectors."""


_LARGEST = float(np.finfo(np.float32).max)


def paths(folder: Path) -> tuple[Path, Path]:
    """Returns the two files of ``folder``: names and vectors. Raises `CorpusError` if one is missing."""
    found = tuple(folder / name for name in VECTORS)
    for path in found:
        if not path.is_file():
            raise CorpusError(f"There is no {path}. A folder of vectors has {' and '.join(VECTORS)}.")
    return found


def indices(folder: Path) -> Mapping[str, int]:
    """Returns the index of each entity in ``folder``. Raises `CorpusError` with the line that is wrong."""
    path, _ = paths(folder)
    status = path.stat()
    return _indices(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=2)
def _indices(path: Path, changed: int, size: int) -> Mapping[str, int]:
    found: dict[str, int] = {}
    with readable(path), path.open(encoding="utf-8") as file:
        first = file.readline().strip()
        if not first.isdecimal():
            raise CorpusError(f"{path}, line 1: expected the number of entities, found {first[:60]!r}.")
        count, seen = int(first), set()
        for number, line in enumerate(file, 2):
            if not line.strip():
                continue
            name, _, index = line.strip().rpartition("\t")
            if not name or not index.isdecimal():
                raise CorpusError(f"{path}, line {number}: expected a name, a tab and an index, found {line[:60]!r}.")
            if name in found or int(index) in seen:
                raise CorpusError(f"{path}, line {number}: the name {name!r:.60} or its index {index} occurs twice.")
            if int(index) >= count:
                raise CorpusError(
                    f"{path}, line {number}: the index {index} of {name!r:.60} is too large. Line 1 announces {count} "
                    "entities, which are numbered from 0."
                )
            found[name] = int(index)
            seen.add(int(index))
    if len(found) != count:
        raise CorpusError(f"{path}, line 1: it announces {count} entities, but {len(found)} follow. Restore the file.")
    return found


def width(folder: Path) -> int:
    """Returns the number of columns, W, of the vectors in ``folder``. Reads only the first vector."""
    _, path = paths(folder)
    with readable(path), path.open(encoding="utf-8") as file:
        return len(_numbers(path, 1, file.readline()))


def table(folder: Path, symbols: Sequence[str]) -> np.ndarray:
    """Returns the vectors of ``symbols``, float32 [K + 1, W]. Row 0 is zeros. Checks every line of the file.

    Raises `CorpusError` with the line that is wrong, and for a symbol that has no vector.
    """
    known = indices(folder)
    names, path = paths(folder)
    if missing := [symbol for symbol in symbols if symbol not in known]:
        raise CorpusError(
            f"{names} has no {missing[0]!r:.60}, which the tokenizer knows as an annotation with a vector. Use the "
            "folder of vectors that the tokenizer was trained with."
        )
    rows = {known[symbol]: row for row, symbol in enumerate(symbols, 1)}
    found = np.zeros((len(symbols) + 1, width(folder)), np.float32)
    count = 0
    with readable(path), path.open(encoding="utf-8") as file:
        for count, line in enumerate(file, 1):  # noqa: B007  the number of the last line is read below
            values = _numbers(path, count, line)
            if len(values) != found.shape[1]:
                raise CorpusError(
                    f"{path}, line {count}: it has {len(values)} numbers, but line 1 has {found.shape[1]}. All vectors "
                    "have the same width."
                )
            if (row := rows.get(count - 1)) is not None:
                found[row] = values
    if count != len(known):
        raise CorpusError(f"{path} has {count} lines, but {names} has {len(known)} entities. Restore both files.")
    return found


def _numbers(path: Path, number: int, line: str) -> list[float]:
    try:
        values = [float(value) for value in line.strip().split("\t")]
    except ValueError as error:
        raise CorpusError(f"{path}, line {number}: expected numbers divided by tabs, found {line[:60]!r}.") from error
    if not math.isfinite(sum(values)) or max(map(abs, values)) > _LARGEST:
        raise CorpusError(f"{path}, line {number}: a number is not finite in 32 bits. Train the vectors again.")
    return values


def write_tables(folder: Path, tables: Mapping[str, np.ndarray]) -> str:
    """Writes the vectors of each layer into the tokenised corpus ``folder`` and returns the file's SHA-256."""
    from safetensors.numpy import save

    content = save(dict(tables))
    replace(folder / FILE, content)
    return hashlib.sha256(content).hexdigest()


def read_tables(folder: Path, sha256: str) -> dict[str, np.ndarray]:
    """Reads the vectors that `write_tables` wrote into ``folder``.

    Raises `CorpusError` if they are missing or damaged.
    """
    from safetensors.numpy import load

    try:
        content = (folder / FILE).read_bytes()
    except OSError as error:
        raise CorpusError(f"Cannot read the vectors {folder / FILE}: {error.strerror or error}.") from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise CorpusError(f"{folder / FILE} is damaged: its SHA-256 is not the one in the manifest.")
    return load(content)


def intact(folder: Path, sha256: str) -> bool:
    """Whether ``folder`` has a file of vectors with this SHA-256."""
    path = folder / FILE
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == sha256
