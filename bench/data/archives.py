"""Reads the members of untrusted zip and tar files. `bench.data.unpack` writes them.

In both formats, a small file can request much memory before its first member is read:

- The directory of a zip file is loaded whole. `_check_directory` checks its size first.
- A tar header can announce an extension of any length (a PAX header, a GNU long name, the map of a sparse file), which
  the standard library reads in one go. `_Bounded` gives it at most `HEADER` bytes of headers for each member. Without
  this limit, a 7 MB file with a PAX header of 1.5 GB took 1.8 GB.
"""

import bz2
import gzip
import io
import lzma
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ptmbench.bench.errors import EnvironmentProblem

HEADER = 2**20
"""Maximum bytes of headers for one member of a tar file. Real members have some hundred."""
DIRECTORY = 2**26
"""Maximum bytes of a zip file's directory: 300,000 members with names of 170 bytes."""
DAMAGED = (
    tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, NotImplementedError,
    RecursionError, struct.error, ValueError,
)  # fmt: skip
"""Exceptions of the standard library for a damaged archive. It also raises OSError without an errno."""
_PIECE = 2**16
_DICTIONARY = 2**28
"""Maximum bytes of memory for unpacking xz. Its highest level takes 65 MiB."""


class UnpackError(EnvironmentProblem):
    """An archive is damaged or not trusted. The message names the member."""


def refused(name: str, member: str, what: str) -> UnpackError:
    """The error for an archive with a ``member`` that is not allowed."""
    return UnpackError(f"{name} holds {member!r:.200}, {what}: it is not to be trusted, and nothing of it was kept.")


def members(
    archive: Path, name: str, most_files: int, most_bytes: int, too_many: str
) -> Iterator[tuple[str, IO[bytes] | None]]:
    """Yields (name, stream) for every regular file and (name, None) for every folder. Raises `UnpackError` for others.

    ``name`` is the name of the archive in messages, and ``too_many`` the message for more than ``most_files`` members.
    A stream can be read only until the next member is requested.
    """
    with archive.open("rb") as file:
        if zipfile.is_zipfile(file):
            yield from _zipped(file, name, most_files, too_many)
        else:
            yield from _tarred(file, name, most_bytes + most_files * 2**12)


def _zipped(file: IO[bytes], name: str, most_files: int, too_many: str) -> Iterator[tuple[str, IO[bytes] | None]]:
    _check_directory(file, name, most_files, too_many)
    with zipfile.ZipFile(file) as packed:
        for info in packed.infolist():
            if info.is_dir():
                yield info.filename, None
                continue
            if info.flag_bits & 1:
                raise UnpackError(f"{name} holds {info.filename} encrypted. Ask the owner of the data for the key.")
            kind = stat.S_IFMT(info.external_attr >> 16)
            if kind not in (0, stat.S_IFREG):  # 0: packed on a system without such modes
                raise refused(name, info.filename, "no regular file")
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others unpack without limits
                raise refused(name, info.filename, "neither stored nor deflated")
            with packed.open(info) as stream:
                yield info.filename, stream


def _check_directory(file: IO[bytes], name: str, most_files: int, too_many: str) -> None:
    """Refuses a zip file whose directory is larger than `DIRECTORY` or has more than ``most_files`` members.

    The directory stands before the record that ends the file (APPNOTE.TXT, sections 4.3.12 to 4.3.16). The number of
    members in this record can be wrong, so the members are counted.
    """
    end = file.seek(0, os.SEEK_END)
    begin = file.seek(max(0, end - 2**16 - 22))
    tail = file.read()
    place = tail.rfind(b"PK\5\6")
    if place < 0 or len(tail) - place < 22:
        raise zipfile.BadZipFile("no end of its directory")
    size, last = struct.unpack_from("<L", tail, place + 12)[0], begin + place
    if last >= 76:
        file.seek(last - 76)
        wide = file.read(76)
        if wide[56:60] == b"PK\6\7" and wide[:4] == b"PK\6\6":  # ZIP64, with its own record and locator
            size, last = struct.unpack_from("<Q", wide, 40)[0], last - 76
    if size > min(DIRECTORY, last):
        raise UnpackError(f"{name} has a directory of {size} bytes, which no data set has. It was removed.")
    file.seek(last - size)
    directory, at, count = file.read(size), 0, 0
    while directory[at : at + 4] == b"PK\1\2" and at + 46 <= size:
        at += 46 + sum(struct.unpack_from("<3H", directory, at + 28))  # name, extra field, comment
        count += 1
        if count > most_files:
            raise UnpackError(too_many)


