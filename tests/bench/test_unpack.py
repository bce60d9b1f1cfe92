"""Archives that are not to be trusted: refused with the member's name, and nothing of them stays."""

import io
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.data.unpack import UnpackError, unpack


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
def test_archives_that_are_not_to_be_trusted(fault: str, tmp_path: Path) -> None:
    make, message = BAD[fault]
    archive, folder = make(tmp_path / "archive"), tmp_path / "folder"
    with pytest.raises(UnpackError, match=message):
        unpack(archive, folder, most_files=5, most_bytes=1000, name="set.zip")
    assert list(folder.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["archive", "folder"]


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_damaged_archives(kind: str, tmp_path: Path) -> None:
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


def test_what_is_there_stays_and_what_is_new_is_added(tmp_path: Path) -> None:
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


def test_leading_folders_are_left_off(tmp_path: Path) -> None:
    archive = _tar(tmp_path / "archive", ("top/a/x", b"x", tarfile.REGTYPE), ("top/y", b"y", tarfile.REGTYPE))
    assert unpack(archive, tmp_path / "folder", strip=1) == 2
    assert sorted(p.name for p in (tmp_path / "folder").iterdir()) == ["a", "y"]
