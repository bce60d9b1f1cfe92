"""Untrusted archives are rejected with the name of the member, and nothing of them remains."""

import gzip
import io
import stat
import struct
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ptmbench.bench.data.archives import UnpackError
from ptmbench.bench.data.unpack import unpack


def _zip(path: Path, *members: tuple[str, bytes, int]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content, mode in members:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, content)
    return path


def _tar(path: Path, *members: tuple[str, bytes, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content, kind in members:
            info = tarfile.TarInfo(name)
            info.type, info.size = kind, len(content) if kind == tarfile.REGTYPE else 0
            info.linkname = "/etc/passwd" if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
            archive.addfile(info, io.BytesIO(content))
    return path


ROOT = Path(__file__).resolve().parents[2]
FILE = stat.S_IFREG | 0o644
BAD: dict[str, tuple[Callable[[Path], Path], str]] = {
    "zip: climbs out": (lambda p: _zip(p, ("a", b"x", FILE), ("../../b", b"x", FILE)), "'../../b', a path that leaves"),
    "zip: absolute": (lambda p: _zip(p, ("/etc/b", b"x", FILE)), "'/etc/b', a path that leaves"),
    "zip: backslash": (lambda p: _zip(p, ("a\\..\\b", b"x", FILE)), "a path that leaves"),
    "zip: drive": (lambda p: _zip(p, ("C:/b", b"x", FILE)), "a path that leaves"),
    "zip: link": (lambda p: _zip(p, ("a", b"x", FILE), ("b", b"/etc/passwd", stat.S_IFLNK | 0o777)), "'b', no regular"),
    "zip: device": (lambda p: _zip(p, ("b", b"", stat.S_IFCHR | 0o600)), "'b', no regular"),
    "zip: empty": (lambda p: _zip(p), "holds no file"),
    "zip: too many": (lambda p: _zip(p, *((str(n), b"", FILE) for n in range(6))), "more than 5 files"),
    "zip: a bomb": (lambda p: _zip(p, ("a", b"0" * 2000, FILE)), "more than 1000 bytes"),
    "tar: climbs out": (lambda p: _tar(p, ("a", b"x", tarfile.REGTYPE), ("../b", b"x", tarfile.REGTYPE)), "'../b'"),
    "tar: absolute": (lambda p: _tar(p, ("/b", b"x", tarfile.REGTYPE)), "'/b', a path that leaves"),
    "tar: symbolic link": (lambda p: _tar(p, ("b", b"", tarfile.SYMTYPE)), "'b', a link or a device"),
    "tar: hard link": (lambda p: _tar(p, ("b", b"", tarfile.LNKTYPE)), "'b', a link or a device"),
    "tar: device": (lambda p: _tar(p, ("b", b"", tarfile.CHRTYPE)), "'b', a link or a device"),
    "tar: pipe": (lambda p: _tar(p, ("b", b"", tarfile.FIFOTYPE)), "'b', a link or a device"),
    "tar: twice": (lambda p: _tar(p, *[("b", b"x", tarfile.REGTYPE)] * 2), "holds b twice"),
    "tar: a bomb": (lambda p: _tar(p, ("a", b"0" * 2000, tarfile.REGTYPE)), "more than 1000 bytes"),
}


@pytest.mark.parametrize("fault", BAD)
def test_unsafe_archives_are_rejected_and_leave_no_files(fault: str, tmp_path: Path) -> None:
    make, message = BAD[fault]
    archive, folder = make(tmp_path / "archive"), tmp_path / "folder"
    with pytest.raises(UnpackError, match=message):
        unpack(archive, folder, most_files=5, most_bytes=1000, name="set.zip")
    assert list(folder.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["archive", "folder"]


def _headers(path: Path, *pieces: bytes) -> Path:
    """Writes a tar file of raw ``pieces`` and one small file."""
    last = tarfile.TarInfo("b")
    last.size = 1
    path.write_bytes(gzip.compress(b"".join(pieces) + last.tobuf(tarfile.USTAR_FORMAT) + b"x".ljust(1536, b"\0")))
    return path


def _extension(kind: bytes, content: bytes, claim: int | None = None) -> bytes:
    info = tarfile.TarInfo("x")
    info.type, info.size = kind, len(content) if claim is None else claim
    return info.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512)


def _pax(key: bytes, value: bytes) -> bytes:
    length = len(key) + len(value) + 3
    length += len(str(length + len(str(length))))
    return b"%d %s=%s\n" % (length, key, value)


def _sparse(path: Path) -> Path:
    """Writes a GNU sparse member: 10 bytes that stand for 2 ** 40."""
    info = tarfile.TarInfo("a")
    info.type, info.size = tarfile.GNUTYPE_SPARSE, 10
    raw = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    raw[386:410] = b"%011o\0%011o\0" % (0, 10)  # offset and length of its only piece
    raw[483:495] = b"\x80" + (2**40).to_bytes(11, "big")  # its expanded size
    raw[148:156] = b"        "
    raw[148:156] = b"%06o\0 " % sum(raw)
    return _headers(path, bytes(raw) + b"0" * 10 + bytes(502))


SPARSE = b"GNU.sparse.map"
DEEP = "/".join("d" * 40)
HOSTILE: dict[str, tuple[Callable[[Path], Path], str]] = {
    "tar: a long PAX header": (
        lambda p: _headers(p, _extension(b"x", _pax(b"comment", b"a" * 2**21))), "headers of more than 1048576"
    ),
    "tar: a long PAX header that only says so": (
        lambda p: _headers(p, _extension(tarfile.XHDTYPE, b"", 2**40)), "headers of more than"
    ),
    "tar: a long name": (lambda p: _headers(p, _extension(b"L", b"a" * 2**21)), "headers of more than"),
    "tar: a long link": (lambda p: _headers(p, _extension(b"K", b"a" * 2**21)), "headers of more than"),
    "tar: many PAX headers": (
        lambda p: _headers(p, _extension(b"x", _pax(b"a", b"b")) * 3000), "headers of more|damaged"
    ),
    "tar: a growing global header": (
        lambda p: _headers(p, *(
            _extension(b"g", _pax(b"key%d" % n, b"v" * 500_000)) + _extension(tarfile.DIRTYPE, b"") for n in range(4)
        )), "headers of more than",
    ),
    "tar: a sparse file": (_sparse, "'a', a sparse file"),
    "tar: a PAX sparse file": (
        lambda p: _headers(p, _extension(b"x", _pax(SPARSE, b"0,10") + _pax(b"GNU.sparse.size", b"%d" % 2**40))),
        "'b', a sparse file|damaged",
    ),
    "tar: no number in a PAX header": (
        lambda p: _headers(p, _extension(b"x", _pax(SPARSE, b"a,b") + _pax(b"GNU.sparse.size", b"9"))), "damaged"
    ),
    "tar: folders": (lambda p: _headers(p, _extension(tarfile.DIRTYPE, b"") * 6), "more than 5 files and folders"),
    "tar: folders of files": (
        lambda p: _tar(p, *((f"{n}/a", b"", tarfile.REGTYPE) for n in range(4))), "more than 5 files and folders"
    ),
    "tar: a file in a file": (
        lambda p: _tar(p, ("a", b"x", tarfile.REGTYPE), ("a/b", b"x", tarfile.REGTYPE)), "'a/b', a file and a folder"
    ),
    "tar: deep": (lambda p: _tar(p, (DEEP, b"x", tarfile.REGTYPE)), "of more than 255 bytes or 32 folders"),
    "tar: deep folders": (lambda p: _tar(p, ("d/" * 1500 + "x", b"x", tarfile.REGTYPE)), "or 32 folders"),
    "tar: a name that no disk takes": (lambda p: _tar(p, ("ä" * 200, b"x", tarfile.REGTYPE)), "more than 255 bytes"),
    "zip: folders": (lambda p: _zip(p, *((f"{n}/", b"", 0) for n in range(6))), "more than 5 files and folders"),
    "zip: folders of files": (lambda p: _zip(p, *((f"{n}/a", b"", 0) for n in range(4))), "5 files and folders"),
    "zip: a name that no disk takes": (lambda p: _zip(p, ("ä" * 200, b"x", FILE)), "of more than 255 bytes"),
    "zip: bzip2": (lambda p: _packed(p, zipfile.ZIP_BZIP2), "'a', neither stored nor deflated"),
    "zip: LZMA": (lambda p: _packed(p, zipfile.ZIP_LZMA), "'a', neither stored nor deflated"),
}  # fmt: skip


def _packed(path: Path, kind: int) -> Path:
    with zipfile.ZipFile(path, "w", kind) as archive:
        archive.writestr("a", b"0" * 1000)
    return path


@pytest.mark.parametrize("fault", HOSTILE)
def test_archives_beyond_the_needs_of_data_sets_are_rejected(fault: str, tmp_path: Path) -> None:
    make, message = HOSTILE[fault]
    archive, folder = make(tmp_path / "archive"), tmp_path / "folder"
    with pytest.raises(UnpackError, match=message):
        unpack(archive, folder, most_files=5 if "folders" in fault and "deep" not in fault else 10, name="set.zip")
    assert list(folder.iterdir()) == []


def test_memory_stays_bounded_for_hostile_archives(tmp_path: Path) -> None:
    """A separate process may use 32 MiB more than after its imports. The archives would take 64 to 128 MiB."""
    pieces = b"%d comment=" % 2**26 + b"a" * (2**26 - 20) + bytes(20)
    _headers(tmp_path / "pax", _extension(tarfile.XHDTYPE, pieces))
    _headers(tmp_path / "name", _extension(b"L", pieces))
    with zipfile.ZipFile(tmp_path / "zip", "w") as archive:
        archive.writestr("a", b"x")
    content = (tmp_path / "zip").read_bytes()
    entry, end = content.index(b"PK\1\2"), content.index(b"PK\5\6")
    with (tmp_path / "zip").open("r+b") as file:  # a directory of 128 MiB, most of it in the comment of one entry
        file.seek(entry + 2**27)
        file.write(content[end : end + 12] + (2**27).to_bytes(4, "little") + content[end + 16 :])
    code = (
        "import resource, sys; from pathlib import Path\n"
        "from ptmbench.bench.data.archives import UnpackError\nfrom ptmbench.bench.data.unpack import unpack\n"
        "pages = int(Path('/proc/self/statm').read_text().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (pages + 2**25,) * 2)\n"
        "for name in ('pax', 'name', 'zip'):\n"
        "    try: unpack(Path(sys.argv[1]) / name, Path(sys.argv[1]) / 'out')\n"
        "    except UnpackError as error: print(str(error).partition(' has ')[2][:12])\n"
    )
    if not Path("/proc/self/statm").exists():
        pytest.skip("no /proc here, which says how much memory a process has")
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.split("\n")[:3] == ["headers of m", "headers of m", "a directory "], done.stderr


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_tar_files_of_every_compression_are_unpacked(mode: str, tmp_path: Path) -> None:
    """With what real ones have: long names, PAX headers of each member and of all, folders, partial blocks."""
    long = "/".join(["folder" * 20] * 3)
    with tarfile.open(
        tmp_path / "archive", mode, format=tarfile.PAX_FORMAT, pax_headers={"comment": "c" * 40}
    ) as archive:
        for name, size in (("a", 0), (f"{long}/b", 511), ("c", 512), ("ü" * 60, 100_000), ("._mac", 5000), ("d", 1)):
            info = tarfile.TarInfo(name)
            info.size, info.mtime, info.pax_headers = size, 1.5, {"LIBARCHIVE.xattr.x": "y" * 200}
            archive.addfile(info, io.BytesIO(bytes(size)))
        folder = tarfile.TarInfo("empty")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
    wrote: list[Path] = []
    assert unpack(tmp_path / "archive", tmp_path / "folder", wrote=wrote.append) == 5
    sizes = {str(path.relative_to(tmp_path / "folder")): path.stat().st_size for path in wrote}
    assert sizes == {"a": 0, f"{long}/b": 511, "c": 512, "ü" * 60: 100_000, "d": 1}


def test_zip64_files_are_unpacked(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "archive", "w") as archive, archive.open("a", "w", force_zip64=True) as file:
        file.write(b"x" * 1000)
    content = (tmp_path / "archive").read_bytes()
    end = content.index(b"PK\5\6")
    size, start = struct.unpack_from("<2L", content, end + 12)
    wide = b"PK\6\6" + struct.pack("<Q2H2L4Q", 44, 45, 45, 0, 0, 1, 1, size, start)
    locator = b"PK\6\7" + struct.pack("<LQL", 0, end, 1)
    record = b"PK\5\6" + struct.pack("<4H2LH", 0, 0, 2**16 - 1, 2**16 - 1, 2**32 - 1, 2**32 - 1, 0)
    (tmp_path / "archive").write_bytes(content[:end] + wide + locator + record)
    assert unpack(tmp_path / "archive", tmp_path / "folder") == 1
    assert (tmp_path / "folder" / "a").read_bytes() == b"x" * 1000
    with pytest.raises(UnpackError, match="more than 0 files"):
        unpack(tmp_path / "archive", tmp_path / "folder", most_files=0)


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_damaged_archives_are_rejected(kind: str, tmp_path: Path) -> None:
    noise = bytes((n * n * 31 + n // 7) % 251 for n in range(50_000))
    path = tmp_path / "archive"
    raw = (_zip(path, ("a", noise, FILE)) if kind == "zip" else _tar(path, ("a", noise, tarfile.REGTYPE))).read_bytes()
    if kind == "zip":
        path.write_bytes(raw[:100] + bytes(40) + raw[140:])
    else:
        path.write_bytes(raw[: len(raw) // 2])
    with pytest.raises(UnpackError, match="archive is damaged or cut short"):
        unpack(path, tmp_path / "folder")
    path.write_bytes(b"no archive at all")
    with pytest.raises(UnpackError, match="neither a zip nor a tar file"):
        unpack(path, tmp_path / "folder")
    assert list((tmp_path / "folder").iterdir()) == []


def test_unpacking_keeps_other_files_and_replaces_those_in_the_archive(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "set").mkdir(parents=True)
    (folder / "set" / "mine.txt").write_text("mine")
    (folder / "set" / "train.tsv").write_text("old")
    archive = _zip(
        tmp_path / "archive", ("set/train.tsv", b"new", FILE), ("set/.DS_Store", b"?", FILE), ("set/sub/x", b"x", 0)
    )
    assert unpack(archive, folder) == 2
    found = {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file()}
    assert found == {"set/mine.txt": "mine", "set/train.tsv": "new", "set/sub/x": "x"}


def test_leading_folders_are_stripped(tmp_path: Path) -> None:
    archive = _tar(tmp_path / "archive", ("top/a/x", b"x", tarfile.REGTYPE), ("top/y", b"y", tarfile.REGTYPE))
    assert unpack(archive, tmp_path / "folder", strip=1) == 2
    assert sorted(p.name for p in (tmp_path / "folder").iterdir()) == ["a", "y"]