def _tarred(file: IO[bytes], name: str, most: int) -> Iterator[tuple[str, IO[bytes] | None]]:
    bounded = _Bounded(_opened(file), name, most)
    try:
        packed = tarfile.TarFile(fileobj=bounded, mode="r")
    except tarfile.ReadError as error:
        raise UnpackError(
            f"{name} is neither a zip nor a tar file, and was removed. The address may have changed."
        ) from error
    while (info := packed.next()) is not None:
        packed.members.clear()  # would grow with every member
        if sum(len(key) + len(value) for key, value in packed.pax_headers.items()) > HEADER:
            raise bounded.refusal()
        if info.isdir():
            yield info.name, None
        elif not info.isreg():
            raise refused(name, info.name, "a link or a device")
        elif info.issparse():
            raise refused(name, info.name, "a sparse file")
        else:
            bounded.room = None
            yield info.name, packed.extractfile(info)
        bounded.room = HEADER


def _opened(file: IO[bytes]) -> IO[bytes]:
    """A stream that unpacks ``file``. Its first bytes tell the format."""
    file.seek(0)
    begin = file.read(6)
    file.seek(0)
    if begin[:2] == b"\x1f\x8b":
        return gzip.GzipFile(fileobj=file)
    if begin[:3] == b"BZh":
        return bz2.BZ2File(file)
    return io.BufferedReader(_Xz(file), _PIECE) if begin == b"\xfd7zXZ\0" else file


class _Xz(io.RawIOBase):
    """Unpacks an xz ``file`` of one stream in limited memory. `lzma.LZMAFile` would allow a dictionary of 4 GiB."""

    def __init__(self, file: IO[bytes]):
        self._file = file
        self._unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_DICTIONARY)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        while not self._unpacker.eof:
            packed = self._file.read(_PIECE) if self._unpacker.needs_input else b""
            if not packed and self._unpacker.needs_input:
                raise EOFError("the xz stream ends early")
            if found := self._unpacker.decompress(packed, len(buffer)):
                buffer[: len(found)] = found
                return len(found)
        return 0


class _Bounded:
    """A forward-only stream for `tarfile`, with limits: ``most`` bytes in all, ``room`` bytes of headers at a time."""

    def __init__(self, file: IO[bytes], name: str, most: int):
        self._file, self._name, self._most, self._at = file, name, most, 0
        self.room: int | None = HEADER
        """Bytes of headers that may still be read; None while the content of a member is read."""

    def refusal(self) -> UnpackError:
        return UnpackError(
            f"{self._name} has headers of more than {HEADER} bytes for one member, or more bytes than any data set: "
            "it is not to be trusted, and nothing of it was kept."
        )

    def read(self, size: int) -> bytes:
        if self.room is not None:
            self.room -= size
            if self.room < 0:
                raise self.refusal()
        found = self._file.read(size)
        self._at += len(found)
        if self._at > self._most:
            raise self.refusal()
        return found

    def tell(self) -> int:
        return self._at

    def seek(self, place: int) -> int:
        if place < self._at or place > self._most:
            raise self.refusal()
        while self._at < place and (piece := self._file.read(min(_PIECE, place - self._at))):
            self._at += len(piece)
        return self._at
