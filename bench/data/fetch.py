"""Downloads official data into the data folder, whole or not at all.

A file is downloaded into a hidden folder, ``.fetch``, and renamed when its size and SHA-256 are right. An interrupted
download resumes where it stopped, if the server allows this. A download that fails leaves no file. ``downloads.json``
in the data folder has the SHA-256 sums of fetched files (`bench.data.sums`). Later fetches must bring the same bytes,
and a file that has changed since is reported when it is read.
"""

import fcntl
import hashlib
import http.client
import json
import os
import ssl
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from ptmbench import tasks
from ptmbench.bench.console import Bar, progress, say
from ptmbench.bench.data import sums
from ptmbench.bench.data.unpack import unpack
from ptmbench.bench.data.web import SHOWN, Broken, FetchError, TooSlow, opened, refuse_headers, refuse_page
from ptmbench.tasks.task import DataError, Download, MissingData, Task

MOST_BYTES = 8 * 2**30
"""Maximum bytes of a file whose size is not known."""
ATTEMPTS = 3
"""Attempts at a download before the fetch fails."""
_PIECE = 2**16


def fetch(names: Sequence[str], data: Path, *, again: bool = False, timeout: float = 30.0) -> list[Path]:
    """Downloads the files of the tasks ``names`` into ``data``, and returns the paths that were written.

    Skips tasks whose files are all there unless ``again``. Raises `FetchError` if a download fails. Raises
    `MissingData` if a task has no files to download, after the files of the other tasks have been fetched.
    """
    asked, wanted, refused, written = [tasks.load(name) for name in names], {}, [], []
    for task in asked:
        if not again and _missing(task, data) is None:
            say(f"{task.title}: all files are there.{_changed(task, data)}")
        elif not task.downloads:
            refused.append(_by_hand(task))
        else:
            wanted |= {(one.url, one.to): (one, task) for one in task.downloads}
    for one, task in wanted.values():
        written.append(get(one, data, timeout=timeout, where=task.source.url))
    for task in asked:
        lacking = _missing(task, data, ("train", task.report)) if task.downloads else None
        if lacking is not None:
            raise FetchError(f"{lacking} The fetched files do not contain it; see {task.source.url} for the files.")
    if refused:
        raise MissingData(" ".join(refused))
    return written


def get(one: Download, data: Path, *, timeout: float = 30.0, where: str = "") -> Path:
    """Downloads one file or archive into ``data``. Returns the path of the file, or of the folder with its content.

    ``where`` is the page that error messages refer to.
    """
    cache, name = data / ".fetch", urlsplit(one.url).path.rpartition("/")[2]
    known = sums.read(data).get(one.url, {})
    size, sha256 = one.size or known.get("size"), one.sha256 or known.get("sha256")
    part = cache / f"{hashlib.sha256(one.url.encode()).hexdigest()[:16]}.part"
    with _held(part, one.url):
        try:
            with progress(name, size, "bytes") as bar:
                _receive(one.url, part, size, bool(sha256), timeout, bar, where)
            found: dict[str, Any] = {"size": part.stat().st_size, "sha256": sums.sum_of(part)}
            if sha256 and found["sha256"] != sha256:
                told = "its publisher's" if one.sha256 else f"the one that {data / sums.LOCK} has from the first fetch"
                raise FetchError(
                    f"{one.url}: the file that came has SHA-256 {found['sha256']}, but {told} is {sha256}. It was "
                    f"changed or damaged, so it was not kept. Try again later, or look at {where or 'its home page'}."
                )
            target = data / one.to
            if one.unpack:
                files = found["files"] = {}

                def keep(path: Path) -> None:
                    files[os.path.relpath(path, data)] = sums.sum_of(path)

                with progress(f"unpack {name}", unit="files", brief=True) as bar:
                    unpack(part, target, strip=one.strip, name=one.url, done=bar.advance, wrote=keep)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(part, target)
            sums.note(data, one.url, found)
            if not sha256:
                say(f"{name}: no published sum is known; {data / sums.LOCK} keeps this one: {found['sha256']}.")
        except Exception:
            _forget(part)
            raise
        _forget(part)
    return target


