"""Reads the arrays of published checkpoints: safetensors, and torch's two formats, whose pickles are not run.

A pickle is a program. `models.published._pickles` interprets the one in ``pytorch_model.bin``, makes descriptions of
tensors, and refuses all other names. Memory is bounded by a small multiple of the file's size: headers are bounded, and
their claims are compared with the file before any array is made.
"""

import io
import json
import math
import struct
import zipfile
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ptmbench.models.published import PublishedError, _pickles
from ptmbench.models.published._pickles import Storage, Tensor

_SAFETENSORS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "bf16", "I64": "<i8", "I32": "<i4", "I16": "<i2"}
_SAFETENSORS |= {"I8": "i1", "U8": "u1", "BOOL": "?"}
_MAGIC = 0x1950A86A20F9469CFC6C  # at the start of torch's format before 1.6
_LARGEST_HEADER = 2**24
"""Most bytes of a safetensors file's header, enough for 160,000 arrays. Parsed, it takes up to 25 times as many."""
_MOST_AXES = 8

_Maker = Callable[[], np.ndarray]


class Arrays(Mapping[str, np.ndarray]):
    """Arrays by name, read from disk at each access. Floating-point arrays are converted to float32."""

    def __init__(self, makers: Mapping[str, _Maker]):
        self._makers = dict(makers)

    def __getitem__(self, name: str) -> np.ndarray:
        array = self._makers[name]()
        return array.astype(np.float32) if array.dtype.kind == "f" and array.dtype.itemsize != 4 else array

    def __iter__(self):
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


