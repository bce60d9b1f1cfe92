"""Reads the pickles in torch's files with an interpreter of a few instructions. Calls nothing that a file names.

A pickle is a program for a stack machine. `pickle.Unpickler` runs all of it, in C. Its memo is an array as long as the
largest index, so that eight bytes can take gigabytes. The interpreter here knows only the instructions that
``torch.save`` writes: those of protocol 2, and their replacements in later protocols. It has a dictionary for its memo,
makes a `Tensor` where torch would make a tensor, and stops after `MOST` instructions. Its memory is at most a small
multiple of the program's length.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ptmbench.models.published import PublishedError

STORAGES = {"Double": "<f8", "Float": "<f4", "Half": "<f2", "BFloat16": "bf16", "Long": "<i8", "Int": "<i4"}
STORAGES |= {"Short": "<i2", "Char": "i1", "Byte": "u1", "Bool": "?"}
MOST = 1 << 20
"""Most instructions of a program. A tensor takes about 30."""
LONGEST = 1 << 24
"""Most bytes of a program, and therefore of any string in it."""


@dataclass(frozen=True)
class Storage:
    key: str
    kind: str
    count: int
    """How many numbers it holds."""


@dataclass(frozen=True)
class Tensor:
    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class _Kind:
    name: str


class Damaged(ValueError):
    """The program is not a pickle that torch wrote."""


_MARK = object()
_PLAIN = {b"N": None, b"\x88": True, b"\x89": False}
_NUMBERS = {b"K": "<B", b"M": "<H", b"J": "<i", b"G": ">d"}
_STRINGS = {b"X": "<I", b"\x8c": "<B", b"\x8d": "<Q", b"U": "<B", b"T": "<i", b"C": "<B", b"B": "<I"}
_ODDLY_CODED = (b"U", b"T", b"C", b"B")  # strings of Python 2, and bytes: decoded as Latin-1
_MEMO = {b"q": "<B", b"r": "<I", b"h": "<B", b"j": "<I"}
_SKIPPED = {b"\x80": 1, b"\x95": 8}  # the protocol's number, the length of a frame
_TUPLES = {b"\x85": 1, b"\x86": 2, b"\x87": 3}


def read(file: BinaryIO, path: Path) -> tuple[Any, dict[str, Storage]]:
    """Runs the next program in ``file``. Returns its result and the storages that it names, by key.

    Afterwards ``file`` is at the end of the program. Raises `PublishedError` for a program that names anything but
    tensors, and `Damaged` for one that torch did not write.
    """
    return _Machine(file, path).run()


class _Machine:
    def __init__(self, file: BinaryIO, path: Path):
        self._file, self._path, self._left = file, path, LONGEST
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._storages: dict[str, Storage] = {}

    def run(self) -> tuple[Any, dict[str, Storage]]:
        for _ in range(MOST):
            code = self._bytes(1)
            if code == b".":
                return self._pop(), self._storages
            self._step(code)
        raise Damaged(f"it has more than {MOST:,} instructions")

    def _step(self, code: bytes) -> None:
        stack = self._stack
        if code in _PLAIN:
            stack.append(_PLAIN[code])
        elif code in _NUMBERS:
            stack.append(self._number(_NUMBERS[code]))
        elif code in _STRINGS:
            text = self._bytes(self._number(_STRINGS[code]))
            stack.append(text.decode("latin-1" if code in _ODDLY_CODED else "utf-8"))
        elif code == b"\x8a":
            stack.append(int.from_bytes(self._bytes(self._number("<B")), "little", signed=True))
        elif code in (b"q", b"r"):
            self._memo[self._number(_MEMO[code])] = self._top()
        elif code == b"\x94":
            self._memo[len(self._memo)] = self._top()
        elif code in (b"h", b"j"):
            stack.append(self._memo[self._number(_MEMO[code])])
        elif code in _SKIPPED:
            self._bytes(_SKIPPED[code])
        elif code == b"(":
            stack.append(_MARK)
        elif code in (b"}", b"]", b")"):
            stack.append({b"}": dict, b"]": list, b")": tuple}[code]())
        elif code in _TUPLES:
            stack.append(tuple(reversed([self._pop() for _ in range(_TUPLES[code])])))
        elif code == b"t":
            stack.append(tuple(self._marked()))
        elif code == b"s":
            value, key = self._pop(), self._pop()
            self._set([key, value])
        elif code == b"u":
            self._set(self._marked())
        elif code == b"a":
            self._add([self._pop()])
        elif code == b"e":
            self._add(self._marked())
        elif code == b"0":
            self._pop()
        elif code == b"c":
            stack.append(self._named(self._line(), self._line()))
        elif code == b"\x93":
            name, module = self._pop(), self._pop()
            stack.append(self._named(module, name))
        elif code == b"Q":
            stack.append(self._storage(self._pop()))
        elif code == b"R":
            given, made = self._pop(), self._pop()
            stack.append(self._made(made, given))
        elif code == b"b":  # attributes of a state dict: the versions of modules
            self._pop()
        else:
            raise Damaged(f"it has the instruction {code!r}")

    def _bytes(self, count: int) -> bytes:
        self._left -= count
        if count < 0 or self._left < 0:
            raise Damaged(f"it is longer than {LONGEST:,} bytes")
        found = self._file.read(count)
        if len(found) < count:
            raise Damaged("it ends too early")
        return found

    def _number(self, layout: str) -> Any:
        return struct.unpack(layout, self._bytes(struct.calcsize(layout)))[0]

    def _line(self) -> str:
        found = self._file.readline(256)
        self._left -= len(found)
        return found.decode().removesuffix("\n")

    def _top(self) -> Any:
        if not self._stack:
            raise Damaged("its stack is empty")
        return self._stack[-1]

    def _pop(self) -> Any:
        top = self._top()
        self._stack.pop()
        return top

    def _marked(self) -> list[Any]:
        """Pops the items above the last mark, and returns them in the order in which they were pushed."""
        found = []
        while (top := self._pop()) is not _MARK:
            found.append(top)
        return found[::-1]

    def _set(self, items: list[Any]) -> None:
        """Sets items of the dict on the stack. Keys must be names or numbers: nested keys may take forever to hash."""
        target = self._top()
        if not isinstance(target, dict) or len(items) % 2:
            raise Damaged("it sets an item of what is no dict")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if type(key) not in (str, int):
                raise Damaged("a key is no name")
            target[key] = value

    def _add(self, items: list[Any]) -> None:
        target = self._top()
        if not isinstance(target, list):
            raise Damaged("it adds to what is no list")
        target.extend(items)

    def _named(self, module: Any, name: Any) -> Any:
        if type(module) is str and type(name) is str:
            if module == "torch" and name.removesuffix("Storage") in STORAGES:
                return _Kind(name.removesuffix("Storage"))
            if (module, name) in _MAKERS:
                return _MAKERS[module, name]
        asked = ".".join(part[:80] if type(part) is str else "?" for part in (module, name))
        raise PublishedError(
            f"{self._path} was not read: its pickle asks for {asked}, and code of checkpoints is never run. Convert it "
            "to model.safetensors where it came from."
        )

    def _storage(self, given: Any) -> Storage:
        """Returns the storage that ``given`` describes: ("storage", kind, key, device, count, ...)."""
        _, kind, key, _, count, *_ = given
        if type(kind) is not _Kind or type(key) is not str or type(count) is not int:
            raise Damaged("a storage is not named as torch names them")
        found = Storage(key, STORAGES[kind.name], count)
        if self._storages.setdefault(key, found) != found:
            raise Damaged(f"the storage {key!r} has two descriptions")
        return found

    def _made(self, made: Any, given: Any) -> Any:
        if made is _ordered:
            return {}
        if made is _parameter:
            return given[0]
        if made is _tensor:
            storage, offset, shape, strides, *_ = given
            numbers = (offset, *shape, *strides)
            if type(storage) is not Storage or any(type(n) is not int or abs(n) > 1 << 62 for n in numbers):
                raise Damaged("a tensor is not described as torch describes them")
            return Tensor(storage, offset, tuple(shape), tuple(strides))
        raise Damaged("it calls what is no maker of tensors")


_ordered, _parameter, _tensor = object(), object(), object()
_MAKERS: Mapping[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): _ordered,
    ("torch._utils", "_rebuild_parameter"): _parameter,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
}
