"""Arrays in the files of published checkpoints: safetensors, and torch's own two formats without running their pickles.

A pickle is a program. The reader of ``pytorch_model.bin`` runs it with a table of the seven or so names that tensors
are made of, each replaced by a stand-in of ours; any other name is refused before anything is called.
"""

import io
import json
import math
import pickle
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from models.published import PublishedError

_SAFETENSORS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "bf16", "I64": "<i8", "I32": "<i4", "I16": "<i2"}
_SAFETENSORS |= {"I8": "i1", "U8": "u1", "BOOL": "?"}
_STORAGES = {"Double": "<f8", "Float": "<f4", "Half": "<f2", "BFloat16": "bf16", "Long": "<i8", "Int": "<i4"}
_STORAGES |= {"Short": "<i2", "Char": "i1", "Byte": "u1", "Bool": "?"}
_MAGIC = 0x1950A86A20F9469CFC6C  # opens torch's format of before 1.6
_LARGEST_HEADER = 100 * 2**20

_Maker = Callable[[], np.ndarray]


class Arrays(Mapping[str, np.ndarray]):
    """Arrays by name, each read from disk when it is asked for; floating point as float32."""

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
    """The arrays of a safetensors file; `PublishedError` where it is cut short or its table does not fit it."""
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
                if any(type(number) is not int or number < 0 for number in (*shape, begin, end)):
                    raise _damaged(path)
                if 8 + length + end > size or end - begin != math.prod(shape) * _itemsize(kind):
                    raise _damaged(path)
                found[name] = _from_disk(path, 8 + length + begin, shape, kind)
    except KeyError as error:
        raise PublishedError(f"{path} holds numbers of the kind {error}, which are not read here.") from error
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(path) from error
    return found


def _from_disk(path: Path, offset: int, shape: tuple[int, ...], kind: str) -> _Maker:
    def make() -> np.ndarray:
        content = np.fromfile(path, _raw(kind), math.prod(shape), offset=offset)
        return _number(content, kind).reshape(shape)

    return make


def torch(path: Path) -> dict[str, _Maker]:
    """The arrays of a file by ``torch.save``; `PublishedError` where it is damaged or its pickle asks for code."""
    try:
        if zipfile.is_zipfile(path):
            return _zipped(path)
        return _legacy(path)
    except PublishedError:
        raise
    except Exception as error:  # a damaged pickle can raise anything
        raise _damaged(path) from error


def _zipped(path: Path) -> dict[str, _Maker]:
    archive = zipfile.ZipFile(path)
    (program,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
    root = program.removesuffix("data.pkl")
    if f"{root}byteorder" in archive.namelist() and archive.read(f"{root}byteorder") != b"little":
        raise PublishedError(f"{path} was written on a big-endian machine; convert it to safetensors.")

    def storage(key: str, kind: str) -> np.ndarray:
        return _number(np.frombuffer(archive.read(f"{root}data/{key}"), _raw(kind)), kind)

    return _tensors(_Reader(io.BytesIO(archive.read(program)), path).load(), storage, path)


def _legacy(path: Path) -> dict[str, _Maker]:
    """Three pickles that say what this is, that of the tensors, the list of storages, and then their bytes."""
    with path.open("rb") as file:
        opening = [_Reader(file, path).load() for _ in range(3)]
        if opening[0] != _MAGIC:
            raise _damaged(path)
        reader = _Reader(file, path)
        content, keys = reader.load(), _Reader(file, path).load()
        places = {}
        for key in keys:
            (count,) = struct.unpack("<q", file.read(8))
            kind = reader.kinds[key]
            places[key] = (file.tell(), count)
            file.seek(count * _itemsize(kind), io.SEEK_CUR)
        if file.tell() > path.stat().st_size:
            raise _damaged(path)

    def storage(key: str, kind: str) -> np.ndarray:
        offset, count = places[key]
        return _number(np.fromfile(path, _raw(kind), count, offset=offset), kind)

    return _tensors(content, storage, path)


@dataclass(frozen=True)
class _Storage:
    key: str
    kind: str


@dataclass(frozen=True)
class _Tensor:
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class _Kind:
    name: str


def _tensor(storage: _Storage, offset: int, shape: tuple, strides: tuple, *others: Any) -> _Tensor:
    return _Tensor(storage, offset, tuple(shape), tuple(strides))


class _Reader(pickle.Unpickler):
    """Makes `_Tensor` where torch would make tensors, and calls nothing else."""

    def __init__(self, file: Any, path: Path):
        super().__init__(file)
        self._path, self.kinds = path, {}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _tensor
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return lambda data, *others: data
        if module == "torch" and name.removesuffix("Storage") in _STORAGES:
            return _Kind(name.removesuffix("Storage"))
        raise PublishedError(
            f"{self._path} was not read: its pickle asks for {module}.{name}, and code of checkpoints is never run. "
            "Convert it to model.safetensors where it came from."
        )

    def persistent_load(self, pid: Any) -> _Storage:
        """("storage", kind, key, device, count, ...)"""
        _, kind, key, *_ = pid
        self.kinds[key] = _STORAGES[kind.name]
        return _Storage(key, _STORAGES[kind.name])


def _tensors(content: Any, storage: Callable[[str, str], np.ndarray], path: Path) -> dict[str, _Maker]:
    """The tensors of a state dict; some files hold it under "state_dict" or "model"."""
    for name in ("state_dict", "model"):
        if isinstance(content.get(name), Mapping):
            content = content[name]

    def maker(tensor: _Tensor) -> _Maker:
        def make() -> np.ndarray:
            flat = storage(tensor.storage.key, tensor.storage.kind)
            last = tensor.offset + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.strides, strict=True))
            inside = 0 <= tensor.offset <= last < len(flat) and min(tensor.strides, default=0) >= 0
            if math.prod(tensor.shape) and not inside:  # what lies outside is not ours to read
                raise _damaged(path)
            strides = tuple(s * flat.itemsize for s in tensor.strides)
            return np.lib.stride_tricks.as_strided(flat[tensor.offset :], tensor.shape, strides).copy()

        return make

    return {name: maker(tensor) for name, tensor in content.items() if isinstance(tensor, _Tensor)}


def _itemsize(kind: str) -> int:
    return 2 if kind == "bf16" else np.dtype(kind).itemsize


def _raw(kind: str) -> str:
    return "<u2" if kind == "bf16" else kind


def _number(content: np.ndarray, kind: str) -> np.ndarray:
    """bfloat16 is the upper half of float32."""
    return (content.astype(np.uint32) << 16).view(np.float32) if kind == "bf16" else content


def _damaged(path: Path) -> PublishedError:
    return PublishedError(f"{path} is damaged or cut short. Fetch it again.")