def safetensors(path: Path) -> dict[str, _Maker]:
    """Returns the arrays of a safetensors file. Raises `PublishedError` if its header does not fit the file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = struct.unpack("<Q", file.read(8).ljust(8, b"\0"))[0]
        if length > min(size, _LARGEST_HEADER):
            raise _damaged(path)
        header = file.read(length)
    try:
        found = {}
        for name, entry in json.loads(header).items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                shape, kind = tuple(entry["shape"]), _SAFETENSORS[entry["dtype"]]
                numbers = (*shape, begin, end)
                if len(shape) > _MOST_AXES or any(type(n) is not int or not 0 <= n < 1 << 62 for n in numbers):
                    raise _damaged(path)
                if 8 + length + end > size or end - begin != math.prod(shape) * _itemsize(kind):
                    raise _damaged(path)
                found[name] = _from_disk(path, 8 + length + begin, shape, kind)
    except KeyError as error:
        raise PublishedError(
            f"{path} holds numbers of the kind {error}, which are not read here. Load it with transformers in float32 "
            "and save it."
        ) from error
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(path) from error
    return found


def _from_disk(path: Path, offset: int, shape: tuple[int, ...], kind: str) -> _Maker:
    def make() -> np.ndarray:
        content = np.fromfile(path, _raw(kind), math.prod(shape), offset=offset)
        return _number(content, kind).reshape(shape)

    return make


def torch(path: Path) -> dict[str, _Maker]:
    """Returns the arrays of a file by ``torch.save``. Raises `PublishedError` if it is damaged or names code."""
    try:
        if zipfile.is_zipfile(path):
            return _zipped(path)
        return _legacy(path)
    except PublishedError:
        raise
    except Exception as error:  # a damaged pickle can raise anything
        raise _damaged(path) from error


def _zipped(path: Path) -> dict[str, _Maker]:
    """Reads an archive with the program and a file for each storage, all uncompressed."""
    size = path.stat().st_size
    archive = zipfile.ZipFile(path)
    names = archive.namelist()
    (program,) = (name for name in names if name.endswith("/data.pkl"))
    root = program.removesuffix("data.pkl")

    def content(name: str) -> bytes:
        about = archive.getinfo(name)
        if about.compress_type != zipfile.ZIP_STORED:  # a few bytes can unpack to gigabytes
            raise PublishedError(
                f"{path} holds {name} compressed, and torch compresses nothing. Load it with torch and save it as "
                "model.safetensors."
            )
        if about.file_size > size:
            raise _damaged(path)
        return archive.read(name)

    if f"{root}byteorder" in names and content(f"{root}byteorder") != b"little":
        raise PublishedError(
            f"{path} was written on a big-endian machine, and little-endian numbers are read here. Load it with torch "
            "and save it as model.safetensors."
        )
    found, _ = _pickles.read(io.BytesIO(content(program)), path)

    @lru_cache(maxsize=1)  # tensors may share a storage
    def storage(known: Storage) -> np.ndarray:
        numbers = np.frombuffer(content(f"{root}data/{known.key}"), _raw(known.kind))
        if len(numbers) != known.count:
            raise _damaged(path)
        return _number(numbers, known.kind)

    return _tensors(found, storage, path)


def _legacy(path: Path) -> dict[str, _Maker]:
    """Reads three pickles about the format, the pickle of the tensors, the list of storages, and their bytes."""
    size = path.stat().st_size
    with path.open("rb") as file:
        magic, *_ = (_pickles.read(file, path)[0] for _ in range(3))
        if magic != _MAGIC:
            raise _damaged(path)
        found, storages = _pickles.read(file, path)
        keys, _ = _pickles.read(file, path)
        places = {}
        for key in keys:
            (count,) = struct.unpack("<q", file.read(8))
            known = storages[key]
            if count != known.count or file.tell() + count * _itemsize(known.kind) > size:
                raise _damaged(path)
            places[key] = file.tell()
            file.seek(count * _itemsize(known.kind), io.SEEK_CUR)

    @lru_cache(maxsize=1)
    def storage(known: Storage) -> np.ndarray:
        return _number(np.fromfile(path, _raw(known.kind), known.count, offset=places[known.key]), known.kind)

    return _tensors(found, storage, path)


def _tensors(content: Any, storage: Callable[[Storage], np.ndarray], path: Path) -> dict[str, _Maker]:
    """Returns the tensors of a state dict. Some files have it under "state_dict" or "model"."""
    for name in ("state_dict", "model"):
        if isinstance(content.get(name), Mapping):
            content = content[name]

    def maker(tensor: Tensor) -> _Maker:
        def make() -> np.ndarray:
            try:
                flat = storage(tensor.storage)
            except PublishedError:
                raise
            except Exception as error:  # a damaged archive can raise anything
                raise _damaged(path) from error
            last = tensor.offset + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.strides, strict=True))
            inside = 0 <= tensor.offset <= last < len(flat) and min(tensor.strides, default=0) >= 0
            count = math.prod(tensor.shape) if min(tensor.shape, default=0) >= 0 else -1
            # A tensor must be inside its storage. Strides of 0 could make an array of any size from one number.
            if count and not (inside and 0 < count <= len(flat)):
                raise _damaged(path)
            strides = tuple(s * flat.itemsize for s in tensor.strides)
            return np.lib.stride_tricks.as_strided(flat[tensor.offset :], tensor.shape, strides).copy()

        return make

    found = {name: tensor for name, tensor in content.items() if isinstance(tensor, Tensor)}
    if any(type(name) is not str or len(tensor.shape) > _MOST_AXES for name, tensor in found.items()):
        raise _damaged(path)
    return {name: maker(tensor) for name, tensor in found.items()}


def _itemsize(kind: str) -> int:
    return 2 if kind == "bf16" else np.dtype(kind).itemsize


def _raw(kind: str) -> str:
    return "<u2" if kind == "bf16" else kind


def _number(content: np.ndarray, kind: str) -> np.ndarray:
    """Converts bfloat16, the upper half of float32, to float32. Returns other kinds unchanged."""
    return (content.astype(np.uint32) << 16).view(np.float32) if kind == "bf16" else content


def _damaged(path: Path) -> PublishedError:
    return PublishedError(f"{path} is damaged or cut short. Fetch it again.")