def _receive(url: str, part: Path, size: int | None, summed: bool, timeout: float, bar: Bar, where: str) -> None:
    """Downloads ``url`` to ``part``, in up to `ATTEMPTS` attempts if the connection breaks."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _attempt(url, part, size, summed, timeout, bar, where)
            return
        except Broken as error:
            if error.afresh:
                os.truncate(part, 0)
            if attempt == ATTEMPTS:
                raise FetchError(f"{error} That was attempt {attempt} of {ATTEMPTS}; try again later.") from error


def _attempt(url: str, part: Path, size: int | None, summed: bool, timeout: float, bar: Bar, where: str) -> None:
    done, notes = part.stat().st_size, part.with_suffix(".json")
    validator = _validator(notes)
    if not (validator or summed):
        done = 0  # the rest could belong to another version of the file, and nothing would show this
    if size is not None and done >= size:
        done = 0
    headers = {"User-Agent": "ptmbench", "Accept-Encoding": "identity"}
    if done:
        headers |= {"Range": f"bytes={done}-"} | ({"If-Range": validator} if validator else {})
    with opened(urllib.request.Request(url, headers=headers), timeout, where) as answer:
        if answer.status != 206 or not (answer.headers["Content-Range"] or "").startswith(f"bytes {done}-"):
            done = 0  # the server sends the whole file
        refuse_headers(url, answer.headers, where)
        length = answer.headers["Content-Length"]
        total = done + int(length) if length and length.isdecimal() else None
        if size is not None and total is not None and total != size:
            raise FetchError(
                f"{url}: the server has a file of {total} bytes, but the published one has {size}. It is another "
                f"version, so it was not kept. Look at {where or 'its home page'}."
            )
        strong = answer.headers["ETag"] or ""
        validator = strong if strong and not strong.startswith("W/") else answer.headers["Last-Modified"] or ""
        notes.write_text(json.dumps({"validator": validator}))
        bar.total = bar.total or total
        bar.skip(done - bar.done)
        with part.open("r+b") as file:
            file.truncate(done)
            file.seek(done)
            looked = False
            for piece in _pieces(url, answer, timeout):
                done += len(piece)
                if done > (size or total or MOST_BYTES):
                    raise FetchError(f"{url}: more than {size or total or MOST_BYTES} bytes came; nothing was kept.")
                file.write(piece)
                bar.advance(len(piece))
                if done >= SHOWN and not looked:  # a piece may be one byte
                    looked = True
                    file.flush()
                    refuse_page(url, os.pread(file.fileno(), SHOWN, 0), where)
            file.flush()
            refuse_page(url, os.pread(file.fileno(), SHOWN, 0), where)
    expected = size or total
    if expected is not None and done < expected:
        raise Broken(f"{url}: the server closed the connection after {done} of {expected} bytes.")
    if not done:
        raise FetchError(f"{url}: the server sent an empty file. Look at {where or 'its home page'}.")


def _validator(notes: Path) -> str:
    """The version of the file that the server sent last time; "" if it is not known or its note is damaged."""
    try:
        found = json.loads(notes.read_text())["validator"]
    except (FileNotFoundError, ValueError, KeyError, TypeError, RecursionError):
        return ""
    return found if isinstance(found, str) else ""


def _pieces(url: str, answer: Any, timeout: float) -> Iterator[bytes]:
    try:
        while piece := answer.read1(_PIECE):
            yield piece
    except TooSlow as error:
        raise Broken(f"{url}: the server is too slow ({error}).") from error
    except TimeoutError as error:
        raise Broken(f"{url}: the server sent nothing for {timeout:g} s.") from error
    except (http.client.HTTPException, ConnectionError, ssl.SSLError) as error:
        raise Broken(f"{url}: the connection broke ({type(error).__name__}).") from error


@contextmanager
def _held(part: Path, url: str) -> Iterator[IO[bytes]]:
    """Opens ``part``, creates it if necessary, and locks it against a second fetch of the same file."""
    file = None
    while file is None:
        part.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # another fetch has ended and removed the folder just now
            file = part.open("ab")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise FetchError(
                f"{url} is being fetched into this folder by another process. Wait until that ends."
            ) from error
        yield file


def _forget(part: Path) -> None:
    for path in (part, part.with_suffix(".json")):
        path.unlink(missing_ok=True)
    with suppress(OSError):  # other fetches have files there, or have removed the folder
        part.parent.rmdir()


def _missing(task: Task, data: Path, splits: Sequence[str] = ()) -> str | None:
    """The message about the first of ``splits`` (default: all splits) with a missing file; None if there is none."""
    try:
        for split in splits or task.files:
            task.paths(data, split)
    except MissingData as error:
        return str(error)
    return None


def _changed(task: Task, data: Path) -> str:
    """A sentence about a file of ``task`` that has changed since it was fetched; "" if there is none."""
    try:
        for split in task.files:
            sums.check(task, data, split)
    except DataError as error:
        return f" But {error}"
    return ""


def _by_hand(task: Task) -> str:
    expected = ", ".join(dict.fromkeys(name.replace("|", " or ") for names in task.files.values() for name in names))
    return (
        f"{task.title} cannot be fetched (terms: {task.source.licence}). Ask for it at {task.source.url}, and put the "
        f"files below {' or '.join(task.folders)} of the data folder: {expected}."
    )
