"""Official data from the network into the data folder, whole or not at all. No TensorFlow.

A file comes in pieces into a hidden folder, ``.fetch``, and moves under its own name when its size and SHA-256 are
right. A download that is interrupted goes on where it stopped, as far as the server allows that; one that fails leaves
nothing. Where a task knows no sum, the first fetch writes it to ``downloads.json`` in the data folder, and later ones
must bring the same bytes.
"""

import fcntl
import hashlib
import http.client
import json
import os
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import tasks
from bench.checkpoint import write_text
from bench.console import Bar, progress, say
from bench.data.unpack import unpack
from bench.errors import EnvironmentProblem
from tasks.task import DataError, Download, MissingData, Task

LOCK = "downloads.json"
MOST_BYTES = 8 * 2**30
"""Of a file whose size nobody told."""
ATTEMPTS = 3
"""Times that a connection may break before the fetch gives up."""
_PIECE = 2**16
_REDIRECTS = 5


class FetchError(EnvironmentProblem):
    """A download that did not succeed; the message says what the server did and what to do next."""


class _Broken(FetchError):
    """The connection broke or stalled: another attempt may do, without what came so far where ``afresh``."""

    afresh = False


def fetch(names: Sequence[str], data: Path, *, again: bool = False, timeout: float = 30.0) -> list[Path]:
    """Get the files of the tasks ``names`` into ``data``, and return what was written there.

    Tasks whose files are all there are left alone unless ``again``. `FetchError` for what a server does, `MissingData`
    when a task's files cannot be fetched at all: then the other tasks' are fetched first.
    """
    asked, wanted, refused, written = [tasks.load(name) for name in names], {}, [], []
    for task in asked:
        if not again and _missing(task, data) is None:
            say(f"{task.title}: all files are there.")
        elif not task.downloads:
            refused.append(_by_hand(task))
        else:
            wanted |= {(one.url, one.to): (one, task) for one in task.downloads}
    for one, task in wanted.values():
        written.append(get(one, data, timeout=timeout, where=task.source.url))
    for task in asked:
        lacking = _missing(task, data, ("train", task.report)) if task.downloads else None
        if lacking is not None:
            raise FetchError(f"{lacking} What was fetched does not hold it; see {task.source.url} for the files.")
    if refused:
        raise MissingData(" ".join(refused))
    return written


def get(one: Download, data: Path, *, timeout: float = 30.0, where: str = "") -> Path:
    """Get one file or archive into ``data``; the path of the file, or of the folder that it was unpacked into.

    ``where`` is the page on which to look when the address is dead.
    """
    cache, name = data / ".fetch", urlsplit(one.url).path.rpartition("/")[2]
    known = _lock(data).get(one.url, {})
    size, sha256 = one.size or known.get("size"), one.sha256 or known.get("sha256")
    part = cache / f"{hashlib.sha256(one.url.encode()).hexdigest()[:16]}.part"
    with _held(part, one.url):
        try:
            with progress(name, size, "bytes") as bar:
                _receive(one.url, part, size, bool(sha256), timeout, bar, where)
            found = {"size": part.stat().st_size, "sha256": _sum(part)}
            if sha256 and found["sha256"] != sha256:
                told = "its publisher's" if one.sha256 else f"the one that {data / LOCK} has from the first fetch"
                raise FetchError(
                    f"{one.url}: the file that came has SHA-256 {found['sha256']}, but {told} is {sha256}. It was "
                    f"changed or damaged; nothing was kept. Try again later, or look at {where or 'its home page'}."
                )
            target = data / one.to
            if one.unpack:
                with progress(f"unpack {name}", unit="files", brief=True) as bar:
                    unpack(part, target, strip=one.strip, name=one.url, done=bar.advance)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(part, target)
            if not sha256:
                _note(data, one.url, found)
                say(f"{name}: no published sum is known; {data / LOCK} keeps this one: {found['sha256']}.")
        except Exception:
            _forget(part)
            raise
        _forget(part)
    return target


