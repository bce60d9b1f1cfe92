"""Archives from the network, unpacked without trusting them.

Only regular files are written, only inside the folder, and no more of them and no more bytes than the limits allow.
Links, devices, absolute names, names that climb out, names that come twice and encrypted members are refused, and then
nothing is written: members go to a hidden folder beside the target first, and move when all of them are there.
"""

import lzma
import os
import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from bench.errors import EnvironmentProblem

MOST_FILES = 300_000
MOST_BYTES = 16 * 2**30
_PIECE = 2**20
_DAMAGED = (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, NotImplementedError)


class UnpackError(EnvironmentProblem):
    """An archive that is damaged or not to be trusted; the message names the member."""


def unpack(
    archive: Path,
    folder: Path,
    *,
    strip: int = 0,
    most_files: int = MOST_FILES,
    most_bytes: int = MOST_BYTES,
    name: str = "",
    done: Callable[[int], None] = lambda count: None,
) -> int:
    """Unpack a zip or tar file into ``folder`` and return the number of files; ``strip`` leading folders are left off.

    ``name`` stands for the archive in messages; ``done(1)`` is called after each file.
    """
    name = name or archive.name
    folder.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=".unpack-", dir=folder))
    try:
        written, room = 0, most_bytes
        for member, stream in _members(archive, name):
            path = _inside(member, strip, name)
            if path is None:
                continue
            written += 1
            if written > most_files:
                raise UnpackError(
                    f"{name} holds more than {most_files} files; that is not the data set. It was removed."
                )
            target = temporary / path
            if target.exists():
                raise UnpackError(f"{name} holds {member} twice; nothing of it was kept.")
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                while piece := stream.read(_PIECE):
                    room -= len(piece)
                    if room < 0:
                        raise UnpackError(
                            f"{name} unpacks to more than {most_bytes} bytes; that is not the data set. It was removed."
                        )
                    file.write(piece)
            done(1)
        if not written:
            raise UnpackError(f"{name} holds no file.")
        _move(temporary, folder)
    except _DAMAGED as error:
        raise UnpackError(f"{name} is damaged or cut short ({error}); fetch it again.") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return written


def _members(archive: Path, name: str) -> Iterator[tuple[str, IO[bytes]]]:
    """(name, stream) of every regular file; folders are left out, anything else is refused."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            for info in packed.infolist():
                if info.is_dir():
                    continue
                if info.flag_bits & 1:
                    raise UnpackError(f"{name} holds {info.filename} encrypted; ask the owner for the key.")
                kind = stat.S_IFMT(info.external_attr >> 16)
                if kind not in (0, stat.S_IFREG):  # 0: packed on a system without such modes
                    raise _refused(name, info.filename, "no regular file")
                with packed.open(info) as stream:
                    yield info.filename, stream
    elif tarfile.is_tarfile(archive):
        with tarfile.open(archive) as packed:
            for info in packed:
                if info.isdir():
                    continue
                stream = packed.extractfile(info) if info.isreg() else None
                if stream is None:
                    raise _refused(name, info.name, "a link or a device")
                yield info.name, stream
    else:
        raise UnpackError(f"{name} is neither a zip nor a tar file; the address may have changed. Nothing was kept.")


def _inside(member: str, strip: int, name: str) -> PurePosixPath | None:
    """The member's path below the folder; None for what a Mac adds, and for files above the stripped folders."""
    path = PurePosixPath(member)
    if path.is_absolute() or ".." in path.parts or "\\" in member or "\0" in member or ":" in member.partition("/")[0]:
        raise _refused(name, member, "a path that leaves the folder")
    parts = path.parts[strip:]
    if not parts or "__MACOSX" in parts or parts[-1] == ".DS_Store" or parts[-1].startswith("._"):
        return None
    return PurePosixPath(*parts)


def _refused(name: str, member: str, what: str) -> UnpackError:
    return UnpackError(f"{name} holds {member!r:.200}, {what}: it is not to be trusted, and nothing of it was kept.")


def _move(source: Path, target: Path) -> None:
    """What is below ``source`` to ``target``: whole folders where there is none yet, else file by file."""
    for path in sorted(source.iterdir()):
        place = target / path.name
        if path.is_dir() and place.is_dir() and not place.is_symlink():
            _move(path, place)
        else:
            os.replace(path, place)
