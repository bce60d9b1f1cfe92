"""Unpacks untrusted archives from the network, with limits on memory, disk space and names.

Only regular files are written, only inside the folder, and only up to the limits on files and bytes. An archive is
refused if it has links, devices, sparse files, absolute paths, paths that leave the folder, duplicate names or
encrypted members. Then nothing is written: members first go to a hidden folder inside the target, and are moved when
all of them are there. `bench.data.archives` reads the formats.
"""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from ptmbench.bench.data.archives import DAMAGED, UnpackError, members, refused

MOST_FILES = 300_000
"""Maximum number of members of an archive, of any kind, plus the folders that are made for them."""
MOST_BYTES = 16 * 2**30
LONGEST, DEEPEST = 255, 32
"""Maximum bytes of one name, as most file systems allow, and maximum names in a path."""
_PIECE = 2**20


def unpack(
    archive: Path,
    folder: Path,
    *,
    strip: int = 0,
    most_files: int = MOST_FILES,
    most_bytes: int = MOST_BYTES,
    name: str = "",
    done: Callable[[int], None] = lambda count: None,
    wrote: Callable[[Path], None] = lambda path: None,
) -> int:
    """Unpacks a zip or tar file into ``folder`` without ``strip`` leading folders, and returns the number of files.

    ``name`` is the name of the archive in messages. ``done(1)`` is called after each file. When all files are in place,
    ``wrote`` is called with the path of each. Raises `UnpackError` for an archive that is damaged or not trusted.
    """
    name = name or archive.name
    folder.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=".unpack-", dir=folder))
    too_many = (
        f"{name} holds more than {most_files} files and folders, so it is not the expected data set. It was removed."
    )
    try:
        written: list[PurePosixPath] = []
        folders: set[PurePosixPath] = set()
        room = most_bytes
        for count, (member, stream) in enumerate(members(archive, name, most_files, most_bytes, too_many), start=1):
            if count + len(folders) > most_files:
                raise UnpackError(too_many)
            path = None if stream is None else _inside(member, strip, name)
            if path is None:
                continue
            folders.update(path.parents)
            if count + len(folders) - 1 > most_files:  # the folder itself is among the parents
                raise UnpackError(too_many)
            target = temporary / path
            if target.exists():
                raise UnpackError(f"{name} holds {member} twice; nothing of it was kept.")
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
            except (FileExistsError, NotADirectoryError) as error:
                raise refused(name, member, "a file and a folder with the same name") from error
            with target.open("wb") as file:
                while piece := stream.read(_PIECE):
                    room -= len(piece)
                    if room < 0:
                        raise UnpackError(
                            f"{name} unpacks to more than {most_bytes} bytes, so it is not the expected data set. It "
                            "was removed."
                        )
                    file.write(piece)
            written.append(path)
            done(1)
        if not written:
            raise UnpackError(f"{name} holds no file.")
        _move(temporary, folder)
    except DAMAGED as error:
        raise UnpackError(f"{name} is damaged or cut short ({error}); fetch it again.") from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise UnpackError(f"{name} is damaged or cut short ({error}); fetch it again.") from error  # from gzip or bz2
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    for path in written:
        wrote(folder / path)
    return len(written)


def _inside(member: str, strip: int, name: str) -> PurePosixPath | None:
    """The member's path below the folder; None for files that macOS adds, and for those above the stripped folders."""
    path = PurePosixPath(member)
    if path.is_absolute() or ".." in path.parts or "\\" in member or "\0" in member or ":" in member.partition("/")[0]:
        raise refused(name, member, "a path that leaves the folder")
    if len(path.parts) > DEEPEST or any(len(os.fsencode(part)) > LONGEST for part in path.parts):
        raise refused(name, member, f"a name of more than {LONGEST} bytes or {DEEPEST} folders")
    parts = path.parts[strip:]
    if not parts or "__MACOSX" in parts or parts[-1] == ".DS_Store" or parts[-1].startswith("._"):
        return None
    return PurePosixPath(*parts)


def _move(source: Path, target: Path) -> None:
    """Moves the content of ``source`` to ``target``: folders that ``target`` lacks as a whole, others file by file."""
    for path in sorted(source.iterdir()):
        place = target / path.name
        if path.is_dir() and place.is_dir() and not place.is_symlink():
            _move(path, place)
        else:
            os.replace(path, place)