def _receive(url: str, part: Path, size: int | None, summed: bool, timeout: float, bar: Bar, where: str) -> None:
    """Bring ``part`` to its full length, in several attempts where the connection breaks."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _attempt(url, part, size, summed, timeout, bar, where)
            return
        except _Broken as error:
            if error.afresh:
                os.truncate(part, 0)
            if attempt == ATTEMPTS:
                raise FetchError(f"{error} That was attempt {attempt} of {ATTEMPTS}; try again later.") from error


def _attempt(url: str, part: Path, size: int | None, summed: bool, timeout: float, bar: Bar, where: str) -> None:
    done, notes = part.stat().st_size, part.with_suffix(".json")
    validator = _validator(notes)
    if not (validator or summed):
        done = 0  # nothing would show that the rest belongs to another version of the file
    if size is not None and done >= size:
        done = 0
    headers = {"User-Agent": "ptmbench", "Accept-Encoding": "identity"}
    if done:
        headers |= {"Range": f"bytes={done}-"} | ({"If-Range": validator} if validator else {})
    with _opened(urllib.request.Request(url, headers=headers), timeout, where) as answer:
        if answer.status != 206 or not (answer.headers["Content-Range"] or "").startswith(f"bytes {done}-"):
            done = 0  # the whole file comes, whatever was asked for
        length = answer.headers["Content-Length"]
        total = done + int(length) if length and length.isdecimal() else None
        if size is not None and total is not None and total != size:
            _refuse_page(url, answer.headers.get_content_type(), b"", where)
            raise FetchError(
                f"{url}: the server has a file of {total} bytes, but the published one has {size}. It is another "
                f"version; nothing was kept. Look at {where or 'its home page'}."
            )
        strong = answer.headers["ETag"] or ""
        validator = strong if strong and not strong.startswith("W/") else answer.headers["Last-Modified"] or ""
        notes.write_text(json.dumps({"validator": validator}))
        bar.total = bar.total or total
        bar.skip(done - bar.done)
        with part.open("r+b") as file:
            file.truncate(done)
            file.seek(done)
            for piece in _pieces(url, answer, timeout):
                if not done:
                    _refuse_page(url, answer.headers.get_content_type(), piece, where)
                done += len(piece)
                if done > (size or total or MOST_BYTES):
                    raise FetchError(f"{url}: more than {size or total or MOST_BYTES} bytes came; nothing was kept.")
                file.write(piece)
                bar.advance(len(piece))
    expected = size or total
    if expected is not None and done < expected:
        raise _Broken(f"{url}: the server closed the connection after {done} of {expected} bytes.")
    if not done:
        raise FetchError(f"{url}: the server sent an empty file. Look at {where or 'its home page'}.")


def _validator(notes: Path) -> str:
    """What the server said of the file's version last time; "" where that is not known, or was not written whole."""
    try:
        found = json.loads(notes.read_text())["validator"]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return ""
    return found if isinstance(found, str) else ""


def _pieces(url: str, answer: Any, timeout: float) -> Iterator[bytes]:
    try:
        while piece := answer.read1(_PIECE):
            yield piece
    except TimeoutError as error:
        raise _Broken(f"{url}: the server sent nothing for {timeout:g} s.") from error
    except (http.client.HTTPException, ConnectionError, ssl.SSLError) as error:
        raise _Broken(f"{url}: the connection broke ({type(error).__name__}).") from error


class _Redirects(urllib.request.HTTPRedirectHandler):
    max_redirections = _REDIRECTS

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if req.type == "https" and urlsplit(newurl).scheme != "https":
            raise FetchError(f"{req.full_url} leads to {newurl:.200}, which is not safe to follow.")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


@contextmanager
def _opened(request: urllib.request.Request, timeout: float, where: str) -> Iterator[Any]:
    url, look = request.full_url, f"Look at {where or 'its home page'} for where the files are now."
    try:
        answer = urllib.request.build_opener(_Redirects).open(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        with error:
            place = error.headers["Location"] or ""
            if 300 <= error.code < 400 and urlsplit(place).scheme not in ("", "http", "https"):
                raise FetchError(f"{url} leads to {place:.200}, which is not safe to follow.") from error
            if 300 <= error.code < 400:
                raise FetchError(f"{url}: more than {_REDIRECTS} redirections, or a circle of them. {look}") from error
            if error.code in (404, 410):
                raise FetchError(f"{url}: there is no such file any more (status {error.code}). {look}") from error
            if error.code in (401, 403):
                raise FetchError(f"{url}: the server refuses access (status {error.code}). {look}") from error
            broken = _Broken(f"{url}: the server is in trouble (status {error.code}).")
            broken.afresh = error.code == 416  # it has no such range: the file is another one by now
            raise broken from error
    except urllib.error.URLError as error:
        if isinstance(error.reason, TimeoutError):
            raise _Broken(f"{url}: no answer within {timeout:g} s.") from error
        if isinstance(error.reason, socket.gaierror):
            raise FetchError(f"{url}: the name of the server is not known here. Is there a network?") from error
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            raise FetchError(f"{url}: the server's certificate is not valid, so it is not trusted.") from error
        raise _Broken(f"{url}: no connection ({error.reason}).") from error
    except TimeoutError as error:
        raise _Broken(f"{url}: no answer within {timeout:g} s.") from error
    except (http.client.HTTPException, ConnectionError) as error:
        raise _Broken(f"{url}: the connection broke ({type(error).__name__}).") from error
    with answer:
        yield answer


def _refuse_page(url: str, kind: str, begin: bytes, where: str) -> None:
    """Sites that move or want a login answer with a web page and the status of success."""
    if kind == "text/html" or begin[:512].lstrip().lower().startswith((b"<!doctype html", b"<html")):
        raise FetchError(
            f"{url}: the server sent a web page instead of the file (a login, or a notice that it moved). Nothing was "
            f"kept. Look at {where or 'its home page'}."
        )


@contextmanager
def _held(part: Path, url: str) -> Iterator[IO[bytes]]:
    """``part``, made if it is not there, and locked against a second fetch of the same file."""
    file = None
    while file is None:
        part.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # another fetch has ended and removed the folder just now
            file = part.open("ab")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise FetchError(f"{url} is being fetched into this folder by another process.") from error
        yield file


def _forget(part: Path) -> None:
    for path in (part, part.with_suffix(".json")):
        path.unlink(missing_ok=True)
    with suppress(OSError):  # other fetches have theirs there, or have removed it
        part.parent.rmdir()


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _lock(data: Path) -> dict[str, Any]:
    path = data / LOCK
    if not path.exists():
        return {}
    try:
        found = dict(json.loads(path.read_text(encoding="utf-8")))
        for one in found.values():
            if not isinstance(one["size"], int) or not isinstance(one["sha256"], str):
                raise TypeError("types")
    except (ValueError, TypeError, KeyError) as error:
        raise DataError(f"{path} is not the JSON that an earlier fetch wrote. Mend or remove it.") from error
    return found


def _note(data: Path, url: str, found: dict[str, Any]) -> None:
    """Add what came from ``url`` to what the folder knows; fetches side by side do so one after the other."""
    folder = os.open(data, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        write_text(data / LOCK, json.dumps(_lock(data) | {url: found}, indent=1, sort_keys=True) + "\n")
    finally:
        os.close(folder)


def _missing(task: Task, data: Path, splits: Sequence[str] = ()) -> str | None:
    """What the first of ``splits`` (of all splits) that is not there lacks, in words; None when they are there."""
    try:
        for split in splits or task.files:
            task.paths(data, split)
    except MissingData as error:
        return str(error)
    return None


def _by_hand(task: Task) -> str:
    expected = ", ".join(dict.fromkeys(name.replace("|", " or ") for names in task.files.values() for name in names))
    return (
        f"{task.title} cannot be fetched (terms: {task.source.licence}). Ask for it at {task.source.url}, and put the "
        f"files below {' or '.join(task.folders)} of the data folder: {expected}."
    )
